"""Whatever rows are written in whatever kind come back, however the files are packed and cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.errors import UserError
from tasks.files.json_rows import read_json
from tasks.files.lines import Lines
from tasks.files.slices import Problem
from tests.support.text.linear_time import LINEAR, ratio_of_doubling, repeated
from tests.support.text.reading import COMPRESSIONS, FORMATS, ingested, jsonl, zipped

pytestmark = pytest.mark.slow

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff"), min_size=1, max_size=40)
ROWS = st.lists(st.fixed_dictionaries({"title": TEXT, "text": TEXT.filter(str.strip)}), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(ROWS, st.sampled_from(sorted(FORMATS)), st.sampled_from([*sorted(COMPRESSIONS), "zip"]))
def test_rows_come_back(tmp_path_factory: Any, rows: list[dict[str, str]], kind: str, packing: str) -> None:
    content, name = FORMATS[kind](rows), f"a.{kind}"
    files = {"a.zip": zipped({name: content})} if packing == "zip" else {name + packing: COMPRESSIONS[packing](content)}
    artifact = ingested(tmp_path_factory.mktemp("rows"), files)
    documents = artifact.to_table("documents").to_pylist()
    assert [(row["title"], row["text"]) for row in documents] == [(row["title"].strip(), row["text"]) for row in rows]
    assert artifact.rows("rejects") == 0


BROKEN = st.sampled_from(
    [b"", b"{bad", b"[1]", b'{"text": "\xff"}', b'{"text": ""}', '{"text": "头\0痛"}'.encode("gb18030")]
)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.one_of(ROWS.map(jsonl), BROKEN), min_size=1, max_size=6), st.integers(1, 200))
def test_the_size_of_parts_changes_nothing(tmp_path_factory: Any, pieces: list[bytes], size: int) -> None:
    folder = tmp_path_factory.mktemp("parts")
    files = {"a.jsonl": b"\n".join(pieces), "b.txt": b"\n".join(pieces), "c.jsonl": jsonl([{"text": "好"}] * 9)}
    try:
        whole = ingested(folder, files, txt_documents="lines")
    except UserError:
        return  # most lines of a file are in no encoding
    cut = ingested(folder, files, txt_documents="lines", bytes_per_part=size)
    for table in ("documents", "rejects"):
        assert cut.to_table(table).to_pylist() == whole.to_table(table).to_pylist()


def elements(text: str, size: int = 7) -> list[Any]:
    data = text.encode()
    blocks = iter([data[start : start + size] for start in range(0, len(data), size)])
    rows = (row for _, row in read_json(Lines(blocks, "a.json", "utf-8", separator=",")))
    return [row.reason if isinstance(row, Problem) else row for row in rows]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", []),
        ("[]", []),
        (" [ ] ", []),
        ('{"a": 1}', [{"a": 1}]),
        ('[{"a": 1}, {"a": [2, {"b": "},{"}]}]', [{"a": 1}, {"a": [2, {"b": "},{"}]}]),
        ('{"a": 1}\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
        ('[{"a": 1}][{"a": 2}]', [{"a": 1}, {"a": 2}]),
        ('[{"a": 1}, 5, "x", null, {"a": 2}]', [{"a": 1}, *["not_an_object"] * 3, {"a": 2}]),
        ('[{"a": 1}, {"a": b}, {"a": 2}]', [{"a": 1}, "invalid_json", {"a": 2}]),
        ('[{"a": 1}, bad, {"a": 2},]', [{"a": 1}, "invalid_json", {"a": 2}]),
        ('[{"a": 1},\n {"a": "x},\n {"a": 2}\n]', [{"a": 1}, "invalid_json", {"a": 2}]),
        ('[{"a": 1},\n {"a": {},\n {"a": 2}\n]', [{"a": 1}, "invalid_json", {"a": 2}]),
        ('[{"a": 1}, {"a": ', [{"a": 1}, "invalid_json", "invalid_json"]),
        ('[{"a": 1}', [{"a": 1}, "invalid_json"]),
        ('[{"a": ' + "[" * 50_000 + "]" * 50_000 + '}, {"a": 2}]', ["invalid_json", {"a": 2}]),
        ("[" + "[" * 50_000, ["invalid_json", "invalid_json"]),
        ('[{"a": ' + "1" * 5000 + '}, {"a": 2}]', ["invalid_json", {"a": 2}]),
    ],
)
def test_json_is_read_as_far_as_it_goes(text: str, rows: list[Any]) -> None:
    assert elements(text) == rows


@pytest.mark.parametrize("piece", ['{"a":"\n', "[{", '"', "{", "[", "\n ", ",", '{"a":[', "x", "1", '\\"'])
def test_twice_the_hostile_json_takes_twice_the_time(piece: str) -> None:
    assert ratio_of_doubling(lambda text: elements(f"[{text}", 1 << 13), repeated(piece), 40_000) < LINEAR
