"""Vectors of names: averaged states of an encoder, or averaged word vectors (SMedBERT, appendix C).

For an encoder it is the mean of the last layer's states over the name's tokens, without [CLS] and [SEP]. An encoder
that reads mentions finds them in the name by itself, so the knowledge of its own graph is in the states.

For word vectors it is the name's own vector or, without one, the mean of its characters' vectors. As the paper has it,
these may be of another training; names known as words are then compared with names that are not across two spaces.

A name without any known token has no vector: zeros, equally similar to everything.

Shape legend: N names, D width of a vector, T tokens laid end to end.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import nn

from infra.arrays.batching import batches_of
from infra.errors import UserError
from models.heads.batch import pack
from models.heads.encoders import TaskEncoder, as_task_encoder, open_encoder, reads_knowledge
from models.heads.examples import HeadExample, TokenSequence
from models.word_vectors import WordVectors
from tasks.downstream.features.alignment import TextTokenizer
from tasks.downstream.features.base import sequence_of
from tasks.finetune.text import fit_tokenizer

BATCH_TOKENS = 4_096


class NameVectors(Protocol):
    """Something that has vectors of names."""

    def vectors(self, names: Sequence[str]) -> np.ndarray:
        """Return the vectors, float32 (N, D); zeros for a name that is unknown."""


class EncoderNames:
    """Averaged states of an encoder, in float32 on the CPU."""

    def __init__(self, encoder: TaskEncoder, tokenizer: TextTokenizer) -> None:
        sizes = encoder.sizes
        self._encoder = encoder
        self._tokenizer = tokenizer
        self._width, self._longest = sizes.hidden_size, sizes.max_positions
        if isinstance(encoder, nn.Module):
            encoder.eval()

    @classmethod
    def of_folder(cls, folder: Path, random_seed: int | None = None, knowledge: str | None = None) -> EncoderNames:
        """Open the encoder of a folder; with a seed, one of its shape with fresh weights.

        `knowledge`: folder of the knowledge of a model that reads some; None: look for it. Others do without.

        Raises:
            UserError: the folder has no encoder or no tokeniser, the two do not belong together, or the encoder's
                knowledge is missing.
        """
        tokenizer = TextTokenizer.from_folder(folder)
        encoder = open_encoder(folder, 0.0, knowledge if reads_knowledge(folder) else None)
        opened = as_task_encoder(encoder)
        if tokenizer.size > opened.sizes.vocab_size:
            raise UserError(
                f"{folder}: the tokeniser has {tokenizer.size:,} tokens and the encoder embeddings for "
                f"{opened.sizes.vocab_size:,}. Put the tokeniser there that belongs to the encoder."
            )
        fit_tokenizer(tokenizer, folder, encoder)
        return cls(opened if random_seed is None else as_task_encoder(opened.fresh(random_seed)), tokenizer)

    @torch.no_grad()
    def vectors(self, names: Sequence[str]) -> np.ndarray:
        """See `NameVectors.vectors`. A name longer than the encoder's positions is cut."""
        sequences: list[TokenSequence] = []
        places = np.full(len(names), -1)
        numbers: dict[bytes, int] = {}
        for place, tokens in enumerate(self._tokenizer.words(names)):
            tokens = tokens[: self._longest - 2]
            if not len(tokens) or (tokens.ids == self._tokenizer.unknown).all():
                continue
            # Names of equal tokens have equal vectors whatever batch they are in, so that they are equally similar.
            sequence = sequence_of(self._tokenizer, tokens)
            mentions = b"" if sequence.mentions is None else sequence.mentions.tobytes()
            key = sequence.input_ids.tobytes() + b"|" + mentions
            if key not in numbers:
                numbers[key] = len(sequences)
                sequences.append(sequence)
            places[place] = numbers[key]
        states_SD = self._means(sequences)
        found_ND = np.zeros((len(names), self._width), np.float32)
        found_ND[places >= 0] = states_SD[places[places >= 0]]
        return found_ND

    def _means(self, sequences: Sequence[TokenSequence]) -> np.ndarray:
        """Return the mean state of each sequence; sequences of like length share a batch."""
        found = np.empty((len(sequences), self._width), np.float32)
        order = sorted(range(len(sequences)), key=lambda number: len(sequences[number].input_ids))
        for chosen in batches_of(order, BATCH_TOKENS, length=lambda number: len(sequences[number].input_ids)):
            found[chosen] = self._batch([sequences[number] for number in chosen])
        return found

    def _batch(self, sequences: Sequence[TokenSequence]) -> np.ndarray:
        batch = pack([HeadExample((one,)) for one in sequences], seed=0, step=0, look_up=self._encoder.look_up)
        states_TD = self._encoder.states(batch, None).float()
        # Between [CLS] and [SEP] of each.
        means = [part[1:-1].mean(0) for part in states_TD.split(list(batch.layout.lengths))]
        return torch.stack(means)[batch.places].numpy()


class WordNames:
    """Word vectors, and those of characters for names that are no word."""

    def __init__(self, words: WordVectors, characters: WordVectors | None = None) -> None:
        """`characters`: by default the words that are one character.

        Raises:
            UserError: the two have different widths.
        """
        self._words, self._characters = words, words if characters is None else characters
        if self._words.width != self._characters.width:
            raise UserError(
                f"The words' vectors have {self._words.width} values, the characters' {self._characters.width}. Names "
                "are compared across both, so train them with the same width."
            )

    def vectors(self, names: Sequence[str]) -> np.ndarray:
        """See `NameVectors.vectors`."""
        found_ND = np.zeros((len(names), self._words.width), np.float32)
        for place, name in enumerate(names):
            own = self._rows(self._words, [name])
            rows, matrix = (
                (own, self._words.matrix) if len(own) else (self._rows(self._characters, name), self._characters.matrix)
            )
            if len(rows):
                found_ND[place] = matrix[rows].mean(0)
        return found_ND

    def _rows(self, vectors: WordVectors, words: Sequence[str]) -> np.ndarray:
        """Return the rows of the known words, looked up in lower case where they are unknown as they are."""
        exact, lower = vectors.rows(words), vectors.rows([word.lower() for word in words])
        rows = np.where(exact >= 0, exact, lower)
        return rows[rows >= 0]
