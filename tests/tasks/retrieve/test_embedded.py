"""The embedded index: scores against a plain BM25, ties, files and bad input."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra.errors import UserError
from tasks.retrieve.candidates import Candidate, Entry
from tasks.retrieve.embedded import CONTENT_FILE, EmbeddedIndex, rounded_lengths
from tasks.retrieve.fields import SearchFields, documents_of

ENTRIES = [
    Entry("E11", "2型糖尿病", ("成人发病型糖尿病", "T2DM")),
    Entry("E11.2", "2型糖尿病伴有肾的并发症", ("糖尿病肾病",)),
    Entry("E10", "1型糖尿病"),
    Entry("J18.9", "未特指的肺炎", ("肺炎",)),
    Entry("J18.0", "未特指的支气管肺炎", ("支气管肺炎",)),
    Entry("I10", "特发性（原发性）高血压", ("高血压", "高血压")),
    Entry("N28", "肾炎", ("肾炎", "慢性肾炎肾炎")),
]


def lucene_length(length: int) -> int:
    """SmallFloat.byte4ToInt(intToByte4(length)), step by step."""
    if length < 24:
        return length
    rest = length - 24
    shift = max(0, rest.bit_length() - 4)
    return 24 + ((rest >> shift) << shift)


def plain_search(entries: list[Entry], fields: SearchFields, term: str, k: int) -> list[Candidate]:
    """Search by the formula of tasks/retrieve/fields.py, one document at a time."""
    documents = documents_of(entries)
    held = list(fields.document_tokens(documents.names))
    (query,) = fields.query_tokens([term])
    best = [0.0] * len(documents.entries)
    for owner, own in zip(documents.owners, held, strict=True):
        score = 0.0
        for field, boost in fields.boosts().items():
            if field == "exact":
                score += boost * bool(own[field] and own[field] == query[field])
                continue
            of_field = [other[field] for other in held if other[field]]
            average = sum(map(len, of_field)) / max(1, len(of_field))
            counts = Counter(own[field])
            for token in query[field]:
                if frequency := counts[token]:
                    n = sum(token in other for other in of_field)
                    idf = math.log(1 + (len(of_field) - n + 0.5) / (n + 0.5))
                    length = lucene_length(len(own[field]))
                    norm = fields.k1 * (1 - fields.b + fields.b * length / average)
                    score += boost * idf * frequency / (frequency + norm)
        best[owner] = max(best[owner], score)
    found = [
        Candidate(entry.code, entry.term, score)
        for entry, score in zip(documents.entries, best, strict=True)
        if score > 0
    ]
    return sorted(found, key=lambda one: (-round(one.score, 6), one.term, one.code))[:k]


def assert_alike(found: list[Candidate], expected: list[Candidate]) -> None:
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], rel=1e-5)
    assert [(one.code, one.term) for one in found] == [(one.code, one.term) for one in expected]


@pytest.mark.parametrize(
    "fields",
    [
        SearchFields(),
        SearchFields(exact=0, k1=0.4, b=0),
        SearchFields(bigrams=2, b=1),
        SearchFields(characters=0, pinyin=0.5),
    ],
)
def test_scores_follow_the_formula(tmp_path: Path, fields: SearchFields) -> None:
    index = EmbeddedIndex.build(ENTRIES, tmp_path, fields)
    terms = ["糖尿病", "2型糖尿病肾病", "肺炎", "支气管", "慢性肾炎", "高血压病", "t2dm", "无"]
    for term, found in zip(terms, index.search(terms, 4), strict=True):
        assert_alike(found, plain_search(ENTRIES, fields, term, 4))


names = st.text("肺炎糖尿病肾2x", min_size=1, max_size=60)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.builds(Entry, st.sampled_from("ABC"), names, st.lists(names, max_size=3).map(tuple)), min_size=1),
    names,
    st.integers(1, 5),
)
def test_scores_follow_the_formula_for_any_terminology(tmp_path: Path, entries: list[Entry], term: str, k: int) -> None:
    (found,) = EmbeddedIndex.build(entries, tmp_path).search([term], k)
    expected = plain_search(entries, SearchFields(), term, k)
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], rel=1e-5)


def test_equal_scores_are_ordered_by_term_and_code(tmp_path: Path) -> None:
    entries = [Entry(code, term) for term in ("肺炎甲", "肺炎乙", "肺炎丙") for code in ("B", "A")]
    random.Random(1).shuffle(entries)
    index = EmbeddedIndex.build(entries, tmp_path)
    ordered = sorted((term, code) for term in ("肺炎甲", "肺炎乙", "肺炎丙") for code in ("A", "B"))
    for k in range(1, 8):
        (found,) = index.search(["肺炎"], k)
        assert [(one.term, one.code) for one in found] == ordered[:k]


def test_few_candidates_are_the_first_of_many(tmp_path: Path) -> None:
    index = EmbeddedIndex.build(ENTRIES, tmp_path)
    (most,) = index.search(["2型糖尿病肾炎"], 100)
    assert len(most) > 3
    assert all(index.search(["2型糖尿病肾炎"], k) == [most[:k]] for k in range(1, len(most) + 1))


def test_results_do_not_depend_on_batches_or_order_of_entries(tmp_path: Path) -> None:
    terms = ["糖尿病", "肺炎", "高血压", "糖尿病"]
    one = EmbeddedIndex.build(ENTRIES, tmp_path / "one")
    other = EmbeddedIndex.build(reversed(ENTRIES), tmp_path / "other")
    found = one.search(terms, 5)
    assert found == [one.search([term], 5)[0] for term in terms] == other.search(terms, 5)
    files = [file.relative_to(tmp_path / "one") for file in (tmp_path / "one").rglob("*") if file.is_file()]
    assert Path("categories", "weights.npy") in files
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()


def test_alias_finds_its_term_even_among_many(tmp_path: Path) -> None:
    many = Entry("J18.9", "未特指的肺炎", (*(f"第{number}号别名" for number in range(50)), "肺部感染"))
    index = EmbeddedIndex.build([many, Entry("A", "肠道感染"), Entry("B", "肺气肿")], tmp_path)
    (found,) = index.search(["肺部感染"], 3)
    assert (found[0].code, found[0].term) == ("J18.9", "未特指的肺炎")
    assert len({(one.code, one.term) for one in found}) == len(found)


@pytest.mark.parametrize("term", ["", " ", "!!!", "《》", "\ud800", "未见于此xyz"])
def test_term_without_a_common_token_finds_nothing(tmp_path: Path, term: str) -> None:
    assert EmbeddedIndex.build([Entry("A", "肺炎")], tmp_path).search([term, "肺炎"], 3)[0] == []


@pytest.mark.parametrize(
    "term", ["肺炎 AND NOT 糖尿病", "肺炎*", "code:J18", "肺炎~2 OR (", '"肺炎" \\', "肺炎" * 5_000]
)
def test_search_terms_have_no_syntax(tmp_path: Path, term: str) -> None:
    (found,) = EmbeddedIndex.build(ENTRIES, tmp_path).search([term], 2)
    assert_alike(found, plain_search(ENTRIES, SearchFields(), term, 2))


def test_the_word_not_excludes_nothing(tmp_path: Path) -> None:
    (found,) = EmbeddedIndex.build(ENTRIES, tmp_path).search(["肺炎 NOT 糖尿病"], 5)
    assert {"J18.9", "E11"} <= {one.code for one in found}


def test_lengths_are_rounded_like_lucene() -> None:
    lengths = np.arange(2_000)
    assert rounded_lengths(lengths).tolist() == [lucene_length(length) for length in range(2_000)]
    assert rounded_lengths(np.array([39, 40, 41, 42, 57, 100])).tolist() == [39, 40, 40, 42, 56, 96]


def test_index_without_entries_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no terms to index"):
        EmbeddedIndex.build([], tmp_path)


def test_terms_of_punctuation_are_indexed_but_never_found(tmp_path: Path) -> None:
    index = EmbeddedIndex.build([Entry("A", "——"), Entry("B", "肺炎")], tmp_path)
    assert [one.code for one in index.search(["肺炎——"], 5)[0]] == ["B"]


@pytest.mark.parametrize("damage", ["missing folder", "weights.npy", "fields.json", "entries.parquet"])
def test_folder_without_a_usable_index_is_named(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "index"
    if damage != "missing folder":
        EmbeddedIndex.build(ENTRIES, folder)
        (folder / damage).write_bytes(b"no such thing")
    with pytest.raises(UserError, match=f"{folder} contains no usable candidate index"):
        EmbeddedIndex(folder)


def test_content_depends_on_entries_and_fields_not_on_order_or_boosts(tmp_path: Path) -> None:
    def content(entries: list[Entry], **fields: float) -> str:
        return EmbeddedIndex.build(entries, tmp_path, SearchFields(**fields)).content

    own = content(ENTRIES)
    assert content(list(reversed(ENTRIES))) == own == content(ENTRIES, characters=3)
    first, *others = ENTRIES
    renamed = [Entry(first.code, first.term, (*first.aliases, "又一个名字")), *others]
    assert len({own, content(others), content(renamed), content(ENTRIES, k1=2), content(ENTRIES, bigrams=0)}) == 5
    (tmp_path / CONTENT_FILE).unlink()
    with pytest.raises(UserError, match=r"does not record which list it contains .* Repeat the run"):
        print(EmbeddedIndex(tmp_path).content)


def test_k_must_be_at_least_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="k must be at least 1, not 0"):
        EmbeddedIndex.build(ENTRIES, tmp_path).search(["肺炎"], 0)
