"""Static word vectors (Word2Vec, GloVe): a word's row in a matrix, read from and written to word2vec's formats.

A folder has the matrix as an array that is mapped, so that processes of a node share one copy:

    words.txt       UTF-8, one word per line, in the order of the rows
    vectors.npy     float32 (W, D)

The text format has a header with the number of words and their width, then one line per word. The binary format has the
same header, then each word, a space and its float32 values. GloVe's text has no header. Pickles are not read, because
reading one runs whatever program is in it.

Shape legend: W words, D width of a vector, N words that are looked up.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from infra.errors import UserError

WORDS, MATRIX = "words.txt", "vectors.npy"
BINARY_SUFFIX = ".bin"
PICKLE_SUFFIXES = (".kv", ".model", ".pickle", ".pkl")
LONGEST_HEADER = 100
"""Bytes after which a first line without an end is no header."""
LONGEST_CHECKED = 1 << 16
"""Bytes of the first line that are looked at before a file is read."""
LONGEST_SHOWN = 60
"""Characters of a wrong line that an error shows."""
ROWS_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words and their vectors.

    Raises:
        UserError: words and rows differ in number, a word occurs twice, or the matrix is not float32 (W, D).
    """

    words: Sequence[str]
    """The words, each once, usually the most frequent first."""
    matrix: np.ndarray
    """float32 (W, D): row i is the vector of word i."""

    def __post_init__(self) -> None:
        if self.matrix.dtype != np.float32 or self.matrix.ndim != 2 or len(self.matrix) != len(self.words):
            raise UserError(
                f"{len(self.words):,} words need a float32 matrix of as many rows, not {self.matrix.dtype} "
                f"{self.matrix.shape}."
            )
        if len(self._index) < len(self.words):
            twice = next(word for row, word in enumerate(self.words) if self._index[word] != row)
            raise UserError(f"The word {twice!r} has two vectors. Keep one of them.")

    def __len__(self) -> int:
        """Return the number of words, W."""
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        """Return whether a word has a vector."""
        return word in self._index

    @property
    def width(self) -> int:
        """Number of values of a vector, D."""
        return int(self.matrix.shape[1])

    @cached_property
    def _index(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words)}

    def vector(self, word: str) -> np.ndarray:
        """Return the vector of a word, float32 (D,). Raises `KeyError` if it has none."""
        row: np.ndarray = self.matrix[self._index[word]]
        return row

    def rows(self, words: Iterable[str]) -> np.ndarray:
        """Return the rows of some words, int64 (N,); -1 for a word without a vector."""
        find = self._index.get
        return np.fromiter((find(word, -1) for word in words), dtype=np.int64)

    def nearest(self, word: str, k: int) -> list[tuple[str, float]]:
        """Return the `k` words with the highest cosine to a word, best first, without the word itself.

        Time and memory grow with W; ties are in the order of the rows. Raises `KeyError` if the word has no vector.
        """
        own = self._index[word]
        norms_W = np.linalg.norm(self.matrix, axis=1)
        scales_W = norms_W * norms_W[own]
        cosines_W = np.divide(self.matrix @ self.matrix[own], scales_W, out=np.zeros_like(scales_W), where=scales_W > 0)
        cosines_W[own] = -np.inf
        best = np.argsort(-cosines_W, kind="stable")[: min(k, len(self) - 1)]
        return [(self.words[row], float(cosines_W[row])) for row in best.tolist()]

    @classmethod
    def open(cls, folder: str | Path) -> WordVectors:
        """Map the vectors of a folder that `save` or a stage of tasks/embed/ wrote.

        Time and memory grow with the words; vectors are only mapped, and cannot be written to.

        Raises:
            UserError: a file is missing or does not fit the other; the message names it.
        """
        folder = Path(folder)
        try:
            text = (folder / WORDS).read_bytes().decode()
            matrix = np.load(folder / MATRIX, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise UserError(
                f"{folder} cannot be opened as a folder of word vectors ({error}). Give a folder with {WORDS} and "
                f"{MATRIX}, as the flow embed prints it, or a file in word2vec's text or binary format."
            ) from error
        # Not `splitlines`: a word may be a character such as U+2028, which it takes for the end of a line.
        words = text.removesuffix("\n").split("\n") if text else []
        try:
            return cls(words, np.asarray(matrix))
        except UserError as error:
            raise UserError(f"{folder}: {error} Train the vectors again.") from None

    def save(self, folder: str | Path) -> None:
        """Write `words.txt` and `vectors.npy` into a folder. Raises `UserError` as `write` does."""
        _check_writable(self.words)
        Path(folder, WORDS).write_bytes("".join(f"{word}\n" for word in self.words).encode())
        np.save(Path(folder, MATRIX), self.matrix, allow_pickle=False)

    @classmethod
    def read(cls, path: str | Path) -> WordVectors:
        """Read a folder (see `open`), word2vec's binary format (*.bin), or else the text of word2vec or GloVe.

        Time and memory grow with the file: 4 W D bytes and the words.

        Raises:
            UserError: the file is a pickle, its header is wrong, a line has another width, a value is not a finite
                number, a word occurs twice or is not UTF-8, or the file is cut off. The message names file and line.
        """
        path = Path(path)
        if path.is_dir():
            return cls.open(path)
        cls.check(path)
        with _explained(path):
            return cls(*(_read_binary(path) if path.suffix == BINARY_SUFFIX else _read_text(path)))

    @classmethod
    def check(cls, path: str | Path) -> None:
        """Check what the first line of a file shows, before any work is done for vectors that cannot be read.

        A folder is opened; time and memory do not grow with a file.

        Raises:
            UserError: the file is a pickle, or its header is wrong or names more than the file can hold.
        """
        path = Path(path)
        if path.is_dir():
            cls.open(path)
            return
        with _explained(path):
            with path.open("rb") as file:
                first = file.readline(LONGEST_CHECKED)
            if path.suffix in PICKLE_SUFFIXES or first.startswith(b"\x80"):
                raise UserError(
                    f"{path} is a pickle, which could run any program. In gensim, save the vectors with "
                    "save_word2vec_format, and give that file."
                )
            fields = first.split()
            if path.suffix == BINARY_SUFFIX:
                header = first if len(first) <= LONGEST_HEADER and first.endswith(b"\n") else b""
                _header(path, header.split(), header, least=4)
            elif len(fields) < 3:  # three and more are a word and its values, as in GloVe's text
                _header(path, fields, first, least=2)

    def write(self, path: str | Path) -> None:
        """Write word2vec's binary format if the name ends in .bin, its text otherwise; `read` gives equal values.

        Raises:
            UserError: a word is empty, or contains a space, a line end or half of a surrogate pair.
        """
        path = Path(path)
        _check_writable(self.words)
        with path.open("wb") as file:
            file.write(f"{len(self)} {self.width}\n".encode())
            for first in range(0, len(self), ROWS_AT_ONCE):
                words, rows = self.words[first : first + ROWS_AT_ONCE], self.matrix[first : first + ROWS_AT_ONCE]
                if path.suffix == BINARY_SUFFIX:
                    lines = (word.encode() + b" " + row.tobytes() for word, row in zip(words, rows, strict=True))
                else:
                    # The shortest digits that give the same float32: 0.1, not 0.10000000149.
                    texts = rows.astype("S32")
                    lines = (
                        b" ".join([word.encode(), *row]) + b"\n"
                        for word, row in zip(words, texts.tolist(), strict=True)
                    )
                file.writelines(lines)


def _check_writable(words: Sequence[str]) -> None:
    for row, word in enumerate(words):
        if not word or " " in word or "\n" in word or not _encodable(word):
            raise UserError(
                f"Word {row + 1:,}, {word!r}, cannot be written in word2vec's format, which separates words from "
                "values by a space and lines by a line end. Drop the word or replace these characters."
            )


def _encodable(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Rows:
    """Words and vectors of a file while it is read."""

    def __init__(self, path: Path, unit: str, words: int, width: int) -> None:
        self._path, self._unit = path, unit
        self._rows: dict[str, int] = {}
        self.matrix = np.empty((words, width), dtype=np.float32)

    @property
    def words(self) -> list[str]:
        return list(self._rows)

    def add(self, word: bytes, values: np.ndarray, number: int) -> None:
        """Add the word of line or record `number`. Raises `UserError` if it cannot be used."""
        row = len(self._rows)
        try:
            text = word.decode()
        except UnicodeDecodeError:
            raise self.error(number, f"the word {word!r} is not UTF-8", "Convert the file to UTF-8.") from None
        if not text:
            raise self.error(number, "there is no word before the values", "Delete it and correct the header.")
        if text in self._rows:
            first = number - row + self._rows[text]
            raise self.error(
                number,
                f"the word {text!r} already has a vector in {self._unit} {first:,}",
                "Delete one of the two, and correct the header.",
            )
        if not np.isfinite(values).all():
            place = int(np.flatnonzero(~np.isfinite(values))[0])
            raise self.error(
                number,
                f"value {place + 1} of {text!r} is {values[place]}, not a number",
                "Delete the word and correct the header, or train the vectors with a lower learning rate.",
            )
        self._rows[text] = row
        self.matrix[row] = values

    def error(self, number: int, problem: str, remedy: str) -> UserError:
        return UserError(f"{self._path}, {self._unit} {number:,}: {problem}. {remedy}")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn errors of the file system into a `UserError` that names the file."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}. Check the name of the file.") from error


def _read_text(path: Path) -> tuple[list[str], np.ndarray]:
    with path.open("rb") as file:
        first = file.readline()
        fields = first.split()
        has_header = len(fields) < 3
        if has_header:
            words, width = _header(path, fields, first, least=2)
            first_line = 2
        else:
            # GloVe's program writes no header: the first line is a word, as in `的 0.1 0.2 …`.
            words, width = 1 + _lines_left(file), len(fields) - 1
            file.seek(0)
            first_line = 1
        found = _Rows(path, "line", words, width)
        basis = "as line 1 says" if has_header else "as in line 1, which is no header"
        for number, line in enumerate(file, first_line):
            # The program of word2vec ends each line with a space. Within a line only one space separates values.
            fields = line.rstrip().split(b" ")
            if fields == [b""] and number >= first_line + words:
                continue  # empty lines at the end
            if number >= first_line + words:
                raise found.error(
                    number, f"the header names only {words:,} words", f"Correct line 1: it is {words} {width}."
                )
            found.add(fields[0], _values(found, number, fields[1:], width, basis), number)
    if len(found.words) < words:
        raise found.error(
            first_line + len(found.words),
            f"the file ends here, after {len(found.words):,} of the {words:,} words of its header",
            "Copy the file again, or correct line 1.",
        )
    return found.words, found.matrix


def _values(found: _Rows, number: int, fields: list[bytes], width: int, basis: str) -> np.ndarray:
    """Return the values of a line. Raises `UserError` if it has another width or something that is not a number."""
    if len(fields) != width:
        raise found.error(
            number,
            f"{len(fields):,} values instead of {width:,}, {basis}",
            "A short last line means that the file is cut off: copy it again. If the file is binary, give it a name "
            f"that ends in {BINARY_SUFFIX}. A word must not contain spaces.",
        )
    try:
        with np.errstate(over="ignore"):  # 1e50 becomes infinite, which is refused with the word
            return np.array(fields).astype(np.float32)
    except ValueError as error:
        raise found.error(number, str(error), "Correct the line, or delete it and correct the header.") from None


def _read_binary(path: Path) -> tuple[list[str], np.ndarray]:
    if not path.stat().st_size:
        _header(path, [], b"", least=4)  # an empty file cannot be mapped
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        line_end = data.find(b"\n", 0, LONGEST_HEADER)
        header = data[: max(line_end, 0)]
        words, width = _header(path, header.split(), header, least=4)
        found = _Rows(path, "word", words, width)
        not_binary = f"If this is a text file, its name must not end in {BINARY_SUFFIX}."
        at = line_end + 1
        for number in range(1, words + 1):
            while data[at : at + 1] == b"\n":
                at += 1  # the program of word2vec ends each vector with a line end, gensim does not
            space = data.find(b" ", at)
            end = space + 1 + 4 * width
            if space < 0 or end > len(data):
                raise found.error(
                    number,
                    f"the file is cut off at byte {len(data):,}; its header names {words:,} words of {width:,} values",
                    "Copy the file again.",
                )
            word = data[at:space]
            if b"\n" in word:
                raise found.error(number, f"there is a line end in {word!r}", f"Correct the word. {not_binary}")
            found.add(word, np.frombuffer(data[space + 1 : end], dtype="<f4"), number)
            at = end
        if data[at:].strip(b"\n"):
            problem = f"after it, {len(data) - at:,} bytes follow that are not in the header"
            raise found.error(words, problem, f"Correct the number of words in the header. {not_binary}")
    return found.words, found.matrix


def _header(path: Path, fields: list[bytes], line: bytes, *, least: int) -> tuple[int, int]:
    """Return the number of words and the width that a first line names.

    Args:
        least: smallest number of bytes that a value takes.

    Raises:
        UserError: the line is no header, or the file is too small for it.
    """
    try:
        words, width = (int(field) for field in fields)
    except ValueError:
        words = width = 0
    if words < 1 or width < 1:
        shown = line.decode(errors="replace").strip()[:LONGEST_SHOWN]
        raise UserError(
            f"{path}, line 1: {shown!r} is not the number of words and the number of values of each, such as "
            "`20000 100`. Write such a line before the first word, and unpack compressed files first."
        )
    size = path.stat().st_size
    if words * (least * width + 2) > size:
        # Checked before memory is allocated: 200000000000 100 must not ask for 73 TiB.
        raise UserError(
            f"{path}, line 1: {words:,} words of {width:,} values do not fit into the {size:,} bytes of this file. "
            "The file is cut off, or its header is wrong: copy it again, or correct the line."
        )
    return words, width


def _lines_left(file: Iterable[bytes]) -> int:
    return sum(1 for line in file if line.strip())
