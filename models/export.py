"""Save a pre-trained encoder as a stock transformers folder."""

from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from transformers import ElectraConfig

from models.objectives import Objective


def save_pretrained(objective: Objective, directory: str | Path) -> None:
    """Write config.json and model.safetensors, which `AutoModel.from_pretrained(directory)` loads as an
    `ElectraModel`.

    The generator and the heads stay behind; nothing is missing or left over on loading. Tokeniser files and model
    card are other stages'.
    """
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.contiguous().cpu() for name, tensor in objective.encoder_state_dict().items()}
    dtype = str(next(iter(state.values())).dtype).removeprefix("torch.")
    sizes: dict[str, Any] = objective.encoder_config()
    config = ElectraConfig(**sizes, architectures=["ElectraModel"], dtype=dtype)
    config.save_pretrained(target)
    save_file(state, target / "model.safetensors", metadata={"format": "pt"})
