"""Fusion of two real graphs finds the entities with equal codes without using the codes of one of them."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from kg.fusion.alignment import AlignmentOptions
from kg.fusion.fused_graph import fuse
from kg.graph import KnowledgeGraph


def test_equal_names_of_cmekg_and_icd10_have_the_same_category(shared_data: Path) -> None:
    pairs = pl.read_parquet(shared_data / "icd10_zh" / "cmekg_icd_alignment.parquet").filter("exact_name")
    codes = pl.read_parquet(shared_data / "icd10_zh" / "kg_icd_triples.parquet")
    triples = pl.scan_parquet(shared_data / "kg_cmekg" / "triples.parquet")
    diseases = triples.filter((pl.col("head_type") == "Disease") & (pl.col("relation") != "ICD10")).collect()
    held = set(codes.filter(pl.col("relation") == "has_code")["tail"])
    graphs = [KnowledgeGraph.from_frame(diseases, source="cmekg"), KnowledgeGraph.from_frame(codes, source="icd10")]
    fused = fuse(graphs, AlignmentOptions(codes=False))
    entity = {
        name: index for index in range(fused.num_entities) for name in (fused.names[index], *fused.aliases[index])
    }
    coded = fused.relation_names.index("ICD10")
    wanted = found = 0
    for name, code in pairs.select("cmekg_name", "icd_code").iter_rows():
        if name not in entity or code not in held:
            continue
        wanted += 1
        around, relations, _ = fused.neighbours(entity[name])
        found += any(fused.names[index].startswith(code[:3]) for index in around[relations == coded])
    assert wanted > 250
    assert found / wanted > 0.97
