"""Stage `thesaurus`: groups of synonymous names, from the aliases of a knowledge graph (kg/entities/thesaurus.py).

Time and memory grow with the names of the graph, which are all in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pydantic import Field

from infra.artifacts import Artifact
from infra.stage import Output, StageParams, stage
from kg.entities.thesaurus import MAX_SIZE, Named, build_thesaurus


class ThesaurusParams(StageParams):
    """Limit on following aliases of aliases."""

    max_size: int = Field(default=MAX_SIZE, ge=2, description="names at most in a group that joins several entities")


@stage(name="thesaurus", version=2, params=ThesaurusParams, tables=("synonyms",))
def thesaurus(inputs: Mapping[str, Artifact], params: ThesaurusParams, out: Output) -> None:
    """Group the names and aliases of `inputs["kg_entities"]`."""
    table = inputs["kg_entities"].to_table("kg_entities").select(["entity_id", "name", "aliases", "type"])
    rows = build_thesaurus((Named(**row) for row in table.to_pylist()), params.max_size)
    with out.part() as part:
        part.write("synonyms", [row._asdict() for row in rows])
        sizes = Counter(row.group_id for row in rows)
        part.count("entities_in", table.num_rows)
        part.count("groups", len(sizes))
        part.count("largest_group", max(sizes.values(), default=0))
        part.count("ambiguous", sum(row.ambiguous for row in rows))
