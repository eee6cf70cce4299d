"""Stage `product_records`: a table of products becomes records (title, attribute, values), whole titles held out.

Products come from CMeKG, where they are its drugs, or from a relational table: CSV, TSV, JSONL or Parquet files, or a
table of a database (tasks/files/database.py). A table is long (columns for title, attribute and value) or wide (a
column for each attribute). What cannot be used goes to `rejects` with its title and a remedy.

The artifact has a page like the paper's Table 2 (`report.html`, `summary.json`, `table.json`).

Time and memory grow with the table, which is read at once: CMeKG's 967,409 triples take 4 s and 0.5 GB.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from pydantic import Field

from infra.artifacts import Artifact
from infra.builds import PartWriter
from infra.errors import UserError
from infra.pages import add_report, render
from infra.stage import Output, StageParams, stage
from kg.sources import cmekg, delimited, products
from kg.sources.source_triples import REJECT_SCHEMA, SourceTriples, checked
from tasks.documents import share_of
from tasks.files.access import is_local
from tasks.files.raw_input import RawInput

if TYPE_CHECKING:  # SQLAlchemy takes 0.2 s to import, and every flow imports the parameters of this stage
    from tasks.files.database import DatabaseTable

TEMPLATE = Path(__file__).with_name("product_records.html.j2")
TITLE_TYPE = "Drug"
NOT_TAKEN = ("Literal", "Alias", "AliasEN", "Category")
"""Types of CMeKG's values that are not taken by default: doses and shelf lives, other names of the title, and classes
of few values, such as OTC类型 with two, which leave no negatives.
"""
SHOWN_TITLES = 3
"""Number of titles that an error names."""


class ProductRecordsParams(StageParams):
    """Where titles, attributes and values stand, which are taken, and the share of titles that is held out."""

    source: str | list[str] | None = Field(
        default=None,
        exclude=True,
        description="files, or the URL of a database without its password; by default the drugs of CMeKG",
    )
    columns: tuple[str, str, str] = Field(
        default=("title", "attribute", "value"), description="columns of a long table; of a wide one only the first"
    )
    attribute_columns: dict[str, str] = Field(
        default={}, description="name of the attribute in each column of a wide table; none: the table is long"
    )
    table: str = Field(
        default="products", description="table or view of a database, perhaps with its schema: shop.drugs"
    )
    separators: str = Field(default="", description="characters that separate the values in a cell, such as ；、")
    attributes: tuple[str, ...] | None = Field(
        default=None,
        description="attributes that are taken; by default all of a table, and of CMeKG those with entities as values",
    )
    longest_value: int = Field(default=126, ge=1, description="most characters of a value; a longer one is a text")
    held_out_share: float = Field(default=0.05, gt=0, lt=1, description="share of titles that are held out")
    seed: int = 42
    """Seed of the choice of records that are held out."""


@stage(name="product_records", version=1, params=ProductRecordsParams, tables=("product_records", "rejects"))
def product_records(inputs: Mapping[str, RawInput | DatabaseTable], params: ProductRecordsParams, out: Output) -> None:
    """Read `inputs["source"]`.

    Raises:
        UserError: a file or database cannot be read, lacks a column, or has none of the attributes, or no record is
            left to train on or to hold out; the message has the remedy.
    """
    found = _read(inputs["source"], params)
    with out.part() as part:
        _reject(part, found.rejects)
        triples = _usable(part, _chosen(found.triples, params), params)
        records = _records(triples, params)
        _reject_titles(part, found.triples, records)
        part.write("product_records", records.to_arrow())
        part.count("titles", records["title"].n_unique())
        part.count("values", int(records["values"].list.len().sum()))
    for held_out, what in ((False, "to train on"), (True, "to hold out")):
        if not (records["held_out"] == held_out).any():
            raise UserError(
                f"No product is left {what}: there are {records['title'].n_unique():,} titles with values, and whole "
                "titles are held out. Give more products or change product_records.held_out_share. The table rejects "
                "lists what was dropped, and why."
            )
    summary = {"all": table_2(records)} | {
        name: table_2(records.filter(pl.col("held_out") == flag))
        for name, flag in (("train", False), ("held_out", True))
    }
    rows = attribute_rows(records)
    page = render(TEMPLATE, summary=summary, attributes=rows, rejected=sorted(_reasons(out).items()))
    add_report(out, page, {**summary, "attributes": rows}, rows)


def table_2(records: pl.DataFrame) -> dict[str, float]:
    """Return the figures of the paper's Table 2 for some records."""
    titles, values = records["title"].n_unique(), int(records["values"].list.len().sum())
    return {
        "titles": titles,
        "attributes": records["attribute"].n_unique(),
        "values": values,
        "distinct_values": records.select("attribute", pl.col("values")).explode("values").n_unique(),
        "values_per_title": round(values / titles, 2) if titles else 0.0,
    }


def attribute_rows(records: pl.DataFrame) -> list[dict[str, Any]]:
    """Return a row per attribute: its titles, values, distinct values and values per title, the most values first."""
    grouped = records.group_by("attribute").agg(
        pl.len().alias("titles"),
        pl.col("values").list.len().sum().alias("values"),
        pl.col("values").explode().n_unique().alias("distinct values"),
    )
    ordered = grouped.sort(["values", "attribute"], descending=[True, False])
    return ordered.with_columns((pl.col("values") / pl.col("titles")).round(2).alias("values per title")).to_dicts()


def records_of(artifact: Artifact, held_out: bool | None = None) -> pl.DataFrame:
    """Return the records of an artifact, all or those that are (not) held out."""
    found = artifact.scan("product_records").collect()
    return found if held_out is None else found.filter(pl.col("held_out") == held_out)


def _read(source: RawInput | DatabaseTable, params: ProductRecordsParams) -> SourceTriples:
    if not isinstance(source, RawInput):
        return _triples(source.frame, source.table, params)
    paths = _local(source)
    if [path.name for path in paths] == [cmekg.PICKLE.name]:
        return _drugs(cmekg.read_cmekg(paths[0]))
    read = []
    for path in paths:
        rows, rejects = delimited.read_columns(path, table_columns(params))
        one = _triples(rows, path.name, params)
        read.append(SourceTriples(one.triples, pl.concat([rejects, one.rejects])))
    return SourceTriples(pl.concat([one.triples for one in read]), pl.concat([one.rejects for one in read]))


def table_columns(params: ProductRecordsParams) -> tuple[str, ...]:
    """Return the columns of a table that are read."""
    return (params.columns[0], *params.attribute_columns) if params.attribute_columns else params.columns


def _triples(rows: pl.DataFrame, name: str, params: ProductRecordsParams) -> SourceTriples:
    if params.attribute_columns:
        named = rows.rename(params.attribute_columns)
        return checked(products.of_wide_rows(named, params.columns[0], list(params.attribute_columns.values())), name)
    roles = dict(zip(("head", "relation", "tail"), params.columns, strict=True))
    numbered = [pl.col(delimited.ROW).alias("row")] if delimited.ROW in rows.columns else []
    return checked(rows.select(*numbered, *(pl.col(column).alias(role) for role, column in roles.items())), name)


def _local(source: RawInput) -> list[Path]:
    paths = [file.path for file in source.files]
    if remote := [path for path in paths if not is_local(path)]:
        raise UserError(f"{remote[0]}: products are read from local files. Copy it to this machine first.")
    return [Path(path) for path in paths]


def _drugs(found: SourceTriples) -> SourceTriples:
    """Return what is taken of CMeKG's drugs; a drug has an attribute that only drugs have.

    主治 (main indication) belongs to drugs, herbs and formulas alike, so the head's type of one triple is not enough.
    """
    is_drug = (pl.col("head_type") == TITLE_TYPE).any().over("head")
    # 阿司匹林 also has 常见症状, which is for diseases, and relations without a type, such as 警示语.
    of_drugs = pl.col("head_type").fill_null("").is_in(("", TITLE_TYPE))
    named = ~pl.col("tail_type").fill_null("").is_in(("", *NOT_TAKEN))
    return SourceTriples(found.triples.filter(is_drug & of_drugs & named), found.rejects)


def _chosen(triples: pl.DataFrame, params: ProductRecordsParams) -> pl.DataFrame:
    if params.attributes is not None:
        known = triples["relation"].unique().sort().to_list()
        missing = sorted(set(params.attributes) - set(known))
        if missing:
            raise UserError(
                f"product_records.attributes names {', '.join(missing)}, which no product has; there are "
                f"{', '.join(known[:50])}. Correct it."
            )
        triples = triples.filter(pl.col("relation").is_in(params.attributes))
    return products.divided(triples, params.separators)


def _usable(part: PartWriter, triples: pl.DataFrame, params: ProductRecordsParams) -> pl.DataFrame:
    """Return the triples whose values are names; longer ones are rejected."""
    length = pl.col("tail").str.len_chars()
    long = triples.filter(length > params.longest_value).with_columns(size=length)
    for row in long.iter_rows(named=True):
        part.reject(
            doc_id=row["head"],
            source=row["relation"],
            reason="long_value",
            detail=f"{row['size']:,} characters, product_records.longest_value is {params.longest_value}: cut it into "
            "values (product_records.separators), or raise the limit",
            text=row["tail"],
        )
    return triples.filter(length <= params.longest_value)


def _reject_titles(part: PartWriter, triples: pl.DataFrame, records: pl.DataFrame) -> None:
    """Reject titles none of whose attributes is left."""
    for title in sorted(set(triples["head"]) - set(records["title"])):
        part.reject(
            doc_id=title,
            source="products",
            reason="title_without_values",
            detail="none of its values is taken: they are too long, or product_records.attributes names others",
            text=title,
        )


def _records(triples: pl.DataFrame, params: ProductRecordsParams) -> pl.DataFrame:
    distinct = triples.select(title="head", attribute="relation", value="tail").unique().sort(pl.all())
    titles = distinct["title"].unique()
    held_out = [share_of(title, "held out", params.seed) < params.held_out_share for title in titles]
    if len(titles) > 1 and not any(held_out):  # a small table: the title with the least draw is held out
        least = min(range(len(titles)), key=lambda number: share_of(titles[number], "held out", params.seed))
        held_out[least] = True
    split = pl.DataFrame({"title": titles, "held_out": pl.Series(held_out, dtype=pl.Boolean)})
    grouped = distinct.group_by("title", "attribute", maintain_order=True).agg(pl.col("value").alias("values"))
    return grouped.join(split, on="title", how="left", maintain_order="left").select(
        "title", "attribute", "values", "held_out"
    )


def _reject(part: PartWriter, rejects: pl.DataFrame) -> None:
    """Write rows that are no triples; a title without attributes is told from a row that is incomplete."""
    assert rejects.columns == list(REJECT_SCHEMA)
    for row in rejects.iter_rows(named=True):
        part.reject(
            doc_id=row["place"],
            source="products",
            reason=row["reason"],
            detail=f"{row['detail']}: give the title a value of some attribute, or leave it out",
            text=row["excerpt"],
        )


def _reasons(out: Output) -> dict[str, int]:
    return {
        name.removeprefix("rejected_"): count for name, count in out.counters().items() if name.startswith("rejected_")
    }
