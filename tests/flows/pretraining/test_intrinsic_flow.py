"""What encoders know of entities, from raw text, a graph and folders of encoders to a page with heat maps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertModel

from flows.evaluate_intrinsic import evaluate
from infra.artifacts import ArtifactStore
from infra.errors import UserError
from models.encoder.config import EncoderConfig
from models.weights.pretrained import random_encoder, save_encoder
from tests.support.text.tokenizers import VOCABULARY, save_ours, save_vocab_txt

pytestmark = pytest.mark.slow

NAMES = {"高血压病": "血压高", "糖尿病": "糖病", "肺部感染": "肺感染"}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArtifactStore:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    return ArtifactStore(tmp_path / "home")


@pytest.fixture
def asked(tmp_path: Path) -> dict[str, Any]:
    """An encoder, and synthetic text that names diseases of a graph; no name has a character that it lacks."""
    folder = save_ours(tmp_path / "model")
    config = EncoderConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=16,
        num_layers=3,
        num_heads=2,
        intermediate_size=32,
        max_positions=64,
        positions="rotary",
    )
    save_encoder(random_encoder(config, 1), folder)
    rows = [f"{name}\t别称\t{alias}" for name, alias in NAMES.items()]
    (tmp_path / "names.tsv").write_text("head\trelation\ttail\n" + "\n".join(rows), encoding="utf-8")
    texts = [
        f"患者有{name}引起的{sign}，用药治疗{number}。检查{name}，不是{sign}。"
        for number, (name, sign) in enumerate((name, sign) for name in NAMES for sign in ("头痛", "发热", "咳嗽"))
    ]
    lines = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
    (tmp_path / "text.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return {
        "model": str(folder),
        "corpus": str(tmp_path / "text.jsonl"),
        "graphs": {"names": {"path": str(tmp_path / "names.tsv")}},
        "sentences": ["患者有高血压病，用二甲双胍治疗糖尿病。"],
        "overrides": {"segment.min_tokens": 4},
        "evaluations": ["attention"],
    }


def save_bert(folder: Path) -> Path:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=len(VOCABULARY), max_position_embeddings=40, **sizes)).save_pretrained(folder)
    return save_vocab_txt(folder)


def test_encoders_are_compared_on_the_same_sentences(
    store: ArtifactStore, asked: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = save_bert(tmp_path / "bert")
    first = Path(evaluate.fn(**{**asked, "model": [asked["model"], str(other)]}))
    second = Path(capsys.readouterr().out.strip().splitlines()[-1])
    tables = [store.get("attention", folder.name) for folder in (first, second)]
    rows, others = (table.to_table().to_pylist() for table in tables if table is not None)
    compared = ("sentence", "entity", "synonym", "random")
    assert [[row[name] for name in compared] for row in rows] == [[row[name] for name in compared] for row in others]
    assert rows and [row["received_synonym"] for row in rows] != [row["received_synonym"] for row in others]
    for row in rows:
        assert NAMES.get(row["entity"]) == row["synonym"] or NAMES[row["synonym"]] == row["entity"]
        assert row["random"] not in (row["entity"], row["synonym"])
        assert row["random"] in {*NAMES, *NAMES.values()}
        assert row["unseen"] is None
    summary = json.loads((first / "summary.json").read_text())
    assert (summary["layers"], summary["layer"], summary["heat_map_layer"]) == (3, 2, 2)
    assert summary["groups"]["received: all"]["groups"] == len(NAMES)
    assert [one["entity"] for one in summary["heat_maps"][0]["entities"]] == ["高血压病", "糖尿病"]
    assert (first / "heat_map_1.png").read_bytes().startswith(b"\x89PNG")
    page = (first / "report.html").read_text()
    assert "data:image/png;base64," in page and asked["sentences"][0] in page


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": None}, "No model was given"),
        ({"model": "/nowhere"}, "There is no folder /nowhere"),
        ({"model": "gpt"}, "gpt2"),
        ({"sentences": ["患者" * 40]}, r"attention.sentences: '患者患者.* has 82 tokens .* shows at most 64. Shorten"),
        ({"sentences": [" "]}, "attention.sentences"),
        ({"overrides": {"attention.layer": 4}}, r"attention.layer=4: the encoder has 3 layers"),
        ({"overrides": {"attention.layr": 4}}, "attention.layr"),
        ({"evaluations": ["similarty"]}, "evaluations=similarty: there are attention, similarity"),
        ({"evaluations": []}, "evaluations=none: there are attention, similarity"),
        ({"model": None, "vectors": {"own": "/nowhere.txt"}, "evaluations": None}, "/nowhere.txt"),
        ({"model": None, "vectors": {"own": []}, "evaluations": None}, "vectors.own has 0 paths. Give one, or two"),
        ({"model": None, "vectors": {"own": __file__}}, "attention needs an encoder"),
    ],
)
def test_mistakes_are_told_before_any_work(
    store: ArtifactStore, asked: dict[str, Any], tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    (tmp_path / "gpt").mkdir()
    (tmp_path / "gpt" / "config.json").write_text('{"model_type": "gpt2"}')
    if changed.get("model") == "gpt":
        changed = {"model": str(tmp_path / "gpt")}
    with pytest.raises(UserError, match=message):
        evaluate.fn(**{**asked, **changed})
    assert store.list() == []


def test_text_without_synonyms_is_told_with_the_remedy(
    store: ArtifactStore, asked: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "other.txt").write_text("患者头痛发热，用药治疗。检查血常规，不是感染。" * 3, encoding="utf-8")
    with pytest.raises(UserError, match=r"no sentence of 10 to 120 characters has an entity .* graph with aliases"):
        evaluate.fn(**{**asked, "corpus": str(tmp_path / "other.txt")})
