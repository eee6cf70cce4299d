"""Codes in cells: ICD-10, ICD-O, other systems, and none where no single code is meant."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kg.codes import codes_in
from kg.fusion.fused_graph import fuse
from kg.graph import KnowledgeGraph


@pytest.mark.parametrize(
    ("cell", "codes"),
    [
        ("A15.6,A16.5", ["A15.6", "A16.5"]),
        ("C34/D02.2", ["C34", "D02.2"]),
        ("Ｅ１４．９†", ["E14.9"]),
        ("a52.7↑k77.0*", ["A52.7", "K77.0"]),
        ("J42.x02", ["J42.X02"]),
        ("M95600/0", ["M95600/0"]),
        ("m8312/3", ["M8312/3"]),
        ("M95.6", ["M95.6"]),
        ("C34.1 M80700/3", ["C34.1", "M80700/3"]),
        ("C01—C02", []),
        ("Ｋ25～Ｋ27", []),
        ("D35.0除外E05.8,E07.0", []),
        ("LOINC:1234-5", ["LOINC:1234-5"]),
        ("见正文", []),
        ("", []),
    ],
)
def test_codes_of_a_cell(cell: str, codes: list[str]) -> None:
    assert codes_in(pl.Series([cell])).to_list() == [codes]


codes = st.from_regex(r"[A-Z][0-9]{2}(\.[0-9]{1,2})?", fullmatch=True)
morphologies = st.from_regex(r"M[0-9]{4,5}/[0-9]", fullmatch=True)


@given(
    st.lists(st.lists(codes | morphologies, min_size=1, max_size=4), max_size=5), st.sampled_from([",", " ", "，", "+"])
)
def test_codes_of_many_cells_are_all_found(cells: list[list[str]], comma: str) -> None:
    assert codes_in(pl.Series([comma.join(own) for own in cells], dtype=pl.String)).to_list() == [
        [code for code in own] for own in cells
    ]


def names_by_entity(*triples: tuple[str, str, str]) -> list[set[str]]:
    """Return the entities that fusion with a list of codes merges."""
    coded = KnowledgeGraph.from_triples(triples, source="graph")
    listed = [("骨骼变形", "ICD10", "M95"), ("舌恶性肿瘤", "ICD10", "C01")]
    fused = fuse([coded, KnowledgeGraph.from_triples(listed, source="list")])
    return [{name, *others} for name, others in zip(fused.names, fused.aliases, strict=True)]


def test_tumour_is_not_read_as_a_deformity_of_bones() -> None:
    assert {"骨骼变形"} in names_by_entity(("神经鞘瘤", "ICD10", "M95600/0"))
    assert {"骨骼变形", "骨变形"} in names_by_entity(("骨变形", "ICD10", "M95"))


def test_range_gives_no_codes() -> None:
    assert {"舌恶性肿瘤"} in names_by_entity(("口腔恶性肿瘤", "ICD10", "C01—C02"))
