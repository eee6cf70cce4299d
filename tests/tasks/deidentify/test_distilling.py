"""Distillation of the encoder: what the small one begins with, learns, and does not learn."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from transformers import RoFormerConfig, RoFormerModel

from tasks.deidentify.explain import explain
from tasks.deidentify.plan import Plan
from tasks.deidentify.recogniser import distilling, encoder, training
from tasks.deidentify.recogniser.distilling import begun, distil, passages
from tasks.deidentify.recogniser.drawing import Line
from tasks.deidentify.recogniser.encoder import READER, Encoder
from tasks.deidentify.recogniser.encoder_training import NONE, Example, Tagger, arrays_of, example_of
from tasks.deidentify.recogniser.labels import LABELS
from tasks.deidentify.recogniser.tagging import MODEL, Model, shipped_recogniser
from tests.support.text.labelled_identifiers import LABELLED, read_sentences

CHARACTERS = np.array(sorted(map(ord, "患者王小明李华诉头痛发热，。")), dtype=np.int32)


pytestmark = pytest.mark.usefixtures("one_thread")


def teacher() -> Tagger:
    """Return a large tagger with random weights, which takes some characters for names."""
    torch.manual_seed(3)
    config = RoFormerConfig(
        vocab_size=len(CHARACTERS) + 2, hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
        intermediate_size=48, type_vocab_size=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        initializer_range=0.3,
    )  # fmt: skip
    tagger = Tagger(RoFormerModel(config), 32)
    with torch.no_grad():
        tagger.head.weight.normal_(std=0.4)
    return tagger


def lines(count: int, labelled: bool = True) -> list[Example]:
    """Return drawn lines, with labels or without."""
    rng = np.random.default_rng(1)
    examples = []
    for _ in range(count):
        text = "".join(rng.choice([*"患者王小明李华诉头痛发热，。"], rng.integers(4, 20)))
        example = example_of(Line(text, ((0, 2, "name"),)), CHARACTERS)
        examples.append(example if labelled else Example(example.rows, np.full(len(example.rows), NONE)))
    return examples


def options(**given: float) -> argparse.Namespace:
    return argparse.Namespace(
        **{"seed": 1, "rate": 3e-3, "characters": 200, "hidden": 0.1, "epochs": 3, "bf16": False, **given}
    )


def test_the_small_one_begins_with_the_components_of_the_embeddings_that_vary_most() -> None:
    large = teacher()
    with torch.no_grad():  # two directions hold most of what embeddings differ in
        held = large.encoder.embeddings.word_embeddings.weight
        held.mul_(0.01)
        held[:, :2] += 3 * torch.randn(len(held), 2)
    small = begun(large, layers=1, width=4, inner=8, heads=2)
    wide, narrow = (torch.cdist(each, each) for each in (held, small.encoder.embeddings.word_embeddings.weight))
    assert torch.allclose(wide, narrow, atol=0.2)
    assert not small.encoder.embeddings.token_type_embeddings.weight.any()


def test_it_learns_what_the_large_one_says_of_text_without_labels(capsys: pytest.CaptureFixture[str]) -> None:
    large, examples = teacher(), lines(600, labelled=False)
    weights = [each.clone() for each in large.parameters()]
    torch.manual_seed(1)
    small = begun(large, layers=1, width=16, inner=32, heads=2)
    distil(large, small, examples, options(epochs=12, rate=1e-2, hidden=0.0))
    assert agreement(large, small, examples) > 0.77  # the label that it gives most often is right for .70
    assert all(torch.equal(one, two) for one, two in zip(weights, large.parameters(), strict=True))
    printed = capsys.readouterr().out.splitlines()
    assert "labels 0.0000" in printed[-1]
    states = [float(line.split("states ")[1].split(",")[0]) for line in printed]
    assert states[-1] < 0.2 < states[0] / 2


def agreement(large: Tagger, small: Tagger, examples: list[Example]) -> float:
    """Return the share of the characters to which both give the same label."""
    same = []
    with torch.no_grad():
        for example in examples[:100]:
            rows = torch.from_numpy(example.rows)[None]
            one, two = (each(rows, torch.ones_like(rows)).argmax(dim=-1) for each in (large, small))
            same.append((one == two).float().mean())
    return float(torch.stack(same).mean())


def test_labels_count_beside_the_large_one(capsys: pytest.CaptureFixture[str]) -> None:
    def loss_of_labels(epochs: int) -> float:
        distil(teacher(), begun(teacher(), 1, 16, 32, 2), lines(300), options(epochs=epochs, hidden=0.0))
        return float(capsys.readouterr().out.splitlines()[-1].split("labels ")[1].split(",")[0])

    assert loss_of_labels(20) < 0.7 * loss_of_labels(1)


def test_equal_seeds_give_equal_weights_and_others_do_not() -> None:
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        small = begun(teacher(), layers=1, width=16, inner=32, heads=2)
        distil(teacher(), small, lines(40), options(seed=seed, epochs=1))
        results.append(arrays_of(small, CHARACTERS, 2))
    assert all(np.array_equal(results[0][name], results[1][name]) for name in results[0])
    assert not np.array_equal(results[0]["layers.0.up"], results[2]["layers.0.up"])


def test_passages_are_of_each_source_and_of_the_length_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_TEXTS", {"one": ("a", "b"), "two": ("c",)})
    pq.write_table(pa.table({"a": ["患者头痛。" * 40, None], "b": ["发热，" * 90, ""]}), tmp_path / "one.parquet")
    pq.write_table(pa.table({"c": ["王小明诉头痛。"] * 50}), tmp_path / "two.parquet")
    found = passages(tmp_path, CHARACTERS, most=3, seed=1)
    assert len(found) == 6
    assert max(len(each.rows) for each in found) <= 2 * distilling.PASSAGE
    assert all((each.labels == NONE).all() and len(each.labels) == len(each.rows) for each in found)
    again = passages(tmp_path, CHARACTERS, most=3, seed=1)
    assert all(np.array_equal(one.rows, two.rows) for one, two in zip(found, again, strict=True))


def test_the_weights_that_are_shipped_are_small_and_read_sure_places_alone() -> None:
    with np.load(READER) as held:
        reader = Encoder(dict(held))
    assert READER.stat().st_size < 1 << 20
    assert reader.least_lead == 300 and reader.layers == 2
    assert reader.scores("患者").shape == (2, len(LABELS))


@pytest.mark.parametrize(
    ("text", "found", "linear"),
    [
        ("许多昨天的CT胶片在姚倩倩抽屉，还没拿走", [("许多", "encoder"), ("姚倩倩", "recogniser")], ["姚倩倩"]),
        ("患者（幸福）：主任，我血糖空腹8.9，二甲双胍一天三片够吗", [("幸福", "recogniser")], []),  # it is sure
        ("管理员：新进群的请改备注，格式 城市+病种+昵称", [], ["新进群"]),  # refuted
        ("洪暴雨后常有皮肤病", [], ["洪"]),
    ],
)
def test_the_recogniser_reads_with_it_by_default(text: str, found: list[tuple[str, str]], linear: list[str]) -> None:
    assert [(one.written, one.rule) for one in explain(text, Plan())[1]] == found
    assert [text[one.start : one.end] for one in Model(MODEL)(text)] == linear


def test_a_mark_is_no_name() -> None:
    text = '{"姓名":"张伟","text":"患者血压平稳。"}\n'
    assert explain(text, Plan())[0] == text.replace("张伟", "〔姓名〕")


def test_without_its_weights_the_linear_model_works_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(encoder, "READER", tmp_path / "absent.npz")
    found = shipped_recogniser.__wrapped__()("洪暴雨后常有皮肤病")
    assert [one.type for one in found] == ["name"]


def test_it_takes_no_medical_value_away() -> None:
    for text, spans in read_sentences(LABELLED.with_name("medical_values.jsonl"))[::6]:
        replaced = {at for one in explain(text, Plan())[1] for at in range(one.start, one.end)}
        assert all(replaced.isdisjoint(range(start, end)) for start, end, kind in spans if kind == "value"), text
