"""Attention read in batches: that of transformers' own models, sentence by sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import (
    AutoModel,
    BertConfig,
    BertModel,
    ElectraConfig,
    ElectraModel,
    RoFormerConfig,
    RoFormerModel,
)

from infra.errors import UserError
from tasks.evaluate.attention import attending
from tasks.evaluate.attention.attending import Attending
from tests.support.text.tokenizers import VOCABULARY, save_ours

SIZES = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
KINDS = {
    "bert": (BertModel, BertConfig, {}),
    "electra": (ElectraModel, ElectraConfig, {"embedding_size": 8}),
    "roformer": (RoFormerModel, RoFormerConfig, {"embedding_size": 16}),
}
TEXTS = ["患者有高血压病", "头痛", "患者咳嗽，用药检查肺部。", "发热10"]


@pytest.fixture(params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    model, config, more = KINDS[request.param]
    torch.manual_seed(0)
    made = model(config(vocab_size=len(VOCABULARY), max_position_embeddings=48, **SIZES, **more))
    for name, parameter in made.named_parameters():  # attention of fresh weights is nearly even, whatever is wrong
        if "LayerNorm" not in name and "embed_positions" not in name:
            parameter.data.mul_(4.0)
    made.save_pretrained(tmp_path)
    return save_ours(tmp_path)


def test_maps_are_those_of_transformers_for_each_sentence_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attending, "BATCH_TOKENS", 30)
    model = Attending(folder)
    sequences = [model.tokenizer.frame(tokens.ids) for tokens in model.tokenizer.words(TEXTS)]
    found = dict(model.maps(sequences, [2, 1]))
    assert sorted(found) == list(range(len(TEXTS)))
    plain = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    for number, (ids, _) in enumerate(sequences):
        with torch.no_grad():
            heads = plain(torch.from_numpy(ids)[None], output_attentions=True).attentions
        for layer, map_LL in zip((2, 1), found[number], strict=True):
            np.testing.assert_allclose(map_LL, heads[layer - 1][0].mean(0).numpy(), atol=1e-5)
            np.testing.assert_allclose(map_LL.sum(1), 1.0, atol=1e-5)
    assert not np.allclose(found[0][0], found[0][1], atol=1e-3)


def test_a_folder_without_an_encoder_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    with pytest.raises(UserError, match=rf"{tmp_path}.*t5"):
        Attending(tmp_path)
