"""Flow normalise, deployment map: a list with longer codes to a short one. All data are synthetic."""

from __future__ import annotations

import csv
from pathlib import Path

import openpyxl
import pytest

from flows.cli import main
from flows.term_mapping import normalise
from infra.artifacts import ArtifactStore
from infra.errors import UserError

LOCAL = "编码,名称\nI10.x00x002,高血压病\nJ18.900,肺炎\nK29.700x001,胃部炎症\nM51.202,腰突\n"
SHORT = "编码,名称\nI10,高血压\nI15,继发性高血压\nJ18.9,肺炎\nK29.7,胃炎\nK25.9,胃溃疡\nM51.2,椎间盘移位\n"


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    for name, content in (("local", LOCAL), ("short", SHORT)):
        (tmp_path / f"{name}.csv").write_text(content, encoding="utf-8")
    return {"source": str(tmp_path / "local.csv"), "target": str(tmp_path / "short.csv")}


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_terms_are_mapped_or_reviewed_and_choices_are_kept(lists: dict[str, str], tmp_path: Path) -> None:
    folder = Path(normalise.fn(**lists, synonyms=False))
    mapped = {row["term"]: row for row in table(folder / "mapping.csv")}
    assert (mapped["肺炎"]["mapped_code"], mapped["肺炎"]["same_code"]) == ("J18.9", "category")
    assert list(mapped) == ["高血压病", "肺炎", "胃部炎症", "腰突"], "a row for every term, in the order of the codes"
    left = table(folder / "review.csv")
    assert {row["text"] for row in left} == {row["term"] for row in mapped.values() if not row["mapped_code"]} != set()
    rows = list(openpyxl.load_workbook(folder / "mapping.xlsx").active.iter_rows(values_only=True))
    assert [list(row) for row in rows[1:]] == [[cell or None for cell in row.values()] for row in mapped.values()]

    (tmp_path / "chosen.csv").write_text("text,choice\n腰突,M51.2\n", encoding="utf-8")
    again = Path(normalise.fn(**lists, synonyms=False, names=str(tmp_path / "chosen.csv")))
    chosen = next(row for row in table(again / "mapping.csv") if row["term"] == "腰突")
    assert (chosen["mapped_code"], chosen["same_code"], chosen["confidence"]) == ("M51.2", "category", "1.000")
    artifact = ArtifactStore(tmp_path / "home").latest("term_mapping")
    assert artifact is not None and artifact.manifest.counters["terms"] == 4


def test_command_ends_with_the_counts_and_the_files(
    lists: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [f"--param={name}={path}" for name, path in lists.items()]
    assert main(["run", "normalise/map", *given, "--param=synonyms=false"]) == 0
    shown = capsys.readouterr()
    folder = shown.out.strip()
    lines = [" ".join(line.split()) for line in shown.err.splitlines()]
    at = lines.index("terms mapped to review to the same code to the same category")
    left = len(table(Path(folder, "review.csv")))
    assert left and lines[at + 1].startswith(f"4 {4 - left} {left} ")
    assert lines[at + 2] == f"Mapping: {folder}/mapping.xlsx"
    assert lines[at + 3].startswith(f"To review: {folder}/review.xlsx. Fill in")


def test_faults_are_found_before_any_work(lists: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "wrong.csv").write_text("text,code\n腰突,M51.2\n", encoding="utf-8")
    with pytest.raises(UserError, match="has no column 'choice'"):
        normalise.fn(**lists, names=str(tmp_path / "wrong.csv"))
    with pytest.raises(UserError, match=r"mapping\.threshold"):
        normalise.fn(**lists, threshold=1.5)
    assert not (tmp_path / "home").exists()
