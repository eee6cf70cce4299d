"""A frozen encoder's states of many sequences, in files that all processes of a node map.

A folder has `states.npy`, float16 (T, F), with all sequences' tokens laid end to end; `offsets.npy`, int64 (N + 1,),
with the first token of each; and `keys.npy`, uint64 (N, 2), with a hash of each sequence's token and type ids. Memory
grows with the number of sequences, not with their states, which are read when they are needed.

Shape legend: N sequences, T tokens of all of them, L tokens of one, F features.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from infra.errors import UserError
from models.heads.examples import TokenSequence

STATES, OFFSETS, KEYS = "states.npy", "offsets.npy", "keys.npy"


class StateCache:
    """The states of a folder; `open` checks it."""

    def __init__(self, states_TF: np.ndarray, offsets: np.ndarray, keys: np.ndarray) -> None:
        self._states, self._offsets = states_TF, offsets
        self._rows = {key.tobytes(): row for row, key in enumerate(keys)}

    @classmethod
    def open(cls, folder: Path, features: int) -> StateCache:
        """Map the states of a folder.

        Raises:
            UserError: a file is missing or damaged, or the states have another number of features.
        """
        try:
            states_TF = np.load(folder / STATES, mmap_mode="r")
            offsets, keys = np.load(folder / OFFSETS), np.load(folder / KEYS)
        except (OSError, ValueError) as error:
            raise UserError(f"{folder} is no cache of states: {error}. Run the flow again to make it.") from error
        if states_TF.shape != (int(offsets[-1]), features) or len(keys) != len(offsets) - 1:
            raise UserError(
                f"{folder} has states {states_TF.shape} of {len(keys):,} sequences, and the encoder has {features} "
                "features per token. Run the flow again to make it for this encoder."
            )
        return cls(states_TF, offsets, keys)

    def find(self, sequence: TokenSequence) -> np.ndarray | None:
        """Return the states float16 (L, F) of a sequence; None if they are not here."""
        row = self._rows.get(key_of(sequence).tobytes())
        return None if row is None else self._states[self._offsets[row] : self._offsets[row + 1]]


def key_of(sequence: TokenSequence) -> np.ndarray:
    """Return a hash of a sequence's token and type ids, uint64 (2,)."""
    digest = hashlib.blake2b(digest_size=16)
    for ids in (sequence.input_ids, sequence.type_ids):
        digest.update(np.asarray(ids, dtype=np.int64).tobytes())
    return np.frombuffer(digest.digest(), dtype=np.uint64)


def unique(sequences: Sequence[TokenSequence]) -> tuple[list[TokenSequence], np.ndarray]:
    """Return each sequence once, in the order of its first occurrence, and their keys (N, 2)."""
    found: dict[bytes, TokenSequence] = {}
    for sequence in sequences:
        found.setdefault(key_of(sequence).tobytes(), sequence)
    keys = np.frombuffer(b"".join(found), dtype=np.uint64).reshape(-1, 2)
    return list(found.values()), keys
