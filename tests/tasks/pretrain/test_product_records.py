"""Records of products: CMeKG's drugs, long and wide tables, files and databases; what is left out is named."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from tasks.files.database import DatabaseTable
from tasks.files.raw_input import RawInput
from tasks.pretrain.product_records import ProductRecordsParams, product_records, table_columns
from tests.support.graphs.cmekg_pickles import written
from tests.support.text.stages import do

LONG = [(f"药品{number}", "适应症", value) for number in range(40) for value in ("头痛", f"病{number % 7}")]
TABLE = ProductRecordsParams(held_out_share=0.2)


def records(tmp_path: Path, params: ProductRecordsParams, source: Any) -> Artifact:
    return do(ArtifactStore(tmp_path / "store"), product_records, params, source=source)


def csv(
    folder: Path, rows: list[tuple[Any, ...]], header: tuple[str, ...] = ("title", "attribute", "value")
) -> RawInput:
    lines = [",".join("" if cell is None else str(cell) for cell in row) for row in (header, *rows)]
    (folder / "products.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return RawInput(folder / "products.csv")


def shown(artifact: Artifact) -> dict[tuple[str, str], list[str]]:
    rows = artifact.to_table("product_records").to_pylist()
    return {(row["title"], row["attribute"]): row["values"] for row in rows}


def rejects(artifact: Artifact) -> dict[str, dict[str, str]]:
    return {row["reason"]: row for row in artifact.to_table("rejects").to_pylist()}


def test_long_and_wide_tables_and_a_database_give_the_same_records(tmp_path: Path) -> None:
    wide_rows = [(f"药品{number}", "头痛；发热", f"成份{number % 5}", None) for number in range(30)]
    long_rows = [(title, "适应症", v) for title, *_ in wide_rows for v in ("头痛", "发热")]
    long_rows += [(title, "成份", ingredient) for title, _, ingredient, _ in wide_rows]
    header = ("name", "indications", "ingredient", "unused")
    columns = {"indications": "适应症", "ingredient": "成份"}
    wide = ProductRecordsParams(
        columns=("name", "", ""), attribute_columns=columns, separators="；", held_out_share=0.2
    )
    (tmp_path / "long").mkdir()
    (tmp_path / "wide").mkdir()
    of_long = records(tmp_path, TABLE, csv(tmp_path / "long", long_rows))
    of_wide = records(tmp_path, wide, csv(tmp_path / "wide", wide_rows, header))
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("create table drugs (name text, indications text, ingredient text, unused text)")
        connection.executemany("insert into drugs values (?, ?, ?, ?)", wide_rows)
    connection.close()
    table = DatabaseTable(f"sqlite:///{tmp_path}/shop.db", "drugs", table_columns(wide))
    of_database = records(tmp_path, wide, table)
    pl.DataFrame(wide_rows, schema=list(header), orient="row").write_parquet(tmp_path / "drugs.parquet")
    of_parquet = records(tmp_path, wide, RawInput(tmp_path / "drugs.parquet"))
    expected = of_long.to_table("product_records")
    assert len(expected) == 60
    assert shown(of_long)["药品7", "适应症"] == ["发热", "头痛"]
    for other in (of_wide, of_database, of_parquet):
        assert other.to_table("product_records").equals(expected)


def test_whole_titles_are_held_out_whatever_else_is_there(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    rows = [*LONG, *((title, "成份", value) for title, _, value in LONG)]
    some, more = (
        records(tmp_path, TABLE, source) for source in (csv(tmp_path, LONG), csv(tmp_path / "more", rows[::-1]))
    )
    split = [
        dict(zip(table["title"].to_pylist(), table["held_out"].to_pylist(), strict=True))
        for table in (some.to_table("product_records"), more.to_table("product_records"))
    ]
    assert split[0] == split[1]
    assert 2 <= sum(split[0].values()) <= 16
    table = more.to_table("product_records").to_pylist()
    assert all(row["held_out"] == split[0][row["title"]] for row in table)


def test_the_drugs_of_cmekg_and_their_entities(tmp_path: Path) -> None:
    drugs = {
        f"药{n}": {"适应症": ["感冒", "头痛"], "规格": ["10mg"], "通用名": [f"名{n}"], "主治": ["咳嗽"]}
        for n in range(20)
    }
    graph = {**drugs, "糖尿病": {"常见症状": ["多饮"]}, "当归": {"性味": ["味甘"], "主治": ["血虚"]}}
    found = shown(
        records(tmp_path, ProductRecordsParams(), RawInput(written(tmp_path, graph).rename(tmp_path / "cmekg.pkl")))
    )
    assert {title for title, _ in found} == set(drugs)
    assert found["药3", "适应症"] == ["头痛", "感冒"] or found["药3", "适应症"] == ["感冒", "头痛"]
    assert {attribute for _, attribute in found} == {"适应症", "主治"}


def test_the_report_has_the_figures_of_table_2(tmp_path: Path) -> None:
    artifact = records(tmp_path, TABLE, csv(tmp_path, [*LONG, ("药品1", "成份", "甲")]))
    summary = json.loads(artifact.read_file("summary.json"))
    assert summary["all"] == {
        "titles": 40,
        "attributes": 2,
        "values": 81,
        "distinct_values": 9,
        "values_per_title": 2.02,
    }
    assert summary["train"]["titles"] + summary["held_out"]["titles"] == 40
    page = artifact.read_file("report.html").decode()
    assert "Product attribute values per title" in page and "适应症" in page


def test_what_cannot_be_used_is_named_with_a_remedy(tmp_path: Path) -> None:
    rows = [*LONG, ("没有属性的药", "", ""), ("没有值的药", "适应症", ""), ("说明书", "适应症", "长" * 10_000)]
    artifact = records(tmp_path, TABLE, csv(tmp_path, rows))
    named = rejects(artifact)
    assert "没有值的药" in named["missing_end"]["excerpt"]
    assert artifact.manifest.counters["rejected_missing_end"] == 2
    assert "give the title a value of some attribute" in named["missing_end"]["detail"]
    assert (named["long_value"]["doc_id"], named["long_value"]["source"]) == ("说明书", "适应症")
    assert "10,000 characters" in named["long_value"]["detail"] and "separators" in named["long_value"]["detail"]
    assert named["title_without_values"]["doc_id"] == "说明书"
    assert not any(title in ("说明书", "没有属性的药", "没有值的药") for title, _ in shown(artifact))


def test_a_wide_row_without_any_attribute_is_named(tmp_path: Path) -> None:
    params = ProductRecordsParams(columns=("title", "", ""), attribute_columns={"a": "甲", "b": "乙"})
    rows = [*((f"药{n}", f"值{n}", None) for n in range(30)), ("空药", None, None)]
    artifact = records(tmp_path, params, csv(tmp_path, rows, ("title", "a", "b")))
    assert "空药" in rejects(artifact)["missing_end"]["excerpt"]
    assert artifact.rows("product_records") == 30


@pytest.mark.parametrize(
    ("rows", "params", "message"),
    [
        (
            LONG,
            {"attributes": ("适应证",)},
            "product_records.attributes names 适应证, which no product has; there are 适应症",
        ),
        (LONG[:2], {}, r"No product is left to (train on|hold out): there are 1 titles"),
        ([("甲", "乙", "长" * 200)], {}, "No product is left"),
        (LONG, {"columns": ("title", "attr", "value")}, "has no column attr"),
    ],
)
def test_tables_that_give_nothing_are_refused(
    tmp_path: Path, rows: list[Any], params: dict[str, Any], message: str
) -> None:
    given = ProductRecordsParams(**params)
    with pytest.raises(UserError, match=message):
        records(tmp_path, given, csv(tmp_path, rows))
