"""Replacement and exchange of whole batches, against the same written row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.encoder.randomness import Stream, uniforms
from models.objectives.embert.entity_rows import NOT_REPLACED, SAME, WRONG, EntityRows, exchanged, replaced
from models.objectives.embert.surfaces import EntitySurfaces
from tests.support.training.entity_rows import random_entity_rows, random_surfaces, surfaces_of

SURFACES = random_surfaces()
Row = dict[str, Any]


def laid(rows: list[Row], surfaces: EntitySurfaces = SURFACES) -> EntityRows:
    return EntityRows.of(rows, np.arange(len(rows)) * 3 + 1, surfaces)


def tokens_of(surfaces: EntitySurfaces, surface: int) -> list[int]:
    return surfaces.ids[surfaces.borders[surface] : surfaces.borders[surface + 1]].tolist()


def one_by_one(row: Row, number: int, seed: int, step: int, probability: float, longest: int, as_frequent: bool) -> Row:
    """A row as `replaced` should leave it: built from left to right in Python lists."""
    ids, words = [int(i) for i in row["input_ids"]], {int(w) for w in row["word_starts"]}
    made: Row = {"input_ids": [], "word_starts": set(), "entities": [], "labels": []}
    entities = {int(first): (int(behind), int(surface)) for first, behind, surface in row["entities"]}
    place, grown, touched = 0, 0, -1

    def draw(stream: Stream, first: int) -> np.ndarray:
        return uniforms(seed, step, number, stream, first)

    while place < len(ids):
        now = len(made["input_ids"])
        if place == row["second"]:
            made["second"] = now
        if place in words or (made.get("after") == place and ids[place] != 3):
            made["word_starts"].add(now)
        if place not in entities:
            made["input_ids"].append(ids[place])
            place += 1
            continue
        behind, surface = entities[place]
        label, new = NOT_REPLACED, surface
        apart = not SURFACES.joins[ids[place - 1]] and not SURFACES.joins[ids[behind]]
        chosen = apart and SURFACES.group[surface] >= 0 and draw(Stream.ENTITY_REPLACED, place)[0] < probability
        touches, touched = touched == place, behind if chosen else touched
        if chosen and not touches:
            label = SAME if draw(Stream.ENTITY_LABEL, place)[0] < 0.5 else WRONG
            wrong = SURFACES.other_as_frequent if as_frequent else SURFACES.other
            choose = SURFACES.synonym if label == SAME else wrong
            new = int(choose(np.array([surface]), draw(Stream.ENTITY_SURFACE, place))[0])
            growth = len(tokens_of(SURFACES, new)) - (behind - place)
            grown += max(growth, 0)
            if growth > 0 and grown > longest - len(ids):
                label, new = NOT_REPLACED, surface
        if label == NOT_REPLACED:
            made["word_starts"] |= {now + word - place for word in words if place <= word < behind}
        else:
            made["word_starts"].add(now)
            made["after"] = behind
        made["input_ids"] += tokens_of(SURFACES, new)
        made["entities"].append([now, len(made["input_ids"]), new])
        made["labels"].append(label)
        place = behind
    return made


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    step=st.integers(0, 100),
    probability=st.sampled_from([0.15, 0.6, 1.0]),
    longest=st.sampled_from([60, 62, 90]),
    as_frequent=st.booleans(),
)
def test_replacement_is_that_of_each_row_alone(
    seed: int, step: int, probability: float, longest: int, as_frequent: bool
) -> None:
    rows = random_entity_rows(SURFACES, 5, seed)
    before = laid(rows)
    chances = {"probability": probability, "longest": longest, "as_frequent": as_frequent}
    found = replaced(before, SURFACES, seed=seed, step=step, **chances)
    for number, (row, made) in enumerate(zip(rows, found.as_rows(), strict=True)):
        expected = one_by_one(row, int(before.numbers[number]), seed, step, **chances)
        own = found.entities[:, 0] == number
        assert made["input_ids"].tolist() == expected["input_ids"]
        assert made["word_starts"].tolist() == sorted(expected["word_starts"])
        assert made["second"] == expected["second"]
        assert found.entities[own, 1:].tolist() == expected["entities"]
        assert found.labels[own].tolist() == expected["labels"]
        assert len(made["input_ids"]) <= longest
        assert found.lengths[number] == len(made["input_ids"])


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10_000), which=st.lists(st.booleans(), min_size=4, max_size=4))
def test_exchange_moves_words_and_entities_with_their_sentence(seed: int, which: list[bool]) -> None:
    rows = random_entity_rows(SURFACES, 4, seed)
    before = laid(rows)
    found = exchanged(before, np.array(which))
    for number, (row, made) in enumerate(zip(rows, found.as_rows(), strict=True)):
        ids, second = row["input_ids"].tolist(), row["second"]
        own = found.entities[found.entities[:, 0] == number]
        for _, first, behind, surface in own.tolist():
            assert made["input_ids"][first:behind].tolist() == tokens_of(SURFACES, surface)
        if not which[number]:
            assert made["input_ids"].tolist() == ids
            continue
        one, other = ids[1 : second - 1], ids[second:-1]
        assert made["input_ids"].tolist() == [2, *other, 3, *one, 3]
        assert made["second"] == len(other) + 2
        words = sorted(int(word) for word in row["word_starts"])
        moved = [word - second + 1 for word in words if word >= second]
        assert made["word_starts"].tolist() == moved + [word + len(other) + 1 for word in words if word < second]
        assert sorted(own[:, 3].tolist()) == sorted(row["entities"][:, 2].tolist())
    again = exchanged(found, np.array(which))
    assert again.ids.tolist() == before.ids.tolist()
    assert again.entities.tolist() == before.entities.tolist()
    assert again.words.tolist() == before.words.tolist()


def test_labels_are_half_and_half_at_the_asked_share_and_new_in_each_step() -> None:
    surface = int(np.flatnonzero(SURFACES.group >= 0)[0])
    tokens = tokens_of(SURFACES, surface)
    row = {
        "input_ids": np.array([2, 90, *tokens, 90, 3, 90, 3]),
        "word_starts": np.array([1]),
        "second": len(tokens) + 5,
        "entities": np.array([[2, 2 + len(tokens), surface]]),
    }
    before = laid([row] * 4000)
    labels = [replaced(before, SURFACES, seed=1, step=s, probability=0.15, longest=60).labels for s in (0, 0, 1)]
    assert (labels[0] == labels[1]).all()
    for one in labels[1:]:
        assert (one != NOT_REPLACED).mean() == pytest.approx(0.15, abs=0.02)
        assert (one[one != NOT_REPLACED] == SAME).mean() == pytest.approx(0.5, abs=0.06)
    both = (labels[1] != NOT_REPLACED) & (labels[2] != NOT_REPLACED)
    assert both.mean() == pytest.approx(0.15**2, abs=0.01), "the draws of two steps are independent"


def test_names_longer_than_a_row_replace_nothing() -> None:
    """The synonym of 30 and one name of the other entity have 70 tokens, and a row has at most 60."""
    surfaces = surfaces_of([[30], [31] * 70, [40], [41] * 70], [[1], [70], [1], [70]], [0, 0, 1, 1], [0] * 4)
    row = {
        "input_ids": np.array([2, 90, 30, 90, 3, 91, 3]),
        "word_starts": np.array([1, 2, 3, 5]),
        "second": 5,
        "entities": np.array([[2, 3, 0]]),
    }
    found = replaced(laid([row] * 40, surfaces), surfaces, seed=0, step=0, probability=1.0, longest=60)
    assert set(found.labels.tolist()) == {NOT_REPLACED, WRONG}
    assert {(label, surface) for label, surface in zip(found.labels, found.entities[:, 3], strict=True)} == {
        (NOT_REPLACED, 0),
        (WRONG, 2),
    }
    for made, label in zip(found.as_rows(), found.labels, strict=True):
        assert made["input_ids"].tolist() == [2, 90, 40 if label == WRONG else 30, 90, 3, 91, 3]


def test_entity_beside_a_letter_is_left_alone() -> None:
    surface = int(np.flatnonzero(SURFACES.group >= 0)[0])
    tokens = tokens_of(SURFACES, surface)
    for ids, share in (([90, *tokens, 90], 1.0), ([5, *tokens, 90], 0.0), ([90, *tokens, 5], 0.0)):
        row = {
            "input_ids": np.array([2, *ids, 3, 90, 3]),
            "word_starts": np.array([1]),
            "second": len(ids) + 2,
            "entities": np.array([[2, 2 + len(tokens), surface]]),
        }
        found = replaced(laid([row]), SURFACES, seed=0, step=0, probability=1.0, longest=60)
        assert (found.labels != NOT_REPLACED).mean() == share


@pytest.mark.parametrize(
    "entities",
    [
        [[0, 1, 0]],  # [CLS]
        [[2, 6, 0]],  # the last [SEP]
        [[1, 2, 1], [1, 2, 1]],
        [[1, 3, 0], [2, 3, 1]],  # overlap
        [[2, 1, 1]],
        [[1, 2, 7]],  # no such surface
        [[1, 2, 0]],  # of two tokens
    ],
)
def test_unfit_entities_are_refused_with_their_row(entities: list[list[int]]) -> None:
    surfaces = surfaces_of([[30, 31], [30], [40], [41]], [[2], [1], [1], [1]], [0, 0, 1, 1], [0] * 4)
    row = {
        "input_ids": np.array([2, 30, 31, 3, 30, 3]),
        "word_starts": np.array([1]),
        "second": 4,
        "entities": np.array(entities),
    }
    with pytest.raises(ValueError, match=r"row 4: entity .* train with the entity_surfaces that the examples"):
        laid([row | {"entities": np.empty((0, 3), np.int64)}, row], surfaces)


def test_rows_without_entities_stay_as_they_are() -> None:
    row = {"input_ids": np.array([2, 30, 3, 31, 3]), "word_starts": np.array([1, 3]), "second": 3, "entities": []}
    found = replaced(laid([row]), SURFACES, seed=0, step=0, probability=1.0, longest=60)
    assert found.as_rows()[0]["input_ids"].tolist() == [2, 30, 3, 31, 3]
    assert len(found.labels) == 0
