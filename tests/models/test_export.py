"""The exported folder is a standard transformers model with the same outputs."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel

from models.encoder.layout import Layout
from models.export import save_pretrained
from models.objectives import build


@pytest.mark.parametrize("embedding_size", [24, 12])
def test_round_trip(embedding_size: int, tiny: dict[str, Any], tmp_path: Path) -> None:
    torch.manual_seed(0)
    objective = build("ehealth", tiny | {"embedding_size": embedding_size, "initializer_range": 0.2}).eval()
    save_pretrained(objective, tmp_path)
    model, report = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["ElectraModel"] and config["model_type"] == "electra"
    assert config["dtype"] == "float32"
    ids = torch.randint(0, 300, (1, 17))
    with torch.no_grad():
        expected = objective.discriminator(ids[0], Layout.from_lengths([17]))
        torch.testing.assert_close(model.eval()(ids)[0][0], expected, rtol=1e-5, atol=1e-5)
