"""From candidates to terms: training pairs, ranking and decision."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from models import heads
from models.encoder.config import EncoderConfig
from models.finetuning import FinetuneConfig, finetune
from tasks.downstream.features.alignment import TextTokenizer
from tasks.normalise.ranking.decision import THRESHOLDS, WEIGHTS, Judged, TermDecision, tune_decision
from tasks.normalise.ranking.pairs import Diagnosis, training_pairs
from tasks.normalise.ranking.ranker import PairEncoder, TermRanker
from tasks.retrieve.candidates import Candidate

TERMS = [f"第{number}型病" for number in range(40)]


def judged(*probabilities: float, parts: int = 1, likeness: tuple[float, ...] = (), terms: str = "甲乙丙丁") -> Judged:
    given = likeness or (1.0,) * len(probabilities)
    found = tuple(Candidate("", term, score) for term, score in zip(terms, given, strict=False))
    return Judged(parts, found, np.array(probabilities))


def answer(decision: TermDecision, one: Judged) -> str:
    return "".join(term.term for term in decision.choose(decision.order(one), one.parts))


def test_candidates_above_the_threshold_are_answers() -> None:
    assert answer(TermDecision(0.5, bounded=False), judged(0.4, 0.9, 0.6)) == "乙丙"


def test_best_candidate_is_the_answer_below_the_threshold() -> None:
    assert answer(TermDecision(0.9), judged(0.1, 0.2)) == "乙"
    assert answer(TermDecision(0.9), judged()) == ""


def test_bounded_decision_returns_at_most_one_term_per_part() -> None:
    assert answer(TermDecision(0.1), judged(0.9, 0.8, 0.7, parts=2)) == "甲乙"


def test_term_with_two_codes_is_one_answer_at_its_better_rank() -> None:
    found = (Candidate("A1", "甲", 0.9), Candidate("B1", "乙", 0.8), Candidate("A2", "甲", 0.7))
    assert [(one.term, one.code) for one in TermDecision(0.5).choose(found, 3)] == [("甲", "A1"), ("乙", "B1")]


def test_order_without_a_ranker_is_that_of_retrieval() -> None:
    found = (Candidate("", "甲", 9.0), Candidate("", "乙", 12.0))
    assert TermDecision().order(Judged(1, found)) == found


def test_scores_follow_the_formula() -> None:
    scores = TermDecision(retrieval_weight=2.0).order(judged(0.8, 0.6, likeness=(3.0, 12.0)))
    expected = {"甲": 1 / (1 + np.exp(-(np.log(0.8 / 0.2) - 2.0 * 0.75))), "乙": 0.6}
    assert {one.term: one.score for one in scores} == pytest.approx(expected)


def test_large_weight_restores_the_order_of_retrieval() -> None:
    one = judged(0.2, 0.3, 0.9, likeness=(9.0, 7.0, 1.0))
    assert [term.term for term in TermDecision(retrieval_weight=100.0).order(one)] == ["甲", "乙", "丙"]
    assert [term.term for term in TermDecision().order(one)] == ["丙", "乙", "甲"]


def test_certain_candidate_stays_first_with_any_weight() -> None:
    one = judged(0.99, 1.0, likeness=(9.0, 1.0))
    assert TermDecision(retrieval_weight=32.0).order(one)[0] == Candidate("", "乙", 1.0)


lists = st.lists(
    st.tuples(
        st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 9), st.sampled_from("甲乙丙丁")), max_size=4),
        st.integers(1, 3),
        st.sets(st.sampled_from("甲乙丙丁戊"), min_size=1),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=20)
@given(lists)
def test_tuned_decision_is_the_best_of_all(
    cases: list[tuple[list[tuple[float, float, str]], int, set[str]]],
) -> None:
    given_judged = [
        judged(
            *(probability for probability, _, _ in own),
            parts=parts,
            likeness=tuple(likeness for _, likeness, _ in own),
            terms="".join(term for _, _, term in own),
        )
        for own, parts, _ in cases
    ]
    gold = [tuple(terms) for *_, terms in cases]

    def f1(decision: TermDecision) -> float:
        answers = [set(answer(decision, each)) for each in given_judged]
        hits = sum(len(given & set(terms)) for given, terms in zip(answers, gold, strict=True))
        return 2 * hits / (sum(map(len, answers)) + sum(map(len, gold)))

    decision, score = tune_decision(given_judged, gold)
    tried = [TermDecision(*one) for one in itertools.product(THRESHOLDS, (True, False), WEIGHTS)]
    assert score == pytest.approx(f1(decision)) == pytest.approx(max(map(f1, tried)))


@pytest.mark.parametrize(
    ("cases", "expected"),
    [
        # Every decision is right: the smallest weight, 0.5, and the bound.
        ([(judged(0.9), "甲")], TermDecision(0.5, True, 0.0)),
        # Only thresholds between 0.61 and 0.7 are right, then only those between 0.39 and 0.4: the nearest to 0.5.
        ([(judged(0.7, 0.61, parts=2), "甲"), (judged(0.9, 0.8, parts=2), "甲乙")], TermDecision(0.62, True, 0.0)),
        ([(judged(0.39, 0.29, parts=2), "甲"), (judged(0.9, 0.4, parts=2), "甲乙")], TermDecision(0.4, True, 0.0)),
        # The bound alone is right, then the lack of it.
        ([(judged(0.97, 0.96), "甲"), (judged(0.98, 0.95, parts=2), "甲乙")], TermDecision(0.5, True, 0.0)),
        ([(judged(0.9, 0.8), "甲乙")], TermDecision(0.5, False, 0.0)),
        # Likeness is needed: the smallest weight with which it is enough.
        ([(judged(0.6, 0.9, likeness=(10.0, 1.0)), "甲")], TermDecision(0.5, True, 2.0)),
    ],
)
def test_of_equally_good_decisions_the_first_is_taken(cases: list[tuple[Judged, str]], expected: TermDecision) -> None:
    decision, score = tune_decision([one for one, _ in cases], [tuple(gold) for _, gold in cases])
    assert (decision, score) == (expected, 1.0)


def test_no_tuned_threshold_asks_for_certainty() -> None:
    """Only a threshold of 1 would part the right term from the others: it is not tried."""
    decision, f1 = tune_decision([judged(1.0, 0.995, 0.995, parts=3)], [["甲"]])
    assert decision.threshold <= 0.98 and f1 == pytest.approx(0.5)


def test_tuning_without_labels_is_an_error() -> None:
    with pytest.raises(ValueError, match="labelled"):
        tune_decision([], [])


DIAGNOSES = [
    Diagnosis("第一种", ("第0型病",), tuple(TERMS[:20])),
    Diagnosis("第二及三种", ("第3型病", "第4型病"), tuple(TERMS[10:16])),
    Diagnosis("没有候选", ("第5型病",), ()),
]


def test_pairs_contain_every_right_term_and_no_pair_twice() -> None:
    pairs = list(training_pairs(DIAGNOSES, TERMS, hard=4, random=3, seed=1))
    assert len({(pair.diagnosis, pair.term) for pair in pairs}) == len(pairs)
    for diagnosis in DIAGNOSES:
        own = [pair for pair in pairs if pair.diagnosis == diagnosis.text]
        assert [pair.term for pair in own if pair.right] == list(diagnosis.terms)
        wrong = [pair.term for pair in own if not pair.right]
        assert not set(wrong) & set(diagnosis.terms)
        assert len(wrong) == min(4, len(diagnosis.found)) + 3
        assert len(set(wrong) & set(diagnosis.found)) >= min(4, len(diagnosis.found))


def test_best_wrong_candidates_are_always_in_pairs() -> None:
    (diagnosis, *_) = DIAGNOSES
    for seed in range(5):
        pairs = training_pairs([diagnosis], TERMS, hard=4, random=0, seed=seed)
        assert {"第1型病", "第2型病"} <= {pair.term for pair in pairs}


def test_pairs_of_a_diagnosis_do_not_depend_on_the_others() -> None:
    whole = list(training_pairs(DIAGNOSES, TERMS, hard=4, random=3, seed=1))
    alone = list(training_pairs(DIAGNOSES[:1], TERMS, hard=4, random=3, seed=1))
    assert whole[: len(alone)] == alone
    assert alone != list(training_pairs(DIAGNOSES[:1], TERMS, hard=4, random=3, seed=2))


def test_short_list_gives_fewer_pairs() -> None:
    pairs = list(training_pairs(DIAGNOSES[:1], TERMS[:2], hard=0, random=9, seed=1))
    assert [(pair.term, pair.right) for pair in pairs] == [("第0型病", True), ("第1型病", False)]


@pytest.fixture(scope="module")
def tokenizer() -> TextTokenizer:
    characters = sorted(set("".join(TERMS) + "的甲状腺肿瘤糖尿冠心衰")) + list("123")
    vocabulary = {token: number for number, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *characters])}
    wordpiece = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    wordpiece.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return TextTokenizer(wordpiece)


def test_pair_is_framed_and_truncated(tokenizer: TextTokenizer) -> None:
    encoder = PairEncoder(tokenizer, max_length=9)
    encoder.learn(["糖尿病" * 9, "肿瘤"])
    (sequence,) = encoder.example("糖尿病" * 9, "肿瘤", True).sequences
    assert len(sequence.input_ids) == 9
    cls, sep = tokenizer.frame(np.array([], dtype=np.int64))[0]
    assert sequence.input_ids[0] == cls and sequence.input_ids[-1] == sep
    assert sequence.type_ids.tolist() == [0] * 6 + [1] * 3


def toy_ranker(tokenizer: TextTokenizer, trained: bool) -> TermRanker:
    """Return a ranker that learns to match diagnoses to similarly written terms, if it is trained."""
    sizes = EncoderConfig(
        vocab_size=tokenizer.size, hidden_size=32, num_layers=2, num_heads=2, intermediate_size=64, max_positions=32
    )
    model = heads.build("pair", sizes, num_labels=2, seed=0)
    if trained:
        letters = "甲状腺肿瘤糖尿冠心衰"
        rows = [Diagnosis(one + "的病", (one + "型病",), tuple(other + "型病" for other in letters)) for one in letters]
        pairs = list(training_pairs(rows, [], hard=4, random=0, seed=0))
        config = FinetuneConfig(epochs=100, batch_size=20, learning_rate=3e-3, ema_decay=None)
        finetune(model, PairEncoder(tokenizer).examples(pairs), config, evaluate=None)
    return TermRanker(model.eval(), tokenizer)


def test_trained_ranker_puts_the_right_term_first(tokenizer: TextTokenizer) -> None:
    found = [Candidate("", letter + "型病", 1.0) for letter in "糖肿瘤冠"]
    (one,) = toy_ranker(tokenizer, trained=True).judge(["冠的病"], [found], [1])
    first, second, *_ = TermDecision().order(one)
    assert first.term == "冠型病"
    assert first.score > 0.5 > second.score


def test_ranking_keeps_all_candidates_and_recognises_equal_names(tokenizer: TextTokenizer) -> None:
    found = [[Candidate("A", "糖型病", 3.0), Candidate("B", "肿瘤（１）", 2.0)], [], [Candidate("C", "冠型病", 1.0)]]
    answers = toy_ranker(tokenizer, trained=False).judge(["肿瘤(1)", "无", "心"], found, [1, 2, 1])
    assert [one.found for one in answers] == [tuple(own) for own in found] and answers[1].parts == 2
    probabilities = [one.probabilities for one in answers]
    assert probabilities[0] is not None and probabilities[0][1] == 1.0 > probabilities[0][0]
    assert all(own is not None and ((own >= 0) & (own <= 1)).all() for own in probabilities)
