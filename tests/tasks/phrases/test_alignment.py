"""Alignment: the program's output is matched to the exact characters; other output is reported."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.phrases.alignment import AlignmentError, marked_words, to_characters
from tasks.phrases.words import Vocabulary


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_marked_phrases_are_aligned_with_their_characters(seed: int) -> None:
    drawn = random.Random(seed)
    texts, wanted, words, lines = [], [], [], []
    starts, ends, borders = [], [], [0]
    for _ in range(drawn.randint(0, 6)):
        text, spans, line = "", [], []
        for _ in range(drawn.randint(0, 5)):
            chosen = [drawn.choice("甲乙丙丁") * drawn.randint(1, 3) for _ in range(drawn.randint(1, 3))]
            begin = len(text)
            codes = [drawn.choice([*range(9), Vocabulary.unknown]) for _ in chosen]
            for word in chosen:
                starts.append(len(text))
                text += word
                ends.append(len(text))
            written = [str(code) if code >= 0 else "-1" for code in codes]
            if drawn.random() < 0.5:
                spans.append((begin, len(text)))
                written = ["<phrase>", *written, "</phrase>"]
            line += written
            words += codes
            if drawn.random() < 0.5:  # a mark: the program starts a new line
                text += "，"
                lines.append(" ".join(line))
                line = []
        lines.append(" ".join(line))
        texts.append(text)
        wanted.append(spans)
        borders.append(len(words))
    output = "".join(f"{line}\n" for line in lines if line).encode()
    found = marked_words(output, np.array(words, dtype=np.int64))
    places = (np.array(column, dtype=np.int64) for column in (starts, ends, borders))
    assert to_characters(found, *places).by_text() == wanted


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("1 2", "2 words instead of 3, different from word 2 on"),
        ("1 <phrase> 2 </phrase>\n4", "different from word 2 on"),
        ("1 2 3 4", "4 words instead of 3"),
        ("1 2 </phrase> 3", "without its partner"),
        ("1 <phrase> 2 3", "without its partner"),
        ("</phrase> 1 2 3 <phrase>", "without its partner"),
        ("<phrase> </phrase> 1 2 3", "a phrase has no word"),
        ("1 2 x3", "something other than words"),
    ],
)
def test_output_that_does_not_match_is_reported(output: str, problem: str) -> None:
    with pytest.raises(AlignmentError, match=problem):
        marked_words(output.encode(), np.array([1, 2, 3]))


def test_empty_output_gives_no_phrases() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    spans = marked_words(b"", nothing)
    assert to_characters(spans, nothing, nothing, np.array([0, 0, 0])).by_text() == [[], []]
