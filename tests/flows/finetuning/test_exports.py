"""Exports in transformers and as ONNX: whole cards, the pipelines that fit, and answers equal to ours."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from transformers import AutoModel, AutoTokenizer, pipeline

from flows.cli import main
from flows.pretrain import pretrain
from infra.artifacts import Artifact, ArtifactStore
from models import heads
from models.encoder.layout import Layout
from models.heads.encoders import open_encoder, open_plain_encoder
from tasks.downstream.features.shapes import TaskShape
from tasks.downstream.records import Kind
from tasks.finetune.predict import Predictor
from tasks.finetune.saved_model import save_task_model
from tasks.pretrain.model_card import held_out_figures
from tests.support.heads import toy_task as toy
from tests.support.processes.permissions import without_override
from tests.support.text.synthetic_text import write_corpus
from tests.support.training.tiny_flow import TWO_STEPS

pytestmark = pytest.mark.slow

TEXTS = ["糖尿病患者常出现乏力", "高血压"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with a tiny BERT, trained in this process on text with names."""
    folder = tmp_path_factory.mktemp("exports")
    texts = write_corpus(folder / "texts")
    (texts / "notes.txt").write_text(
        "患者王伟，男，52岁，电话13812345678，因糖尿病乏力三天入院治疗。", encoding="utf-8"
    )
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("YIWEN_HOME", str(folder / "home"))
        patch.setenv("YIWEN_WORKERS", "1")
        patch.setattr(
            "tasks.training.launch.run_child",
            lambda work, log, progress: importlib.import_module(work.module).main([work.run_path, "--quiet"]),
        )
        given: dict[str, Any] = {
            "model.positions": "absolute",
            "export.license": "apache-2.0",
            "export.name": "toy-bert",
        }
        given |= {"ingest.source_of": {"notes.txt": "emr"}}
        pretrain.fn("bert-tiny", str(texts), overrides=TWO_STEPS | given)
        yield folder / "home"
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)


def newest(home: Path, stage: str) -> Artifact:
    found = ArtifactStore(home).latest(stage)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def encoder(home: Path) -> Path:
    return Path(newest(home, "export").path)


@pytest.fixture(scope="module")
def with_heads(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heads") / "bert"
    run = str(newest(home, "train").path)
    assert main(["export", "--run", run, "--output", str(folder), "--form", "pre_training"]) == 0
    return folder


def test_card_is_one_that_hubs_read(home: Path, encoder: Path) -> None:
    card = ModelCard.load(encoder / "README.md")
    assert (card.data.language, card.data.license, card.data.library_name) == ("zh", "apache-2.0", "transformers")
    assert card.data.pipeline_tag == "feature-extraction" and {"bert", "chinese"} <= set(card.data.tags or [])
    assert card.data.model_name == "toy-bert"
    figures = held_out_figures(newest(home, "train"))
    found = {one.metric_type: one.metric_value for one in card.data.eval_results or []}
    assert found == pytest.approx(figures, abs=1e-6) and "mlm_accuracy" in found
    counters = newest(home, "deidentify").manifest.counters
    replaced = sum(count for name, count in counters.items() if name.startswith("replaced_"))
    assert replaced and f"De-identified (profile `minimal`): {replaced:,} identifiers" in card.content
    assert "mobile 1" in card.content and "| ingest | 101 documents" in card.content
    for section in ("## Data", "## Training", "## Held-out text", "## Licence", "## Limits", "pipeline("):
        assert section in card.content
    assert str(home) not in card.content


def test_card_without_a_licence_says_so(with_heads: Path) -> None:
    card = ModelCard.load(with_heads / "README.md")
    assert card.data.license is None and "--param export.license=NAME" in card.content
    assert card.data.pipeline_tag == "fill-mask" and "`BertForMaskedLM`" in card.content


def own_states(folder: Path, ids: list[int]) -> np.ndarray:
    encoder = open_plain_encoder(folder).eval()
    with torch.no_grad():
        layout = Layout.from_lengths([len(ids)])
        found: np.ndarray = encoder(torch.tensor(ids), layout).numpy()
    return found


def test_features_are_ours(encoder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    for text, found in zip(TEXTS, pipeline("feature-extraction", model=str(encoder), device="cpu")(TEXTS), strict=True):
        np.testing.assert_allclose(np.array(found[0]), own_states(encoder, tokenizer(text)["input_ids"]), atol=1e-5)


def test_masked_token_is_filled_as_by_our_head(home: Path, with_heads: Path) -> None:
    from models import objectives
    from models.training.checkpoint import load_state
    from tasks.training.run_spec import RunSpec

    run = newest(home, "train")
    spec = RunSpec.model_validate_json(run.read_file("run.json"))
    objective: Any = objectives.build(spec.objective, spec.model)
    objective.load_state_dict(load_state(Path(run.path))["model"])
    objective.eval()
    fill = pipeline("fill-mask", model=str(with_heads), device="cpu")
    ids = fill.tokenizer("糖尿病患者[MASK]出现乏力")["input_ids"]
    place = ids.index(fill.tokenizer.mask_token_id)
    head = objective.head.state_dict()
    with torch.no_grad():
        state_D = objective.encoder(torch.tensor(ids), Layout.from_lengths([len(ids)]))[place]
        table_VD = objective.encoder.embeddings.word.weight
        dense_D = torch.nn.functional.gelu(state_D @ head["transform.weight"].T + head["transform.bias"])
        norm_D = torch.nn.functional.layer_norm(
            dense_D, dense_D.shape, head["norm.weight"], head["norm.bias"], spec.model.get("layer_norm_eps", 1e-12)
        )
        size = len(fill.tokenizer)
        probabilities_V = (norm_D @ table_VD[:size].T + head["bias"][:size]).softmax(0)
    for one in fill("糖尿病患者[MASK]出现乏力", top_k=5):
        assert one["score"] == pytest.approx(probabilities_V[one["token"]].item(), abs=1e-5)


def test_unknown_form_is_refused(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(newest(home, "train").path)
    assert main(["export", "--run", run, "--output", str(tmp_path / "x"), "--form", "generatr"]) == 2
    assert "has no form 'generatr'; there are encoder, pre_training" in capsys.readouterr().err
    assert main(["export", "--output", str(tmp_path / "x")]) == 2
    assert "either --run FOLDER" in capsys.readouterr().err
    assert main(["export", "--model", str(tmp_path), "--output", str(tmp_path / "x")]) == 2
    assert "--model goes with --onnx" in capsys.readouterr().err


def test_folder_that_cannot_be_made_is_named(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(newest(home, "train").path)
    tmp_path.chmod(0o500)
    with without_override():
        assert main(["export", "--run", run, "--output", str(tmp_path / "x")]) == 2
    tmp_path.chmod(0o700)
    assert f"error: {tmp_path / 'x'} cannot be used (Permission denied). Give this user" in capsys.readouterr().err


def test_graph_of_an_encoder_gives_its_states(home: Path, encoder: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    from models.weights.onnx_graph import open_graph

    run = str(newest(home, "train").path)
    assert main(["export", "--run", run, "--output", str(tmp_path / "both"), "--onnx"]) == 0
    graph = open_graph(tmp_path / "both" / "model.onnx")
    tokenizer, model = AutoTokenizer.from_pretrained(encoder), AutoModel.from_pretrained(encoder).eval()
    for texts in (TEXTS, TEXTS[:1], [*TEXTS, "患者"]):
        given = tokenizer(texts, padding=True, return_tensors="pt")
        with torch.no_grad():
            expected = model(**given).last_hidden_state
        (found,) = graph(given)
        kept = given["attention_mask"].bool().numpy()
        np.testing.assert_allclose(found[kept], expected.numpy()[kept], atol=1e-5)


def test_graph_of_a_fine_tuned_model_answers_as_it_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    from models.weights.onnx_graph import open_graph

    start, labels = toy.save_toy_encoder(tmp_path / "encoder"), ("药物", "疾病", "症状")
    torch.manual_seed(1)
    model = heads.build("single", open_encoder(start), num_labels=len(labels))
    for name, parameter in model.named_parameters():
        if not name.startswith("encoder."):
            torch.nn.init.normal_(parameter, std=0.3)
    shape = TaskShape(task="toy", kind=Kind.SINGLE, head="single", max_length=32, labels=labels)
    save_task_model(tmp_path / "model", model, shape, start)
    capsys.readouterr()
    with warnings.catch_warnings(record=True, action="always") as warned:
        assert main(["export", "--model", str(tmp_path / "model"), "--output", str(tmp_path / "onnx"), "--onnx"]) == 0
    assert [str(one.message) for one in warned] == [], "the exporter warns of its own parts"
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (f"Exported {tmp_path / 'onnx' / 'model.onnx'}\n", "")
    graph = open_graph(tmp_path / "onnx" / "model.onnx")
    texts = ["患者头痛，发热。", "用药"]
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "onnx")
    (logits,) = graph(tokenizer(texts, padding=True, return_tensors="pt"))
    ours = Predictor(tmp_path / "model", "cpu").predict(texts)
    np.testing.assert_allclose(
        torch.tensor(logits).softmax(1).numpy(), np.array([one.scores for one in ours]), atol=1e-5
    )
    two_stream = TaskShape(
        task="toy", kind=Kind.NESTED_TAGGING, head="two_stream", max_length=32, labels=("a", "b"),
        streams=(("a",), ("b",)),
    )  # fmt: skip
    nested = heads.build("two_stream", open_encoder(start), **two_stream.head_options)
    save_task_model(tmp_path / "nested", nested, two_stream, start)
    assert main(["export", "--model", str(tmp_path / "nested"), "--output", str(tmp_path / "no"), "--onnx"]) == 2
    assert "transformers has no class for" in capsys.readouterr().err
