"""Acc@1 of encoders and word vectors: vectors of names, ties, chance, leaks, and what is told of bad input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, BertConfig, BertModel

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import Output, StageParams, run, stage
from models.encoder.config import EncoderConfig
from models.weights.pretrained import random_encoder, save_encoder
from models.word_vectors import WordVectors
from tasks.downstream.features.alignment import TextTokenizer
from tasks.evaluate.similarity.learnt import graphs_behind, joined_by
from tasks.evaluate.similarity.name_vectors import EncoderNames, WordNames
from tasks.evaluate.similarity.params import SimilarityScoresParams, SimilarityTableParams
from tasks.evaluate.similarity.scores import similarity_scores, summarise
from tasks.evaluate.similarity.table import similarity_table
from tasks.files.raw_input import RawInput
from tasks.finetune.inputs import ModelFolder
from tests.support.graphs.equal_names import PAIRS, graphs_of, held_out_of
from tests.support.graphs.knowledge_models import save_text_encoder
from tests.support.heads.other_encoders import MentionEncoder, register
from tests.support.text.stages import do
from tests.support.text.tokenizers import VOCABULARY, save_ours, save_vocab_txt

NAMES = ["高血压病", "血压高", "糖尿病", "肺部感染", "肺感染", "A药"]


class GivenSamples(StageParams):
    rows: list[dict[str, Any]]


@stage(name="similarity_sets", version=1, params=GivenSamples, tables=("similarity_samples",))
def given_samples(inputs: Any, params: GivenSamples, out: Output) -> None:
    with out.part() as part:
        part.write("similarity_samples", params.rows)


def samples_of(store: ArtifactStore, *rows: tuple[str, str, list[str]], **flags: bool) -> Artifact:
    flags = {"is_close": False, "is_rare": True, **flags}
    made = [
        {"entity_id": f"e{number // 2}", "type": "Disease", "query": query, "truth": truth, "negatives": wrong, **flags}
        for number, (query, truth, wrong) in enumerate(rows)
    ]
    return do(store, given_samples, GivenSamples(rows=made))


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=len(VOCABULARY), max_position_embeddings=12, **sizes)).save_pretrained(folder)
    return save_vocab_txt(folder)


def test_vectors_are_means_of_the_last_layer_as_transformers_has_it(bert: Path) -> None:
    model, tokenizer = BertModel.from_pretrained(bert).eval(), AutoTokenizer.from_pretrained(bert)
    found = EncoderNames.of_folder(bert).vectors([*NAMES, NAMES[0]])
    for name, vector in zip(NAMES, found, strict=False):
        with torch.no_grad():
            states = model(**tokenizer(name, return_tensors="pt")).last_hidden_state[0]
        np.testing.assert_allclose(vector, states[1:-1].mean(0), atol=1e-5)
    assert (found[-1] == found[0]).all()


def test_names_without_known_tokens_have_no_vector_and_long_ones_are_cut(bert: Path) -> None:
    encoder = EncoderNames.of_folder(bert)
    long = "高血压病" * 5
    unknown, cut, short = encoder.vectors(["龘龘", long, long[:10]])
    assert not unknown.any() and (cut == short).all() and cut.any()
    assert not encoder.vectors(["龘", ""]).any()


def test_an_encoder_with_knowledge_finds_the_mentions_of_a_name_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch)
    tokenizer = TextTokenizer.from_folder(save_ours(tmp_path))
    sizes = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "intermediate_size": 32, "max_positions": 32}
    text = random_encoder(EncoderConfig(vocab_size=len(VOCABULARY), **sizes), 0)
    (known,) = tokenizer.words(["糖尿病"])
    MentionEncoder(text, [known.ids.tolist()]).save(tmp_path)
    save_encoder(text, tmp_path / "plain")
    save_ours(tmp_path / "plain")
    names = ["糖尿病", "高血压病", "有糖尿病"]
    found, plain = (EncoderNames.of_folder(folder).vectors(names) for folder in (tmp_path, tmp_path / "plain"))
    changed = ~np.isclose(found, plain).all(1)
    assert changed.tolist() == [True, False, True]


def test_knowledge_is_given_to_a_model_away_from_its_store(tmp_path: Path, bert: Path) -> None:
    folder = save_text_encoder(tmp_path / "store")
    arrays = str(tmp_path / "store" / "knowledge_arrays" / "k1")
    expected = EncoderNames.of_folder(folder).vectors(NAMES)
    alone = shutil.copytree(folder, tmp_path / "alone")
    (alone / "config.json").write_text((folder / "config.json").read_text().replace(arrays, "knowledge"))
    with pytest.raises(UserError, match="reads the knowledge arrays knowledge_arrays/k1"):
        EncoderNames.of_folder(alone)
    np.testing.assert_array_equal(EncoderNames.of_folder(alone, knowledge=arrays).vectors(NAMES), expected)
    # A model that reads none is compared with it in one run.
    found, plain = (EncoderNames.of_folder(bert, knowledge=given).vectors(NAMES) for given in (arrays, None))
    np.testing.assert_array_equal(found, plain)


def test_fresh_weights_depend_on_the_seed_alone(bert: Path) -> None:
    one, same, other = (EncoderNames.of_folder(bert, seed).vectors(NAMES) for seed in (1, 1, 2))
    assert (one == same).all() and not np.allclose(one, other)
    assert not np.allclose(one, EncoderNames.of_folder(bert).vectors(NAMES))


def vectors_of(**words: list[float]) -> WordVectors:
    return WordVectors(list(words), np.array(list(words.values()), np.float32))


def test_names_are_words_or_means_of_characters() -> None:
    words, characters = vectors_of(糖尿病=[1, 0]), vectors_of(糖=[0, 2], 病=[0, 4], a=[3, 3])
    found = WordNames(words, characters).vectors(["糖尿病", "糖病", "A龘", "龘"])
    np.testing.assert_array_equal(found, [[1, 0], [0, 3], [3, 3], [0, 0]])
    alone = WordNames(characters).vectors(["糖尿病", "糖"])
    np.testing.assert_array_equal(alone, [[0, 3], [0, 2]])
    with pytest.raises(UserError, match="words' vectors have 2 values, the characters' 3"):
        WordNames(words, vectors_of(糖=[1, 2, 3]))


def scored(store: ArtifactStore, sets: Artifact, **inputs: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    made = do(store, similarity_scores, SimilarityScoresParams(rounds=100), sets=sets, **inputs)
    return made.to_table().to_pylist(), json.loads(made.read_file("summary.json"))


def save(folder: Path, vectors: WordVectors) -> RawInput:
    folder.mkdir()
    vectors.save(folder)
    return RawInput(folder)


def test_the_nearest_candidate_answers_and_ties_share(store: ArtifactStore, tmp_path: Path) -> None:
    vectors = vectors_of(甲=[1, 0], 乙=[3, 0.1], 丙=[0, 1], 丁=[0, 2], 戊=[-1, 0])
    sets = samples_of(
        store,
        ("甲", "乙", ["丙", "戊"]),
        ("丙", "丁", ["丙丙", "甲"]),
        ("戊", "乙", ["丙", "丁"]),
        ("龘", "乙", ["丙", "丁"]),
    )
    rows, summary = scored(store, sets, words=save(tmp_path / "vectors", vectors))
    # 丁 and 丙丙 are equally near to 丙; 戊 is nearer to 丙 and 丁 than to 乙; 龘 has no vector.
    assert [row["credit"] for row in rows] == pytest.approx([1, 1 / 2, 0, 1 / 3])
    assert [row["chosen"] for row in rows] == ["乙", "丁", "丁", "丁"]
    d1 = summary["sets"]["d1"]
    assert (d1["samples"], d1["entities"], d1["joined"]) == (4, 2, 0)
    assert d1["accuracy"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 4)
    assert d1["low"] <= d1["accuracy"] <= d1["high"]
    assert summary["sets"]["d2"] is None and summary["sets"]["d3"]["samples"] == 4
    assert summary["unknown_names"] == 1


def test_intervals_resample_entities() -> None:
    row = {"is_close": False, "is_rare": False, "is_joined": False}
    alike = [{**row, "entity_id": f"e{number // 10}", "credit": float(number < 50)} for number in range(100)]
    apart = [{**one, "entity_id": f"e{number}"} for number, one in enumerate(alike)]
    wide, narrow = (summarise(rows, 1_000, 0)["d1"] for rows in (alike, apart))
    assert wide and narrow and wide["accuracy"] == narrow["accuracy"] == 0.5
    assert wide["high"] - wide["low"] > 2 * (narrow["high"] - narrow["low"])
    assert narrow["high"] - narrow["low"] == pytest.approx(2 * 1.96 * 0.05, rel=0.15)


def test_equal_names_of_one_form_are_found_by_spelling(store: ArtifactStore) -> None:
    rows, _ = scored(store, samples_of(store, ("慢性胃炎", "慢性胃病", ["急性肾炎", "肠病"])))
    assert rows[0]["credit"] == 1.0


def test_models_that_know_nothing_are_told(store: ArtifactStore, tmp_path: Path, bert: Path) -> None:
    sets = samples_of(store, ("甲", "乙", ["丙"]))
    with pytest.raises(UserError, match=r"vectors: none of the 3 names has a known word, character or token"):
        scored(store, sets, words=save(tmp_path / "vectors", vectors_of(word=[1, 0])))
    empty = samples_of(store)
    with pytest.raises(UserError, match=r"has no samples: .* lower similarity_sets.similarity"):
        scored(store, empty, model=ModelFolder(bert))
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(UserError, match=r"neither tokenizer\.json nor vocab\.txt"):
        scored(store, sets, model=ModelFolder(tmp_path))


class NoParams(StageParams):
    pass


@stage(name="given_training", version=1, params=NoParams)
def given_training(inputs: Any, params: NoParams, out: Output) -> None:
    out.add_bytes("run", b"")


def test_pairs_that_training_joined_are_counted(store: ArtifactStore, tmp_path: Path, bert: Path) -> None:
    graphs = graphs_of(store, tmp_path)
    sets = samples_of(store, *((one, other, ["高血压病", "糖尿病"]) for one, other in sorted(PAIRS)), is_rare=False)
    joined = {}
    for name, graph in (("whole", graphs["fused"]), ("held out", held_out_of(store, graphs))):
        examples = run(given_training, store, NoParams(), {"entities": graph}).artifact
        checkpoint = run(given_training, store, NoParams(), {"examples": examples}).artifact
        assert [one.fingerprint for one in graphs_behind(checkpoint)] == [graph.fingerprint]
        _, summary = scored(store, sets, model=ModelFolder(bert), checkpoint=checkpoint)
        joined[name] = summary["sets"]["d1"]["joined"]
    assert joined == {"whole": 3, "held out": 0}
    _, foreign = scored(store, sets, model=ModelFolder(bert))
    assert foreign["sets"]["d1"]["joined"] is None


def test_names_are_joined_by_entities_and_triples(store: ArtifactStore, tmp_path: Path) -> None:
    fused = graphs_of(store, tmp_path)["fused"]
    pairs = [
        ("慢性胃甲炎", "发热"),
        ("发热", "慢性胃甲炎"),
        ("慢性胃病", "慢性 胃炎"),
        ("慢性胃病", "慢性肝病"),
        ("龘", "发热"),
    ]
    assert joined_by(pairs, [fused]).tolist() == [True, True, True, False, False]
    assert joined_by(pairs, []).tolist() == [False] * 5


@stage(name="given_records", version=1, params=GivenSamples, tables=("product_records",))
def given_records(inputs: Any, params: GivenSamples, out: Output) -> None:
    with out.part() as part:
        part.write("product_records", params.rows)


def test_records_of_products_join_titles_with_their_values_alone(store: ArtifactStore, tmp_path: Path) -> None:
    rows = [{"title": "慢性胃病", "attribute": "别名", "values": ["慢性胃炎", "胃病"], "held_out": False}]
    graph = graphs_of(store, tmp_path)["graph_own"]
    records = run(given_records, store, GivenSamples(rows=rows), {"graph": graph}).artifact
    checkpoint = run(given_training, store, NoParams(), {"records": records}).artifact
    found = graphs_behind(checkpoint)
    assert [one.stage for one in found] == ["given_records"]  # the graph that they were read from was not learnt
    pairs = [("慢性 胃病", "胃病"), ("慢性胃炎", "慢性胃病"), ("慢性胃炎", "胃病"), ("慢性肝病", "慢性肝炎")]
    assert joined_by(pairs, found).tolist() == [True, True, False, False]


def test_the_table_has_all_models_and_the_published_rows(store: ArtifactStore, bert: Path) -> None:
    sets = samples_of(store, ("高血压病", "血压高", ["糖尿病", "肺感染"]))
    spelling = do(store, similarity_scores, SimilarityScoresParams(rounds=100), sets=sets)
    model = do(store, similarity_scores, SimilarityScoresParams(rounds=100), sets=sets, model=ModelFolder(bert))
    names = {"scores_00": "spelling <b>", "scores_01": "bert"}
    made = do(
        store, similarity_table, SimilarityTableParams(names=names), sets=sets, scores_00=spelling, scores_01=model
    )
    page, table = made.read_file("report.html").decode(), made.read_file("table.md").decode()
    assert "spelling &lt;b&gt;" in page and "SMedBERT" in page and "32.14 %" in page and "5.00 %" in page
    assert [line.split("|")[1].strip() for line in table.splitlines()] == ["Model", "---", "spelling <b>", "bert"]
    assert "100.00 (100.0 to 100.0)" in table and "unknown" in table.splitlines()[3]
