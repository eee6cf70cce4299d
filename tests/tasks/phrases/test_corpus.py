"""The text for phrase mining: its size, samples, and segments that are too long."""

from __future__ import annotations

import pytest

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from tasks.phrases import corpus as corpora
from tasks.phrases.words import SEPARATOR, Vocabulary
from tests.support.text.phrase_texts import segments_of


def test_words_are_counted_before_they_are_read(store: ArtifactStore) -> None:
    segments = segments_of(store, ["患者发热。", "HIV阴性"], ["头痛"])
    assert corpora.words_in(segments, "characters") == 12
    assert corpora.words_in(segments, "words") == sum(map(sum, [[3], [2], [1]])) == 6


def test_too_much_text_is_sampled_or_rejected() -> None:
    assert corpora.chosen_share(100, 100, sample=False) == 1
    share = corpora.chosen_share(1000, 100, sample=True)
    chosen = {number for number in range(20_000) if corpora.is_chosen(f"{number}-0", share, seed=1)}
    assert abs(len(chosen) / 20_000 - 0.099) < 0.0064  # three standard deviations
    assert chosen == {number for number in reversed(range(20_000)) if corpora.is_chosen(f"{number}-0", share, seed=1)}
    assert chosen != {number for number in range(20_000) if corpora.is_chosen(f"{number}-0", share, seed=2)}
    with pytest.raises(UserError, match=r"up to 1,000 words.*phrases\.max_words=100.*32 bits.*phrases\.sample=true"):
        corpora.chosen_share(1000, 100, sample=False)


def test_too_long_a_sentence_is_rejected(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "MAX_SENTENCE", 20)
    part = segments_of(store, ["患者。" * 30, "患者" * 30 + "。"]).parts()[0]
    assert corpora.stream_of(part, "words", Vocabulary(), lambda name: name == "0-0").size == 61  # short sentences
    with pytest.raises(UserError, match=r"Segment 0-1 .* a sentence of 30; AutoPhrase takes .*segment\.max_tokens"):
        corpora.stream_of(part, "words", Vocabulary())
    monkeypatch.setattr(corpora, "MAX_SEGMENT", 59)
    with pytest.raises(UserError, match=r"Segment 0-0 has 60 words and marks"):
        corpora.stream_of(part, "words", Vocabulary())


def test_stream_has_words_and_marks(store: ArtifactStore) -> None:
    part = segments_of(store, ["患者 发热。", "", "患者，HIV"]).parts()[0]
    vocabulary = Vocabulary()
    end = corpora.SEGMENT_END
    assert corpora.stream_of(part, "words", vocabulary).tolist() == [
        0,
        1,
        SEPARATOR - 1,
        end,
        end,
        0,
        SEPARATOR,
        2,
        end,
    ]
    assert vocabulary.words == ["患者", "发热", "HIV"]
