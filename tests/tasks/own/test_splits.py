"""Drawing splits: shares, labels, groups, seeds, and files that are too small."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import UserError
from tasks.downstream.spec import Split
from tasks.own.splits import Unit, draw, joined

SHARES: dict[Split, float] = {"train": 0.8, "dev": 0.1, "test": 0.1}


def units(labels: list[str], size: int = 1) -> list[Unit]:
    return [Unit(f"text {number}", size, frozenset({label})) for number, label in enumerate(labels)]


def test_every_label_has_its_share_of_every_split() -> None:
    labels = ["常见"] * 800 + ["少见"] * 150 + ["罕见"] * 50
    found = draw(units(labels), SHARES, seed=0)
    assert Counter(found) == {"train": 800, "dev": 100, "test": 100}
    for label, count in Counter(labels).items():
        own = Counter(split for split, one in zip(found, labels, strict=True) if one == label)
        assert all(abs(own[split] - share * count) <= 1 for split, share in SHARES.items())


def test_the_seed_decides_and_the_order_of_the_file_does_not() -> None:
    given_units = units(["甲", "乙"] * 100)
    found = dict(zip((unit.key for unit in given_units), draw(given_units, SHARES, seed=3), strict=True))
    shuffled = random.Random(1).sample(given_units, len(given_units))
    assert dict(zip((unit.key for unit in shuffled), draw(shuffled, SHARES, seed=3), strict=True)) == found
    assert draw(given_units, SHARES, seed=4) != list(found.values())


@given(st.lists(st.lists(st.sampled_from("甲乙丙丁戊己庚辛"), min_size=1, max_size=2), max_size=12))
def test_records_are_joined_as_long_as_keys_link_them(keys: list[list[str]]) -> None:
    reached = [{number} for number in range(len(keys))]
    for _ in keys:  # plain: whoever shares a key with one that is reached is reached as well
        for one in reached:
            one |= {other for other in range(len(keys)) if any(set(keys[other]) & set(keys[near]) for near in one)}
    assert joined(keys) == [min(one) for one in reached]


def test_large_groups_stay_whole_and_shares_hold() -> None:
    rng = random.Random(0)
    groups = [Unit(f"patient {n}", rng.randint(1, 20), frozenset({rng.choice("甲乙丙")})) for n in range(200)]
    sizes: Counter[Split] = Counter()
    for unit, split in zip(groups, draw(groups, SHARES, seed=0), strict=True):
        sizes[split] += unit.size
    assert all(abs(sizes[split] / sizes.total() - share) < 0.03 for split, share in SHARES.items())


@given(
    st.lists(st.frozensets(st.sampled_from("甲乙丙丁戊"), min_size=1, max_size=3), min_size=6, max_size=60),
    st.integers(0, 5),
)
def test_train_has_every_label_and_no_split_is_empty(sets: list[frozenset[str]], seed: int) -> None:
    given_units = [Unit(str(number), 1, labels) for number, labels in enumerate(sets)]
    try:
        found = draw(given_units, SHARES, seed)
    except UserError as error:
        assert "are too few to draw" in str(error)
        return
    known = set().union(*(one.labels for one, split in zip(given_units, found, strict=True) if split == "train"))
    assert known == set().union(*sets) and set(found) == set(SHARES)


def test_too_few_rows_are_told() -> None:
    with pytest.raises(UserError, match="2 different texts or groups are too few to draw dev from"):
        draw(units(["甲", "乙"]), SHARES, seed=0)
