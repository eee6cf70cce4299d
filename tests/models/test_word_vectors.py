"""Word vectors: equal to gensim's in both formats, and every damaged file refused with its line and a remedy."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from gensim.models import KeyedVectors
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from infra.errors import UserError
from models.word_vectors import WordVectors

words = st.text(st.characters(exclude_categories=("Cs",), exclude_characters=" \n"), min_size=1, max_size=4)
finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def vectors(draw: st.DrawFn) -> WordVectors:
    found = draw(st.lists(words, min_size=1, max_size=5, unique=True))
    # gensim reads one value per line as a number that is not a list: at least two.
    return WordVectors(found, draw(arrays.arrays(np.float32, (len(found), draw(st.integers(2, 4))), elements=finite)))


def equal(one: WordVectors, words: list[str], matrix: np.ndarray) -> bool:
    return list(one.words) == words and one.matrix.tobytes() == np.ascontiguousarray(matrix).tobytes()


@pytest.mark.parametrize("suffix", ["txt", "bin"])
@given(given=vectors())
def test_both_formats_are_those_of_gensim(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, given: WordVectors
) -> None:
    folder = tmp_path_factory.mktemp("vectors")
    ours, theirs = folder / f"ours.{suffix}", folder / f"theirs.{suffix}"
    given.write(ours)
    loaded = KeyedVectors.load_word2vec_format(str(ours), binary=suffix == "bin")
    assert equal(given, loaded.index_to_key, loaded.vectors)
    loaded.save_word2vec_format(str(theirs), binary=suffix == "bin")
    for path in (ours, theirs):
        again = WordVectors.read(path)
        assert equal(again, list(given.words), given.matrix)


@given(given=vectors())
def test_a_folder_is_mapped_and_equal(tmp_path_factory: pytest.TempPathFactory, given: WordVectors) -> None:
    folder = tmp_path_factory.mktemp("vectors")
    given.save(folder)
    for opened in (WordVectors.open(folder), WordVectors.read(folder)):
        assert equal(opened, list(given.words), given.matrix)
        with pytest.raises(ValueError, match="read-only"):
            opened.matrix[0] = 1


def test_words_that_python_takes_for_line_ends_are_words(tmp_path: Path) -> None:
    odd = WordVectors(["\u2028", "\x85", "\r", "头痛"], np.eye(4, dtype=np.float32))
    odd.save(tmp_path)
    odd.write(tmp_path / "odd.txt")
    for path in (tmp_path, tmp_path / "odd.txt"):
        assert list(WordVectors.read(path).words) == ["\u2028", "\x85", "\r", "头痛"]


def small() -> WordVectors:
    rows = [[1, 0, 0], [0.9, 0.1, 0], [0, 1, 0], [0, 0, 0], [-1, 0, 0]]
    return WordVectors(["头痛", "头疼", "发热", "的", "无"], np.array(rows, dtype=np.float32))


def test_words_are_looked_up() -> None:
    found = small()
    assert (len(found), found.width) == (5, 3)
    assert "头疼" in found and "咳嗽" not in found
    rows = found.rows(iter(["发热", "咳嗽", "头痛", "发热"]))
    assert rows.dtype == np.int64 and rows.tolist() == [2, -1, 0, 2]
    assert found.rows([]).shape == (0,)
    assert found.vector("头疼").tolist() == pytest.approx([0.9, 0.1, 0])
    with pytest.raises(KeyError):
        found.vector("咳嗽")


def test_nearest_words_are_those_of_gensim() -> None:
    found = small()
    reference = KeyedVectors(3)
    reference.add_vectors(list(found.words), found.matrix)
    ours = found.nearest("头痛", 2)
    assert [word for word, _ in ours] == ["头疼", "发热"]
    assert ours == [(word, pytest.approx(score)) for word, score in reference.most_similar("头痛", topn=2)]
    assert len(found.nearest("头痛", 9)) == 4
    assert {score for _, score in found.nearest("的", 4)} == {0.0}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", r"line 1: '' is not the number of words and the number of values"),
        ("two 3\na 1 2 3\n", r"line 1: 'two 3' is not the number of words"),
        ("2\na 1 2 3\n", r"line 1: '2' is not the number of words"),
        ("0 3\n", r"line 1: '0 3' is not the number of words"),
        ("2 -3\na 1 2 3\n", r"line 1: '2 -3' is not the number"),
        ("200000000000 100\na 1 2 3\n", r"line 1: 200,000,000,000 words of 100 values do not fit into the 25 bytes"),
        ("3 3\na 1 2 3\nb 1 2 3\n\n\n\n\n", r"line 4: 0 values instead of 3"),
        ("3 3\na 1.5 2.5 3.5\nb 1.5 2.5 3.5\n", r"line 4: the file ends here, after 2 of the 3 words .* Copy"),
        ("1 3\na 1 2 3\nb 1 2 3\n", r"line 3: the header names only 1 words. Correct line 1"),
        ("2 3\na 1 2 3\nb 1 2 \n", r"line 3: 2 values instead of 3, as line 1 says. A short last line"),
        ("2 3\na 1 2 3 4\nb 1 2 3\n", r"line 2: 4 values instead of 3"),
        ("2 3\na b 1 2 3\nc 1 2 3\n", r"line 2: 4 values instead of 3.* must not contain spaces"),
        ("2 3\na 1 2 x\nb 1 2 3\n", r"line 2: .*x.* Correct the line"),
        ("2 3\na 1 2 nan\nb 1 2 3\n", r"line 2: value 3 of 'a' is nan, not a number. Delete"),
        ("2 3\na 1 2 3\nb 1e50 2 3\n", r"line 3: value 1 of 'b' is inf, not a number"),
        ("3 3\n热 1 2 3\nb 1 2 3\n热 4 5 6\n", r"line 4: the word '热' already has a vector in line 2. Delete"),
        ("2 3\n 1 2 3\nb 1 2 3\n", r"line 2: there is no word before the values"),
        ("a 1 2 3\nb 1 2 3\na 1 2 3\n", r"line 3: the word 'a' already has a vector in line 1"),
        ("a 1 2 3\nb 1 2\n", r"line 2: 2 values instead of 3, as in line 1, which is no header"),
    ],
)
def test_damaged_text_is_refused_by_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "general.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=rf"general\.txt, {problem}"):
        WordVectors.read(path)


def test_text_of_another_encoding_is_refused_by_line(tmp_path: Path) -> None:
    path = tmp_path / "general.vec"
    path.write_bytes("2 2\na 1 2\n发热 1 2\n".encode("gb18030"))
    with pytest.raises(UserError, match=r"general\.vec, line 3: the word .* is not UTF-8. Convert"):
        WordVectors.read(path)


def test_text_of_other_programs_is_read(tmp_path: Path) -> None:
    glove, word2vec = tmp_path / "glove.txt", tmp_path / "word2vec.txt"
    glove.write_text("头痛 1 2 3\n发热 4 5 6\n\n")
    word2vec.write_text("2 3\r\n头痛 1 2 3 \r\n发热 4 5 6 \r\n\r\n")
    for path in (glove, word2vec):
        assert equal(WordVectors.read(path), ["头痛", "发热"], np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float32))


def record(word: str, *values: float) -> bytes:
    return word.encode() + b" " + struct.pack(f"<{len(values)}f", *values)


def test_binary_with_line_ends_is_read(tmp_path: Path) -> None:
    path = tmp_path / "word2vec.bin"
    path.write_bytes(b"2 2\n" + record("热", 1, 2) + b"\n" + record("b", 3, 4) + b"\n")
    assert equal(WordVectors.read(path), ["热", "b"], np.array([[1, 2], [3, 4]], dtype=np.float32))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", r"line 1: '' is not the number of words"),
        (b"\x00" * 300, r"line 1: .* is not the number of words"),
        (b"2 2\n" + record("a", 1, 2) + record("bbbbbbbb", 3), r"word 2: the file is cut off at byte 27.* Copy"),
        (b"2 2\n" + record("a", 1, 2) + b"bbbbbbbbbbbbbbbb", r"word 2: the file is cut off at byte 30"),
        (b"2 2\n" + record("a", 1, 2), r"line 1: 2 words of 2 values do not fit into the 14 bytes"),
        (b"1 2\n" + record("a", 1, 2) + record("b", 1, 2), r"word 1: after it, 10 bytes follow"),
        (b"2 2\n" + record("a", 1, 2) + record("a", 1, 2), r"word 2: the word 'a' already has a vector in word 1"),
        (b"1 2\n" + record("a", 1, float("nan")), r"word 1: value 2 of 'a' is nan"),
        (b"2 2\na 0.125 0.25\nb 0.5 0.75\n", r"word 2: there is a line end in .* If this is a text file, its name"),
        (b"1 2\na 0.125 0.25\n", r"word 1: after it, 3 bytes follow .* If this is a text file, its name must not"),
    ],
)
def test_damaged_binary_is_refused_by_word(tmp_path: Path, data: bytes, problem: str) -> None:
    path = tmp_path / "general.bin"
    path.write_bytes(data)
    with pytest.raises(UserError, match=rf"general\.bin, {problem}"):
        WordVectors.read(path)


def test_binary_under_a_name_of_text_is_refused(tmp_path: Path) -> None:
    small().write(tmp_path / "a.bin")
    path = (tmp_path / "a.bin").rename(tmp_path / "a.vec")
    with pytest.raises(UserError, match=r"a\.vec, line 2: .*give it a name that ends in \.bin"):
        WordVectors.read(path)


@pytest.mark.parametrize("name", ["general.kv", "general.model", "general.txt"])
def test_pickles_are_refused(tmp_path: Path, name: str) -> None:
    given = KeyedVectors(2)
    given.add_vectors(["a"], np.ones((1, 2), dtype=np.float32))
    given.save(str(tmp_path / name))
    with pytest.raises(UserError, match=r"is a pickle, which could run any program.* save_word2vec_format"):
        WordVectors.read(tmp_path / name)


def test_missing_files_and_misfitting_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.txt cannot be read: No such file"):
        WordVectors.read(tmp_path / "absent.txt")
    with pytest.raises(UserError, match=r"cannot be opened as a folder of word vectors .*words\.txt"):
        WordVectors.read(tmp_path)
    small().save(tmp_path)
    (tmp_path / "words.txt").write_text("头痛\n")
    with pytest.raises(UserError, match=r"1 words need a float32 matrix of as many rows, not float32 \(5, 3\)"):
        WordVectors.open(tmp_path)


@pytest.mark.parametrize("word", ["发 热", "", "a\nb", "\ud83d"])
def test_words_that_the_format_cannot_hold_are_refused(tmp_path: Path, word: str) -> None:
    given = WordVectors(["a", word], np.ones((2, 2), dtype=np.float32))
    for name in ("a.txt", "a.bin"):
        with pytest.raises(UserError, match=r"Word 2, .* cannot be written"):
            given.write(tmp_path / name)
    with pytest.raises(UserError, match=r"Word 2, .* cannot be written"):
        given.save(tmp_path)


def test_words_and_rows_must_agree() -> None:
    with pytest.raises(UserError, match="has two vectors"):
        WordVectors(["a", "b", "a"], np.ones((3, 2), dtype=np.float32))
    for matrix in (np.ones((3, 2)), np.ones((1, 2), dtype=np.float32), np.ones(2, dtype=np.float32)):
        with pytest.raises(UserError, match="2 words need a float32 matrix"):
            WordVectors(["a", "b"], matrix)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.txt", b"2 x\na 1 2\n", "line 1: '2 x' is not the number of words"),
        ("a.txt", b"", "line 1: '' is not the number of words"),
        ("a.txt", b"9000 100\na 1 2\n", "line 1: 9,000 words of 100 values do not fit"),
        ("a.bin", b"a 1.0 2.0\n", "line 1: 'a 1.0 2.0' is not the number of words"),
        ("a.bin", bytes(300), "line 1: '' is not the number of words"),
        ("a.kv", b"2 2\na 1 2\n", " is a pickle"),
        ("a.txt", b"\x80\x04", " is a pickle"),
    ],
)
def test_check_refuses_a_wrong_beginning_as_read_does(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    for look in (WordVectors.check, WordVectors.read):
        with pytest.raises(UserError, match=problem):
            look(tmp_path / name)


def test_check_takes_what_can_be_read_or_fails_only_further_on(tmp_path: Path) -> None:
    given = WordVectors(["的", "病"], np.ones((2, 3), dtype=np.float32))
    given.save(tmp_path)
    given.write(tmp_path / "a.txt")
    given.write(tmp_path / "a.bin")
    (tmp_path / "glove.txt").write_text("的 0.1 0.2\n病 0.3\n", encoding="utf-8")
    for name in ("", "a.txt", "a.bin", "glove.txt"):
        WordVectors.check(tmp_path / name)
