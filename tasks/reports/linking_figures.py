"""Figures of a knowledge graph in a corpus: the share of the text that is linked, and the linked entities.

Mentions are read part by part. Memory grows with one part and with the entities.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.schemas import TABLES
from tasks.deidentify import deidentify

CONTEXT = 30
"""Characters shown on either side of a mention."""

TEXTS = ("segments", "documents")
"""Tables whose texts can be linked; the counter of the stage `link` has the same name."""


def entity_counts(inputs: Mapping[str, Artifact]) -> pl.DataFrame | None:
    """Return the mentions of the entities that occur, (entity_id, count, documents) by id, or None without a corpus."""
    if "entity_frequencies" in inputs:
        return inputs["entity_frequencies"].scan("entity_frequencies").collect().sort("entity_id")
    if "mentions" not in inputs:
        return None
    counts = inputs["mentions"].scan("mention_counts").group_by("entity_id")
    return counts.agg(pl.col("count", "documents").sum()).collect(engine="streaming").sort("entity_id")


def linking(
    inputs: Mapping[str, Artifact],
    entities: pl.DataFrame,
    counts: pl.DataFrame | None,
    samples: int,
    top: int,
    seed: int,
) -> dict[str, Any] | None:
    """Return figures of the graph's entities in the corpus, or None if no corpus was linked.

    Args:
        inputs: artifacts of the report.
        entities: (entity_id, name, type, …) of the graph.
        counts: result of `entity_counts`.
        samples: number of random mentions.
        top: number of the most frequent entities.
        seed: seed of the samples.
    """
    if counts is None:
        return None
    known = counts.join(entities.select("entity_id", "name", "type"), on="entity_id", maintain_order="left")
    most = known.sort(pl.col("count"), pl.col("entity_id"), descending=[True, False]).head(top)
    return {
        "entities": entities.height,
        "occurring": known.height,
        "share": round(known.height / entities.height, 4) if entities.height else None,
        "not_in_graph": counts.height - known.height,
        "frequent": most.select("name", "type", "count", "documents").to_dicts(),
        "corpus": _corpus(inputs, entities, samples, seed) if "mentions" in inputs else None,
    }


def _corpus(inputs: Mapping[str, Artifact], entities: pl.DataFrame, samples: int, seed: int) -> dict[str, Any]:
    """Return the linking rate of the texts, and random mentions in their context if the texts are given."""
    mentions = inputs["mentions"]
    counters = mentions.manifest.counters
    unit = next((name for name in TEXTS if name in counters), None)
    if unit is None:
        raise UserError(f"{mentions.path} has no count of linked texts. Give an artifact of the stage link.")
    texts, characters, found = (counters.get(name, 0) for name in (unit, "characters", "mentions"))
    linked, drawn = _pass_over(mentions, samples, seed)
    return {
        "unit": unit,
        "texts": texts,
        "texts_with_mention": linked,
        "share_with_mention": round(linked / texts, 4) if texts else None,
        "characters": characters,
        "mentions": found,
        "per_1000_characters": round(1000 * found / characters, 2) if characters else None,
        "share_of_characters": round(counters.get("linked_characters", 0) / characters, 4) if characters else None,
        "samples": _in_context(inputs["segments"], drawn, entities) if "segments" in inputs else None,
    }


def _pass_over(mentions: Artifact, samples: int, seed: int) -> tuple[int, pl.DataFrame]:
    """Return the number of texts with a mention, and random rows of the table mentions.

    The mentions of a text are adjacent rows of one part, so that each change of id begins a new text.
    """
    rows = mentions.rows("mentions")
    wanted = sorted(random.Random(seed).sample(range(rows), min(samples, rows)))
    texts, first = 0, 0
    drawn = [pl.DataFrame(TABLES["mentions"].empty_table())]
    for part in mentions.parts("mentions"):
        frame = pl.DataFrame(part.read())
        texts += int(frame["segment_id"].ne_missing(frame["segment_id"].shift()).sum())
        drawn.append(frame[[place - first for place in wanted if first <= place < first + frame.height]])
        first += frame.height
    return texts, pl.concat(drawn)


def _in_context(texts: Artifact, drawn: pl.DataFrame, entities: pl.DataFrame) -> list[dict[str, str]]:
    """Return mentions with the text around them, without identifiers; mentions inside identifiers are left out.

    Raises:
        UserError: the mentions do not belong to these texts.
    """
    table = next((name for name in TEXTS if name in texts.manifest.tables), TEXTS[0])
    rows = texts.scan(table).select("text", segment_id="segment_id" if table == "segments" else "doc_id")
    rows = rows.join(drawn.lazy().select("segment_id").unique(), on="segment_id", how="semi")
    found = dict(rows.select("segment_id", "text").collect(engine="streaming").iter_rows())
    named = drawn.join(entities.select("entity_id", "name", "type"), on="entity_id", how="left", maintain_order="left")
    named = named.with_columns(pl.col("name").fill_null(pl.col("entity_id")), pl.col("type").fill_null(""))
    shown = []
    for mention in named.iter_rows(named=True):
        text = found.get(mention["segment_id"])
        if text is None:
            raise UserError(
                f"{texts.path} has no text {mention['segment_id']!r}, which was linked. Give the linked texts."
            )
        context = _around(text, mention["start"], mention["end"])
        if context is not None:
            shown.append({**context, "name": mention["name"], "type": mention["type"]})
    return shown


def _around(text: str, start: int, end: int) -> dict[str, str] | None:
    """Return the text before a mention, the mention, and the text after it, or None inside an identifier.

    The whole text is de-identified first, so that no cut leaves half of an identifier. The mention is then the
    occurrence of its surface that is nearest to its expected position.
    """
    surface = text[start:end]
    treated, _ = deidentify(text)
    places = [found.start() for found in re.finditer(re.escape(surface), treated)]
    if not places:
        return None
    expected = len(deidentify(text[:start])[0])
    place = min(places, key=lambda place: abs(place - expected))
    before, after = treated[:place], treated[place + len(surface) :]
    return {
        "before": ("…" if len(before) > CONTEXT else "") + before[-CONTEXT:],
        "surface": surface,
        "after": after[:CONTEXT] + ("…" if len(after) > CONTEXT else ""),
    }
