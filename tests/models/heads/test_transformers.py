"""Saved models in transformers: its classes give our logits, or refuse the folder by name; none gets a fresh head."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import (
    AutoModel,
    AutoModelForMultipleChoice,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    ElectraForSequenceClassification,
    ElectraForTokenClassification,
)

from models import heads
from models.heads.encoders import open_encoder
from models.heads.examples import HeadExample, TokenSequence
from models.heads.task_model import TaskModel
from models.inference import predict
from models.weights.pretrained import load_encoder, save_encoder
from tests.support.heads.other_encoders import VectorEncoder, register
from tests.support.heads.tiny_heads import OPTIONS, SIZES

LAYOUTS: dict[str, dict[str, Any]] = {
    "bert": {},
    "electra": {"embedding_size": 16},
    "roformer": {"positions": "rotary"},
    "roformer-projected": {"positions": "rotary", "embedding_size": 16, "hidden_dropout": 0.1},
}
CLASSES = {
    "single": AutoModelForSequenceClassification,
    "pair": AutoModelForSequenceClassification,
    "multi_label": AutoModelForSequenceClassification,
    "ranking": AutoModelForSequenceClassification,
    "choice": AutoModelForMultipleChoice,
    "tagging": AutoModelForTokenClassification,
}
WITHOUT_CLASS = {"tagging_crf": "yiwen-tagging-crf", "two_stream": "yiwen-two_stream", "triples": "yiwen-triples"}


def model_with(kind: str, layout: str, **more: Any) -> TaskModel:
    """A model whose weights, biases too, are far from their initial values."""
    name, options = OPTIONS[kind]
    model = heads.build(name, SIZES | LAYOUTS[layout], seed=1, **options | more).eval()
    torch.manual_seed(2)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def padded(sequences: Sequence[TokenSequence]) -> dict[str, Tensor]:
    longest = max(len(one.input_ids) for one in sequences)

    def filled(rows: list[np.ndarray]) -> Tensor:
        return torch.tensor(np.stack([np.pad(row, (0, longest - len(row))) for row in rows]))

    return {
        "input_ids": filled([one.input_ids for one in sequences]),
        "token_type_ids": filled([one.type_ids for one in sequences]),
        "attention_mask": filled([np.ones(len(one.input_ids), np.int64) for one in sequences]),
    }


def own_logits(model: TaskModel, example: HeadExample) -> Tensor:
    batch = model.collate([HeadExample(example.sequences)])
    return model.classifier(model.encode(batch)) if model.name == "tagging" else model.logits(batch)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", CLASSES)
def test_transformers_class_gives_our_logits(kind: str, layout: str, make_examples: Callable, tmp_path: Path) -> None:
    model, examples = model_with(kind, layout), make_examples(kind)
    model.save(tmp_path)
    theirs, report = CLASSES[kind].from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert type(theirs).__name__ == model.transformers_class == theirs.config.architectures[0]
    theirs.eval()
    with torch.no_grad():
        for example in examples:
            given = padded(example.sequences)
            if kind == "choice":
                found = theirs(**{name: tensor[None] for name, tensor in given.items()}).logits[0, :, None]
            else:
                found = theirs(**given).logits
            torch.testing.assert_close(found.squeeze(0), own_logits(model, example).squeeze(0), rtol=1e-5, atol=1e-5)
        if kind not in ("choice", "tagging"):  # padding changes nothing
            together = theirs(**padded([example.sequences[0] for example in examples])).logits
            ours = torch.cat([own_logits(model, example) for example in examples])
            torch.testing.assert_close(together, ours, rtol=1e-5, atol=1e-5)
    assert isinstance(AutoModel.from_pretrained(tmp_path), torch.nn.Module)  # the encoder alone, as before
    loaded = heads.load(tmp_path)
    for first, second in zip(predict(model, examples), predict(loaded, examples), strict=True):
        np.testing.assert_array_equal(first, second)


def test_labels_are_those_given_and_their_number_is_checked(tmp_path: Path) -> None:
    model_with("multi_label", "bert").save(tmp_path, ["发热", "头痛", "咳嗽", "乏力"])
    config = AutoModelForSequenceClassification.from_pretrained(tmp_path).config
    assert config.id2label == {0: "发热", 1: "头痛", 2: "咳嗽", 3: "乏力"}
    assert config.label2id == {"发热": 0, "头痛": 1, "咳嗽": 2, "乏力": 3}
    assert config.problem_type == "multi_label_classification"
    model_with("tagging", "roformer").save(tmp_path, ["O", "B-dis", "I-dis", "I-dis", "B-dis"])
    config = AutoModelForTokenClassification.from_pretrained(tmp_path).config
    assert config.id2label == {0: "O", 1: "B-dis", 2: "I-dis", 3: "I-dis", 4: "B-dis"}
    assert config.label2id == {"O": 0, "B-dis": 1, "I-dis": 2}
    with pytest.raises(ValueError, match="2 labels were given for a head with 3 outputs"):
        model_with("single", "bert").save(tmp_path, ["a", "b"])


@pytest.mark.parametrize("layout", ["bert", "roformer"])
@pytest.mark.parametrize("kind", WITHOUT_CLASS)
def test_heads_that_transformers_lacks_are_refused_by_name(
    kind: str, layout: str, make_examples: Callable, tmp_path: Path
) -> None:
    model = model_with(kind, layout)
    model.save(tmp_path)
    assert model.transformers_class is None
    for loader in (AutoModel, *set(CLASSES.values())):
        with pytest.raises(ValueError, match=f"model type `{WITHOUT_CLASS[kind]}`"):
            loader.from_pretrained(tmp_path)
    for direct in (ElectraForTokenClassification, ElectraForSequenceClassification):
        with pytest.raises(OSError, match=r"no file named model\.safetensors"):
            direct.from_pretrained(tmp_path)
    encoder, report = AutoModel.from_pretrained(tmp_path / "encoder", output_loading_info=True)
    assert not report["missing_keys"] and encoder.config.hidden_size == 32
    loaded, examples = heads.load(tmp_path), make_examples(kind)
    with torch.no_grad():
        assert torch.equal(loaded(model.collate(examples))["loss"], model(model.collate(examples))["loss"])
    assert torch.equal(open_encoder(tmp_path).embeddings.word.weight, model.encoder.embeddings.word.weight)


@pytest.mark.parametrize("kind", ["single", "pair", "multi_label", "ranking", "choice"])
def test_labels_that_are_read_from_the_mean_are_refused_by_name(
    kind: str, make_examples: Callable, tmp_path: Path
) -> None:
    model, examples = model_with(kind, "bert", pooling="mean"), make_examples(kind)
    model.save(tmp_path)
    assert model.transformers_class is None
    with pytest.raises(ValueError, match=f"model type `yiwen-{kind}-mean`"):
        AutoModel.from_pretrained(tmp_path)
    loaded = heads.load(tmp_path)
    assert loaded.config() == model.config()
    for first, second in zip(predict(model, examples), predict(loaded, examples), strict=True):
        np.testing.assert_array_equal(first, second)


def test_more_classes_than_a_classifier_holds_are_refused_by_name(tmp_path: Path) -> None:
    """32 hidden units hold 16 classes, two units each."""
    for classes in (16, 17):
        folder = tmp_path / str(classes)
        model_with("single", "bert", num_labels=classes).save(folder)
    assert AutoModelForSequenceClassification.from_pretrained(tmp_path / "16").config.num_labels == 16
    with pytest.raises(ValueError, match="model type `yiwen-single`"):
        AutoModelForSequenceClassification.from_pretrained(tmp_path / "17")
    assert heads.load(tmp_path / "17").config()["num_labels"] == 17


def test_encoders_of_other_kinds_are_refused_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    register(monkeypatch)
    heads.build("single", VectorEncoder(torch.randn(60, 12), 32), num_labels=2).save(tmp_path)
    with pytest.raises(ValueError, match="model type `yiwen-single`"):
        AutoModelForSequenceClassification.from_pretrained(tmp_path)


@pytest.mark.parametrize("kind", OPTIONS)
def test_models_saved_before_transformers_had_their_heads_still_predict(
    kind: str, make_examples: Callable, tmp_path: Path
) -> None:
    """Up to version 1 of the stage `finetune`, the folder was the bare encoder's, with the head's two files."""
    model, examples = model_with(kind, "electra"), make_examples(kind)
    save_encoder(model.encoder, tmp_path)
    head = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("encoder.")}
    save_file(head, tmp_path / "head.safetensors", metadata={"format": "pt"})
    (tmp_path / "head.json").write_text(json.dumps({"head": model.name, **model.config()}))
    loaded = heads.load(tmp_path)
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)
    assert len(predict(loaded, examples)) == len(examples)
    assert torch.equal(load_encoder(tmp_path).embeddings.word.weight, model.encoder.embeddings.word.weight)
