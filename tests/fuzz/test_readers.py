"""Each reader of files from outside: whatever it is given, it returns rows or refuses the file by a `UserError`.

`make fuzz` runs each target for a minute, CI for a second; a file that breaks one becomes a test of its reader.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import pickle
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import openpyxl
import polars as pl
import pytest
import zstandard
from hypothesis import strategies as st

from infra.console.printable import printable
from infra.errors import UserError
from kg.sources import cmekg, delimited
from kg.sources.neo4j import read_neo4j
from kg.sources.rdf import read_ntriples
from models.encoder.config import EncoderConfig
from models.weights.pretrained import load_encoder, random_encoder, save_encoder
from models.word_vectors import WordVectors
from tasks.clean import clean_text
from tasks.deidentify import deidentify
from tasks.files.html_text import page_text
from tasks.files.raw_input import RawInput
from tasks.files.rows import read_rows
from tasks.files.slices import Problem
from tasks.ingest.plan import plan_units
from tasks.normalise.terms.term_list import read_term_list
from tasks.own.params import OwnTaskParams
from tasks.own.records import read_records
from tasks.segment import split_document
from tests.support.graphs.cmekg_pickles import GRAPH
from tests.support.processes.fuzzing import fuzz
from tests.support.text.mutated import TRICKY, mutated
from tests.support.text.office_files import docx, paragraph, pdf, table_row, xlsx
from tests.support.text.reading import FORMATS, jsonl, zipped

ROWS = [{"title": f"标题{n}", "text": f"第{n}篇：患者“头痛”{n}天，\n伴恶心。"} for n in range(9)]
PAGE = "<head><title>头痛</title><meta charset=utf-8></head><p>患者<b>头痛</b>&amp;恶心</p>".encode()
SEEDS: dict[str, bytes] = {
    **{kind: make(ROWS) for kind, make in FORMATS.items()},
    "txt": "患者头痛三天。\n\n伴有恶心。\n".encode(),
    "html": PAGE,
    "zip": zipped({"a.txt": "患者头痛。".encode(), "b.jsonl": jsonl(ROWS), "c.csv": FORMATS["csv"](ROWS)}),
}
OFFICE: dict[str, bytes] = {
    "docx": docx(paragraph("患者头痛") + table_row("K25", "胃溃疡") + "<w:p><w:r><w:t>10</w:t><w:br/></w:r></w:p>"),
    "xlsx": xlsx({"一": [["title", "text"], ["标题", "患者头痛"]], "二": [["text"], [3], ["a"]]}, merged=["A2:A3"]),
}
PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.compress,
}


def rows_of(name: str, data: bytes) -> list[tuple[int, Mapping[str, Any] | Problem]]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(data)
        units = plan_units(RawInput(folder).files, 1 << 20, None, "auto")
        return [row for unit in units for piece in unit if piece.kind for row in read_rows(piece)]


def rows_or_problems(name: str) -> Callable[[bytes], None]:
    def target(data: bytes) -> None:
        for number, row in rows_of(name, data):
            assert isinstance(number, int)
            assert isinstance(row, Problem | Mapping)

    return target


@pytest.mark.parametrize("kind", [*SEEDS, *OFFICE])
def test_corpus_files(kind: str) -> None:
    fuzz(rows_or_problems(f"a.{kind}"), mutated([(SEEDS | OFFICE)[kind]]) | st.binary(max_size=200))


@pytest.mark.parametrize("kind", OFFICE)
def test_parts_of_office_files(kind: str) -> None:
    """Bytes of a part are changed and packed again, so that the archive itself is whole."""
    with zipfile.ZipFile(io.BytesIO(OFFICE[kind])) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    read = rows_or_problems(f"a.{kind}")

    def target(change: tuple[str, bytes]) -> None:
        read(zipped(parts | {change[0]: change[1]}))

    fuzz(target, st.sampled_from(sorted(parts)).flatmap(lambda name: st.tuples(st.just(name), mutated([parts[name]]))))


def test_pdf_files() -> None:
    """Each is read in a process of its own, so that few are tried among the tests."""
    whole = pdf(["患者头痛三天。", [("WBC 10", 12, 0), ("9", 7, 5), ("/L", 12, 0)]], ["第二页"])
    fuzz(rows_or_problems("a.pdf"), mutated([whole]) | st.binary(max_size=200), examples=6)


@pytest.mark.parametrize("ending", PACKED)
def test_compressed_files(ending: str) -> None:
    pack = PACKED[ending]

    def target(data: bytes) -> None:
        rows_of(f"a.jsonl{ending}", data)
        rows_of(f"a.jsonl{ending}", pack(data))

    fuzz(target, mutated([pack(SEEDS["jsonl"]), pack(b"") * 3, SEEDS["jsonl"]]))


@pytest.mark.parametrize("kind", ["jsonl", "csv", "txt"])
def test_a_hostile_line_costs_no_other(kind: str) -> None:
    """Rows before it are always read, rows after it unless it opens a quote or makes the encoding doubtful."""
    first = {"jsonl": jsonl(ROWS[:3]), "csv": b"text,title\n" + b"a,b\n" * 30, "txt": b"a\n" * 3}[kind]
    whole = rows_of(f"a.{kind}", first)

    def target(line: bytes) -> None:
        found = rows_of(f"a.{kind}", first + line.replace(b"\n", b"").replace(b"\r", b"") + b"\n" + first)
        assert found[: len(whole)] == whole or kind == "txt"
        assert found

    ascii_only = st.text(st.characters(max_codepoint=126), max_size=60).map(str.encode)
    fuzz(target, ascii_only | st.sampled_from([t for t in TRICKY if t.isascii()]))


def refused_or_read(read: Callable[[Path], object], name: str) -> Callable[[bytes], None]:
    def target(data: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(data)
            try:
                read(path)
            except UserError as error:
                assert len(str(error)) < 20_000
                assert printable(error)

    return target


def triples(kind: str) -> bytes:
    frame = pl.DataFrame({"head": ["糖尿病", "当归"], "relation": ["症状", "性味"], "tail": ["多饮", "甘"]})
    sink = io.BytesIO()
    if kind == "parquet":
        frame.write_parquet(sink)
    elif kind == "jsonl":
        frame.write_ndjson(sink)
    else:
        frame.write_csv(sink, separator="\t" if kind == "tsv" else ",")
    return sink.getvalue()


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl", "parquet"])
def test_triples(kind: str) -> None:
    target = refused_or_read(lambda path: delimited.read(path), f"graph.{kind}")
    fuzz(target, mutated([triples(kind)]))


def test_ntriples() -> None:
    lines = '<http://x/糖尿病> <http://x/症状> "多\\u996E"@zh .\n_:a <http://x/b> <http://x/c> . # note\n'.encode()
    fuzz(refused_or_read(read_ntriples, "graph.nt"), mutated([lines]))


def test_neo4j() -> None:
    nodes = "id:ID(Drug),name,:LABEL\n1,阿司匹林,Drug;X\n2,头痛,Disease\n:START_ID,:END_ID,:TYPE\n".encode()
    both = '_id,_labels,name,_start,_end,_type\n1,:Drug,"阿司匹林",,,\n2,:X,头痛,,,\n,,,1,2,治疗\n'.encode()
    fuzz(refused_or_read(lambda path: read_neo4j([path]), "graph.csv"), mutated([nodes, both]))


def test_pickles() -> None:
    seeds = [pickle.dumps(GRAPH, protocol) for protocol in range(6)]
    fuzz(refused_or_read(cmekg.read_cmekg, "graph.pkl"), mutated(seeds) | st.binary(max_size=60))


def workbook() -> bytes:
    book = openpyxl.Workbook()
    for row in (["编码", "名称"], ["K25", "胃溃疡"], ["K26.9", "十二指肠溃疡"]):
        book.active.append(row)
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


@pytest.mark.parametrize("kind", ["csv", "tsv", "txt", "xlsx"])
def test_term_lists(kind: str) -> None:
    table = "编码,名称\nK25,胃溃疡\nK26.9,十二指肠溃疡\n".encode()
    seed = {"xlsx": workbook(), "csv": table}.get(kind, table.replace(b",", b"\t"))
    target = refused_or_read(lambda path: read_term_list(path.read_bytes(), path.name), f"terms.{kind}")
    fuzz(target, mutated([seed]))


def test_parts_of_workbooks() -> None:
    """Bytes of a part are changed and packed again, so that the archive itself is whole."""
    with zipfile.ZipFile(io.BytesIO(workbook())) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}

    def target(change: tuple[str, bytes]) -> None:
        data = zipped(parts | {change[0]: change[1]})
        refused_or_read(lambda path: read_term_list(path.read_bytes(), path.name), "terms.xlsx")(data)

    fuzz(target, st.sampled_from(sorted(parts)).flatmap(lambda name: st.tuples(st.just(name), mutated([parts[name]]))))


def test_model_configs(tmp_path: Path) -> None:
    save_encoder(random_encoder(EncoderConfig(vocab_size=50, hidden_size=16, num_layers=2, num_heads=2), 1), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    value = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers())

    def target(changes: dict[str, Any] | bytes) -> None:
        data = changes if isinstance(changes, bytes) else json.dumps(config | changes).encode()
        (tmp_path / "config.json").write_bytes(data)
        with contextlib.suppress(UserError):
            load_encoder(tmp_path)

    changes = st.dictionaries(st.sampled_from(sorted(config)), value, min_size=1, max_size=3)
    fuzz(target, changes | mutated([json.dumps(config).encode()]))


def test_word_vectors() -> None:
    text = "2 3\n头痛 0.5 1 -2\n发热 1e-3 0 7\n".encode()
    fuzz(refused_or_read(lambda path: WordVectors.read(path), "vectors.txt"), mutated([text]))


TEXT = st.text() | st.text("患者头痛0123456789，。（）：:- \n<>&;/王芳a@.", max_size=80)


@pytest.mark.parametrize("name", ["clean", "deidentify", "split", "html"])
def test_texts(name: str) -> None:
    work: dict[str, Callable[[str], object]] = {
        "clean": clean_text,
        "deidentify": deidentify,
        "split": lambda text: split_document(text, 32, 8),
        "html": page_text,
    }

    def target(text: str) -> None:
        work[name](text)

    fuzz(target, TEXT)


OWN_ROWS = [
    {"文": "高血压病史", "标": '[{"start": 0, "end": 3, "type": "疾病"}]'},
    {"文": "[高血压|疾病]病史", "标": "B-疾病 I-疾病 I-疾病 O O"},
]


def own_table(kind: str) -> bytes:
    if kind == "xlsx":
        book = openpyxl.Workbook()
        for row in (["文", "标"], *(list(one.values()) for one in OWN_ROWS)):
            book.active.append(row)
        book.active.merge_cells("B2:B3")
        sink = io.BytesIO()
        book.save(sink)
        return sink.getvalue()
    frame, sink = pl.DataFrame(OWN_ROWS), io.BytesIO()
    if kind == "parquet":
        frame.write_parquet(sink)
    elif kind == "jsonl":
        frame.write_ndjson(sink)
    else:
        frame.write_csv(sink, separator="\t" if kind == "tsv" else ",")
    return sink.getvalue()


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet", "xlsx"])
@pytest.mark.parametrize("markup", ["labels", "offsets", "bio", "brackets"])
def test_own_tasks(kind: str, markup: str) -> None:
    given: dict[str, Any] = {"form": "classify"} if markup == "labels" else {"form": "tag", "markup": markup}
    params = OwnTaskParams(text_fields=("文",), label_field="标", **given)
    fuzz(refused_or_read(lambda path: read_records(path, params), f"own.{kind}"), mutated([own_table(kind)]))
