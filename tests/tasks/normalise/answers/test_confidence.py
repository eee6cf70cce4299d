"""Confidence of answers: the table, its signs, and the order and meaning of what they give. All data are synthetic."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest

from benchmarks.terms.confidence import calibration_error
from infra.errors import UserError
from tasks.normalise.answers import CONFIDENCE, SIGNS, Calibration, read_calibration, signs_of
from tasks.normalise.normaliser import Normaliser
from tasks.retrieve.candidates import Candidate, Entry
from tasks.retrieve.embedded import EmbeddedIndex
from tasks.retrieve.match import Match

ENTRIES = (
    Entry("J18.9", "肺炎", ("肺部感染",), ("graph",)),
    Entry("I10", "高血压"),
    Entry("I50", "心力衰竭"),
    Entry("I25.1", "冠状动脉粥样硬化性心脏病"),
    Entry("K52.9", "胃肠炎"),
    Entry("L08.9", "皮肤感染"),
    Entry("S82", "小腿骨折"),
    Entry("H91", "听力损失"),
)


@pytest.fixture(scope="module")
def normaliser(tmp_path_factory: pytest.TempPathFactory) -> Normaliser:
    folder = tmp_path_factory.mktemp("index")
    EmbeddedIndex.build(ENTRIES, folder)
    return Normaliser(folder, threshold=0)


def test_signs_are_counted_by_hand() -> None:
    found = [Candidate("J18.9", "肺炎", 8.0), Candidate("J18.0", "支气管肺炎", 6.0), Candidate("K29.7", "胃炎", 2.0)]
    match = Match("左侧肺炎", "肺炎", "graph", ("肺炎",), ("左侧",), 0.5, 1.0, 55.0)
    own = dict(zip(SIGNS, signs_of(found[0], match, found, 2), strict=True))
    assert own == {
        "constant": 1.0,
        "query_share": 0.5,
        "name_share": 1.0,
        "equal": 0.0,
        "margin": 0.75,  # the other code of J18 is no rival
        "from_graph": 1.0,
        "from_english": 0.0,
        "length": math.log(4),
        "compound": 1.0,
        "evidence": 4.0,
        "disease": 1.0,
    }
    behind = dict(zip(SIGNS, signs_of(found[2], match, found, 1), strict=True))
    assert behind["margin"] == -0.75 and behind["compound"] == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_confidence_is_a_logistic_function_of_the_signs(seed: int) -> None:
    calibration, draw = read_calibration(), random.Random(seed)
    values = [draw.uniform(-5, 5) for _ in SIGNS]
    logit = math.fsum(weight * value for weight, value in zip(calibration.weights.values(), values, strict=True))
    assert math.isclose(calibration.confidence(values), 1 / (1 + math.exp(-logit)), rel_tol=1e-9)


def test_exact_names_are_surer_than_half_names_and_nonsense(normaliser: Normaliser) -> None:
    every = Normaliser(normaliser._own.folder, threshold=0, refuses=False)
    found = every.normalise(["肺炎", "肺部感染", "肺部小结节感染", "肺部"])
    sure = [one.answers[0].confidence for one in found]
    assert min(sure[:2]) > 0.9 and max(sure[2:]) < 0.5


def test_answers_are_in_the_order_of_their_confidence_and_say_what_they_answer(normaliser: Normaliser) -> None:
    (one,) = normaliser.normalise(["听力减退、冠状动脉粥样硬化性心脏病"])
    confidences = [answer.confidence for answer in one.answers]
    assert confidences == sorted(confidences, reverse=True) == [term.score for term in one.terms]
    assert [answer.part for answer in one.answers] == ["冠状动脉粥样硬化性心脏病", "听力减退"]
    assert [match.unmatched for match in one.matches if match] == [(), ("减退",)], "a part is matched, not the whole"
    assert [(each.code, each.term) for each in one.considered[:2]] == [
        (answer.code, answer.term) for answer in one.answers
    ]


def test_threshold_parts_the_answers(normaliser: Normaliser) -> None:
    text = "听力减退、冠状动脉粥样硬化性心脏病"
    (all_of_them,) = normaliser.normalise([text])
    middle = sum(answer.confidence for answer in all_of_them.answers) / 2
    (one,) = Normaliser(normaliser._own.folder, threshold=middle).normalise([text])
    assert one.answers + one.unsure == all_of_them.answers and len(one.answers) == 1
    assert one.statuses == ("coded", "review")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("sign,weight\nconstant,1\n", "must have exactly the signs"),
        ("sign,weight\nconstant,much\n", "row 2: the weight 'much' is not a number"),
    ],
)
def test_damaged_table_is_reported(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "weights.csv").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read_calibration(tmp_path / "weights.csv")


def test_table_is_written_as_it_is_read(tmp_path: Path) -> None:
    read_calibration().write(tmp_path / "weights.csv")
    assert (tmp_path / "weights.csv").read_text(encoding="utf-8") == CONFIDENCE.read_text(encoding="utf-8")
    assert Calibration(dict.fromkeys(SIGNS, 0.0)).confidence((1.0,) * len(SIGNS)) == 0.5


def test_calibration_error_is_counted_by_hand() -> None:
    confidence, right = np.array([0.05, 0.15, 0.95, 0.95]), np.array([0.0, 1.0, 1.0, 0.0])
    assert calibration_error(confidence, right) == pytest.approx((0.05 + 0.85 + 2 * 0.45) / 4)
