"""Export of a pre-trained encoder as a standard transformers folder."""

from pathlib import Path

from models.objectives import Objective
from models.weights.pretrained import write_folder


def save_pretrained(objective: Objective, directory: str | Path) -> None:
    """Write config.json and model.safetensors, which `AutoModel.from_pretrained(directory)` loads as the model that
    the objective's `encoder_config` names.

    Generator and heads are left out, and no weight is missing or unused on loading. Tokeniser files and the model card
    come from other stages.
    """
    write_folder(objective.encoder_state_dict(), objective.encoder_config(), directory)
