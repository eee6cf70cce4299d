"""Stage `fuse_graphs`: several knowledge graphs become one, with the evidence and the conflicts.

kg/fusion/alignment.py describes how names are aligned, kg/fusion/vocabularies.py how types and relations become one
vocabulary. All graphs are in the memory of one process, some 460 bytes per triple: 17 million in 8 GB. Time and memory
grow as in kg/fusion/fused_graph.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import Field

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from kg.fusion.alignment import AlignmentOptions
from kg.fusion.fused_graph import fuse_with_evidence
from kg.fusion.vocabularies import Vocabulary
from kg.graph import KnowledgeGraph
from tasks.knowledge.read import write_graph, write_rejects

VOCABULARY_INPUTS = ("types", "relations")
HELD_OUT = "held_out_pairs"
"""Input with pairs of names that the graph must not join."""


class FuseGraphsParams(StageParams):
    """Evidence that two entities are one (kg/fusion/alignment.py)."""

    aliases: bool = True
    """Join entities that share a name or an alias."""
    codes: bool = True
    """Join entities that share a code."""
    max_holders: int = Field(default=3, ge=2, description="entities that may share an alias before it is ignored")
    similarity: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="least score at which similar names of different graphs are one entity; by default off",
    )
    overlap_weight: float = Field(default=0.5, ge=0, le=1, description="weight of common neighbours in the similarity")


@stage(
    name="fuse_graphs",
    version=4,
    params=FuseGraphsParams,
    tables=("kg_triples", "kg_entities", "kg_alignments", "kg_conflicts", "rejects"),
)
def fuse_graphs(inputs: Mapping[str, Any], params: FuseGraphsParams, out: Output) -> None:
    """Fuse all inputs but `types` and `relations`, raw CSV files that replace the default vocabulary.

    `inputs["held_out_pairs"]`, if given, has a table `similarity_pairs`: pairs of a name and an alias that the graph
    must not join, because models that learn from it are tested on them.

    Callers that pass the default files (kg/fusion/vocabularies.py) as raw input get a new artifact after an edit.

    Raises:
        UserError: no graph is given, or a table of the vocabulary is faulty.
    """
    artifacts = [given for name, given in sorted(inputs.items()) if name not in (*VOCABULARY_INPUTS, HELD_OUT)]
    if not artifacts:
        raise UserError("No knowledge graph to fuse. Read one with the stage read_graph first.")
    types, relations = (_path_of(inputs, name) for name in VOCABULARY_INPUTS)
    fusion = fuse_with_evidence(
        [_graph_of(artifact) for artifact in artifacts],
        AlignmentOptions(**params.model_dump()),
        Vocabulary.read(types, relations),
        _held_out(inputs),
    )
    with out.part() as part:
        write_graph(part, fusion.graph)
        part.write("kg_alignments", fusion.alignments)
        part.write("kg_conflicts", fusion.conflicts)
        for source, rows in fusion.rejects.group_by("source", maintain_order=True):
            text = pl.concat_str("head", "relation", "tail", separator=" | ")
            rejects = rows.select(
                pl.col("head").alias("doc_id"), "reason", pl.lit("").alias("detail"), text.alias("text")
            )
            write_rejects(part, rejects, str(source[0]))
        part.count("graphs_in", len(artifacts))
        part.count("triples_collapsed", fusion.collapsed)
        if HELD_OUT in inputs:
            part.count("triples_held_out", fusion.held_out)
        for evidence, links in Counter(fusion.alignments["evidence"].to_pylist()).items():
            part.count(f"aligned_by_{evidence}", links)


def _graph_of(artifact: Artifact) -> KnowledgeGraph:
    return KnowledgeGraph.from_tables(artifact.to_table("kg_entities"), artifact.to_table("kg_triples"))


def _held_out(inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
    if HELD_OUT not in inputs:
        return []
    return list(inputs[HELD_OUT].scan("similarity_pairs").select("name", "alias").collect().iter_rows())


def _path_of(inputs: Mapping[str, Any], name: str) -> Path | None:
    return Path(inputs[name].files[0].path) if name in inputs else None
