"""Files of trained vectors in an artifact: for this project, for gensim, and in word2vec's formats.

    words.txt, vectors.npy      what `WordVectors.open` maps
    vectors.kv                  gensim's KeyedVectors, with frequencies; large ones have their matrix in a file beside
    vectors.txt, vectors.bin    word2vec's text and binary format

Time and memory grow with the vectors.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from infra.stage import Output
from models.word_vectors import WordVectors

KEYED, TEXT, BINARY = "vectors.kv", "vectors.txt", "vectors.bin"
ROWS_AT_ONCE = 20_000


def publish(out: Output, vectors: WordVectors, frequencies: Sequence[int]) -> None:
    """Write the table `word_vectors` and all files of some vectors."""
    _write_table(out, vectors, frequencies)
    with tempfile.TemporaryDirectory(prefix="yiwen-vectors-") as name:
        folder = Path(name)
        vectors.save(folder)
        vectors.write(folder / TEXT)
        vectors.write(folder / BINARY)
        _save_keyed(vectors, frequencies, folder / KEYED)
        out.add_folder(folder)


def _save_keyed(vectors: WordVectors, frequencies: Sequence[int], path: Path) -> None:
    from gensim.models import KeyedVectors  # takes seconds to import

    keyed = KeyedVectors(vectors.width, dtype=np.float32)
    keyed.add_vectors(list(vectors.words), np.array(vectors.matrix))
    for word, frequency in zip(vectors.words, frequencies, strict=True):
        keyed.set_vecattr(word, "count", frequency)
    # Without this the file has the time of its writing, and equal vectors would make different artifacts.
    keyed.lifecycle_events = None
    keyed.save(str(path))


def publish_folder(out: Output, vectors: WordVectors) -> None:
    """Write the table `word_vectors` and the files that are mapped, of vectors whose frequencies are unknown."""
    _write_table(out, vectors, [0] * len(vectors))
    with tempfile.TemporaryDirectory(prefix="yiwen-vectors-") as name:
        vectors.save(name)
        out.add_folder(Path(name))


def _write_table(out: Output, vectors: WordVectors, frequencies: Sequence[int]) -> None:
    with out.part() as writer:
        for first in range(0, len(vectors), ROWS_AT_ONCE):
            places = range(first, min(first + ROWS_AT_ONCE, len(vectors)))
            writer.write(
                "word_vectors", [{"word": vectors.words[row], "frequency": frequencies[row]} for row in places]
            )
