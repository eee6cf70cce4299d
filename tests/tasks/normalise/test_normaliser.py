"""Flow and command `normalise`: from a list and labelled diagnoses to answers in a file. All data are synthetic."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from transformers import pipeline

from flows.cli import main
from flows.normalise import normalise
from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from tasks.finetune.compare import compare_runs, open_run
from tasks.finetune.trials import grid as finetune_grid
from tasks.finetune.trials.result import RESULT, TrialResult, read_result
from tasks.finetune.trials.run import Listener, run_trial
from tasks.finetune.trials.scores import TRIALS
from tasks.finetune.trials.trial import Trial
from tasks.normalise.files import ADDED, normalise_file, open_normaliser
from tasks.normalise.normaliser import DECISION, Normaliser, load_ranker
from tasks.normalise.queries.settings import QUERIES_FILE
from tasks.normalise.ranking.data import LabelledDiagnoses, RankerData, load_ranker_data, save_ranker_data
from tasks.normalise.ranking.pairs import Pair
from tasks.normalise.ranking.trial import RankerTrial
from tasks.normalise.scores import SCORES
from tasks.reports.normaliser import hard_cases
from tasks.retrieve.candidates import Candidate
from tasks.retrieve.embedded import EmbeddedIndex
from tests.support.heads import toy_task as toy

ORGANS = ("肺", "胃", "肝", "肾", "脑")
KINDS = ("炎", "癌", "结石", "囊肿")
TERMS = [(f"{organ_code}{kind:02d}", organ + name) for organ_code, organ in zip("JKNMG", ORGANS, strict=True)
         for kind, name in enumerate(KINDS)]  # fmt: skip
SMALL: dict[str, Any] = {
    "normaliser.epochs": 2,
    "normaliser.batch_sizes": 32,
    "normaliser.learning_rates": 3e-3,
    "normaliser.seeds": 1,
    "normaliser.k": 10,
    "normaliser.hard_negatives": 3,
    "normaliser.random_negatives": 1,
}


def rows(skip: int) -> list[dict[str, str]]:
    """Return diagnoses with an extra word, and a compound of two."""
    single = [{"text": f"患有{term}", "normalized_result": term} for _, term in TERMS[skip::2]]
    first, second = TERMS[skip][1], TERMS[skip + 5][1]
    return [*single, {"text": f"{first}伴{second}", "normalized_result": f"{first}##{second}"}]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("normalise")
    (folder / "list.csv").write_text("编码,名称\n" + "".join(f"{code},{term}\n" for code, term in TERMS))
    data = folder / "CHIP-CDN"
    data.mkdir()
    labels = [{"text": "肺部阴影", "normalized_result": "肺占位性病变"}]
    for split, content in (("train", rows(0) + labels), ("dev", rows(1))):
        (data / f"CHIP-CDN_{split}.json").write_text(json.dumps(content, ensure_ascii=False))
    test = [{"text": row["text"], "normalized_result": ""} for row in rows(2)]
    (data / "CHIP-CDN_test.json").write_text(json.dumps(test, ensure_ascii=False))
    return {"terms": str(folder / "list.csv"), "data": str(data), "model": str(toy.save_toy_encoder(folder / "model"))}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The function of the flow. Stages run without Prefect, and artifacts of one test are reused by the next."""
    monkeypatch.setenv("YIWEN_HOME", str(home))
    monkeypatch.delenv("ELASTICSEARCH_URL", raising=False)
    return normalise.fn


@pytest.fixture
def trained(run: Any, given: dict[str, str]) -> Path:
    return Path(run(rank=True, synonyms=False, overrides=SMALL, **given))


def test_trained_normaliser_answers_from_its_folder(trained: Path, given: dict[str, str]) -> None:
    answers = Normaliser(trained, device="cpu").normalise(["患有肺炎", "胃癌", "？"])
    assert [one.diagnosis for one in answers] == ["患有肺炎", "胃癌", "？"]
    assert answers[0].terms and {one.term for one in answers[0].terms} <= {term for _, term in TERMS}
    assert answers[1].terms[0].term == "胃癌" and answers[1].terms[0].score == 1.0
    assert answers[1].terms[0].code == dict((term, code) for code, term in TERMS)["胃癌"]
    assert answers[2].terms == () == answers[2].considered


def test_ranker_gives_its_probabilities_in_transformers(trained: Path) -> None:
    term = Candidate("", "胃炎", 0.0)
    (judged,) = load_ranker(trained / "model", "cpu").judge(["患有肺炎"], [[term]], [1])
    ask = pipeline("text-classification", model=str(trained / "model"), device="cpu", top_k=None)
    found = {one["label"]: one["score"] for one in ask({"text": "患有肺炎", "text_pair": "胃炎"})}
    assert found["1"] == pytest.approx(judged.probabilities[0], abs=1e-5) and set(found) == {"0", "1"}


def test_scores_agree_with_the_predictions(trained: Path, home: Path) -> None:
    artifact = ArtifactStore(home).latest("normaliser")
    assert artifact is not None
    dev = [row for row in artifact.to_table("predictions").to_pylist() if row["split"] == "dev"]
    given_sets = [(set(json.loads(row["gold"])), set(json.loads(row["answer"]))) for row in dev]
    hits = sum(len(gold & answer) for gold, answer in given_sets)
    f1 = 2 * hits / sum(len(gold) + len(answer) for gold, answer in given_sets)
    rows = artifact.scan("scores").filter(split="dev", of="best run").collect().to_dicts()
    scores = {row["metric"]: row["value"] for row in rows}
    assert scores["normalisation_f1"] == pytest.approx(f1)
    assert scores["recall_at_100"] == 1.0, "the whole list is among the candidates"
    ranks = [row for row in artifact.to_table("gold_ranks").to_pylist() if row["split"] == "dev"]
    assert [(row["record_id"], row["term"]) for row in ranks] == [
        (row["record_id"], term) for row in dev for term in json.loads(row["gold"])
    ]
    assert sum(row["rank"] == 1 for row in ranks) == round(scores["accuracy_at_1"] * len(dev))
    held = json.loads(artifact.read_file(SCORES))
    assert held["dev"]["diagnoses"] == {"all": len(dev), "1 term": len(dev) - 1, "2 terms": 1}


def test_labels_missing_from_the_list_are_terms(trained: Path) -> None:
    answer = Normaliser(trained, device="cpu").normalise(["肺占位性病变"])[0]
    assert (answer.terms[0].term, answer.terms[0].code) == ("肺占位性病变", "")


def test_submission_is_written_for_the_test_file(trained: Path, given: dict[str, str]) -> None:
    submitted = json.loads((trained / "CHIP-CDN_test.json").read_text())
    asked = json.loads(Path(given["data"], "CHIP-CDN_test.json").read_text())
    assert [row["text"] for row in submitted] == [row["text"] for row in asked]
    assert all(row["normalized_result"] for row in submitted)


def test_page_shows_scores_and_hard_cases(trained: Path, home: Path) -> None:
    report = ArtifactStore(home).latest("report_normaliser")
    assert report is not None
    page = report.read_file("report.html").decode()
    assert "Recall of the candidates" in page and "Missed, and no candidate" in page and "mean on dev" in page


def test_hard_cases_distinguish_missed_and_missing_candidates() -> None:
    def wrong(record: str, answer: list[str], value: float | None) -> dict[str, Any]:
        return {"record_id": record, "texts": [record], "answer": json.dumps(answer), "correct": False, "value": value}

    predictions = [
        wrong("甲", ["A"], 0.9),
        wrong("乙", ["B", "X"], 0.5),
        wrong("丙", [], None),
        wrong("戊", ["D", "Y"], 0.7),
        {**wrong("对", ["E"], 1.0), "correct": True},
    ]
    places = [("甲", "A", 1), ("甲", "C", 7), ("乙", "A", None), ("乙", "C", 3), ("丙", "F", None), ("戊", "D", 2)]
    ranks = [{"record_id": record, "term": term, "rank": rank} for record, term, rank in places]
    found = {section["name"]: section["rows"] for section in hard_cases(predictions, ranks)}
    assert found == {
        "Missed although a candidate": [["甲", "A (1) ## C (7)", "A", "0.900"]],
        "Missed, and no candidate": [
            ["乙", "A (no candidate) ## C (3)", "B ## X", "0.500"],
            ["丙", "F (no candidate)", "", ""],
        ],
        "Too many terms": [["戊", "D (2)", "D ## Y", "0.700"]],
    }


def test_same_inputs_are_trained_once(trained: Path, run: Any, given: dict[str, str], home: Path) -> None:
    before = ArtifactStore(home).list()
    assert Path(run(rank=True, synonyms=False, overrides=SMALL, **given)) == trained
    assert ArtifactStore(home).list() == before


def test_two_normalisers_are_compared_by_a_paired_test(
    trained: Path, run: Any, given: dict[str, str], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hasty = {**SMALL, "normaliser.epochs": 1, "normaliser.learning_rates": 1e-6, "normaliser.k": 2}
    other = open_run(run(rank=True, synonyms=False, overrides=hasty, **given))
    found = compare_runs(open_run(trained), other)
    values = [
        run.scan("scores").filter(split="dev", main=True, of="best run").collect()["value"].item()
        for run in (open_run(trained / "model"), other)
    ]
    assert (found["first"], found["second"]) == tuple(values) and found["records"] == len(rows(1))
    assert found["difference"] == pytest.approx(values[0] - values[1])
    assert found["low"] <= found["difference"] <= found["high"] and 0 < found["p_value"] <= 1
    assert main(["compare", str(trained), str(other.path)]) == 0
    assert "chip-cdn, normalisation_f1 on 11 records of dev" in capsys.readouterr().out


GRID = {**SMALL, "normaliser.seeds": [1, 2], "normaliser.epochs": [1, 3], "normaliser.max_length": 8}


SIGNS = {"发热": "炎", "肿物": "癌", "头痛": "囊肿"}
"""Words that resemble no name, so that a ranker has to learn their meaning."""


def signs(skip: int) -> list[dict[str, str]]:
    made = [
        {"text": organ + sign, "normalized_result": organ + kind} for organ in ORGANS for sign, kind in SIGNS.items()
    ]
    return made[skip::2]


@pytest.fixture(scope="module")
def harder(given: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    data = tmp_path_factory.mktemp("harder")
    for split, content in (("train", rows(0) + 4 * signs(0)), ("dev", rows(1) + signs(1))):
        (data / f"CHIP-CDN_{split}.json").write_text(json.dumps(content, ensure_ascii=False))
    return {**given, "data": str(data)}


@pytest.fixture
def searched(run: Any, harder: dict[str, str]) -> Artifact:
    """The run of two settings with two seeds."""
    return open_run(run(rank=True, synonyms=False, overrides=GRID, **harder))


def test_grid_is_searched_and_the_setting_with_the_best_mean_wins(searched: Artifact) -> None:
    rows = searched.scan("scores").filter(of="trial", metric="normalisation_f1", split="dev").collect()
    found = {(row["epochs"], row["seed"]): row["value"] for row in rows.to_dicts()}
    assert found.keys() == {(epochs, seed) for epochs in (1, 3) for seed in (1, 2)}
    best = rows.filter(best=True).to_dicts()[0]
    means = {epochs: (found[epochs, 1] + found[epochs, 2]) / 2 for epochs in (1, 3)}
    assert means[best["epochs"]] == max(means.values())
    assert best["value"] == max(found[best["epochs"], seed] for seed in (1, 2))
    held = json.loads(searched.read_file(TRIALS))
    curves = {one["name"]: [point["score"] for point in one["curve"]] for one in held["trials"]}
    assert [len(curve) for curve in curves.values()] == [1, 1, 3, 3]
    assert max(curves[held["best"]]) == best["value"]
    (chosen,) = (one for one in held["trials"] if one["name"] == held["best"])
    assert json.loads(searched.read_file(DECISION)) == {**chosen["extra"]["decision"], "k": 10, "max_length": 8}
    (own,) = searched.scan("scores").filter(of="best run", main=True, split="dev").collect()["value"]
    assert own == pytest.approx(best["value"])


def test_normaliser_truncates_pairs_as_in_training(searched: Artifact) -> None:
    rows = searched.scan("predictions").filter(split="dev").collect().to_dicts()
    answers = Normaliser(searched.path, device="cpu").normalise([row["texts"][0] for row in rows])
    for answer, row in zip(answers, rows, strict=True):
        assert [one.term for one in answer.terms] == json.loads(row["answer"])
        assert [one.score for one in answer.terms] == pytest.approx(row["scores"], abs=1e-6)


def test_trained_and_reported_candidates_are_those_of_the_normaliser(
    run: Any, given: dict[str, str], tmp_path: Path
) -> None:
    # The name of the last code of a category resembles no diagnosis: only siblings bring it among ten of 48 candidates.
    organs = "肺胃肝肾脑心脾肠眼耳鼻骨"
    terms = [
        (f"J{20 + place}.{kind}", f"{organ}炎{kind}型" if kind < 3 else f"余{chr(0x4E00 + 7 * place)}")
        for place, organ in enumerate(organs)
        for kind in range(4)
    ]
    (tmp_path / "list.csv").write_text("编码,名称\n" + "".join(f"{code},{term}\n" for code, term in terms))
    last = [term for _, term in terms][3::4]
    labelled = [
        {"text": f"患有{organ}炎0型", "normalized_result": term} for organ, term in zip(organs, last, strict=True)
    ]
    for split, content in (("train", labelled[:6]), ("dev", labelled[6:]), ("test", labelled[6:8])):
        (tmp_path / f"CHIP-CDN_{split}.json").write_text(json.dumps(content, ensure_ascii=False))
    places = {"terms": str(tmp_path / "list.csv"), "data": str(tmp_path)}
    artifact = open_run(run(rank=True, synonyms=False, overrides=SMALL, **{**given, **places}))
    answers = Normaliser(artifact.path, device="cpu").normalise([row["text"] for row in labelled[6:]])
    considered = [{one.term for one in answer.considered} for answer in answers]
    assert all(term in own and len(own) == 10 for term, own in zip(last[6:], considered, strict=True))
    recall = json.loads(artifact.read_file(SCORES))["dev"]["recall"]["all"]
    assert recall["10"] == 1.0
    rows = artifact.scan("predictions").filter(split="dev").collect().to_dicts()
    assert [json.loads(row["answer"]) for row in rows] == [[one.term for one in own.terms] for own in answers]


class Killed(Exception):
    pass


def test_killed_grid_resumes_after_its_last_complete_epoch(
    searched: Artifact, harder: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path))
    reported: list[tuple[str, float]] = []

    def grid(dies_at: tuple[str, float]) -> str:
        def watched(trial: Trial, listen: Listener) -> TrialResult:
            def both(epoch: float, best: float) -> None:
                reported.append((trial.name, epoch))
                if reported[-1] == dies_at:
                    raise Killed
                listen(epoch, best)

            return run_trial(trial, both)

        monkeypatch.setattr(finetune_grid, "run_trial", watched)
        return normalise.fn(rank=True, synonyms=False, overrides=GRID, **harder)

    names = [f"b32-lr0.003-e{epochs}-s{seed}" for epochs in (1, 3) for seed in (1, 2)]
    with pytest.raises(Killed):
        grid(dies_at=(names[2], 2.0))  # an epoch is reported before it is stored
    assert reported == [(names[0], 1.0), (names[1], 1.0), (names[2], 1.0), (names[2], 2.0)]
    reported.clear()
    again = open_run(grid(dies_at=("", 0.0)))
    assert reported == [(names[2], 2.0), (names[2], 3.0), *((names[3], epoch) for epoch in (1.0, 2.0, 3.0))]
    assert again.fingerprint == searched.fingerprint
    for table in ("scores", "predictions"):
        assert again.to_table(table).equals(searched.to_table(table))
    for name in ("model/model.safetensors", "model/head.safetensors", DECISION, SCORES):
        assert again.read_file(name) == searched.read_file(name)


def test_training_stops_without_improvement(run: Any, given: dict[str, str]) -> None:
    still = {**SMALL, "normaliser.epochs": 9, "normaliser.patience": 1, "normaliser.learning_rates": 1e-9}
    (trial,) = json.loads(open_run(run(rank=True, synonyms=False, overrides=still, **given)).read_file(TRIALS))[
        "trials"
    ]
    assert trial["stopped"] == "patience" and len(trial["curve"]) == 2


def test_result_of_other_data_or_settings_is_not_reused(tmp_path: Path) -> None:
    trial = RankerTrial(
        task="chip-cdn",
        model="m",
        data="here",
        data_version="1",
        storage=str(tmp_path),
        batch_size=32,
        learning_rate=1e-4,
        epochs=2,
        seed=1,
    )
    Path(trial.folder).mkdir()
    Path(trial.folder, RESULT).write_text(TrialResult(trial=trial, stopped="finished", score=0.5).model_dump_json())
    moved = trial.model_copy(update={"data": "there", "knowledge": "elsewhere"})  # the model checks their content
    found = read_result(moved)
    assert found is not None and found.score == 0.5 and found.trial.data == "there"
    assert read_result(trial.model_copy(update={"data_version": "2"})) is None
    assert read_result(trial.model_copy(update={"dropout": 0.1})) is None


def test_ranker_data_round_trip(tmp_path: Path) -> None:
    pairs = [Pair("胃病", "胃炎", True), Pair("胃病", "肺炎", False)]
    found = [[Candidate("K29", "胃炎", 3.5), Candidate("", "胃癌", 0.1)], []]
    dev = LabelledDiagnoses(["胃病", "？"], [1, 2], found, [("胃炎", "胃癌"), ("肺炎",)])
    version = save_ranker_data(str(tmp_path), pairs, dev)
    assert load_ranker_data(str(tmp_path)) == RankerData(pairs, dev)
    assert save_ranker_data(str(tmp_path), pairs, dev) == version != save_ranker_data(str(tmp_path), pairs[:1], dev)


def test_index_without_a_ranker_normalises_by_likeness(run: Any, given: dict[str, str]) -> None:
    folder = run(rank=False, synonyms=False, terms=given["terms"])
    normaliser = Normaliser(folder)
    assert not normaliser.is_trained
    answers = normaliser.normalise(["肝囊肿", "肺炎伴胃癌"])
    assert [one.term for one in answers[0].terms] == ["肝囊肿"]
    assert {one.term: one.part for one in answers[1].answers} == {"肺炎": "肺炎", "胃癌": "胃癌"}
    scores = [one.score for one in answers[1].terms]
    assert scores == sorted(scores, reverse=True), "the surest comes first"


def test_without_a_ranker_each_part_gets_its_best_candidate(run: Any, tmp_path: Path) -> None:
    terms = ["E11.0,2型糖尿病伴有昏迷", "E11,2型糖尿病", "E11.9,2型糖尿病不伴有高血压", "I10,特发性（原发性）高血压"]
    (tmp_path / "list.csv").write_text("编码,名称\n" + "\n".join(terms) + "\n", encoding="utf-8")
    normaliser = Normaliser(run(rank=False, synonyms=False, terms=str(tmp_path / "list.csv")))
    answers = normaliser.normalise(["2型糖尿病伴高血压", "高血压、2型糖尿病、T2DM", "2型糖尿病伴有昏迷"])
    # The third diagnosis is itself a term.
    assert [{one.code for one in own.terms} for own in answers] == [{"E11", "I10"}, {"E11", "I10"}, {"E11.0"}]
    for own in answers:
        assert [one[:2] for one in own.terms] == [one[:2] for one in own.considered[: len(own.terms)]]
        assert len(set(own.considered)) == len(own.considered) <= len(terms)


def test_without_a_ranker_a_compound_covered_by_one_term_has_one_answer(run: Any, tmp_path: Path) -> None:
    terms = [
        "I85.0,食管静脉曲张伴有出血",
        "I85.9,食管静脉曲张",
        "A98.0,克里米亚出血热",
        "K80.2,胆囊结石不伴有胆囊炎",
        "K81,胆囊炎",
    ]
    (tmp_path / "list.csv").write_text("编码,名称\n" + "\n".join(terms) + "\n", encoding="utf-8")
    normaliser = Normaliser(run(rank=False, synonyms=False, terms=str(tmp_path / "list.csv")))
    answers = normaliser.normalise(["食管静脉曲张伴出血", "食管静脉曲张（重度）伴出血", "胆囊结石伴胆囊炎"])
    assert [{one.code for one in own.terms} for own in answers] == [{"I85.0"}, {"I85.0"}, {"K80.2", "K81"}]


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, str]:
    """Tables with one row each."""
    (tmp_path / "short.csv").write_text("short,expansion,place\nfy,肺炎,anywhere\n", encoding="utf-8")
    (tmp_path / "wrong.csv").write_text("wrong,right\n魏,胃\n", encoding="utf-8")
    return {"abbreviations": str(tmp_path / "short.csv"), "typos": str(tmp_path / "wrong.csv")}


def first_candidates(folder: str | Path, *diagnoses: str) -> list[str]:
    found = Normaliser(folder, device="cpu").normalise(diagnoses)
    return [one.considered[0].term if one.considered else "" for one in found]


def test_own_tables_are_stored_with_index_and_normaliser(
    run: Any, given: dict[str, str], tables: dict[str, str]
) -> None:
    plain = run(rank=False, synonyms=False, terms=given["terms"])
    assert first_candidates(plain, "FY", "魏") == ["", ""]
    own = run(rank=False, synonyms=False, terms=given["terms"], **tables)
    trained = run(rank=True, synonyms=False, overrides={**SMALL, "normaliser.epochs": 1}, **given, **tables)
    wanted = Path(tables["abbreviations"])
    wanted.write_text(wanted.read_text().replace("肺炎", "脑癌"))
    assert first_candidates(own, "FY", "魏") == ["肺炎", "胃炎"], "the index keeps the table that was read"
    assert {one.term for one in Normaliser(trained, device="cpu").normalise(["FY"])[0].considered} >= {"肺炎"}
    changed = run(rank=False, synonyms=False, terms=given["terms"], **tables)
    assert first_candidates(changed, "FY") == ["脑癌"], "the table's content is part of the fingerprint"


def test_disabled_rules_stay_disabled(run: Any, given: dict[str, str], tables: dict[str, str]) -> None:
    def index(*keys: str, **own: str) -> str:
        overrides = {f"index.queries.{key}": False for key in keys}
        return run(rank=False, synonyms=False, terms=given["terms"], overrides=overrides, **own)

    (whole,) = Normaliser(index("split")).normalise(["肺炎伴胃癌"])
    assert len(whole.unsure) == 1 and whole.terms == (), "one name has half of it only"
    without = index("abbreviations", typos=tables["typos"])
    assert first_candidates(without, "COPD", "魏") == ["", "胃炎"]
    assert index("abbreviations", "typos") != index("abbreviations")


def test_damaged_rules_error_names_the_file(run: Any, given: dict[str, str], tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run(rank=False, synonyms=False, terms=given["terms"]), copy)
    (copy / QUERIES_FILE).write_text('{"typos": []}')
    with pytest.raises(UserError, match=r"queries\.json is damaged"):
        Normaliser(copy)


def test_output_keeps_the_columns_of_the_input(trained: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_bytes('病历号,诊断,备注\n7,肺癌,"a,b"\n8,,=1+1\n'.encode("gb18030"))
    counts = normalise_file(open_normaliser(trained), source, target)
    assert str(counts) == "2 diagnoses: 1 coded, 0 uncertain, 0 refused, 1 empty"
    written = list(csv.DictReader(target.read_text(encoding="utf-8-sig").splitlines()))
    assert list(written[0]) == ["病历号", "诊断", "备注", *ADDED]
    assert written[0]["备注"] == "a,b" and written[0]["normalised_term"].split("##")[0] == "肺癌"
    assert [len(written[0][name].split("##")) for name in ADDED[1:6]] == [len(written[0][ADDED[0]].split("##"))] * 5
    assert json.loads(written[0]["candidates"])[0]["term"] == "肺癌"
    assert {name: written[1][name] for name in ADDED if written[1][name]} == {"status": "empty"}
    assert written[1]["备注"] == "'=1+1"  # a spreadsheet must not run it


def test_cells_may_contain_unusual_line_separators(trained: Path, tmp_path: Path) -> None:
    soft = "".join(map(chr, (0x0B, 0x0C, 0x85, 0x2028)))
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(f"id,诊断,备注\n1,肺{soft}癌,x\n2,肺癌,y\n", encoding="utf-8")
    assert normalise_file(open_normaliser(trained), source, target).rows == 2
    with target.open(encoding="utf-8-sig", newline="") as file:
        written = [[row[name] for name in ("id", "诊断", "备注")] for row in csv.DictReader(file)]
    assert written == [["1", f"肺{soft}癌", "x"], ["2", "肺癌", "y"]]
    source = tmp_path / "in.txt"
    source.write_text(f"肺{soft}癌\n\n肺癌\n", encoding="utf-8")
    assert normalise_file(open_normaliser(trained), source, target).rows == 3


def test_interrupted_run_leaves_files_unchanged(trained: Path, tmp_path: Path) -> None:
    class Broken(Normaliser):
        def stream(self, diagnoses: Any, progress: Any = None) -> Any:
            yield from super().stream(diagnoses[:1])
            raise RuntimeError("interrupted")

    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("诊断\n肺癌\n肺炎\n", encoding="utf-8")
    target.write_text("of an earlier run", encoding="utf-8")
    with pytest.raises(RuntimeError, match="interrupted"):
        normalise_file(Broken(trained), source, target)
    with pytest.raises(UserError, match="is the input itself"):
        normalise_file(open_normaliser(trained), source, source)
    assert target.read_text(encoding="utf-8") == "of an earlier run"
    assert source.read_text(encoding="utf-8") == "诊断\n肺癌\n肺炎\n"
    assert {file.name for file in tmp_path.iterdir()} == {"in.csv", "out.csv"}


@pytest.mark.parametrize(
    ("options", "written"),
    [
        ([], 10),
        (["--candidates", "3"], 3),
        (["--candidates", "99"], len(TERMS)),
        (["--candidates", "9", "--k", "4"], 4),
    ],
)
def test_requested_number_of_candidates_is_written(
    run: Any, given: dict[str, str], tmp_path: Path, options: list[str], written: int
) -> None:
    folder = run(rank=False, synonyms=False, terms=given["terms"])
    # All terms of the list share a character with it.
    (tmp_path / "in.txt").write_text("肺胃肝肾脑炎癌结石囊肿\n", encoding="utf-8")
    source, target = str(tmp_path / "in.txt"), tmp_path / "out.csv"
    assert main(["normalise", "--model", folder, "--input", source, "--output", str(target), *options]) == 0
    (row,) = csv.DictReader(target.read_text(encoding="utf-8-sig").splitlines())
    assert len(json.loads(row["candidates"])) == written


def test_candidates_can_be_omitted_and_invalid_numbers_are_errors(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("肺炎\n", encoding="utf-8")
    asked = ["normalise", "--input", str(tmp_path / "in.txt"), "--output", str(tmp_path / "out.csv")]
    assert main([*asked, "--candidates", "0"]) == 0
    (row,) = csv.DictReader((tmp_path / "out.csv").read_text(encoding="utf-8-sig").splitlines())
    assert row["candidates"] == "" and row["normalised_term"]
    assert main([*asked, "--candidates", "-1"]) == 2 and "give 0 or more" in capsys.readouterr().err
    assert main([*asked, "--k", "0"]) == 2 and "give 1 to 10,000" in capsys.readouterr().err


def test_command_uses_the_newest_normaliser(
    trained: Path, run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("胃结石\n脑癌\n")
    target = tmp_path / "out.tsv"
    assert main(["normalise", "--input", str(tmp_path / "in.txt"), "--output", str(target)]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"{target}: 2 diagnoses: 2 coded, 0 uncertain, 0 refused, 0 empty"
    terms = [line.split("\t")[1].split("##")[0] for line in target.read_text(encoding="utf-8-sig").splitlines()[1:]]
    assert terms == ["胃结石", "脑癌"]


def test_training_searches_the_server_where_the_list_was_published(
    run: Any, given: dict[str, str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index replaces the server here; the alias for searching must be the published one."""
    seen: list[tuple[str, str]] = []

    def published(terms: Artifact, index: Artifact, alias: str) -> None:
        seen.append(("published", alias))

    def opened(own: EmbeddedIndex, alias: str) -> EmbeddedIndex:
        seen.append(("opened", alias))
        return own

    monkeypatch.setattr("flows.normalise.publish_terms", published)
    monkeypatch.setattr("tasks.normalise.train.open_server_index", opened)
    hasty = {**SMALL, "normaliser.epochs": 1}
    run(rank=True, synonyms=False, alias="gastro", overrides={**hasty, "normaliser.engine": "elasticsearch"}, **given)
    assert seen == [("published", "gastro"), ("opened", "gastro")]
    plain = run(rank=True, synonyms=False, overrides=SMALL, **given)
    assert run(rank=True, synonyms=False, alias="gastro", overrides=SMALL, **given) == plain, (
        "without a server the alias does not matter"
    )


def test_alias_without_a_server_is_an_error(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.txt").write_text("胃结石\n")
    asked = ["normalise", "--input", str(tmp_path / "in.txt"), "--output", str(tmp_path / "out.csv")]
    assert main([*asked, "--alias", "gastro"]) == 2
    assert "The alias 'gastro' refers to a list on a server. Add --elasticsearch" in capsys.readouterr().err
    assert main([*asked, "--alias", "gastro", "--elasticsearch"]) == 2
    assert "ELASTICSEARCH_URL is not set" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "name", "options", "message"),
    [
        ("a,b\n1,2\n", "in.csv", {}, "no column with a usual name"),
        ("a,b\n1,2\n", "in.csv", {"column": "c"}, "no column 'c'"),
        ("", "in.csv", {}, "is empty"),
        ("text\n肺炎,胃癌\n", "in.csv", {}, "row 1: 2 fields"),
        ("text,candidates\n肺炎,\n", "in.csv", {}, "already has a column 'candidates'"),
        ("肺炎", "in.doc", {}, "must be a .csv, .tsv, .txt, .xlsx file"),
    ],
)
def test_unusable_input_file_is_reported(
    trained: Path, tmp_path: Path, content: str, name: str, options: dict[str, str], message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        normalise_file(open_normaliser(trained), tmp_path / name, tmp_path / "out.csv", **options)


def test_invalid_parameters_are_reported_before_any_work(
    run: Any, given: dict[str, str], tables: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "fault.csv").write_text("short,expansion,place\na,b,start\n", encoding="utf-8")
    for options, message in (
        ({"rank": True, "data": given["data"]}, "No encoder"),
        ({"rank": True, "model": given["model"]}, "No data"),
        ({"rank": False, "overrides": {"normaliser.epoch": 2}}, "did you mean 'normaliser.epochs'"),
        ({"rank": False, "overrides": {"normaliser.learning_rate": 1e-4}}, "did you mean 'normaliser.learning_rates'"),
        ({"rank": False, "overrides": {"normaliser.batch_size": 32}}, "did you mean 'normaliser.batch_sizes'"),
        ({"rank": False, "overrides": {"normaliser.seed": 1}}, "did you mean 'normaliser.seeds'"),
        ({"rank": False, "overrides": {"normaliser.seeds": []}}, "normaliser.seeds is .*must have at least 1"),
        ({"rank": True, **given, "overrides": {"normaliser.max_length": 100}}, "more than the encoder's 64 positions"),
        ({"rank": False, "overrides": {"normaliser.k": 0}}, "normaliser.k is 0 .*at least 1"),
        ({"rank": False, "overrides": {"normaliser.k": 20_000}}, "normaliser.k is 20000 .*10000"),
        (
            {"rank": False, "overrides": {f"index.fields.{name}": 0 for name in ("exact", "characters", "bigrams")}},
            "no field is searched",
        ),
        ({"rank": False, "overrides": {"index.queries.splits": False}}, "did you mean 'index.queries.split'"),
        ({"rank": False, "abbreviations": "nowhere.csv"}, "nowhere.csv does not exist"),
        ({"rank": False, "abbreviations": str(tmp_path)}, "a table must be one local CSV file"),
        ({"rank": False, "abbreviations": str(tmp_path / "fault.csv")}, "fault.csv, row 2: place 'start'"),
        ({"rank": False, "typos": tables["abbreviations"]}, r"lacks the columns \['wrong', 'right'\]"),
        (
            {"rank": False, "typos": tables["typos"], "overrides": {"index.queries.typos": False}},
            "is given, but index.queries.typos is false",
        ),
        ({"rank": False, "alias": "ICD 10"}, "'ICD 10' is not a valid index name"),
    ):
        with pytest.raises(UserError, match=message):
            run(**{"terms": given["terms"], "synonyms": False, **options})


def test_folder_without_an_index_is_reported(tmp_path: Path) -> None:
    damaged = tmp_path / "normaliser"
    damaged.mkdir()
    with pytest.raises(UserError, match="contains no normaliser"):
        Normaliser(damaged)


def test_damaged_decision_error_names_the_file(trained: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    (copy / DECISION).write_text("{")
    with pytest.raises(UserError, match=r"decision\.json is damaged"):
        Normaliser(copy)
