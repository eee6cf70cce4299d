"""Names of codes from a graph: whose they are, which are too unspecific, and how codes match those of a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import polars as pl
import pytest

from kg.code_names import listed_codes, names_by_code

TERMS = {
    "I50.9": ["心力衰竭"],
    "I50.0": ["充血性心力衰竭"],
    "K25.900": ["胃溃疡"],
    "E11": ["2型糖尿病"],
    "J18": ["肺炎"],
}


def named(*rows: tuple[str, Sequence[str], Sequence[str]], max_codes: int = 3) -> tuple[dict[str, list[str]], Counter]:
    """Return the names for the codes of TERMS from a graph of entities (name, aliases, cells with codes)."""
    cells = sorted({cell for _, _, own in rows for cell in own})
    entities = pl.DataFrame(
        [{"entity_id": f"n{i}", "name": name, "aliases": list(aliases)} for i, (name, aliases, _) in enumerate(rows)]
        + [{"entity_id": f"c{cell}", "name": cell, "aliases": []} for cell in cells],
        schema={"entity_id": pl.String, "name": pl.String, "aliases": pl.List(pl.String)},
    )
    triples = pl.DataFrame(
        [(f"n{i}", "ICD10", f"c{cell}") for i, (_, _, own) in enumerate(rows) for cell in own]
        + [("n0", "并发症", f"c{cell}") for cell in cells],
        schema={"head": pl.String, "relation": pl.String, "tail": pl.String},
        orient="row",
    )
    found = names_by_code(entities, triples, TERMS, "ICD10", max_codes)
    return {code: list(names) for code, names in found.names.items()}, found.counts


def test_names_and_aliases_of_an_entity_are_names_of_its_code() -> None:
    found, counts = named(("心衰", ["心功能不全", "心力衰竭"], ["I50.9"]), ("肺部感染", [], ["J18"]))
    assert found == {"I50.9": ["心功能不全", "心衰"], "J18": ["肺部感染"]}
    assert counts["names_already_terms"] == 1


def test_term_of_another_code_belongs_only_to_that_code() -> None:
    found, counts = named(("心衰", ["充血性 心力衰竭", "２型糖尿病"], ["I50.9"]))
    assert found == {"I50.9": ["心衰"]}
    assert counts["names_of_other_terms"] == 2


def test_name_of_many_codes_is_dropped_and_one_of_few_goes_to_each() -> None:
    rows = [("水肿", [], ["I50.9", "I50.0", "J18"]), ("心衰", [], ["I50.9", "I50.0"])]
    assert named(*rows, max_codes=2) == (
        {"I50.0": ["心衰"], "I50.9": ["心衰"]},
        Counter(names_of_several_codes=2, names_of_too_many_codes=3),
    )
    assert named(*rows, max_codes=3)[0] == {"I50.0": ["心衰", "水肿"], "I50.9": ["心衰", "水肿"], "J18": ["水肿"]}


@pytest.mark.parametrize(
    ("cell", "codes"),
    [
        ("I50.9", ["I50.9"]),
        ("i50.9 †", ["I50.9"]),
        ("I50.0,J18", ["I50.0", "J18"]),
        ("K25.9", ["K25.900"]),  # the list appends zeros
        ("E11.901", ["E11"]),  # the list lacks the finer code
        ("I50.903", ["I50.9"]),
        ("Z99.9", []),
        ("M95600/0", []),  # ICD-O, not M95.6
        ("J18 M80700/3", ["J18"]),
        ("J18—J22", []),
        ("J18除外J18.0", []),
        ("", []),
    ],
)
def test_listed_codes_of_cells(cell: str, codes: list[str]) -> None:
    assert listed_codes([cell], {*TERMS, "M95"}) == [codes]


def test_codes_come_back_as_the_list_writes_them() -> None:
    """National lists extend ICD-10 by a small x, graphs write capitals."""
    listed = {"I10.x00", "E11.900x001", "K25.X00", "e14.9†"}
    given = ["I10", "i10.X00", "K25.9", "E14.9"]
    assert listed_codes(given, listed) == [["I10.x00"], ["I10.x00"], ["K25.X00"], ["e14.9†"]]


def test_graph_without_codes_gives_no_names() -> None:
    assert named(("心衰", [], []))[0] == {}
