"""Stage `name_dictionary`: the names of a knowledge graph as a user dictionary, so that they are words of the text.

The vocabulary of entities/mine is finer (it cuts 急性阑尾炎 into 急性 and 阑尾炎), and has to read the whole corpus;
its dictionary.txt may be used in place of this one. Time and memory grow with the names.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from infra.artifacts import Artifact
from infra.stage import Output, StageParams, stage

DICTIONARY = "dictionary.txt"


class NameDictionaryParams(StageParams):
    """Names that become words."""

    max_length: int = Field(default=8, ge=2, description="Most characters of a name; longer ones are often phrases.")


@stage(name="name_dictionary", version=1, params=NameDictionaryParams)
def name_dictionary(inputs: Mapping[str, Artifact], params: NameDictionaryParams, out: Output) -> None:
    """Write `dictionary.txt` with the names and aliases of `inputs["kg_entities"]`, one per line in sorted order."""
    table = inputs["kg_entities"].to_table("kg_entities").select(["name", "aliases"]).to_pylist()
    names = {surface for row in table for surface in (row["name"], *row["aliases"])}
    # A name with white space is not one word: 维生素 C is two.
    kept = sorted(name for name in names if 1 < len(name) <= params.max_length and name.split() == [name])
    out.add_bytes(DICTIONARY, "".join(f"{name}\n" for name in kept).encode())
    out.count("names_in", len(names))
    out.count("names_kept", len(kept))
