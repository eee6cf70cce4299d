"""Encoder of names: a folder in transformers' layout, and how the states of a name become one vector.

Beside the files of the encoder and its tokeniser, `pooling.json` says how it was trained; a folder without it, such as
any pre-trained encoder, can be used all the same. Time grows with the tokens of the names, memory with their number and
one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from infra.errors import UserError
from models.heads.alignment import Alignment
from models.heads.encoders import as_task_encoder, open_encoder
from models.heads.examples import HeadExample, TokenSequence
from models.inference import device_of, predict
from tasks.downstream.features.alignment import TextTokenizer
from tasks.downstream.features.base import sequence_of
from tasks.finetune.text import fit_tokenizer
from tasks.normalise.meaning.folders import read_pooling

MAX_LENGTH = 32
"""Tokens of a name at most, special ones included (SapBERT: 25)."""

Vectors = npt.NDArray[np.float32]


class NameEncoder:
    """Vectors of names."""

    def __init__(self, model: Alignment, tokenizer: TextTokenizer, max_length: int = MAX_LENGTH) -> None:
        self._model = model.eval()
        self._names = NameTokens(tokenizer, max_length)

    @classmethod
    def of_folder(cls, folder: str | Path, pooling: str | None = None, device: str | None = None) -> NameEncoder:
        """Open the encoder of a folder.

        Args:
            pooling: `mean` or `cls`; None: that of the folder, or the mean for a folder that has none.
            device: `cuda` or `cpu`; by default `cpu`.

        Raises:
            UserError: the folder has no encoder or no tokeniser, the two do not belong together, or `pooling.json` is
                damaged.
        """
        path = Path(folder).expanduser()
        if not (path / "config.json").is_file():
            raise UserError(f"{path} has no encoder. Give the folder that normalise/encoder printed, or a model's.")
        tokenizer = TextTokenizer.from_folder(path)
        encoder = open_encoder(path, 0.0)
        sizes = as_task_encoder(encoder).sizes
        if tokenizer.size > sizes.vocab_size:
            raise UserError(
                f"{path}: the tokeniser has {tokenizer.size:,} tokens and the encoder embeddings for "
                f"{sizes.vocab_size:,}. Put the tokeniser there that belongs to the encoder."
            )
        fit_tokenizer(tokenizer, path, encoder)
        model = Alignment(encoder, pooling=pooling or read_pooling(path)).to(device_of(device, "cpu"))
        return cls(model, tokenizer, min(MAX_LENGTH, sizes.max_positions))

    @property
    def width(self) -> int:
        """Number of values of a vector."""
        return self._model.sizes.hidden_size

    @property
    def parameters(self) -> int:
        """Number of the encoder's weights."""
        return sum(weight.numel() for weight in self._model.parameters())

    @property
    def pooling(self) -> str:
        """How states become a vector (`models.heads.pooling.POOLINGS`)."""
        return self._model.pooling

    def vectors(self, names: Sequence[str], progress: Callable[[int], None] | None = None) -> Vectors:
        """Return the vector of each name, float32 (N, D): of unit length, or zeros for a name without known tokens.

        Names of equal tokens have equal vectors.
        """
        sequences, places = self._names.distinct(names)
        found_ND = np.zeros((len(names), self.width), np.float32)
        if sequences:
            examples = (HeadExample((one,)) for one in sequences)
            own = np.concatenate(predict(self._model, examples, progress=progress))
            found_ND[places >= 0] = own[places[places >= 0]]
        return found_ND


class NameTokens:
    """Names as token sequences."""

    def __init__(self, tokenizer: TextTokenizer, max_length: int) -> None:
        self._tokenizer = tokenizer
        self._room = max_length - 2  # without [CLS] and [SEP]

    def distinct(self, names: Sequence[str]) -> tuple[list[TokenSequence], npt.NDArray[np.int64]]:
        """Return the distinct sequences of names, and the place of each name's among them.

        The place is -1 for a name that has no token, or none that the vocabulary knows.
        """
        sequences: list[TokenSequence] = []
        places = np.full(len(names), -1, dtype=np.int64)
        numbers: dict[bytes, int] = {}
        for place, tokens in enumerate(self._tokenizer.words(names)):
            kept = tokens[: self._room]
            if not len(kept) or (kept.ids == self._tokenizer.unknown).all():
                continue
            sequence = sequence_of(self._tokenizer, kept)
            key = sequence.input_ids.tobytes()
            if key not in numbers:
                numbers[key] = len(sequences)
                sequences.append(sequence)
            places[place] = numbers[key]
        return sequences, places
