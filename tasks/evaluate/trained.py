"""The run behind an exported model: its checkpoint, its vocabulary, and the products and entities it was trained on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from infra.artifacts import Artifact, ArtifactStore
from models.knowledge_model.source import KNOWLEDGE_MODEL
from tasks.finetune.inputs import ModelFolder


@dataclass(frozen=True)
class Trained:
    """A model as stages take it, and the records of its products, if it was trained on some."""

    inputs: dict[str, Artifact | ModelFolder]
    """`checkpoint` and `vocabulary` of a run of ours; `model` for any other folder."""
    records: Artifact | None = None
    entity_surfaces: Artifact | None = None
    """The entity vocabulary that its training named, if it named any."""
    run: Artifact | None = None
    """Training of the weights, if it is ours; also of a knowledge model, which stages take as a `model`."""


def trained(folder: str | Path) -> Trained:
    """Look for the run that a model's folder was exported from; a folder of another origin is a model by itself.

    Raises:
        UserError: there is no such folder, or it has no model.
    """
    model = ModelFolder(folder)
    is_other_form = model.path.name == KNOWLEDGE_MODEL
    place = model.path.parent if is_other_form else model.path
    store = ArtifactStore(str(place.parent.parent))
    exported = store.get("export", place.name) if place.parent.name == "export" else None
    checkpoint = _input(store, exported, "checkpoint")
    vocabulary = _input(store, exported, "vocabulary")
    if checkpoint is None or vocabulary is None:
        return Trained({"model": model})
    if is_other_form:  # a checkpoint is judged in its plain form
        return Trained({"model": model}, run=checkpoint)
    records = _input(store, _input(store, checkpoint, "products"), "records")
    surfaces = _input(store, checkpoint, "entity_surfaces")
    return Trained({"checkpoint": checkpoint, "vocabulary": vocabulary}, records, surfaces, checkpoint)


def _input(store: ArtifactStore, artifact: Artifact | None, name: str) -> Artifact | None:
    given = artifact.manifest.inputs.get(name) if artifact is not None else None
    return None if given is None else store.get(given.stage, given.fingerprint)
