"""The entities that the mentions of examples are rows of."""

from __future__ import annotations

from infra.artifacts import Artifact, ArtifactStore, InputRecord


def linked_entities(examples: Artifact) -> InputRecord | None:
    """Return the artifact that was linked: its table kg_entities, or entities, has the rows that mentions name.

    It is the input `entities` of the stage `encode`. Rows that another stage made of encoded ones (sentence pairs, for
    example) have their mentions, so its input `examples` is followed. None: nothing was linked, or the examples that
    would tell are gone from the store.
    """
    given = examples.manifest.inputs
    if "entities" in given or "examples" not in given:
        return given.get("entities")
    source = ArtifactStore(examples.store_root).get(given["examples"].stage, given["examples"].fingerprint)
    return None if source is None else linked_entities(source)
