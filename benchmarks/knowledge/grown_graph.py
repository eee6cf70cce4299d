"""A synthetic knowledge graph of SMedBERT's size, grown from CMeKG: 274,163 entities, 56 relations, 4.4 M triples.

SMedBERT's own graph is not public. This one starts with all of CMeKG's triples and adds more, one by one:

- heads: every head, old or new, gets a number of triples in proportion to those of CMeKG's heads; that of a new one is
  drawn from theirs. So the ratio of heads to entities stays the same, and no head has only a few triples;
- tails: preferential attachment (Simon 1955). A triple copies relation and tail of a random earlier one, or its tail is
  new. So a few entities are the tail of very many triples and most of hardly any, as in CMeKG;
- relations: the 55 most frequent of CMeKG and one for all others;
- names: the beginning of one name of CMeKG and the end of another.

Heads and tails are paired at random, without the neighbourhoods of a real graph, so PEPR can eliminate less.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from kg.graph import KnowledgeGraph
from kg.sources import cmekg

ENTITIES, TRIPLES, RELATIONS = 274_163, 4_400_000, 56
REDRAWN = 1.2
"""Triples drawn for each that is wanted: some are equal to earlier ones."""
OTHER = "其他"


def read_cmekg() -> KnowledgeGraph:
    """The package's triples as they are, without fusion."""
    return KnowledgeGraph.from_triples(filter(all, cmekg.triples(cmekg.load())))


def grown_graph(seed: KnowledgeGraph, share: float = 1.0) -> KnowledgeGraph:
    """The graph of full size, or the one that so much of the growth leads to; the same every time.

    Takes half a minute and 2 GB at full size.
    """
    drawn = np.random.default_rng(6)
    entities = seed.num_entities + int((ENTITIES - seed.num_entities) * share)
    triples = seed.num_triples + int((TRIPLES - seed.num_triples) * share)
    first, steps = seed.num_triples, int((triples - seed.num_triples) * REDRAWN)
    old_heads = np.unique(seed.heads)
    new_heads = (entities - seed.num_entities) * len(old_heads) // seed.num_entities
    new_tails = entities - seed.num_entities - new_heads
    # Everything new comes early enough to be within the triples that are kept, in steps of their own.
    births = first + drawn.choice(triples - first, new_heads + new_tails, replace=False)

    degrees = np.bincount(seed.heads)[old_heads]
    wanted = np.concatenate([degrees, drawn.choice(degrees, new_heads)]) * (triples / first)
    wanted *= triples / wanted.sum()
    lacking = np.maximum(wanted - np.concatenate([degrees, np.ones(new_heads)]), 0)
    everyone = np.concatenate([old_heads, seed.num_entities + np.arange(new_heads)])
    heads = np.concatenate([seed.heads, drawn.choice(everyone, steps, p=lacking / lacking.sum())])
    heads[births[:new_heads]] = everyone[len(old_heads) :]

    places = np.arange(first + steps)
    copied = np.where(places < first, places, (drawn.random(first + steps) * places).astype(np.int64))
    relation_places = _end_of(copied)
    copied[births[new_heads:]] = births[new_heads:]
    tails = np.concatenate([seed.tails, np.zeros(steps, seed.tails.dtype)])
    tails[births[new_heads:]] = np.arange(entities - new_tails, entities)
    tails = tails[_end_of(copied)]

    frequent = np.argsort(-np.bincount(seed.relations), kind="stable")[: RELATIONS - 1].tolist()
    names = [name if place in frequent else OTHER for place, name in enumerate(seed.relation_names)]
    everybody = pl.Series(seed.names + _new_names(seed.names, entities - seed.num_entities, drawn))
    frame = pl.DataFrame(
        {
            "head": everybody.gather(heads),
            "relation": pl.Series(names).gather(seed.relations[relation_places]),
            "tail": everybody.gather(tails),
        }
    )
    return KnowledgeGraph.from_frame(frame.unique(maintain_order=True).head(triples), source="synthetic")


def _end_of(copied: np.ndarray) -> np.ndarray:
    """The place where each chain of copies began."""
    while not np.array_equal(further := copied[copied], copied):
        copied = further
    return copied


def _new_names(names: list[str], count: int, drawn: np.random.Generator) -> list[str]:
    """So many names that none of the others is."""
    known, found = set(names), dict[str, None]()
    while len(found) < count:
        begin, end = (names[place] for place in drawn.integers(len(names), size=2))
        name = (begin[: (len(begin) + 1) // 2] + end[len(end) // 2 :]).strip()
        if name and name not in known:
            found[name] = None
    return list(found)
