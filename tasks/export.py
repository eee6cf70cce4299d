"""Stage `export`: a trained checkpoint becomes a folder that transformers loads without remote code.

`config.json`, `model.safetensors`, `tokenizer.json`, `tokenizer_config.json`, `vocab.txt`, `curves.png` and a
model card (`README.md`) written from the run's own figures. The generator and the heads stay behind, as
section 3.3 of eHealth says. Time and memory grow with the model only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from infra.artifacts import Artifact
from infra.stage import Output, StageParams, stage
from models import objectives
from models.export import save_pretrained
from models.training import load_state
from tasks.model_card import write_model_card
from tasks.run_spec import RunSpec

TOKENIZER_FILES = ("vocab.txt", "tokenizer.json", "tokenizer_config.json")


class ExportParams(StageParams):
    """What the model card says beside the run's figures."""

    name: str = Field(default="yiwen-ehealth", description="Name of the model in its card.")
    license: str | None = Field(default=None, description="Licence of the weights, if you give one.")


@stage(name="export", version=1, params=ExportParams)
def export(inputs: Mapping[str, Artifact], params: ExportParams, out: Output) -> None:
    """Export `inputs["checkpoint"]` with the tokeniser of `inputs["vocabulary"]`; `inputs["examples"]` is
    what it was trained on, for the card.
    """
    checkpoint = inputs["checkpoint"]
    with tempfile.TemporaryDirectory(prefix="yiwen-export-") as name:
        folder = Path(name) / "model"
        spec = RunSpec.model_validate_json(checkpoint.read_file("run.json"))
        save_pretrained(_trained(checkpoint, spec, Path(name) / "checkpoint"), folder)
        for file in TOKENIZER_FILES:
            (folder / file).write_bytes(inputs["vocabulary"].read_file(file))
        (folder / "curves.png").write_bytes(checkpoint.read_file("curves.png"))
        card = write_model_card(params.name, params.license, spec, checkpoint, inputs["examples"], out.build.store)
        (folder / "README.md").write_text(card, encoding="utf-8")
        out.build.add_folder(folder)


def _trained(checkpoint: Artifact, spec: RunSpec, folder: Path) -> Any:
    folder.mkdir()
    checkpoint.download(folder)
    objective = objectives.build(spec.objective, spec.model)
    objective.load_state_dict(load_state(folder)["model"])
    return objective
