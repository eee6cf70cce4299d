"""Fine-tuned folders in transformers' pipelines: the answers are those of `Predictor`."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForMultipleChoice,
    AutoTokenizer,
    BertConfig,
    BertModel,
    ElectraConfig,
    ElectraModel,
    RoFormerConfig,
    RoFormerModel,
    pipeline,
)

from infra.artifacts import ArtifactStore
from infra.stage import run
from models import heads
from models.heads.encoders import open_encoder
from tasks.downstream.catalogue import task
from tasks.downstream.features.shapes import TaskShape
from tasks.downstream.records import Entity, Kind
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.finetune.params import FinetuneParams, Resources
from tasks.finetune.predict import Predictor
from tasks.finetune.saved_model import save_task_model
from tasks.finetune.stage import finetune
from tests.support.heads import toy_task as toy
from tests.support.text.tokenizers import VOCABULARY, save_ours, save_vocab_txt

torch.set_num_threads(1)

SIZES: dict[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
}
STARTS = {
    "bert": lambda: BertModel(BertConfig(**SIZES)),
    "electra": lambda: ElectraModel(ElectraConfig(**SIZES, embedding_size=16)),
    "roformer": lambda: RoFormerModel(RoFormerConfig(**SIZES, embedding_size=32)),
}
TEXTS = ["患者头痛，发热。", "高血压引起的咳嗽怎么办？", "用药", "mri检查"]


def shape(kind: Kind, head: str, labels: tuple[str, ...], **more: Any) -> TaskShape:
    return TaskShape(task="toy", kind=kind, head=head, max_length=32, labels=labels, **more)


def saved(folder: Path, start: str, form: TaskShape, save_tokenizer: Callable[[Path], Any] = save_ours) -> str:
    """A task model with random weights on an encoder that transformers saved."""
    torch.manual_seed(1)
    encoder = folder / "encoder"
    STARTS[start]().save_pretrained(encoder)
    save_tokenizer(encoder)
    model = heads.build(form.head, open_encoder(encoder), **form.head_options)
    for name, parameter in model.named_parameters():
        if not name.startswith("encoder."):
            torch.nn.init.normal_(parameter, std=0.3)
    save_task_model(folder / "model", model, form, encoder)
    return str(folder / "model")


@pytest.mark.parametrize("start", STARTS)
def test_texts_are_classified(start: str, tmp_path: Path) -> None:
    folder = saved(tmp_path, start, shape(Kind.SINGLE, "single", ("药物", "疾病", "症状")))
    ours = Predictor(folder, "cpu").predict(TEXTS)
    for one, found in zip(ours, pipeline("text-classification", model=folder, device="cpu")(TEXTS), strict=True):
        assert one.scores is not None
        assert found["label"] == one.answer and found["score"] == pytest.approx(max(one.scores), abs=1e-5)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("kind", [Kind.PAIR, Kind.RANKING])
def test_pairs_are_classified(start: str, kind: Kind, tmp_path: Path) -> None:
    folder = saved(tmp_path, start, shape(kind, "pair", ("0", "1")))
    pairs = list(zip(TEXTS, reversed(TEXTS), strict=True))
    ours = Predictor(folder, "cpu").predict(pairs)
    asked = [{"text": first, "text_pair": second} for first, second in pairs]
    for one, found in zip(ours, pipeline("text-classification", model=folder, device="cpu")(asked), strict=True):
        assert one.scores is not None
        best = max(one.scores) if kind is Kind.PAIR else torch.tensor(one.scores).abs().sigmoid().item()
        assert found["label"] == one.answer and found["score"] == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("start", STARTS)
def test_several_labels_are_given(start: str, tmp_path: Path) -> None:
    folder = saved(tmp_path, start, shape(Kind.MULTI_LABEL, "multi_label", ("发热", "头痛", "咳嗽")))
    ours = Predictor(folder, "cpu").predict(TEXTS)
    for one, found in zip(
        ours, pipeline("text-classification", model=folder, device="cpu")(TEXTS, top_k=None), strict=True
    ):
        scores = {label["label"]: label["score"] for label in found}
        assert list(one.scores or ()) == pytest.approx([scores[name] for name in ("发热", "头痛", "咳嗽")], abs=1e-5)
        assert isinstance(one.answer, tuple) and {n for n, score in scores.items() if score > 0.5} == set(one.answer)


@pytest.mark.parametrize("start", STARTS)
def test_options_are_scored(start: str, tmp_path: Path) -> None:
    folder = saved(tmp_path, start, shape(Kind.CHOICE, "choice", ()))
    evidence, question, options = "高血压引起头痛", "头痛怎么办", ["用药", "检查肺部", "是"]
    (ours,) = Predictor(folder, "cpu").predict([[evidence, question, *options]])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    # [CLS] option [SEP] question [SEP] evidence [SEP]: everything after the option is of type 1.
    rows = tokenizer(options, [f"{question}[SEP]{evidence}"] * 3, padding=True, return_tensors="pt")
    logits = AutoModelForMultipleChoice.from_pretrained(folder)(**{k: v[None] for k, v in rows.items()}).logits
    assert logits[0].sigmoid().tolist() == pytest.approx(list(ours.scores or ()), abs=1e-5)


def save_flat(folder: Path) -> Path:
    """Records with entities of two types that do not nest, some of one token and some that touch."""
    folder.mkdir()
    draw = random.Random(0)
    for split, size in (("train", 60), ("dev", 12), ("test", 12)):
        rows = []
        for _ in range(size):
            text, entities = "", []
            for _ in range(3):
                text += draw.choice(["患者有", "的", ""])
                word, type_ = draw.choice([("高血压", "dis"), ("糖尿病", "dis"), ("头痛", "sym"), ("药", "sym")])
                end = len(text) + len(word)
                entities.append({"start_pos": len(text), "end_pos": end, "label_type": type_})
                text += word
            rows.append({"text": text, "entities": entities})
        (folder / f"{split}.json").write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    return folder


def test_aggregated_entities_are_the_predicted_ones(tmp_path: Path) -> None:
    spec = task("sahsu-ner")
    data = TaskFiles(spec, save_flat(tmp_path / "data"))
    params = FinetuneParams(
        task=spec.name, seeds=(1,), batch_sizes=(8,), learning_rates=(5e-3,), epochs=(12,), resources=Resources()
    )
    inputs = {"model": ModelFolder(toy.save_toy_encoder(tmp_path / "encoder")), "data": data}
    artifact = run(finetune, ArtifactStore(tmp_path / "store"), params, inputs).artifact
    folder = artifact.download(tmp_path / "tuned", "model")
    texts = ["患者有高血压糖尿病药药", "的头痛高血压的药", "头痛"]
    ours = [one.answer for one in Predictor(folder, "cpu").predict(texts)]
    assert any(isinstance(found, tuple) and len(found) > 3 for found in ours)
    tagger = pipeline("token-classification", model=str(folder), aggregation_strategy="simple", device="cpu")
    for answer, found in zip(ours, tagger(texts), strict=True):
        assert answer == tuple(Entity(one["start"], one["end"], one["entity_group"]) for one in found)
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "`ElectraForTokenClassification`" in card and 'aggregation_strategy="simple"' in card


def test_pipelines_refuse_what_transformers_cannot_answer(tmp_path: Path) -> None:
    types = {"streams": (("sym",), ("dis",))}
    folder = saved(tmp_path, "bert", shape(Kind.NESTED_TAGGING, "two_stream", ("dis", "sym"), **types))
    for name in ("token-classification", "text-classification"):
        with pytest.raises(ValueError, match="yiwen-two_stream"):
            pipeline(name, model=folder)
    assert Predictor(folder, "cpu").predict(TEXTS)


def save_roformer_s(folder: Path) -> None:
    """`vocab.txt`, and the class of published RoFormers, which needs jieba and gives no segment types."""
    save_vocab_txt(folder)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "RoFormerTokenizer", "do_lower_case": true}')


def save_json_alone(folder: Path) -> None:
    save_ours(folder)
    for name in ("tokenizer_config.json", "vocab.txt"):
        (folder / name).unlink()


@pytest.mark.parametrize("save_tokenizer", [save_vocab_txt, save_roformer_s, save_json_alone])
@pytest.mark.parametrize("start", ["bert", "roformer"])
def test_published_tokenisers_cut_alike_in_pipelines(
    start: str, save_tokenizer: Callable[[Path], Any], tmp_path: Path
) -> None:
    folder = saved(tmp_path, start, shape(Kind.PAIR, "pair", ("0", "1")), save_tokenizer)
    ours = Predictor(folder, "cpu").predict([(text, "用药") for text in TEXTS])
    asked = [{"text": text, "text_pair": "用药"} for text in TEXTS]
    for one, found in zip(ours, pipeline("text-classification", model=folder, device="cpu")(asked), strict=True):
        assert one.scores is not None
        assert found["label"] == one.answer and found["score"] == pytest.approx(max(one.scores), abs=1e-5)
