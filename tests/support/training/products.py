"""Synthetic products: titles with values of three attributes, as arrays and as rows of the table `products`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from infra import schemas
from models.objectives.electra_em_pap.values import ProductValues
from models.training.reader import ExampleStream
from tests.support.training.token_rows import random_rows

CLS, SEP = 2, 3


def product_values() -> ProductValues:
    """40 values of 1 to 4 tokens: attribute 0 has 0 to 24, attribute 1 has 25 to 29, attribute 2 has 30 to 38."""
    bodies = [[5 + value, *range(60, 60 + value % 4)] for value in range(40)]
    ids = [[CLS, *body, SEP] for body in bodies]
    stated = [range(0, 25), range(25, 30), range(30, 39)]
    return ProductValues(
        np.concatenate(ids).astype(np.uint32),
        np.cumsum([0, *map(len, ids)]),
        np.array([value for values in stated for value in values], dtype=np.uint32),
        np.cumsum([0, *map(len, stated)]),
        np.array([1 + value % 3 for values in stated for value in values], dtype=np.uint32),
    )


def product_rows(count: int = 6) -> list[dict[str, Any]]:
    """Rows of pairs: each with a title of its own, attributes in turn, one to five values, of attribute 1 at most 3."""
    generator = np.random.default_rng(3)
    rows = []
    for number in range(count):
        attribute = number % 3
        stated = product_values().of(attribute)
        most = 3 if attribute == 1 else 5
        title = [70 + number % 100, *generator.integers(100, 120, number % 3)]
        name = [200 + attribute, 210]
        rows.append(
            {
                "input_ids": np.array([CLS, *title, SEP, *name, SEP]),
                "second": len(title) + 2,
                "attribute": attribute,
                "values": np.sort(generator.choice(stated, 1 + number % most, replace=False)),
            }
        )
    return rows


class TablePart:
    """A table as a part that `ExampleStream` reads."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.rows = len(table)

    def read(self, columns: list[str] | None = None) -> pa.Table:
        return self._table.select(columns or self._table.column_names)


def streams_of(objective: Any, count: int, seed: int) -> dict[str, ExampleStream]:
    """Streams of both tasks of an objective: `count` rows of text with a mention each, and as many pairs."""
    text = [
        {
            "input_ids": row["input_ids"].tolist(),
            "word_starts": row["word_starts"].tolist(),
            "mentions": [{"start": 2, "end": 5, "entity": 0, "surface": 0}],
            "doc_id": "",
            "source": "synthetic",
        }
        for row in random_rows([12 + number % 9 for number in range(count)], seed=seed)
    ]
    pairs = [
        {**{name: np.asarray(value).tolist() for name, value in row.items()}, "title": "", "attribute_name": ""}
        for row in product_rows(count)
    ]
    tables = {"examples": text, "products": pairs}
    return {
        task.name: ExampleStream([TablePart(schemas.conform(tables[task.table], task.table))], seed, task.columns)
        for task in objective.tasks
    }
