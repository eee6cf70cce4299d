"""docs/python.md: its examples, run one after the other as a reader would."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import yiwen
from infra.settings import REPOSITORY
from tests.support.heads import toy_task as toy
from tests.support.text.synthetic_text import write_corpus

pytestmark = pytest.mark.slow

PAGE = (REPOSITORY / "docs" / "python.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
MOST_LINES = 10
DEPARTMENTS = (("咳嗽", "呼吸科"), ("胸痛", "心内科"), ("腹泻", "消化科"))


def files(folder: Path) -> None:
    """The files that the page names."""
    write_corpus(folder / "my_texts")
    toy.save_cmedqq(folder / "cMedQQ", (16, 8, 8))
    visits = [f"患者{number}天前{symptom},{department}" for number in range(20) for symptom, department in DEPARTMENTS]
    (folder / "visits.csv").write_text("\n".join(["主诉,科室", *visits]) + "\n", encoding="utf-8")
    (folder / "terms.csv").write_text(
        "code,name\nI10,高血压\nE11,2型糖尿病\nH36.0,糖尿病视网膜病变\n", encoding="utf-8"
    )
    (folder / "triples.tsv").write_text(
        "head\trelation\ttail\n糖尿病\t临床表现\t乏力\n高血压\t临床表现\t头晕\n", encoding="utf-8"
    )


def test_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work_here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    files(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("YIWEN_HOME", "YIWEN_WORKERS"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # the page sets them; they are put back afterwards
    names: dict[str, Any] = {}
    for example in EXAMPLES:
        exec(compile(example, "docs/python.md", "exec"), names)
    segments, model, scores, fused = (names[name] for name in ("segments", "model", "scores", "fused"))
    assert segments.title == "100 segments of 100 documents" and names["longest"].height == 3
    assert segments.page.is_file() and model.page.is_file() and scores.page.is_file()
    assert 0 <= model.figures["mlm_accuracy"] <= 1 and Path(model, "model.safetensors").is_file()
    assert names["best"].get_column("metric").unique().to_list() == ["positive_f1"]
    assert {one.answer for one in names["answers"]} <= {"0", "1"}
    assert names["own"].table.get_column("split").unique().sort().to_list() == ["dev", "test"]
    assert names["own"].page.is_file() and names["department"] in dict(DEPARTMENTS).values()
    codes = [[answer.code for answer in one.answers] for one in names["found"]]
    assert codes == [["I10"], [], ["H36.0"]] or codes[:2] == [["I10"], []]
    assert [entity for *_, entity in fused.linker.link("高血压患者头晕")]
    printed = capsys.readouterr().out
    assert "mlm accuracy" in printed and "cmedqq | dev | positive_f1" in printed and "entities" in printed
    shown = [segments, model, scores, fused, names["answers"], names["found"], names["graph"]]
    assert all("<table>" in one._repr_html_() for one in shown)
    assert isinstance(scores.table, pl.DataFrame)


def test_examples_are_short_and_name_every_entry_point() -> None:
    assert max(len(example.strip().splitlines()) for example in EXAMPLES) <= MOST_LINES
    code = "\n".join(EXAMPLES)
    entries = {name for name in yiwen.__all__ if name not in ("UserError", "__version__")}
    assert {name for name in entries if f"yiwen.{name}" not in code} == set()
