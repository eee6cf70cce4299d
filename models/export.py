"""Save a pre-trained encoder as a stock transformers folder."""

from pathlib import Path

from models.objectives import Objective
from models.weights.pretrained import write_folder


def save_pretrained(objective: Objective, directory: str | Path) -> None:
    """Write config.json and model.safetensors, which `AutoModel.from_pretrained(directory)` loads as the model that
    the objective's `encoder_config` names.

    The generator and the heads stay behind; nothing is missing or left over on loading. Tokeniser files and model
    card are other stages'.
    """
    write_folder(objective.encoder_state_dict(), objective.encoder_config(), directory)
