"""Stage `query_title`: query-title relevance made from the indications of products, as the paper's QTRel tasks.

A query is an indication, a title is relevant if it has the indication. In the easy task the query occurs in the title
(感冒 in 感冒清热颗粒). In the hard one no two neighbouring characters of the query stand together in the title, as no
word of a query occurs in the paper's hard titles. An irrelevant pair is a title with a query of another relevant pair
of the task, so that both labels have the same queries equally often, and no query by itself gives the answer away.

Pairs of held-out titles are dev and test, so a model that was trained on the other titles' values has not seen theirs.
The artifact has the tasks' files in the form that finetune/qtrel-easy and -hard read (`QTRel-easy/train.tsv`: query,
title, label). Where `inputs["test"]` is given, its pairs of the hard kind are a test set of their own in `other`.

Time and memory grow with the records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from pydantic import Field

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from tasks.documents import share_of
from tasks.pretrain.product_records import records_of

TASKS = {"easy": "QTRel-easy", "hard": "QTRel-hard"}
"""Folder of each task's files, by its kind."""
OTHER = "other"
"""Folder of the hard task with a test set of other products."""
ATTEMPTS = 20
"""Number of queries that are tried for a title before it gets no irrelevant pair."""


class QueryTitleParams(StageParams):
    """What a query is, and the sizes of the sets."""

    attributes: tuple[str, ...] = Field(
        default=("适应症", "主治", "功能主治"), description="attributes whose values are what a product is for"
    )
    shortest: int = Field(default=2, ge=2, description="fewest characters of a query")
    longest: int = Field(default=12, ge=2, description="most characters of a query")
    train_pairs: int = Field(default=9_000, ge=2, description="most pairs of train; the paper has 9,303 and 8,941")
    test_pairs: int = Field(default=1_000, ge=2, description="most pairs of dev and of test")
    seed: int = 42
    """Seed of the choice of queries and titles."""


class Relevant(NamedTuple):
    """A relevant pair, and all indications of its title."""

    query: str
    title: str
    indications: frozenset[str]


@stage(name="query_title", version=1, params=QueryTitleParams)
def query_title(inputs: Mapping[str, Artifact], params: QueryTitleParams, out: Output) -> None:
    """Make the tasks from `inputs["records"]`, of the stage `product_records`.

    Raises:
        UserError: there is no relevant pair of a kind in a split.
    """
    for kind, folder in TASKS.items():
        own = _relevant(records_of(inputs["records"], held_out=False), kind, params)
        other = _relevant(records_of(inputs["records"], held_out=True), kind, params)
        halves = [[one for one in other if _is_dev(one.title, params) == flag] for flag in (True, False)]
        for split, relevant, most in zip(
            ("train", "dev", "test"), (own, *halves), (params.train_pairs, *[params.test_pairs] * 2), strict=True
        ):
            pairs = labelled(relevant, kind, most, f"{params.seed} {split}")
            _write(out, f"{folder}/{split}.tsv", pairs, kind)
            if "test" in inputs and kind == "hard" and split != "test":
                _write(out, f"{OTHER}/{folder}/{split}.tsv", pairs, kind)
    if "test" in inputs:
        relevant = _relevant(records_of(inputs["test"]), "hard", params)
        pairs = labelled(relevant, "hard", params.test_pairs, f"{params.seed} other")
        _write(out, f"{OTHER}/{TASKS['hard']}/test.tsv", pairs, "hard")


def is_of_kind(query: str, title: str, kind: str) -> bool:
    """Return whether a pair belongs to the easy or to the hard task; some pairs belong to neither."""
    if kind == "easy":
        return query in title
    return not any(query[place : place + 2] in title for place in range(len(query) - 1))


def labelled(relevant: Sequence[Relevant], kind: str, most: int, key: str) -> list[tuple[str, str, int]]:
    """Return rows (query, title, label), half of them irrelevant, at most `most`, in an order that `key` fixes.

    An irrelevant row of the hard task keeps its rule too: a word that both share would be a clue otherwise.
    """
    draw = np.random.default_rng(int(share_of(key, "query title", 0) * 2**53))
    chosen = [relevant[place] for place in draw.permutation(len(relevant))[: max(1, most // 2)]]
    queries = [one.query for one in chosen]
    rows: list[tuple[str, str, int]] = []
    for one in chosen:
        for _ in range(ATTEMPTS):
            query = queries[int(draw.integers(len(queries)))]
            if query not in one.indications and (kind == "easy" or is_of_kind(query, one.title, kind)):
                rows += [(one.query, one.title, 1), (query, one.title, 0)]
                break
    return [rows[place] for place in draw.permutation(len(rows))]


def _relevant(records: pl.DataFrame, kind: str, params: QueryTitleParams) -> list[Relevant]:
    stated = records.filter(pl.col("attribute").is_in(params.attributes))
    of_titles = stated.group_by("title").agg(pl.col("values").explode().unique().sort()).sort("title")
    return [
        Relevant(query, title, frozenset(queries))
        for title, queries in of_titles.iter_rows()
        for query in queries
        if params.shortest <= len(query) <= params.longest and is_of_kind(query, title, kind)
    ]


def _is_dev(title: str, params: QueryTitleParams) -> bool:
    return share_of(title, "query title dev", params.seed) < 0.5


def _write(out: Output, name: str, rows: Sequence[tuple[Any, ...]], kind: str) -> None:
    if not rows:
        raise UserError(
            f"{name}: no title has a query of the {kind} kind and another that it lacks. Give more products, or name "
            "the attributes of indications in query_title.attributes."
        )
    lines = ("\t".join(" ".join(str(field).split()) for field in row) for row in rows)
    out.add_bytes(name, "".join(f"{line}\n" for line in lines).encode())
    out.count(f"pairs_{name.removesuffix('.tsv').replace('/', '_')}", len(rows))
