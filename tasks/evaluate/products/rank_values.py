"""Stage `rank_values`: does a model know which values a product has? Right values ranked among wrong ones.

For a title and an attribute the candidates are each right value and `negatives` wrong ones of the same attribute. They
are ranked by the distance of Equation 2 of ELECTRA+EM+PAP, in the norm that the model was trained with, or, for a model
without PAP, by that of plain [CLS] states. Beside the model's figures stand what guessing scores and what the frequency
of a value in training scores: a model must beat both before it knows anything of the title.

The table `value_ranks` has every rank, `summary.json` the figures, `report.html` both. Time grows with the texts that
are encoded, each distinct one once; memory with their states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.pages import add_report, render
from infra.stage import Output, stage
from tasks.documents import share_of
from tasks.evaluate.products.value_params import RankValuesParams
from tasks.evaluate.products.value_ranking import HITS, KINDS, Kind, KnownValues, frequency, known_values, ranks, scores
from tasks.evaluate.text_encoder import Text, TextEncoder, of_checkpoint, of_folder
from tasks.pretrain.product_records import records_of
from tasks.pretrain.products import encoded, pair_ids, value_ids

TEMPLATE = Path(__file__).with_name("rank_values.html.j2")
MAX_LENGTH = 128
MEASURES = ("mrr", *(f"hits@{top}" for top in HITS))


@stage(name="rank_values", version=2, params=RankValuesParams, tables=("value_ranks",), heavy=True)
def rank_values(inputs: Mapping[str, Any], params: RankValuesParams, out: Output) -> None:
    """Rank values of `inputs["records"]`, of the stage `product_records`.

    The model is `inputs["checkpoint"]`, a `train` artifact, with its `inputs["vocabulary"]`; or `inputs["model"]`, a
    `ModelFolder`. `inputs["trained_on"]`, if given, are the records that it was trained on; otherwise those of
    `records` that are not held out.

    Raises:
        UserError: there is nothing to ask, or no wrong candidate.
    """
    encoder = _encoder(inputs)
    records: Artifact = inputs["records"]
    asked = asked_records(records, params)
    trained = records_of(inputs.get("trained_on", records), held_out=False)
    rows = ranked_rows(questions(asked, known_values(records_of(records)), params), trained, encoder)
    with out.part() as part:
        part.write("value_ranks", rows)
        part.count("pairs", len(asked))
    summary = summarise(rows)
    summary["distance"] = "‖f(E(t ⊕ n)) − f(E(v))‖" if encoder.projection is not None else "‖E(t ⊕ n) − E(v)‖"
    table = [{"candidates": name, **figures} for name, figures in summary["groups"].items()]
    add_report(out, render(TEMPLATE, measures=MEASURES, params=params, **summary), summary, table)


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return figures by group: how the wrong were drawn, whether the value was seen in training, and the attribute.

    `popularity_…` are those of ranking by frequency in training.
    """
    groups: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        of_kind = [row for row in rows if row["wrong"] == kind]
        groups[f"{kind}: all"] = _figures(of_kind)
        for seen, name in ((True, "value seen in training"), (False, "value not seen")):
            groups[f"{kind}: {name}"] = _figures([row for row in of_kind if row["is_seen"] == seen])
        groups[f"{kind}: title seen in training"] = _figures([row for row in of_kind if row["is_known_title"]])
        for attribute in sorted({row["attribute"] for row in of_kind}):
            groups[f"{kind}: {attribute}"] = _figures([row for row in of_kind if row["attribute"] == attribute])
    return {"groups": {name: figures for name, figures in groups.items() if figures}}


def _figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    if not rows:
        return {}
    sizes = [row["candidates"] for row in rows]
    by_frequency = scores([row["popularity_rank"] for row in rows], sizes)
    return (
        {"values": len(rows)}
        | scores([row["rank"] for row in rows], sizes)
        | {f"popularity_{name}": value for name, value in by_frequency.items() if name in MEASURES}
    )


def _encoder(inputs: Mapping[str, Any]) -> TextEncoder:
    if "checkpoint" in inputs:
        return of_checkpoint(inputs["checkpoint"], inputs["vocabulary"])
    return of_folder(inputs["model"].path)


def asked_records(records: Artifact, params: RankValuesParams) -> list[dict[str, Any]]:
    """Return the records that are asked about, in an order that the seed fixes."""
    found = records_of(records, True if params.titles == "held_out" else None)
    if params.attributes is not None:
        found = found.filter(pl.col("attribute").is_in(params.attributes))
    if found.is_empty():
        raise UserError(
            f"{records.path} has no {params.titles.replace('_', ' ')} titles with the attributes "
            f"{', '.join(params.attributes or ('any',))}. Give other attributes or titles."
        )
    rows = found.to_dicts()
    rows.sort(key=lambda row: share_of(_key(row), "rank values", params.seed))
    return rows[: params.pairs]


def _key(row: Mapping[str, Any]) -> str:
    return f"{row['title']}\0{row['attribute']}"


class Question(NamedTuple):
    """A pair of title and attribute with wrong candidates."""

    row: Mapping[str, Any]
    """Its record."""
    kind: Kind
    wrong: list[str]


def questions(
    asked: Sequence[Mapping[str, Any]], known: Mapping[str, KnownValues], params: RankValuesParams
) -> list[Question]:
    """Draw the wrong candidates of records in both ways; a record of which no value can be wrong is left out.

    Raises:
        UserError: no record is left.
    """
    found = [
        Question(row, kind, wrong)
        for row in asked
        for kind in KINDS
        if (
            wrong := known[row["attribute"]].wrong(row["values"], params.negatives, kind, f"{params.seed}\0{_key(row)}")
        )
    ]
    if not found:
        raise UserError("No value can be wrong: every title has all values of its attributes. Give more products.")
    return found


def ranked_rows(asked: Sequence[Question], trained: pl.DataFrame, encoder: TextEncoder) -> list[dict[str, Any]]:
    """Return rows of the table `value_ranks`: every right value ranked by the encoder and by frequency in `trained`."""
    pairs = list({_key(row): row for row, _, _ in asked}.values())
    asked_of = [(row["title"], row["attribute"]) for row in pairs]
    pair_states = dict(zip(map(_key, pairs), encoder.states(_pairs(pairs, encoder), asked_of), strict=True))
    texts = sorted({value for row, _, wrong in asked for value in (*row["values"], *wrong)})
    value_states = dict(zip(texts, encoder.states(_values(texts, encoder), [(text,) for text in texts]), strict=True))
    counted = counted_values(trained)
    titles = set(trained["title"].to_list())
    rows = []
    for row, kind, wrong in asked:
        point = pair_states[_key(row)]
        right = row["values"]
        distance = {
            name: np.linalg.norm(np.stack([value_states[value] for value in some]) - point, ord=encoder.norm, axis=1)
            for name, some in (("right", right), ("wrong", wrong))
        }
        own = ranks(distance["right"], distance["wrong"])
        seen = counted.get(row["attribute"], Counter())
        popular = ranks(frequency(right, seen), frequency(wrong, seen))
        rows += [
            {
                "title": row["title"],
                "attribute": row["attribute"],
                "value": value,
                "wrong": kind,
                "candidates": len(wrong) + 1,
                "rank": float(rank),
                "popularity_rank": float(other),
                "is_seen": value in seen,
                "is_known_title": row["title"] in titles,
            }
            for value, rank, other in zip(right, own, popular, strict=True)
        ]
    return rows


def counted_values(trained: pl.DataFrame) -> dict[str, Counter[str]]:
    """Return the number of training titles that have each value, by attribute."""
    counted = trained.explode("values").group_by("attribute", "values").len()
    found: dict[str, Counter[str]] = {}
    for attribute, value, count in counted.iter_rows():
        found.setdefault(attribute, Counter())[value] = count
    return found


def _pairs(asked: Sequence[Mapping[str, Any]], encoder: TextEncoder) -> list[Text]:
    titles = encoded(sorted({row["title"] for row in asked}), encoder.tokenizer)
    names = encoded(sorted({row["attribute"] for row in asked}), encoder.tokenizer)
    longest = min(MAX_LENGTH, encoder.longest)
    return [pair_ids(titles.of(row["title"]), names.of(row["attribute"]), longest) for row in asked]


def _values(texts: list[str], encoder: TextEncoder) -> list[Text]:
    found = encoded(texts, encoder.tokenizer)
    bodies = [value_ids(found.of(text), min(MAX_LENGTH, encoder.longest)) for text in texts]
    return [(body, len(body)) for body in bodies]
