"""The program's files: ids, marks, case and labels as it reads them, qualities as it writes them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tasks.phrases import autophrase_files as files
from tasks.phrases.labels import Labels, label_ids
from tasks.phrases.words import BLANK, Vocabulary


def written(vocabulary: Vocabulary, *segments: list[str]) -> tuple[list[str], list[str]]:
    text, case = io.BytesIO(), io.BytesIO()
    writer = files.TextWriter(text, case, vocabulary)
    for pair in (segments[:1], segments[1:]):
        coded = [[code for code in vocabulary.codes(pieces) if code != BLANK] for pieces in pair]
        codes = np.array([code for codes in coded for code in codes], dtype=np.int32)
        writer.write(codes, np.cumsum([0, *map(len, coded)]))
    return text.getvalue().decode().splitlines(), case.getvalue().decode().splitlines()


def test_text_and_case_files() -> None:
    text, case = written(Vocabulary(), ["糖尿病", " ", "HIV", "，", "Vitamin", "（", "18", "）"], ["HIV", "。"])
    assert text == ["0 1 , 2 ( 3 )", "1 ."]
    assert case == ["0301040", "30"]


def test_segments_without_words_are_omitted() -> None:
    text, case = written(Vocabulary(), ["。", "，"], [], ["患者"])
    assert (text, case) == (["0"], ["0"])


def test_unknown_words_keep_their_position() -> None:
    text, _ = written(Vocabulary(["患者"], closed=True), ["患者", "糖尿病", "。"], ["糖尿病"])
    assert text == ["0 -1 .", "-1"]


def test_labels_in_words_of_the_text(tmp_path: Path) -> None:
    labels = Labels(
        kg=frozenset({"糖尿病肾病", "糖尿病", "肺炎"}),
        wiki=frozenset({"肾病 糖尿病", "糖尿病，肾病"}),
        known=frozenset({"肾病"}),
        stop_words=frozenset({"的", "了"}),
    )

    def cut(names: Sequence[str]) -> list[list[str]]:
        return [[piece for piece in name.replace("糖尿病", "|糖尿病|").split("|") if piece] for name in names]

    ids = label_ids(labels, cut, Vocabulary(["糖尿病", "肾病", "的"], closed=True))
    assert sorted(ids.kg) == [(0,), (0, 1)]
    assert ids.wiki == []  # "肾病 " is no word of the text, and marks part phrases
    assert (ids.known, ids.stop_words) == ([(1,)], [(2,)])
    files.write_labels(tmp_path, ids)
    assert (tmp_path / files.QUALITY).read_text().splitlines() == [" ".join(map(str, words)) for words in ids.positives]
    assert (tmp_path / files.KNOWN).read_text().splitlines()[-1] == "1"
    assert (tmp_path / files.STOP_WORDS).read_text() == "2\n"


def test_qualities_are_read(tmp_path: Path) -> None:
    (tmp_path / files.MULTI_WORD).write_text("0.9000000000\t3 4\n0.5000000000\t3 4 5\n")
    (tmp_path / files.SINGLE_WORD).write_text("0.2500000000\t7\n")
    assert list(files.read_qualities(tmp_path)) == [((3, 4), 0.9), ((3, 4, 5), 0.5), ((7,), 0.25)]
