"""The [CLS] states of short texts, by the encoder of a checkpoint of ours or of an exported folder.

A checkpoint of ELECTRA+EM+PAP has the projection f of its distances too; any other model is compared by its states as
they are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from infra.artifacts import Artifact
from infra.errors import UserError
from models import objectives
from models.encoder import inference
from models.encoder.layout import Layout
from models.encoder.network import Encoder
from models.tokenizer.corpus import CorpusTokenizer, corpus_tokenizer
from models.training.checkpoint import load_state
from models.training.config import CHECKPOINT_FILE
from models.weights.pretrained import load_encoder
from tasks.training.run_spec import RunSpec

BATCH_TOKENS = 4_096

Text = tuple[np.ndarray, int]
"""Token ids with [CLS] and [SEP], and the place at which a second text begins; the length of the ids if none does."""


class TextEncoder:
    """An encoder, its tokeniser and, where one was trained, the projection of its states."""

    def __init__(
        self, encoder: Encoder, tokenizer: CorpusTokenizer, projection: nn.Module | None = None, norm: int = 2
    ) -> None:
        """`norm` is that of the distances between states: 2, or 1."""
        self.tokenizer = tokenizer
        self.projection = projection
        self.norm = norm
        self.longest = encoder.config.max_positions
        self._encoder = encoder.eval()

    @torch.no_grad()
    def states(self, texts: Sequence[Text]) -> np.ndarray:
        """Return the (projected) state of each text, float32 (N, D). Texts of like length share a batch."""
        order = sorted(range(len(texts)), key=lambda number: len(texts[number][0]))
        found = np.empty((len(texts), self._encoder.config.hidden_size), dtype=np.float32)
        first = 0
        while first < len(order):
            longest = len(texts[order[first]][0])
            end, size = first, 0
            while end < len(order) and size + (longest := len(texts[order[end]][0])) <= max(BATCH_TOKENS, longest):
                size += longest
                end += 1
            chosen = order[first:end]
            found[chosen] = self._batch([texts[number] for number in chosen]).numpy()
            first = end
        return found

    def _batch(self, texts: Sequence[Text]) -> Tensor:
        lengths = [len(ids) for ids, _ in texts]
        layout = Layout.from_lengths(lengths)
        ids_T = torch.from_numpy(np.concatenate([ids for ids, _ in texts]).astype(np.int64))
        types = [np.arange(len(ids)) >= second for ids, second in texts]
        types_T = torch.from_numpy(np.concatenate(types).astype(np.int64))
        if inference.applies(self._encoder):
            states_SD = inference.encode_first(self._encoder, ids_T, layout, types_T)
        else:
            states_SD = self._encoder(ids_T, layout, types_T)[layout.firsts.long()]
        return states_SD.float() if self.projection is None else self.projection(states_SD)


def of_checkpoint(checkpoint: Artifact, vocabulary: Artifact) -> TextEncoder:
    """Return the encoder of a `train` artifact, with its projection if the objective has one."""
    spec = RunSpec.model_validate_json(checkpoint.read_file("run.json"))
    objective: Any = objectives.build(spec.objective, spec.model)
    with tempfile.TemporaryDirectory(prefix="yiwen-evaluate-") as folder:
        (Path(folder) / CHECKPOINT_FILE).write_bytes(checkpoint.read_file(CHECKPOINT_FILE))
        objective.load_state_dict(load_state(Path(folder))["model"])
    encoder = getattr(objective, objective.start.encoder)
    projection = getattr(objective, "pap_head", None)
    tokenizer = _tokenizer(vocabulary.read_file("tokenizer.json").decode(), vocabulary.path)
    return TextEncoder(encoder, tokenizer, projection, getattr(objective.config, "distance_norm", 2))


def of_folder(folder: Path) -> TextEncoder:
    """Return the encoder of an exported folder.

    Raises:
        UserError: the folder has no encoder, or a tokeniser that is not ours.
    """
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise UserError(f"{folder} has no tokenizer.json. Give the folder of a model that a pretrain flow printed.")
    return TextEncoder(load_encoder(folder), _tokenizer(file.read_text(encoding="utf-8"), folder))


def _tokenizer(content: str, place: Any) -> CorpusTokenizer:
    try:
        return corpus_tokenizer(content)
    except ValueError as error:
        raise UserError(f"{place}: {error}. Give a model that this version has exported.") from error
