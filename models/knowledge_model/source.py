"""Where a knowledge model's knowledge is: named in its config.json, found on this machine, checked before it is used.

The arrays (models/knowledge.py) are not copied into the model's folder: a node maps them once for all models and
processes. They are looked for

1. in the folder that the caller gives,
2. in the folder that config.json names, if it is still there,
3. in the folder `knowledge` beside config.json, a copy or a link,
4. in the artifact store that the model's folder is in, under the stage and fingerprint that config.json names.

Rows of one graph are other entities in another, and vectors of another training are in another space. So knowledge
must be of the same graph and have the content that the model was trained with.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from infra.errors import UserError
from models.knowledge import DESCRIPTION, KnowledgeArrays

KNOWLEDGE_MODEL = "knowledge_model"
"""Name of this form among an objective's exports, and of its folder beside the plain encoder."""
BESIDE = "knowledge"
"""Folder beside config.json in which knowledge is looked for."""
VECTORS_READ = 1024
"""Number of entities' vectors that `digest_of` reads, evenly spaced."""

GivenKnowledge = str | Path | KnowledgeArrays | Literal[False] | None
"""A folder of arrays, or the arrays; False: run without knowledge; None: look for it."""


@dataclass(frozen=True)
class KnowledgeSource:
    """Record of the knowledge that a model reads."""

    graph: tuple[str, str]
    """Stage and fingerprint of the graph whose rows mentions name."""
    artifact: tuple[str, str]
    """Stage and fingerprint of the arrays."""
    digest: str
    """`digest_of` the arrays."""
    folder: str = BESIDE
    """Where they are: absolute, or relative to the model's folder."""

    @classmethod
    def of(cls, knowledge: KnowledgeArrays, stage: str, fingerprint: str) -> KnowledgeSource:
        """Return the source of an artifact's arrays, which are looked for in its store or beside the model."""
        return cls(knowledge.graph, (stage, fingerprint), digest_of(knowledge))

    @classmethod
    def from_json(cls, given: Any) -> KnowledgeSource:
        """Return the source as config.json has it. Raises ValueError if it is damaged."""
        try:
            graph, artifact = ((str(given[name]["stage"]), str(given[name]["fingerprint"])) for name in _RECORDS)
            return cls(graph, artifact, str(given["digest"]), str(given["folder"]))
        except (TypeError, KeyError) as error:
            raise ValueError(f"its knowledge_source lacks {error}") from error

    def to_json(self) -> dict[str, Any]:
        """Return plain values for config.json."""
        records = {name: dict(zip(("stage", "fingerprint"), getattr(self, name), strict=True)) for name in _RECORDS}
        return {**records, "digest": self.digest, "folder": self.folder}


_RECORDS = ("graph", "artifact")


class OpenedKnowledge(NamedTuple):
    """Knowledge, and where it was found; None if the model runs without it."""

    arrays: KnowledgeArrays | None
    source: KnowledgeSource


def open_knowledge(model: Path, source: KnowledgeSource, given: GivenKnowledge = None) -> OpenedKnowledge:
    """Return the knowledge of the model in a folder.

    Raises:
        UserError: the knowledge is missing, belongs to another graph, or is not what the model was trained with; the
            message names both.
    """
    if given is False:
        return OpenedKnowledge(None, source)
    if isinstance(given, KnowledgeArrays):
        return OpenedKnowledge(_checked(given, "the knowledge that was given", model, source), source)
    places = _places(model, source) if given is None else [Path(given).resolve()]
    found = next((place for place in places if given is not None or (place / DESCRIPTION).is_file()), None)
    if found is None:
        raise UserError(
            f"{model} reads the knowledge arrays {_shown(source.artifact)} of the graph {_shown(source.graph)}, which "
            f"are neither at {places[0]} nor in an artifact store around the model. Copy or link their folder to "
            f"{model / BESIDE}, or give it: with --param knowledge=FOLDER to a flow, --knowledge to predict "
            "or normalise, knowledge=FOLDER to from_pretrained; there, knowledge=False runs the model without."
        )
    arrays = _checked(KnowledgeArrays.open(found), str(found), model, source)
    return OpenedKnowledge(arrays, replace(source, folder=str(found)))


def digest_of(knowledge: KnowledgeArrays) -> str:
    """Return 32 hex digits over what a model reads: types, neighbours and their vectors, of which `VECTORS_READ`.

    Time grows with the neighbours: about 0.1 s for SMedBERT's graph.
    """
    digest = hashlib.sha256()
    step = max(1, knowledge.num_entities // VECTORS_READ)
    for array in (
        knowledge.types,
        knowledge.neighbour_offsets,
        knowledge.neighbours,
        knowledge.has_vector,
        knowledge.relation_vectors,
        knowledge.entity_vectors[::step],
    ):
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:32]


def _places(model: Path, source: KnowledgeSource) -> list[Path]:
    """Return the folders in which a model's knowledge may be, the likeliest first."""
    whole = model.resolve()
    store = (parent.joinpath(*source.artifact) for parent in whole.parents)
    return list(dict.fromkeys([whole / source.folder, whole / BESIDE, *store]))


def _checked(knowledge: KnowledgeArrays, place: str, model: Path, source: KnowledgeSource) -> KnowledgeArrays:
    if tuple(knowledge.graph) != source.graph:
        raise UserError(
            f"{place} has knowledge of the graph {_shown(knowledge.graph)}, but {model} was trained on "
            f"{_shown(source.graph)}: the same numbers would mean other entities. Give {_shown(source.artifact)}."
        )
    if digest_of(knowledge) != source.digest:
        raise UserError(
            f"{place} is of the graph of {model}, but its neighbours or vectors are not those that the model was "
            f"trained with. Give {_shown(source.artifact)}."
        )
    return knowledge


def _shown(record: tuple[str, str]) -> str:
    return "/".join(record)
