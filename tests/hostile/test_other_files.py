"""Term lists, graphs and models from outside that ask for more than their size: refused by name, in memory and time."""

from __future__ import annotations

import io
import json
import logging
import pickle
import pickletools
import zipfile
from datetime import datetime
from pathlib import Path

import openpyxl
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.cli import main
from infra.artifacts import ArtifactStore
from infra.builds import build as building
from infra.console.printable import printable
from infra.console.progress import shown_log
from infra.errors import UserError
from infra.limits import VARIABLE
from infra.stage import StageParams, run, stage
from kg.sources import cmekg, delimited
from kg.sources.pickle_opcodes import misplaced
from models.encoder.config import EncoderConfig
from models.weights.pretrained import load_encoder, random_encoder, save_encoder
from tasks.normalise.terms.term_list import read_term_list
from tests.support.processes.limited import limited

SHEET = "xl/worksheets/sheet1.xml"


def workbook(rows: int = 50) -> bytes:
    book = openpyxl.Workbook()
    book.active.append(["编码", "名称"])
    for number in range(1, rows):
        book.active.append([f"K{number:02}", f"胃溃疡第{number}型"])
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


def changed(data: bytes, old: str, new: str, part: str = SHEET) -> bytes:
    """Return a workbook with a piece of one of its parts replaced."""
    sink = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            content = source.read(name).decode()
            if name == part:
                assert old in content
                content = content.replace(old, new, 1)
            target.writestr(name, content)
    return sink.getvalue()


@pytest.mark.parametrize("dimension", ["A1", "A1:B2", "A1:XFD1048576", "B7:C3"])
def test_rows_are_read_whatever_the_sheet_says_of_its_size(dimension: str) -> None:
    data = changed(workbook(), '<dimension ref="A1:B50"', f'<dimension ref="{dimension}"')
    terms, rejects = read_term_list(data, "terms.xlsx")
    assert (len(terms), rejects) == (49, [])
    assert terms[-1].row == 50


def test_a_gap_of_rows_keeps_their_numbers() -> None:
    data = changed(changed(workbook(), '<row r="50"', '<row r="5000"'), 'r="A50"', 'r="A5000"')
    terms, _ = read_term_list(changed(data, 'r="B50"', 'r="B5000"'), "terms.xlsx")
    assert [term.row for term in terms[-2:]] == [49, 5000]


REFUSED = {
    "row": (
        lambda: changed(workbook(), '<row r="50"', '<row r="99999999999"'),
        "row 99999999999 follows row 49",
    ),
    "backwards": (lambda: changed(workbook(), '<row r="50"', '<row r="3"'), "row 3 follows row 49"),
    "expansion": (
        lambda: changed(workbook(), "</sheetData>", "</sheetData>" + " " * (300 << 20)),
        r"expands from [\d,]+ to 31\d,.* bytes\. Save it as CSV",
    ),
    "entities": (
        lambda: changed(
            changed(workbook(), "</sheetData>", "&j;</sheetData>"),
            "<worksheet",
            '<!DOCTYPE w [<!ENTITY a "aaaaaaaaaa">'
            + "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9))
            + "]><worksheet",
        ),
        "cannot be read as XLSX",
    ),
    "wide": (
        lambda: changed(
            workbook(),
            "</sheetData>",
            "".join(f'<row r="{n}"><c r="XFD{n}"><v>1</v></c></row>' for n in range(51, 9_000)) + "</sheetData>",
        ),
        "more than 50,000,000 cells up to row",
    ),
    "not XML": (lambda: changed(workbook(), "<worksheet", "<work"), "cannot be read as XLSX"),
    "no zip": (lambda: b"PK\3\4" + b"\0" * 999, "cannot be read as XLSX"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_hostile_workbooks_are_refused_by_name(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(UserError, match=rf"terms\.xlsx.*{message}"):
        read_term_list(make(), "terms.xlsx")


def test_overlapping_parts_are_refused() -> None:
    data = bytearray(workbook())
    entry = data.index(b"PK\x01\x02")
    data[entry + 20 : entry + 24] = (1 << 20).to_bytes(4, "little")  # its packed size reaches into what follows
    with pytest.raises(UserError, match=r"terms\.xlsx.*(overlap|cannot be read)"):
        read_term_list(bytes(data), "terms.xlsx")


WITHIN = """
import sys, time
from infra.errors import UserError
def told(read):
    try:
        read()
    except UserError as error:
        report(str(error))
    else:
        report("read")
"""


def test_seven_bytes_of_a_pickle_take_no_memory(tmp_path: Path) -> None:
    (tmp_path / "graph.pkl").write_bytes(b"\x80\x02Nr\xff\xff\xff\x1f.")
    code = WITHIN + "from kg.sources.cmekg import load\ntold(lambda: load(sys.argv[1]))"
    message = limited(code, str(tmp_path / "graph.pkl"), mib=500, seconds=120)
    assert "graph.pkl asks at byte 3 for more memory than its 9 bytes can need" in message


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"\x80\x02Nr\xff\xff\xff\x1f.", 3),
        (b"Np4294967295\n.", 1),
        (b"\x80\x05\x96" + (1 << 33).to_bytes(8, "little") + b"a.", 2),
        (b"\x80\x04\x8d" + (1 << 62).to_bytes(8, "little") + b"a.", 2),
        (b"\x80\x02T\xff\xff\xff\x7fa.", 2),
        (b"cos\nsystem\nNp99999\n.", 12),
        (b"Np1\nq\x02.", -1),
        (b"", -1),
        (b"\xff\xff", -1),
    ],
)
def test_opcodes_that_ask_for_too_much_are_found(data: bytes, place: int) -> None:
    assert misplaced(data) == place


PLAIN = st.recursive(
    st.text() | st.integers() | st.floats() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
)


@given(PLAIN, st.integers(0, 5))
def test_pickles_of_any_object_pass(content: object, protocol: int) -> None:
    assert misplaced(pickle.dumps(content, protocol)) == -1


@given(st.binary(max_size=40))
def test_what_passes_asks_for_no_more_than_it_has(data: bytes) -> None:
    if misplaced(data) >= 0:
        return
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT"):
                assert int(argument) <= max(len(data), 255)
    except (ValueError, IndexError, OverflowError, UnicodeDecodeError):
        pass


def test_a_list_in_a_thousand_places_is_refused(tmp_path: Path) -> None:
    values = ["症"] * 2_000
    graph = {f"病{number}": {"症状": values} for number in range(2_000)}
    (tmp_path / "graph.pkl").write_bytes(pickle.dumps(graph))
    with pytest.raises(UserError, match=r"graph\.pkl has more values than its [\d,]+ bytes can hold"):
        cmekg.load(tmp_path / "graph.pkl")


def test_half_characters_cost_their_row(tmp_path: Path) -> None:
    rows = [{"head": "糖尿病", "relation": "症状", "tail": tail} for tail in ("多饮", "\ud83d", "多尿")]
    (tmp_path / "graph.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found = delimited.read(tmp_path / "graph.jsonl")
    assert found.triples["tail"].to_list() == ["多饮", "多尿"]
    assert found.rejects.select("place", "reason").rows() == [("graph.jsonl#2", "unreadable_row")]
    (tmp_path / "graph.pkl").write_bytes(pickle.dumps({"糖尿病": {"症状": ["多饮", "\ud83d"]}}))
    with pytest.raises(UserError, match=r"half a character \('\\ud83d'\)"):
        cmekg.load(tmp_path / "graph.pkl")


def test_a_graph_in_parquet_that_repeats_one_value_is_refused(tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 900, pa.int32()), pa.array(["痛" * 1_000_000]))
    table = pa.table({"head": column, "relation": column, "tail": column})
    pa.parquet.write_table(table, tmp_path / "graph.parquet", compression="zstd", dictionary_pagesize_limit=1 << 30)
    code = WITHIN + "from kg.sources.delimited import read\ntold(lambda: read(sys.argv[1]))"
    message = limited(code, str(tmp_path / "graph.parquet"), mib=1_500, seconds=120)
    assert "graph.parquet is refused: " in message
    assert "YIWEN_LIMITS" in message


def test_parquet_graphs_are_read_as_before(tmp_path: Path) -> None:
    frame = pl.DataFrame({"head": ["糖尿病", None], "relation": ["症状", "症状"], "tail": ["多饮", "多尿"]})
    frame.write_parquet(tmp_path / "graph.parquet")
    frame.clear().write_parquet(tmp_path / "empty.parquet")
    found = delimited.read(tmp_path / "graph.parquet")
    assert found.triples.select("head", "tail").rows() == [("糖尿病", "多饮")]
    assert found.rejects["reason"].to_list() == ["missing_end"]
    assert delimited.read(tmp_path / "empty.parquet").triples.is_empty()


HOSTILE_SIZES = [
    {"num_hidden_layers": 10_000_000},
    {"num_hidden_layers": 1_000, "hidden_size": 65_536, "intermediate_size": 262_144, "num_attention_heads": 2},
    {"vocab_size": 1 << 40},
    {"vocab_size": 1 << 24, "embedding_size": 65_536},
    {"max_position_embeddings": 1 << 30},
]


@pytest.mark.parametrize("sizes", HOSTILE_SIZES)
def test_a_config_that_asks_for_a_huge_network_builds_none(sizes: dict[str, int], tmp_path: Path) -> None:
    save_encoder(random_encoder(EncoderConfig(vocab_size=50, hidden_size=16, num_layers=2, num_heads=2), 1), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | sizes))
    with pytest.raises(UserError, match=r"config\.json.*(must be at most|asks for [\d,]+ weights)"):
        load_encoder(tmp_path)


def test_a_config_of_a_gigabyte_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "config_bytes=1MiB")
    (tmp_path / "config.json").write_text('{"model_type": "bert", "more": "' + "a" * (1 << 20) + '"}')
    with pytest.raises(UserError, match=r"config\.json is longer than 1,048,576 bytes"):
        load_encoder(tmp_path)


@given(st.text())
def test_what_is_printed_commands_no_terminal(text: str) -> None:
    shown = printable(text)
    assert "\x1b" not in shown
    assert all(letter in "\n\t" or letter >= " " for letter in shown)
    assert printable(shown) == shown


def test_escapes_in_names_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert printable("a\x1b[2K\r\u202eb\ud800痛\n") == "a\\x1b[2K\\x0d\\u202eb\\ud800痛\n"
    with shown_log():
        logging.getLogger("flows").warning("read %s", "a\x1b]0;title\x07.txt")
    assert main(["run", "corpus/refresh", "--param", "corpus=/none/\x1b[31mred"]) == 2
    shown = capsys.readouterr().err
    assert "a\\x1b]0;title\\x07.txt" in shown
    assert "/none/\\x1b[31mred" in shown
    assert "\x1b" not in shown


def test_a_name_begins_no_line_of_the_log(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    name = "a\nerror: forged\tb\u2028.txt"
    with shown_log():
        logging.getLogger("tasks.ingest").warning("%s is read", name)
        logging.getLogger("pypdf").warning("%s is read", name)
        logging.getLogger("flows").error("failed", exc_info=ValueError("a\nb"))
    shown = capsys.readouterr().err
    assert "warning: a\\x0aerror: forged\\x09b\\u2028.txt is read\n" in shown
    assert "warning: a\n  error: forged" in shown
    assert "error: failed\nValueError: a\nb\n" in shown, "a traceback keeps its lines"
    assert main(["run", "corpus/refresh", "--param", f"corpus={tmp_path / name}"]) == 2
    assert f"{tmp_path}/a\\x0aerror: forged\\x09b\\u2028.txt does not exist" in capsys.readouterr().err
    assert main(["show", name]) == 2
    shown = capsys.readouterr().err
    assert not any(line.startswith("error: forged") for line in shown.splitlines())


@stage(name="timed", version=1, params=StageParams)
def timed(inputs: object, params: StageParams, out: object) -> None:
    """Make an artifact without content."""


class OtherParams(StageParams):
    number: int = 0


@stage(name="timed", version=1, params=OtherParams)
def timed_again(inputs: object, params: OtherParams, out: object) -> None:
    """Make another one."""


def test_a_clock_set_back_does_not_hide_the_newest_artifact(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run(timed_again, store, OtherParams(number=1), {})

    class SetBack(datetime):
        @classmethod
        def now(cls, tz: object = None) -> SetBack:
            return cls(2001, 1, 1, tzinfo=tz)  # type: ignore[arg-type]

    monkeypatch.setattr(building, "datetime", SetBack)
    second = run(timed_again, store, OtherParams(number=2), {}).artifact
    latest = store.latest("timed")
    assert latest is not None
    assert latest.fingerprint == second.fingerprint
    assert "was the clock set back?" in caplog.text
