"""The [CLS] states of short texts, by the encoder of a checkpoint of ours or of an exported folder.

A checkpoint of ELECTRA+EM+PAP has the projection f of its distances too; any other model is compared by its states as
they are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from infra.artifacts import Artifact
from infra.errors import UserError
from models import objectives
from models.heads.batch import pack
from models.heads.encoders import AnyEncoder, as_task_encoder, open_encoder
from models.heads.examples import HeadExample, TokenSequence
from models.tokenizer.corpus import CorpusTokenizer, corpus_tokenizer
from models.training.checkpoint import load_state
from models.training.config import CHECKPOINT_FILE
from tasks.downstream.features.alignment import TextTokenizer
from tasks.downstream.features.base import sequence_of
from tasks.finetune.text import open_tokenizer
from tasks.training.run_spec import RunSpec

BATCH_TOKENS = 4_096

Text = tuple[np.ndarray, int]
"""Token ids with [CLS] and [SEP], and the place at which a second text begins; the length of the ids if none does."""


class TextEncoder:
    """An encoder, its tokeniser and, where one was trained, the projection of its states."""

    def __init__(
        self,
        encoder: AnyEncoder,
        tokenizer: CorpusTokenizer,
        projection: nn.Module | None = None,
        norm: int = 2,
        linking: TextTokenizer | None = None,
    ) -> None:
        """`norm` is that of the distances between states: 2, or 1.

        `linking`: the same tokeniser with the linker of an encoder that reads mentions.
        """
        self.tokenizer = tokenizer
        self.projection = projection
        self.norm = norm
        self._linking = linking
        self._encoder = as_task_encoder(encoder)
        self.longest = self._encoder.sizes.max_positions
        if isinstance(encoder, nn.Module):
            encoder.eval()

    @torch.no_grad()
    def states(self, texts: Sequence[Text], sources: Sequence[tuple[str, ...]]) -> np.ndarray:
        """Return the (projected) state of each text, float32 (N, D). Texts of like length share a batch.

        Args:
            sources: the one or two strings that each text was cut from, in which an encoder with knowledge finds
                mentions.
        """
        sequences = [
            TokenSequence(ids.astype(np.int64), (np.arange(len(ids)) >= second).astype(np.int64), mentions)
            for (ids, second), mentions in zip(texts, self._mentions(texts, sources), strict=True)
        ]
        order = sorted(range(len(texts)), key=lambda number: len(texts[number][0]))
        found = np.empty((len(texts), self._encoder.sizes.hidden_size), dtype=np.float32)
        first = 0
        while first < len(order):
            longest = len(texts[order[first]][0])
            end, size = first, 0
            while end < len(order) and size + (longest := len(texts[order[end]][0])) <= max(BATCH_TOKENS, longest):
                size += longest
                end += 1
            chosen = order[first:end]
            found[chosen] = self._batch([sequences[number] for number in chosen]).numpy()
            first = end
        return found

    def _batch(self, sequences: Sequence[TokenSequence]) -> Tensor:
        batch = pack([HeadExample((one,)) for one in sequences], seed=0, step=0, look_up=self._encoder.look_up)
        states_SD = self._encoder.first_states(batch, None)[batch.places]
        return states_SD.float() if self.projection is None else self.projection(states_SD)

    def _mentions(self, texts: Sequence[Text], sources: Sequence[tuple[str, ...]]) -> Iterator[np.ndarray | None]:
        """Yield the mentions of each text in the tokens that are left of its strings; None if none are read."""
        if self._linking is None:
            yield from (None for _ in texts)
            return
        strings = list(dict.fromkeys(string for source in sources for string in source))
        known = dict(zip(strings, self._linking.words(strings), strict=True))
        for (ids, second), source in zip(texts, sources, strict=True):
            # [CLS] first [SEP], or [CLS] first [SEP] second [SEP] with `second` at the second's first token
            lengths = (len(ids) - 2,) if len(source) == 1 else (second - 2, len(ids) - second - 1)
            cut = [known[string][:length] for string, length in zip(source, lengths, strict=True)]
            yield sequence_of(self._linking, *cut).mentions


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
    """Return the encoder of an exported folder; one with knowledge reads that of the texts' mentions.

    Raises:
        UserError: the folder has no encoder, a tokeniser that is not ours, or lacks its knowledge.
    """
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise UserError(f"{folder} has no tokenizer.json. Give the folder of a model that a pretrain flow printed.")
    encoder, tokenizer = open_encoder(folder, 0.0), _tokenizer(file.read_text(encoding="utf-8"), folder)
    reads = as_task_encoder(encoder).graph is not None
    return TextEncoder(encoder, tokenizer, linking=open_tokenizer(folder, encoder) if reads else None)


def _tokenizer(content: str, place: Any) -> CorpusTokenizer:
    try:
        return corpus_tokenizer(content)
    except ValueError as error:
        raise UserError(f"{place}: {error}. Give a model that this version has exported.") from error
