"""Entities in three ways of writing them, and what is wrong with each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import UserError
from tasks.downstream.records import Entity
from tasks.finetune.prediction.rows import marked
from tasks.own.cells import Cell
from tasks.own.spans import brackets, offsets, tags

TEXT = "高血压病史，咳嗽"
ENTITIES = (Entity(0, 3, "疾病"), Entity(6, 8, "症状"))


def cell(value: Any) -> Cell:
    return Cell(Path("notes.csv"), "line 7", "answer", value)


@pytest.mark.parametrize(
    "value",
    [
        '[{"start": 6, "end": 8, "type": "症状", "text": "咳嗽"}, {"start": 0, "end": 3, "type": "疾病"}]',
        [{"start": 0, "end": 3, "type": "疾病"}, {"start": 6, "end": 8, "type": " 症状 ", "note": 1}],
    ],
    ids=["JSON in a cell", "objects"],
)
def test_offsets(value: Any) -> None:
    assert offsets(cell(value), TEXT) == ENTITIES


@pytest.mark.parametrize("value", ["", "[]", [], None])
def test_a_text_may_have_no_entities(value: Any) -> None:
    assert offsets(cell(value), TEXT) == ()


@pytest.mark.parametrize(
    "value",
    [
        "B-疾病 I-疾病 I-疾病 O O O B-症状 I-症状",
        "B_疾病 I_疾病 E_疾病 O O O B_症状 E_症状",
        ["I-疾病", "I-疾病", "I-疾病", "O", "O", "O", "B-症状", "I-症状"],
    ],
    ids=["BIO", "BIOES", "a list that begins with I"],
)
def test_tags(value: Any) -> None:
    assert tags(cell(value), TEXT) == ENTITIES


def test_brackets() -> None:
    assert brackets(cell("[高血压|疾病]病史，[咳嗽|症状]")) == (TEXT, ENTITIES)
    assert brackets(cell("见[1]和[附录]，a|b")) == ("见[1]和[附录]，a|b", ())
    assert brackets(cell(r"\[甲|乙\]，[\[3\]型|病]")) == ("[甲|乙]，[3]型", (Entity(6, 10, "病"),))


NAMES = st.text(st.sampled_from("[]|\\\n 高血压a1"), min_size=1, max_size=6).filter(str.strip)


@given(st.lists(st.tuples(NAMES, NAMES.map(str.strip) | st.none()), max_size=6))
def test_brackets_read_what_prediction_writes(parts: list[tuple[str, str | None]]) -> None:
    text, entities = "", []
    for piece, kind in parts:
        if kind is not None:
            entities.append(Entity(len(text), len(text) + len(piece), kind))
        text += piece
    assert brackets(cell(marked(text, entities))) == (text, tuple(entities))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("[{", r"not JSON .*\. Write \[\{\"start\""),
        ('{"start": 0}', "expected a list of entities"),
        ('[{"start": 0, "end": 3}]', "entity 1 has no 'type'; it has 'start', 'end'"),
        ('[{"start": "0", "end": 3, "type": "疾病"}]', "start and end must be whole numbers"),
        ('[{"start": 0, "end": 3, "type": ""}]', "the type must be a name"),
        ('[{"start": 5, "end": 9, "type": "疾病"}]', "from 5 to 9 is not within the text of 8 characters"),
        ('[{"start": -1, "end": 2, "type": "疾病"}]', "is not within the text"),
        ('[{"start": 3, "end": 3, "type": "疾病"}]', "is not within the text"),
        (
            '[{"start": 1, "end": 4, "type": "疾病", "text": "高血压"}]',
            "the text has '血压病' from 1 to 4, and not '高血压'",
        ),
        (
            '[{"start": 0, "end": 3, "type": "疾病"}, {"start": 2, "end": 5, "type": "症状"}]',
            r"'高血压' \(疾病, 0 to 3\) and '压病史' \(症状, 2 to 5\) overlap\. Keep one",
        ),
    ],
)
def test_wrong_offsets(value: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        offsets(cell(value), TEXT)
    assert str(caught.value).startswith("notes.csv, line 7, column 'answer': ")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("B-疾病 I-疾病 I-疾病 O O", "5 tags do not match a text of 8 characters. Give every character a tag"),
        ("B-疾病 X-疾病 I-疾病 O O O O O", "tag 2, 'X-疾病', is not a tag"),
        ("B I I O O O O O", "tag 1, 'B', is not a tag. Use B-type, I-type and O"),
        ([1] * 8, "tag 1, '1', is not a tag"),
    ],
)
def test_tags_that_do_not_fit(value: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        tags(cell(value), TEXT)


@pytest.mark.parametrize("value", ["[高血压|疾病", "[[肺|部位]炎|疾病]", "高血压|疾病]", "[肺|[部位|x]"])
def test_broken_brackets(value: str) -> None:
    with pytest.raises(UserError, match="a bracket is not closed or is within another"):
        brackets(cell(value))
    with pytest.raises(UserError, match="the entity '高血压' has no type"):
        brackets(cell("[高血压| ]"))
