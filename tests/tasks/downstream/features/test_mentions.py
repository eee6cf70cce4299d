"""Mentions in the inputs of every kind of task: where their tokens are after tokenisation, truncation and windows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.heads.examples import TokenSequence
from tasks.downstream.features.alignment import TextTokenizer
from tasks.downstream.features.shapes import TaskShape
from tasks.downstream.records import Kind, Record
from tasks.knowledge.names import NameLinker
from tests.support.graphs.knowledge_models import GRAPH, NAMES, names_table
from tests.support.text.tokenizers import VOCABULARY, save_ours, save_vocab_txt

LINKER = NameLinker(names_table(), GRAPH)
PARTS = (*NAMES, "患者", " ", "\u200b", "CT", "mri", "２型", "。", "\ud800", "e\u0301")
TEXTS = st.lists(st.sampled_from(PARTS)).map("".join)
SEP = VOCABULARY.index("[SEP]")


@pytest.fixture(scope="module", params=[save_ours, save_vocab_txt])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TextTokenizer:
    found = TextTokenizer.from_folder(request.param(tmp_path_factory.mktemp("model")))
    found.linker = LINKER
    return found


def shape(kind: Kind, max_length: int, **more: Any) -> TaskShape:
    return TaskShape(task="made-up", kind=kind, head="any", max_length=max_length, labels=("0", "1"), **more)


def sequences_of(shape: TaskShape, tokenizer: TextTokenizer, *texts: str) -> list[TokenSequence]:
    pieces = shape.features(tokenizer).encode([Record("0", texts)])
    return [sequence for piece in pieces for sequence in piece.example.sequences]


def read(sequence: TokenSequence) -> list[str]:
    """What the tokens of each mention say; the row must be that of the name."""
    assert sequence.mentions is not None
    found = []
    for start, end, row, surface in sequence.mentions.tolist():
        found.append("".join(VOCABULARY[token] for token in sequence.input_ids[start:end].tolist()))
        assert (found[-1], surface) == (NAMES[row], 0)
    return found


def named(texts: Sequence[str]) -> list[str]:
    """Names of the linker in texts, read from its characters."""
    return [text[start:end] for text in texts for start, end, *_ in LINKER([text])[0].tolist()]


def whole(ids: np.ndarray) -> list[str]:
    """Names that are whole in a text of tokens, from left to right; no name is a part of another."""
    text = "".join(VOCABULARY[token][0] for token in ids.tolist())
    return [name for at in range(len(text)) for name in NAMES if text[at:].startswith(name)]


KINDS = [
    shape(Kind.SINGLE, 64),
    shape(Kind.TAGGING, 64, streams=(("a",),)),
    shape(Kind.NESTED_TAGGING, 64, streams=(("a",), ("b",))),
    shape(Kind.TRIPLES, 64),
]


@pytest.mark.parametrize("one", KINDS, ids=lambda one: one.kind)
@given(text=TEXTS)
def test_all_mentions_of_a_text_that_fits_are_found(one: TaskShape, tokenizer: TextTokenizer, text: str) -> None:
    if len(text) > 60:
        text = text[:60]
    (sequence,) = sequences_of(one, tokenizer, text)
    assert read(sequence) == named([text])


@pytest.mark.parametrize("kind", [Kind.PAIR, Kind.RANKING])
@given(first=TEXTS, second=TEXTS, room=st.integers(8, 24))
def test_pairs_have_the_mentions_of_both_texts_that_are_not_cut(
    kind: Kind, tokenizer: TextTokenizer, first: str, second: str, room: int
) -> None:
    (sequence,) = sequences_of(shape(kind, room), tokenizer, first, second)
    inner = sequence.input_ids[1:-1]
    border = int(np.flatnonzero(inner == SEP)[0])
    assert len(sequence.input_ids) <= room
    assert read(sequence) == whole(inner[:border]) + whole(inner[border + 1 :])


@given(evidence=TEXTS, question=TEXTS, options=st.lists(TEXTS, min_size=1, max_size=3), room=st.integers(9, 40))
def test_options_have_the_mentions_of_all_three_texts(
    tokenizer: TextTokenizer, evidence: str, question: str, options: list[str], room: int
) -> None:
    for sequence in sequences_of(shape(Kind.CHOICE, room), tokenizer, evidence, question, *options):
        parts = np.split(
            sequence.input_ids[1:], np.flatnonzero(sequence.input_ids[1:] == VOCABULARY.index("[SEP]")) + 1
        )
        assert read(sequence) == [name for part in parts[:3] for name in whole(part[:-1])]


@pytest.mark.parametrize("kind", [Kind.TAGGING, Kind.TRIPLES])
@given(text=TEXTS, room=st.integers(8, 16))
def test_windows_have_the_mentions_that_are_whole_in_them(
    kind: Kind, tokenizer: TextTokenizer, text: str, room: int
) -> None:
    streams = {"streams": (("a",),)} if kind is Kind.TAGGING else {}
    for sequence in sequences_of(shape(kind, room, **streams), tokenizer, text):
        assert read(sequence) == whole(sequence.input_ids[1:-1])


def test_a_mention_inside_a_token_is_left_out(tmp_path: Path) -> None:
    tokenizer = TextTokenizer.from_folder(save_ours(tmp_path))
    tokenizer.linker = lambda texts: [np.array([[0, 1, 0, 0], [0, 2, 1, 0], [1, 2, 2, 0]])] * len(texts)
    (tokens,) = tokenizer.words(["CT"])  # one token
    assert tokens.mentions is not None and tokens.mentions.tolist() == [[0, 1, 1, 0]]
    (apart,) = tokenizer.characters(["CT"])
    assert apart.mentions is not None
    assert apart.mentions.tolist() == [[0, 1, 0, 0], [0, 2, 1, 0], [1, 2, 2, 0]]


def test_without_a_linker_nothing_is_looked_up(tmp_path: Path) -> None:
    tokenizer = TextTokenizer.from_folder(save_ours(tmp_path))
    assert sequences_of(shape(Kind.SINGLE, 64), tokenizer, "头痛")[0].mentions is None
    tokenizer.linker = LINKER
    assert sequences_of(shape(Kind.SINGLE, 64), tokenizer, "患者")[0].mentions.shape == (0, 4)  # type: ignore[union-attr]
