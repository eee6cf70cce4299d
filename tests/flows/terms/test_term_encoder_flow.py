"""Flow normalise, deployment encoder, and what its encoder finds by meaning. All data are synthetic."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoModel, AutoTokenizer

from flows import normalise as index_flow
from flows import open_benchmark, term_encoder
from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from models.encoder.config import EncoderConfig
from models.heads.multi_similarity import MultiSimilarityConfig
from models.tokenizer.wordpiece import SPECIAL_TOKENS, save_tokenizer
from models.weights.pretrained import random_encoder, save_encoder
from tasks.normalise.benchmark_stages import queries_of
from tasks.normalise.meaning.concepts import Concepts
from tasks.normalise.meaning.encoder import NameEncoder
from tasks.normalise.meaning.folders import ABOUT_FILE, ENCODER, MEANING, VECTORS_FILE, write_pooling
from tasks.normalise.meaning.params import NameEncoderParams
from tasks.normalise.meaning.search import BY_MEANING
from tasks.normalise.meaning.synonyms import read_pairs
from tasks.normalise.normaliser import Normaliser
from tasks.retrieve.candidates import Entry
from tasks.retrieve.fields import comparable_forms

KINDS = {"A": "肝", "B": "胆", "C": "脾", "D": "肺"}
SIGNS = "甲乙丙丁戊己庚辛壬癸子丑寅卯辰巳午未申酉"
FOLK = "靐龘鱻犇骉羴猋毳淼焱垚鑫麤飍磊矗犨雥驫厵"
OF_KIND = {"A": "燚", "B": "壵", "C": "孨", "D": "劦"}
"""Rare characters, which no everyday name of a disease has."""
LISTED = [(f"{letter}{at:02}", f"{organ}{sign}病", f"{FOLK[at]}{OF_KIND[letter]}畾") for letter, organ in KINDS.items()
          for at, sign in enumerate(SIGNS)]  # fmt: skip
SMALL = {"encoder.epochs": 12, "encoder.batch_sizes": 16, "encoder.learning_rates": 0.01, "encoder.ema_decay": None,
         "pairs.dev_share": 0.1}  # fmt: skip


def save_encoder_of(folder: Path, characters: str, width: int = 32) -> Path:
    """An encoder of random weights whose vocabulary is these characters."""
    tokens = [*SPECIAL_TOKENS, *dict.fromkeys(characters)]
    sizes = {"hidden_size": width, "num_layers": 1, "num_heads": 2, "intermediate_size": 64, "max_positions": 32}
    config = EncoderConfig(vocab_size=len(tokens), hidden_dropout=0.0, attention_dropout=0.0, **sizes)
    save_encoder(random_encoder(config, 0), folder)
    save_tokenizer(tokens, folder, 32)
    return folder


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A list, and a graph with a folk name for each disease that shares no character with the list's name."""
    folder = tmp_path_factory.mktemp("term-encoder")
    (folder / "list.csv").write_text("编码,名称\n" + "".join(f"{code},{term}\n" for code, term, _ in LISTED))
    subjects = {f"{term}症": {"ICD10": [code], "别称": [f"慢性{term}", folk]} for code, term, folk in LISTED}
    (folder / "cmekg.pkl").write_bytes(pickle.dumps(subjects))
    words = "".join(term + folk for _, term, folk in LISTED) + "慢性症"
    return {"terms": str(folder / "list.csv"), "graph": str(folder / "cmekg.pkl"), "home": str(folder / "home"),
            "model": str(save_encoder_of(folder / "model", words))}  # fmt: skip


@pytest.fixture
def home(given: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> ArtifactStore:
    monkeypatch.setenv("YIWEN_HOME", given["home"])
    monkeypatch.setenv("YIWEN_WORKERS", "1")  # no Ray for a handful of lines
    return ArtifactStore(given["home"])


def graphs_of(given: dict[str, str]) -> dict[str, Any]:
    return {"cmekg": {"format": "cmekg", "path": given["graph"]}}


def encoder_of(given: dict[str, str]) -> Path:
    """The trained encoder; the first call trains it, the others find it finished."""
    graphs, overrides = graphs_of(given), dict(SMALL)
    return Path(
        term_encoder.normalise.fn(model=given["model"], terms=given["terms"], graphs=graphs, overrides=overrides)
    )


def index_of(given: dict[str, str]) -> Path:
    return Path(
        index_flow.normalise.fn(
            rank=False, terms=given["terms"], graphs=graphs_of(given), encoder=str(encoder_of(given))
        )
    )


def latest(store: ArtifactStore, stage: str) -> Artifact:
    found = store.latest(stage)
    assert found is not None
    return found


def test_nothing_of_the_benchmark_is_learnt_and_negatives_are_siblings(given, home) -> None:
    encoder_of(given)
    pairs, mentions = latest(home, "synonym_pairs"), latest(home, "benchmark_mentions")
    rows = read_pairs(pairs).to_dicts()
    queries = {query.text for split in ("dev", "test") for query in queries_of(mentions, split)}
    learnt = {name for row in rows for name in (row["first"], row["second"], *row["negatives"])}
    of_list = {term for _, term, _ in LISTED}
    assert queries and not (learnt - of_list) & queries
    assert any("畾" in name for name in learnt), "names of train are learnt"
    category = {term: code[:3] for code, term, _ in LISTED}
    for row in rows:
        assert row["concept"] not in row["negative_concepts"]
        assert {row["category"]} == {category[name] for name in (row["first"], row["second"]) if name in category} or (
            not {row["first"], row["second"]} & of_list
        )
    report = json.loads(pairs.read_file("report.json"))
    assert report["counts"]["pairs_train"] + report["counts"]["pairs_dev"] == len(rows)


def test_transformers_loads_the_encoder_and_gives_the_same_vectors(given, home) -> None:
    folder = encoder_of(given)
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    names = ["肝甲病", "靐燚畾", "慢性肺丁病"]
    for name, vector in zip(names, NameEncoder.of_folder(folder).vectors(names), strict=True):
        states = model(**tokenizer(name, return_tensors="pt")).last_hidden_state[0, 1:-1].mean(0)
        np.testing.assert_allclose(vector, (states / states.norm()).detach().numpy(), atol=1e-5)


def test_an_index_with_vectors_finds_by_meaning_and_says_so(given, home) -> None:
    encoder = encoder_of(given)
    learnt = {row["first"] for row in read_pairs(latest(home, "synonym_pairs")).to_dicts()}
    # The list alone: no term of it shares a character with a folk name.
    folder = index_flow.normalise.fn(rank=False, terms=given["terms"], synonyms=False, encoder=str(encoder))
    settings: dict[str, Any] = {"threshold": 0.0, "refuses": False}
    united, alone = Normaliser(folder, **settings), Normaliser(folder, encoder=False, **settings)
    codes = {folk: code for code, _, folk in LISTED if folk in learnt}
    first = {}
    for name, normaliser in (("both", united), ("characters", alone)):
        found = normaliser.normalise(list(codes))
        first[name] = {
            one.diagnosis: one.answers[0]
            for one in found
            if one.answers and one.answers[0].code == codes[one.diagnosis]
        }
    assert len(first["both"]) > len(codes) / 2
    assert not first["characters"]
    for text, answer in first["both"].items():
        if text not in first["characters"]:
            assert answer.match is not None and answer.match.source == BY_MEANING
            if not answer.match.matched:
                assert 0.0 <= answer.confidence < 0.5, "nothing says that it is right, so it goes to review"
    # What characters put first is found by them, with the same confidence.
    (one,), (other,) = united.normalise(["肝甲病"]), alone.normalise(["肝甲病"])
    assert (one.answers[0].code, one.answers[0].match.source) == ("A00", "")
    assert one.answers[0].confidence == pytest.approx(other.answers[0].confidence, abs=0.2)
    assert [each.answers for each in united.normalise(["", "？"])] == [(), ()]


def test_an_index_without_vectors_takes_an_encoder_when_it_is_opened(given, home) -> None:
    plain = index_flow.normalise.fn(rank=False, terms=given["terms"], graphs=graphs_of(given))
    texts = [folk for _, _, folk in LISTED[:6]]
    opened = Normaliser(plain, encoder=encoder_of(given)).normalise(texts)
    stored = Normaliser(index_of(given)).normalise(texts)
    assert [one.considered[:3] for one in opened] == [one.considered[:3] for one in stored]


def test_the_open_benchmark_says_what_each_part_gives(given, home) -> None:
    given_lists = {name: given[name] for name in ("terms", "graph")}
    folder = open_benchmark.normalise.fn(**given_lists, encoder=str(encoder_of(given)))
    rows = json.loads(Path(folder, "table.json").read_text(encoding="utf-8"))
    assert {row["found_by"] for row in rows} == {"characters", "meaning", "both"}
    alone = json.loads(Path(open_benchmark.normalise.fn(**given_lists), "table.json").read_text(encoding="utf-8"))
    assert alone == [row for row in rows if row["found_by"] == "characters"]


def test_unusable_encoders_and_vectors_are_named(given, home, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No encoder was given"):
        term_encoder.normalise.fn(terms=given["terms"])
    (tmp_path / "none").mkdir()
    with pytest.raises(UserError, match=r"none has no config\.json"):
        index_flow.normalise.fn(rank=False, terms=given["terms"], encoder=str(tmp_path / "none"))
    foreign = save_encoder_of(tmp_path / "foreign", "абвгд")
    with pytest.raises(UserError, match="its vocabulary knows none of the names"):
        term_encoder.normalise.fn(
            model=str(foreign), terms=given["terms"], graphs=graphs_of(given), overrides=dict(SMALL)
        )
    index = index_of(given)
    with pytest.raises(UserError, match=r"are of another encoder than .*foreign"):
        Normaliser(index, encoder=foreign)
    larger = save_encoder_of(tmp_path / "larger", "甲")
    shutil.copyfile(Path(given["model"], "tokenizer.json"), larger / "tokenizer.json")
    with pytest.raises(UserError, match="Put the tokeniser there that belongs to the encoder"):
        NameEncoder.of_folder(larger)
    write_pooling(larger, "max")
    with pytest.raises(UserError, match="names the pooling 'max'"):
        index_flow.normalise.fn(rank=False, terms=given["terms"], encoder=str(larger))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / VECTORS_FILE).write_bytes(b"x"), r"vectors\.npy is damaged"),
        (lambda folder: (folder / ABOUT_FILE).write_text("{}"), r"meaning\.json is damaged"),
        (lambda folder: np.save(folder / VECTORS_FILE, np.zeros((3, 32))), "its shape is"),
        (lambda folder: save_encoder_of(folder / ENCODER, "甲乙"), "is not the one that made the vectors"),
    ],
)
def test_a_damaged_index_is_named(damage: Any, message: str, given, home, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(index_of(given), tmp_path / "index"))
    damage(copied / MEANING)
    with pytest.raises(UserError, match=message):
        Normaliser(copied)


def test_defaults_of_the_loss_are_those_of_the_loss() -> None:
    assert MultiSimilarityConfig(**NameEncoderParams().loss) == MultiSimilarityConfig()


def test_names_of_several_concepts_and_held_out_names_are_left_out() -> None:
    concepts = Concepts({"".join(form) for form in comparable_forms(["猪头风", "甲病"])})
    concepts.add_entries(
        [
            Entry("A01", "甲病", ("甲症", "猪头风"), ("graph", "graph")),
            Entry("A02", "乙病", ("甲症", "乙症"), ("graph", "graph")),
        ]
    )
    concepts.add_entities([(("乙症", "鸡胸风"), "疾病"), (("丙药", "丁药"), "药物"), (("乙病", "丁药"), "疾病")])
    found = {tuple(concept.names): concept.category for concept in concepts.finished()}
    # 甲症 is a name of both; 甲病 is held out, but the list itself has it; an entity of both concepts joins neither.
    assert found == {("甲病",): "A01", ("乙病", "乙症", "鸡胸风"): "A02", ("丙药", "丁药"): "药物"}
    assert concepts.counts["names_held_out"] >= 1
    assert concepts.counts["graph_entities_of_several_concepts"] == 1
