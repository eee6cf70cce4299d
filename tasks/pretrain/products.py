"""Stage `products`: product records become rows of token ids for product attribute prediction (PAP).

A row is a pair of title and attribute name, `[CLS] title [SEP] attribute [SEP]`, with the numbers of its values. The
values' token ids are arrays beside the tables (folder `values`, models/objectives/electra_em_pap/values.py), from which
negatives are drawn at each step. Values that read alike are one: VC and vc have the same tokens, and one must not be
the negative of the other.

A pair whose title has every value of the attribute has no negative of that attribute. It is rejected with its name.

Time and memory grow with the records, which are encoded at once: 3 s and 0.3 GB for CMeKG's 46,904 pairs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import Field

from infra import schemas
from infra.artifacts import Artifact
from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from models.objectives.electra_em_pap.values import VALUES, ProductValues
from models.tokenizer.corpus import CorpusTokenizer, corpus_tokenizer
from models.tokenizer.special_ids import CLS, SEP
from tasks.pretrain.product_records import records_of

ROWS_PER_PART = 20_000
SEPARATORS = 3
"""[CLS] and two [SEP] of a pair."""
LONGEST_NAME = 32
"""Most tokens of an attribute's name; the title has the rest of the row."""


class ProductsParams(StageParams):
    """Length of a row."""

    max_length: int = Field(default=128, ge=64, le=2**16 - 1, description="tokens of a title with its attribute's name")


class Texts(NamedTuple):
    """Distinct texts as token ids."""

    ids: np.ndarray
    """uint32, end to end, without special tokens."""
    borders: np.ndarray
    """int64 (N+1,)"""
    number: dict[str, int]
    """Each text's number."""

    def of(self, text: str) -> np.ndarray:
        number = self.number[text]
        return self.ids[self.borders[number] : self.borders[number + 1]]


@stage(
    name="products", version=2, params=ProductsParams, tables=("products", "held_out_products", "rejects"), heavy=True
)
def products(inputs: Mapping[str, Artifact], params: ProductsParams, out: Output) -> None:
    """Encode `inputs["records"]`, of the stage `product_records`, with the tokeniser of `inputs["vocabulary"]`.

    Raises:
        UserError: no pair is left to train on or to hold out; the message names the attributes.
    """
    tokenizer = corpus_tokenizer(inputs["vocabulary"].read_file("tokenizer.json").decode())
    records = records_of(inputs["records"])
    with out.part() as part:
        values, number_of = _values(part, records, tokenizer, params)
        rows, held_out = _rows(part, records, values, number_of, tokenizer, params)
        for table, chosen in (("products", ~held_out), ("held_out_products", held_out)):
            _write(part, table, rows.filter(pa.array(chosen)))
    with tempfile.TemporaryDirectory(prefix="yiwen-products-") as folder:
        (Path(folder) / VALUES).mkdir()
        values.save(Path(folder) / VALUES)
        out.add_folder(Path(folder))
    for table, what in (("products", "to train on"), ("held_out_products", "to hold out")):
        if not out.rows(table):
            names = ", ".join(records["attribute"].unique().sort().to_list()[:10])
            raise UserError(
                f"No pair of title and attribute is left {what}: there is no value that a title lacks, so none can be "
                f"wrong (attributes: {names}). Give more products, or attributes in which they differ. The table "
                "rejects lists the pairs."
            )


def encoded(texts: list[str], tokenizer: CorpusTokenizer) -> Texts:
    """Return the tokens of distinct texts."""
    found = tokenizer.encode(texts)
    return Texts(found.ids.astype(np.uint32), found.borders, {text: number for number, text in enumerate(texts)})


def pair_ids(title: np.ndarray, name: np.ndarray, max_length: int) -> tuple[np.ndarray, int]:
    """Return `[CLS] title [SEP] name [SEP]` of at most `max_length` tokens, and where the name begins.

    The title is cut, and a name only beyond `LONGEST_NAME` tokens: without it a row would not say what is asked.
    """
    name = name[:LONGEST_NAME]
    title = title[: max_length - SEPARATORS - len(name)]
    return np.concatenate([[CLS], title, [SEP], name, [SEP]]), len(title) + 2


def value_ids(value: np.ndarray, max_length: int) -> np.ndarray:
    """Return `[CLS] value [SEP]` of at most `max_length` tokens."""
    return np.concatenate([[CLS], value[: max_length - 2], [SEP]])


def _values(
    part: PartWriter, records: pl.DataFrame, tokenizer: CorpusTokenizer, params: ProductsParams
) -> tuple[ProductValues, dict[str, int]]:
    """Return the values, and the number of each by its text; a value without any token has none."""
    texts = encoded(records["values"].explode().unique().sort().to_list(), tokenizer)
    numbers: dict[bytes, int] = {}
    number_of: dict[str, int] = {}
    kept: list[np.ndarray] = []
    for text in texts.number:
        body = texts.of(text)
        if not len(body):  # nothing but characters that the tokeniser drops
            continue
        if len(body) > params.max_length - 2:
            part.count("truncated_values")
        ids = value_ids(body, params.max_length)
        key = ids.astype(np.uint32).tobytes()
        if key not in numbers:
            numbers[key] = len(kept)
            kept.append(ids)
        number_of[text] = numbers[key]
    part.count("values", len(kept))
    part.count("values_read_alike", len(number_of) - len(kept))
    trained = records.filter(~pl.col("held_out"))
    stated = [_counted(found["values"], number_of) for _, found in _by_attribute(records, trained)]
    return (
        ProductValues(
            np.concatenate([*kept, np.empty(0, int)]).astype(np.uint32),
            np.cumsum([0, *map(len, kept)]),
            np.concatenate([*(own for own, _ in stated), np.empty(0, int)]).astype(np.uint32),
            np.cumsum([0, *(len(own) for own, _ in stated)]),
            np.concatenate([*(counts for _, counts in stated), np.empty(0, int)]).astype(np.uint32),
        ),
        number_of,
    )


def attribute_names(records: pl.DataFrame) -> list[str]:
    """Return the names of all attributes of records, in the order of their numbers."""
    return records["attribute"].unique().sort().to_list()


def _by_attribute(records: pl.DataFrame, some: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    grouped = {key[0]: found for key, found in some.group_by("attribute")}
    return [(str(name), grouped.get(name, some.clear())) for name in attribute_names(records)]


def _counted(values: pl.Series, number_of: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct numbers in lists of values, increasing, and how many lists have each; int64."""
    numbers = [number for stated in values.to_list() for number in {number_of[t] for t in stated if t in number_of}]
    return np.unique(np.array(numbers, dtype=np.int64), return_counts=True)


def _rows(
    part: PartWriter,
    records: pl.DataFrame,
    values: ProductValues,
    number_of: Mapping[str, int],
    tokenizer: CorpusTokenizer,
    params: ProductsParams,
) -> tuple[pa.Table, np.ndarray]:
    """Return the rows, and for each whether it is held out, bool."""
    titles = encoded(records["title"].unique().sort().to_list(), tokenizer)
    names = attribute_names(records)
    name_ids = encoded(names, tokenizer)
    trained = [set(values.of(number).tolist()) for number in range(len(names))]
    rows: list[tuple[Any, ...]] = []
    split: list[bool] = []
    for title, attribute, stated, held_out in records.iter_rows():
        own = {number_of[text] for text in stated if text in number_of}
        number = name_ids.number[attribute]
        if not own or trained[number] <= own:
            _reject(part, title, attribute, stated, "no_negative" if own else "no_value")
            continue
        ids, second = pair_ids(titles.of(title), name_ids.of(attribute), params.max_length)
        if len(ids) < SEPARATORS + len(titles.of(title)) + len(name_ids.of(attribute)):
            part.count("truncated_titles")
        rows.append((ids, second, number, sorted(own), title, attribute))
        split.append(held_out)
    columns = zip(*rows, strict=True) if rows else ([] for _ in schemas.PRODUCTS)
    table = pa.Table.from_arrays(
        [pa.array(list(column), field.type) for column, field in zip(columns, schemas.PRODUCTS, strict=True)],
        schema=schemas.PRODUCTS,
    )
    return table, np.array(split, dtype=bool)


def _reject(part: PartWriter, title: str, attribute: str, stated: list[str], reason: str) -> None:
    why = {
        "no_negative": f"it has every value that {attribute} has in training, so none can be wrong: give more products "
        f"or leave {attribute} out of product_records.attributes",
        "no_value": "its values have no character that the vocabulary's tokeniser keeps: correct them",
    }[reason]
    part.reject(doc_id=title, source=attribute, reason=reason, detail=why, text="; ".join(stated))


def _write(part: PartWriter, table: str, rows: pa.Table) -> None:
    for first in range(0, len(rows), ROWS_PER_PART):
        part.write(table, rows.slice(first, ROWS_PER_PART))
    part.count(table, len(rows))
