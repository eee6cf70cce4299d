"""Sentence pairs: what makes a pair, its words and mentions, partners from other documents, and documents too short."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra import builds
from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.schemas import TABLES, conform
from infra.stage import Output, SerialExecutor, StageParams, run, stage
from models.objectives import build
from models.training.columns import read_rows
from tasks.documents import share_of
from tasks.pretrain.pair_rows import choose_pairs, cut, rows_of, split_single_segments, text_of
from tasks.pretrain.pairs import PairsParams, pairs
from tests.support.text.stages import do, reasons_of

CLS, SEP = 2, 3
FIRST = 10
"""The tokens of a corpus are numbered from here, so that each says where it stands."""

Segment = list[int]
"""Tokens of each word."""
Document = list[Segment]


def numbered(documents: Sequence[Document]) -> Iterator[list[list[list[int]]]]:
    """The documents as segments of words of token ids, every id once."""
    following = FIRST
    for document in documents:
        segments = []
        for segment in document:
            ends = list(accumulate(segment, initial=following))
            segments.append([list(range(one, other)) for one, other in pairwise(ends)])
            following = ends[-1]
        yield segments


def example_rows(documents: Sequence[Document], spans: Sequence[tuple[int, int]] = ()) -> list[dict[str, Any]]:
    """Rows of the table examples; `spans` are first and last token ids of mentions."""
    kind = TABLES["examples"].field("mentions").type.value_type
    rows = []
    for number, document in enumerate(numbered(documents)):
        for words in document:
            ids = [CLS, *(token for word in words for token in word), SEP]
            starts = [ids.index(word[0]) for word in words if word]
            inside = [(ids.index(a), ids.index(b) + 1) for a, b in spans if a in ids and b in ids]
            about = {
                one.name: f"E{one.name}" if pa.types.is_string(one.type) else 7
                for one in kind
                if one.name not in ("start", "end")
            }
            mentions = [{"start": start, "end": end, **about} for start, end in inside]
            rows.append(
                {
                    "input_ids": ids,
                    "word_starts": starts,
                    "mentions": mentions,
                    "doc_id": f"d{number}",
                    "source": f"s{number % 2}",
                }
            )
    return rows


SEGMENTS = st.lists(st.integers(1, 4), min_size=1, max_size=7)
CORPORA = st.lists(st.lists(SEGMENTS, min_size=1, max_size=5), min_size=1, max_size=5)
Draws = Callable[[str, str], float]


def draws(seed: int) -> Draws:
    return lambda purpose, key: share_of(key, purpose, seed)


def made(rows: list[dict[str, Any]], ends: list[int], min_words: int, room: int, share: float, draw: Draws) -> Any:
    """Rows of pairs, and the number of mentions that were cut off."""
    table = conform(rows, "examples")
    text, _ = split_single_segments(text_of(table), np.array(ends, dtype=np.int64), min_words)
    chosen, lost = cut(text, choose_pairs(text, room, share, draw), room)
    return rows_of(text, chosen, table.select(["doc_id", "source"])).to_pylist(), lost


def plainly(
    documents: Sequence[Document], ends: list[int], min_words: int, room: int, share: float, draw: Draws
) -> Any:
    """The same in plain Python, over lists of words: A, B and whether B is random, of each pair."""
    segmented = []
    for document in numbered(documents):
        if len(document) == 1:
            document = halves(document[0], ends, min_words)
        segmented.append([joined(words) for words in document])
    begins = {word[0] for document in numbered(documents) for words in document for word in words}
    for number, document in enumerate(segmented):
        for place, (start, stop) in enumerate(chunks(document, room)):
            key = f"d{number}-{place}"
            middle = start + 1 + int(draw("split", key) * (stop - start - 1))
            first, second, is_random = document[start:middle], document[middle:stop], False
            others = [(n, s) for n, one in enumerate(segmented) if n != number for s in range(1, len(one))]
            if draw("random", key) < share and others:
                other, begin = others[int(draw("partner", key) * len(others))]
                left = room - sum(map(len, first))
                taken = segmented[other][begin : begin + len(second)]
                fitting = [size <= left for size in accumulate(map(len, taken))]
                second, is_random = taken[: max(1, sum(fitting))], True
            yield (*shortened(joined(first), joined(second), room, begins), is_random, f"d{number}")


def joined(lists: list[list[int]]) -> list[int]:
    return list(chain.from_iterable(lists))


def halves(words: list[list[int]], ends: list[int], min_words: int) -> list[list[list[int]]]:
    possible = [n for n in range(1, len(words)) if n >= min_words and len(words) - n >= min_words]
    chosen = [n for n in possible if words[n - 1][-1] in ends] or possible
    if not chosen:
        return [words]
    tokens = sum(map(len, words))
    best = min(chosen, key=lambda n: abs(sum(map(len, words[:n])) - tokens / 2))
    return [words[:best], words[best:]]


def chunks(document: list[list[int]], room: int) -> Iterator[tuple[int, int]]:
    start = 0
    while len(document) > 1 and start < len(document):
        start = min(start, len(document) - 2)
        stop = start + 2
        while stop < len(document) and sum(map(len, document[start : stop + 1])) <= room:
            stop += 1
        yield start, stop
        start = stop


def shortened(first: list[int], second: list[int], room: int, begins: set[int]) -> tuple[list[int], list[int]]:
    """A without words at its beginning and B without words at its end, until both fit."""
    rooms = max(room // 2, room - len(second)), max(room // 2, room - len(first))
    if len(first) > rooms[0]:
        kept = first[-rooms[0] :]
        at_word = [place for place, token in enumerate(kept) if token in begins]
        first = kept[at_word[0] :] if at_word else kept
    if len(second) > rooms[1]:
        at_word = [place for place in range(1, rooms[1] + 1) if second[place] in begins]
        second = second[: at_word[-1] if at_word else rooms[1]]
    return first, second


@settings(max_examples=200, deadline=None)
@given(
    documents=CORPORA,
    data=st.data(),
    min_words=st.integers(1, 3),
    room=st.integers(2, 40),
    share=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 9),
)
def test_pairs_are_those_of_a_plain_implementation(
    documents: list[Document], data: st.DataObject, min_words: int, room: int, share: float, seed: int
) -> None:
    tokens = sum(size for document in documents for segment in document for size in segment)
    ends = data.draw(st.lists(st.integers(FIRST, FIRST + tokens), max_size=4))
    spans = data.draw(st.lists(st.tuples(st.integers(FIRST, FIRST + tokens), st.integers(0, 4)), max_size=6))
    spans = [(first, first + more) for first, more in spans]
    draw = draws(seed)
    found, _ = made(example_rows(documents, spans), ends, min_words, room, share, draw)
    expected = list(plainly(documents, ends, min_words, room, share, draw))
    begins = {word[0] for document in numbered(documents) for words in document for word in words}
    segments = [{token for word in words for token in word} for document in numbered(documents) for words in document]
    in_one = [(a, b) for a, b in spans if any(a in segment and b in segment for segment in segments)]
    assert len(found) == len(expected)
    for row, (first, second, is_random, document) in zip(found, expected, strict=True):
        assert row["input_ids"] == [CLS, *first, SEP, *second, SEP]
        assert (row["second"], row["is_random"], row["doc_id"]) == (len(first) + 2, is_random, document)
        assert row["source"] == f"s{int(document[1:]) % 2}"
        assert row["word_starts"] == [place for place, token in enumerate(row["input_ids"]) if token in begins]
        whole = [(a, b) for a, b in in_one if (a in first and b in first) or (a in second and b in second)]
        places = [(row["input_ids"].index(a), row["input_ids"].index(b) + 1) for a, b in whole]
        assert sorted((one["start"], one["end"]) for one in row["mentions"]) == sorted(places)
        assert [one["start"] for one in row["mentions"]] == sorted(one["start"] for one in row["mentions"])


@settings(max_examples=100, deadline=None)
@given(documents=CORPORA, room=st.integers(2, 40), seed=st.integers(0, 9))
def test_what_a_pair_is(documents: list[Document], room: int, seed: int) -> None:
    """True sides are neighbours; random ones are of two documents, and do not begin theirs; none exceeds the room."""
    found, _ = made(example_rows(documents), [], 1, room, 0.5, draws(seed))
    tokens = [[token for words in document for word in words for token in word] for document in numbered(documents)]
    of_token = {token: number for number, document in enumerate(tokens) for token in document}
    for row in found:
        first, second = row["input_ids"][1 : row["second"] - 1], row["input_ids"][row["second"] : -1]
        assert first and second and len(first) + len(second) <= room
        assert row["doc_id"] == f"d{of_token[first[0]]}"
        for side in (first, second):
            assert side == list(range(side[0], side[-1] + 1)) and of_token[side[0]] == of_token[side[-1]]
        if row["is_random"]:
            assert of_token[first[0]] != of_token[second[0]]
            assert second[0] not in {document[0] for document in tokens}
        else:
            assert second[0] == first[-1] + 1


def test_no_text_is_lost_where_it_fits() -> None:
    documents = [[[1, 2, 1]] * count for count in (2, 3, 7, 8)]
    found, _ = made(example_rows(documents), [], 1, 12, 0.0, draws(1))
    seen = {token for row in found for token in row["input_ids"] if token >= FIRST}
    assert len(seen) == 4 * (2 + 3 + 7 + 8)
    assert {len(row["input_ids"]) for row in found} == {3 + 8, 3 + 12}


def test_mentions_that_a_cut_loses_are_counted() -> None:
    rows = example_rows([[[1] * 10, [1] * 10]], spans=[(10, 11), (14, 15), (19, 19), (20, 20), (24, 25), (29, 29)])
    found, lost = made(rows, [], 1, 10, 0.0, draws(1))
    assert found[0]["input_ids"] == [CLS, *range(15, 20), SEP, *range(20, 25), SEP]
    assert [(one["start"], one["end"]) for one in found[0]["mentions"]] == [(5, 6), (7, 8)]
    assert lost == 4


# The stage


class GivenParams(StageParams):
    parts: tuple[tuple[dict[str, Any], ...], ...]
    held_out: tuple[tuple[dict[str, Any], ...], ...]


@stage(name="encode", version=1, params=GivenParams, tables=("examples", "held_out"))
def given_examples(inputs: Mapping[str, Any], params: GivenParams, out: Output) -> None:
    for table, parts in (("examples", params.parts), ("held_out", params.held_out)):
        for rows in parts:
            with out.part() as part:
                part.write(table, list(rows))


class TokenParams(StageParams):
    tokens: tuple[str, ...]


@stage(name="vocabulary", version=1, params=TokenParams, tables=("vocabulary",))
def given_vocabulary(inputs: Mapping[str, Any], params: TokenParams, out: Output) -> None:
    with out.part() as part:
        part.write("vocabulary", [{"id": n, "token": token, "frequency": 0} for n, token in enumerate(params.tokens)])


def named(rows: list[dict[str, Any]], name: str) -> tuple[dict[str, Any], ...]:
    return tuple({**row, "doc_id": f"{name}-{row['doc_id']}"} for row in rows)


def stage_inputs(
    store: ArtifactStore,
    parts: Sequence[Sequence[Mapping[str, Any]]],
    held_out: Sequence[Sequence[Mapping[str, Any]]] | None = None,
    sentence_end: int | None = None,
) -> dict[str, Artifact]:
    aside = [named(example_rows([[[1] * 9] * 3] * 3), "aside")] if held_out is None else held_out
    tokens = ["。" if number == sentence_end else f"t{number}" for number in range(2_000)]
    params = GivenParams(parts=tuple(map(tuple, parts)), held_out=tuple(map(tuple, aside)))
    return {
        "examples": do(store, given_examples, params),
        "vocabulary": do(store, given_vocabulary, TokenParams(tokens=tuple(tokens))),
    }


MANY: list[Document] = [[[1] * (3 + n % 5)] * (2 + n % 4) for n in range(60)]


def test_half_of_the_pairs_are_random_and_copies_and_seeds_differ(store: ArtifactStore) -> None:
    inputs = stage_inputs(store, [example_rows(MANY * 2)])
    artifact = do(store, pairs, PairsParams(max_length=20, copies=3), **inputs)
    rows = artifact.to_table("pairs").to_pylist()
    share = np.mean([row["is_random"] for row in rows])
    assert share == pytest.approx(0.5, abs=4 * 0.5 / len(rows) ** 0.5)
    count = len(rows) // 3
    copies = [[(row["input_ids"], row["is_random"]) for row in rows[n * count : (n + 1) * count]] for n in range(3)]
    assert copies[0] != copies[1] != copies[2] != copies[0]
    counters = artifact.manifest.counters
    assert (counters["pairs"], counters["random_pairs"]) == (len(rows), sum(row["is_random"] for row in rows))
    once = do(store, pairs, PairsParams(max_length=20, copies=3, seed=7), **inputs)
    assert once.to_table("pairs") != artifact.to_table("pairs")
    assert counters["held_out_pairs"] == len(artifact.to_table("held_out_pairs")) > 0
    true = do(store, pairs, PairsParams(max_length=20, random_share=0.0), **inputs)
    assert not any(true.to_table("pairs")["is_random"].to_pylist())


class Backwards(SerialExecutor):
    """Does the units in the other order, as several workers may."""

    def run(self, place: Any, function: Any, units: Any) -> Iterator[builds.WorkRecord]:
        return super().run(place, function, list(reversed(units)))


def test_order_of_the_units_changes_nothing(
    store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.pretrain.pairs.ROWS_TOGETHER", 30)
    rows = example_rows(MANY)
    parts = [rows[:50], rows[50:90], rows[90:95], rows[95:-5], rows[-5:]]
    params = PairsParams(max_length=20, copies=2)
    other = ArtifactStore(tmp_path / "other")
    found = do(store, pairs, params, **stage_inputs(store, parts))
    again = run(pairs, other, params, stage_inputs(other, parts), executor=Backwards()).artifact
    for table in ("pairs", "held_out_pairs"):
        assert found.to_table(table).equals(again.to_table(table))
    assert found.manifest.counters == again.manifest.counters
    assert len(found.parts("pairs")) == 2 * 3  # few rows are read with the next part, or with the one before


def test_documents_that_cross_parts_stay_whole(store: ArtifactStore) -> None:
    rows = example_rows(MANY)
    whole, cut_up = (
        do(store, pairs, PairsParams(max_length=20), **stage_inputs(store, parts))
        for parts in ([rows], [rows[:1], rows[1:100], rows[100:]])
    )
    assert whole.to_table("pairs").equals(cut_up.to_table("pairs"))


def test_held_out_pairs_are_of_held_out_documents(store: ArtifactStore) -> None:
    aside = [{**row, "doc_id": f"h{row['doc_id']}"} for row in example_rows(MANY[:9])]
    artifact = do(store, pairs, PairsParams(max_length=20), **stage_inputs(store, [example_rows(MANY)], [aside]))
    table = artifact.to_table("held_out_pairs")
    tokens = {token for row in aside for token in row["input_ids"]}
    assert all(name.startswith("h") for name in table["doc_id"].to_pylist())
    assert {token for ids in table["input_ids"].to_pylist() for token in ids} <= tokens
    assert not any(name.startswith("h") for name in artifact.to_table("pairs")["doc_id"].to_pylist())


def test_documents_of_one_segment_are_split_or_rejected(store: ArtifactStore) -> None:
    """Token 13 is 。: the first document is split behind it, the second in its middle; the third has too few words.

    Documents are counted once, whatever the number of copies.
    """
    documents: list[Document] = [[[1] * 10], [[1] * 10], [[1] * 3]]
    inputs = stage_inputs(store, [example_rows(documents)], sentence_end=13)
    artifact = do(store, pairs, PairsParams(min_words=2, random_share=0.0, copies=2), **inputs)
    found = [(row["input_ids"], row["second"]) for row in artifact.to_table("pairs").to_pylist()]
    assert (
        found
        == [
            ([CLS, *range(10, 14), SEP, *range(14, 20), SEP], 6),
            ([CLS, *range(20, 25), SEP, *range(25, 30), SEP], 7),
        ]
        * 2
    )
    assert reasons_of(artifact) == ["no_second_sentence"]
    assert artifact.to_table("rejects")["doc_id"].to_pylist() == ["d2"]
    counters = artifact.manifest.counters
    assert (counters["split_documents"], counters["rejected_no_second_sentence"]) == (2, 1)


def test_much_cut_text_is_warned_of(store: ArtifactStore, caplog: pytest.LogCaptureFixture) -> None:
    inputs = stage_inputs(store, [example_rows([[[1] * 30] * 4] * 4)])
    whole = do(store, pairs, PairsParams(max_length=64), **inputs)
    assert "cut off" not in caplog.text and "cut_tokens" not in whole.manifest.counters
    short = do(store, pairs, PairsParams(max_length=33), **inputs)
    counters = short.manifest.counters
    tables = [short.to_table(table) for table in ("pairs", "held_out_pairs")]
    tokens = sum(len(ids) for table in tables for ids in table["input_ids"].to_pylist())
    assert (counters["tokens"], counters["cut_pairs"]) == (tokens, counters["pairs"])
    assert counters["cut_tokens"] == 30 * counters["pairs"]  # 60 tokens of two segments, room for 30
    share = f"{100 * counters['cut_tokens'] / (counters['cut_tokens'] + tokens):.0f} %"
    assert f"{share} of the tokens of sentence pairs are cut off" in caplog.text
    assert "segment.max_tokens" in caplog.text


def test_text_without_pairs_is_refused_with_a_remedy(store: ArtifactStore) -> None:
    short = example_rows([[[1] * 3]] * 4)
    with pytest.raises(UserError, match=r"no sentence pairs to train on.* less: 4\..* lower segment\.max_tokens or"):
        do(store, pairs, PairsParams(), **stage_inputs(store, [short], []))
    with pytest.raises(UserError, match="no sentence pairs to hold out"):
        do(store, pairs, PairsParams(), **stage_inputs(store, [example_rows(MANY)], [named(short, "h")]))


def test_random_pairs_of_one_document_are_refused_with_a_remedy(store: ArtifactStore) -> None:
    alone = named(example_rows([[[1] * 20] * 20]), "h")
    inputs = stage_inputs(store, [example_rows(MANY)], [alone])
    with pytest.raises(UserError, match=r"there is only one document\. .* raise encode\.held_out_share"):
        do(store, pairs, PairsParams(max_length=32), **inputs)
    assert do(store, pairs, PairsParams(max_length=32, random_share=0.0), **inputs).rows("held_out_pairs") > 5


@pytest.mark.parametrize("pair_task", ["nsp", "sop"])
def test_an_objective_reads_the_rows(store: ArtifactStore, pair_task: str) -> None:
    artifact = do(store, pairs, PairsParams(max_length=20), **stage_inputs(store, [example_rows(MANY)]))
    sizes = {"num_layers": 1, "hidden_size": 8, "num_heads": 2, "intermediate_size": 8, "max_positions": 20}
    objective = build("bert", {**sizes, "vocab_size": 2_000, "pair_task": pair_task})
    rows = read_rows(artifact.to_table("pairs"), objective.columns)
    found = objective(objective.collate(rows[:16], seed=1, step=0))
    assert float(found[pair_task].detach()) == pytest.approx(np.log(2), abs=0.05)
