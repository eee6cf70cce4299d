"""Figures of a knowledge graph in a corpus: how much of the text is linked, and to which entities.

Mentions are gone through part by part; memory grows with one part and with the entities.
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
"""Characters that are shown on either side of a mention."""

TEXTS = ("segments", "documents")
"""Tables that texts are linked in; the counter of the stage `link` has the same name."""


def entity_counts(inputs: Mapping[str, Artifact]) -> pl.DataFrame | None:
    """(entity_id, count, documents) by id: mentions of the entities that occur; None where no corpus was linked."""
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
    """How the graph's entities occur in the corpus; None where no corpus was linked.

    Args:
        entities: (entity_id, name, type, …) of the graph.
        counts: what `entity_counts` found.
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
    """The linking rate on the texts, and random mentions with what stands around them where the texts are given."""
    mentions = inputs["mentions"]
    counters = mentions.manifest.counters
    unit = next((name for name in TEXTS if name in counters), None)
    if unit is None:
        raise UserError(
            f"{mentions.path} does not tell how many texts were linked. Give an artifact of the stage link."
        )
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
    """The number of texts that have a mention, and random rows of the table mentions.

    A text's mentions stand side by side in one part, so that a change of id is a new text.
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
    """The drawn mentions with the text around them, without identifiers; one that was part of such is left out.

    Raises:
        UserError: the mentions are not of these texts.
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
                f"{texts.path} has no text {mention['segment_id']!r}, which was linked. Give the texts that were."
            )
        context = _around(text, mention["start"], mention["end"])
        if context is not None:
            shown.append({**context, "name": mention["name"], "type": mention["type"]})
    return shown


def _around(text: str, start: int, end: int) -> dict[str, str] | None:
    """What stands before a mention, its surface, and what stands after it; None where it is part of an identifier.

    The whole text is treated, so that none of an identifier is left that a cut goes through; the mention is then the
    place of its surface that is nearest to where it was.
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
