"""A folder that transformers loads, as one ONNX graph (the extra `onnx`), for runtimes without torch.

The graph takes what the folder's tokeniser gives, padded: `input_ids`, `attention_mask` and `token_type_ids`, int64
(batch, sequence), both sizes free. It gives `last_hidden_state` or, of a model with a head, `logits`, both float32.

torch's exporter traces the model (`dynamo=True`). Its older one, which runs the model once, is not used: it keeps the
padding of that one batch, so that its answers to other batches were wrong by up to 3 in every encoder that we tried.
Time and memory grow with the model: about half a minute for the smallest, most of it for a fixed part.
"""

from __future__ import annotations

import contextlib
import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from infra.errors import UserError
from infra.limits import small_text
from models.encoder.config import TRANSFORMERS_TYPES
from models.weights.pretrained import CONFIG_FILE

logger = logging.getLogger(__name__)

ONNX_FILE = "model.onnx"
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
TOLERANCE = 1e-4
"""Largest difference between the graph's outputs and the model's that is put down to rounding."""
_TRIED = ((1, 3), (3, 20), (2, 32))
"""Sizes (batch, sequence) of random inputs on which the graph is compared with the model."""


class _Outputs(nn.Module):
    """A model of transformers with plain tensors in and out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        found: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)[0]
        return found


def write_onnx(folder: str | Path, target: str | Path) -> Path:
    """Write the model of a folder as `target`/model.onnx and return its path.

    If onnxruntime is installed, the graph's outputs are compared with the model's.

    Raises:
        UserError: transformers has no class for the model, or the graph's outputs are others; the message names it.
        ModuleNotFoundError: the extra `onnx` is not installed.
    """
    import onnx  # noqa: F401 - torch says less clearly what is missing
    import onnxscript  # noqa: F401

    with _quietly():
        model = _Outputs(_loaded(Path(folder))).eval()
    path = Path(target) / ONNX_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    width = getattr(model.model, "config", None)
    most = int(getattr(width, "max_position_embeddings", 512))
    batch, sequence = torch.export.Dim("batch"), torch.export.Dim("sequence", max=most)
    sizes: dict[str, Any] = {each: {0: batch, 1: sequence} for each in INPUTS}
    name = "last_hidden_state" if _is_bare(model.model) else "logits"
    with _quietly():
        torch.onnx.export(
            model,
            tuple(_inputs(model.model, 2, min(9, most)).values()),
            str(path),
            input_names=list(INPUTS),
            output_names=[name],
            dynamic_shapes=sizes,
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    _compare(model, path, most)
    return path


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Show neither what the exporter thinks of its own parts nor how transformers loads: neither says what to do."""
    from transformers.utils import logging as shown

    exporter = logging.getLogger("torch.onnx")
    level, had_bars = exporter.level, shown.is_progress_bar_enabled()
    exporter.setLevel(logging.ERROR)
    shown.disable_progress_bar()
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        exporter.setLevel(level)
        if had_bars:
            shown.enable_progress_bar()


def _loaded(folder: Path) -> nn.Module:
    import transformers

    try:
        config = json.loads(small_text(folder / CONFIG_FILE))
        name = str(config["architectures"][0])
    except (OSError, ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise UserError(
            f"{folder / CONFIG_FILE} names no class of a model ({error!r}). Copy the folder again."
        ) from error
    # Of our own heads transformers knows the class's name as little as the kind: `yiwen-two_stream`.
    kind = getattr(transformers, name, None) if config.get("model_type") in TRANSFORMERS_TYPES else None
    if kind is None:
        raise UserError(
            f"{folder / CONFIG_FILE}: transformers has no class for {name}, so it cannot be written as ONNX. Give "
            "an encoder, or a fine-tuned model whose card names a class."
        )
    model: nn.Module = kind.from_pretrained(folder, local_files_only=True)
    return model


def _is_bare(model: nn.Module) -> bool:
    return type(model).__name__.endswith("Model")


def _inputs(model: nn.Module, batch: int, length: int) -> dict[str, Tensor]:
    """Return random inputs whose last row is padded from its middle on."""
    draw = torch.Generator().manual_seed(batch * 1000 + length)
    vocabulary = int(model.config.vocab_size)  # type: ignore[union-attr, arg-type]
    mask = torch.ones(batch, length, dtype=torch.int64)
    if batch > 1:
        mask[-1, max(1, length // 2) :] = 0
    ids = torch.randint(min(5, vocabulary - 1), vocabulary, (batch, length), generator=draw)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}


@torch.no_grad()
def _compare(model: _Outputs, path: Path, most: int) -> None:
    try:
        session = open_graph(path)
    except ModuleNotFoundError:
        logger.warning("%s was not compared with the model: onnxruntime is not installed", path)
        return
    for batch, length in _TRIED:
        given = _inputs(model.model, batch, min(length, most))
        expected = model(**given).numpy()
        (found,) = session(given)
        kept = given["attention_mask"].bool().numpy() if expected.ndim == 3 else slice(None)
        worst = float(np.abs(found[kept] - expected[kept]).max())
        if not worst <= TOLERANCE:
            path.unlink()
            raise UserError(
                f"{path}: outputs differ from the model's by {worst:.2g}; the graph was deleted. Use the model."
            )


def open_graph(path: str | Path) -> Any:
    """Return a function that takes a graph's inputs by name, as tensors or arrays, and gives its outputs as arrays."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def run(inputs: Mapping[str, Any]) -> Sequence[np.ndarray]:
        given = {name: np.asarray(inputs[name]) for name in INPUTS}
        return list(session.run(None, given))

    return run
