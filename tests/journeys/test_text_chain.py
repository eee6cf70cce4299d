"""From files to examples: whatever the order in which parts finish, every byte of every artifact is the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from infra import builds
from infra.artifacts import Artifact, ArtifactStore
from infra.builds import Unit
from infra.stage import Executor, SerialExecutor, Stage, StageParams, run
from tasks.clean.stage import CleanParams, clean
from tasks.deduplicate.stage import DeduplicateParams, deduplicate
from tasks.files.raw_input import RawInput
from tasks.ingest.stage import IngestParams, ingest
from tasks.pretrain.encode import EncodeParams, encode
from tasks.segment.stage import SegmentParams, segment
from tasks.vocabulary.stages import CountWordsParams, VocabularyParams, count_words, vocabulary


class BackwardsExecutor:
    """Does the last unit first, as workers may."""

    in_process = True

    def run(
        self, place: builds.BuildPlace, function: Callable[..., None], units: Sequence[Unit]
    ) -> Iterator[builds.WorkRecord]:
        yield from SerialExecutor().run(place, function, list(reversed(units)))


def write_corpus(folder: Path) -> RawInput:
    """Four files of sentences with repeats across them, and a broken row."""
    folder.mkdir()
    for file in range(4):
        texts = [
            f"<p>第{n % 70}例患者，男，{n % 70}岁。</p>" + "口服Aspirin 100mg，复查胸部CT，TSHR阳性，ⅡA期。" * 3
            for n in range(file * 40, file * 40 + 60)
        ]
        rows = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
        (folder / f"{file}.jsonl").write_text(rows + "{broken\n", encoding="utf-8")
    return RawInput(folder)


def chain(store: ArtifactStore, corpus: RawInput, executor: Executor) -> list[Artifact]:
    made: list[Artifact] = []

    def do(work: Stage[Any], params: StageParams, **inputs: Any) -> Artifact:
        made.append(run(work, store, params, inputs, executor=executor).artifact)
        return made[-1]

    documents = do(ingest, IngestParams(bytes_per_part=6_000), corpus=corpus)
    documents = do(clean, CleanParams(), documents=documents)
    documents = do(deduplicate, DeduplicateParams(documents_per_bucket=50), documents=documents)
    words = do(count_words, CountWordsParams(sample_documents=40), documents=documents)
    built = do(vocabulary, VocabularyParams(size=150, min_frequency=2), words=words)
    segments = do(segment, SegmentParams(max_tokens=50, min_tokens=8), documents=documents, vocabulary=built)
    do(encode, EncodeParams(max_length=52, held_out_share=0.2), segments=segments, vocabulary=built)
    return made


def test_every_artifact_is_the_same_in_any_order_of_work(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    forwards = chain(ArtifactStore(tmp_path / "one"), corpus, SerialExecutor())
    backwards = chain(ArtifactStore(tmp_path / "two"), corpus, BackwardsExecutor())
    for one, two in zip(forwards, backwards, strict=True):
        assert one.fingerprint == two.fingerprint
        assert one.manifest.tables == two.manifest.tables  # hashes of all parts among it
        assert one.manifest.files == two.manifest.files
        assert one.manifest.counters == two.manifest.counters


def test_the_chain_says_what_became_of_every_row(tmp_path: Path) -> None:
    ingested, cleaned, kept, _, _, segments, examples = chain(
        ArtifactStore(tmp_path / "one"), write_corpus(tmp_path / "corpus"), SerialExecutor()
    )
    assert len(ingested.parts("documents")) > 4
    assert (ingested.rows("documents"), ingested.rows("rejects")) == (240, 4)
    assert cleaned.rows("documents") == 240
    assert kept.rows("documents") + kept.rows("duplicates") == 240
    assert kept.rows("documents") == 70
    assert segments.rows("rejects") == 0
    assert examples.rows("examples") + examples.rows("held_out") == segments.rows("segments")
    assert "truncated_segments" not in examples.manifest.counters
    assert examples.manifest.counters["unknown_tokens"] == 0
