"""Export of a pre-trained encoder as a standard transformers folder."""

from pathlib import Path

from models.knowledge_model.source import KNOWLEDGE_MODEL, KnowledgeSource
from models.objectives.base import Objective
from models.weights.pretrained import write_folder


def save_pretrained(objective: Objective, directory: str | Path, name: str | None = None) -> None:
    """Write config.json and model.safetensors, which transformers loads as the class that `architectures` names.

    Nothing is missing or left over on loading. Tokeniser files and model card are other stages'.

    Args:
        name: one of the objective's `exports`; by default the first, the bare encoder without generator and heads.

    Raises:
        ValueError: the objective has no export of that name.
    """
    exported = objective.exported(name)
    write_folder(exported.state, exported.config, directory)


def save_knowledge_model(objective: Objective, directory: str | Path, source: KnowledgeSource) -> None:
    """Write config.json and model.safetensors of the encoder with its infusion (models/knowledge_model).

    Raises:
        ValueError: the objective exports no such model.
    """
    exported = objective.exported(KNOWLEDGE_MODEL)
    exported.config.knowledge_source = source.to_json()
    write_folder(exported.state, exported.config, directory)
