"""Names that a knowledge graph has for the codes of a terminology: those of every entity with the code.

A code is first looked up as the graph has it. National lists refine ICD-10 and pad its own codes with zeros (K25.9 as
K25.900, D66 as D66.x00): if a list has no K25.9, its K25.900 gets the names. The names of a finer code that the list
lacks (K25.903) go to the closest code above it that the list has.

kg/codes.py extracts the codes from a cell; a morphology, a range and an exception give none of a list of ICD-10.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

import polars as pl

from kg.codes import codes_in
from kg.names import normalise_names


class CodeNames(NamedTuple):
    """Sorted names by code, and the number of names left out, by reason."""

    names: Mapping[str, Sequence[str]]
    counts: Counter[str]


def names_by_code(
    entities: pl.DataFrame, triples: pl.DataFrame, terms: Mapping[str, Sequence[str]], relation: str, max_codes: int
) -> CodeNames:
    """Return names for the codes of `terms` (standard terms by code), from the tables kg_entities and kg_triples.

    A name that is, in comparable form, a standard term of another code belongs only to that code. A name of more than
    `max_codes` codes is too unspecific and goes to none; one of fewer goes to each.

    Args:
        relation: name of the relation whose tails are codes.
    """
    own = dict(entities.select("entity_id", "name").iter_rows())
    also = dict(entities.select("entity_id", "aliases").iter_rows())
    coded = triples.filter(pl.col("relation") == relation)
    found: dict[str, set[str]] = defaultdict(set)
    codes = listed_codes([own[tail] for tail in coded["tail"]], terms.keys())
    for head, stated in zip(coded["head"], codes, strict=True):
        for code in stated:
            found[code].update((own[head], *also[head]))
    pairs = [(code, name) for code in sorted(found) for name in sorted(found[code])]
    return _unambiguous(pairs, terms, max_codes)


def listed_codes(cells: Sequence[str], codes: Set[str]) -> list[list[str]]:
    """Return the codes of a list that each cell of a graph states; each once, in order."""
    stated = codes_in(pl.Series(cells, dtype=pl.String)).to_list()
    in_capitals = {code.upper().rstrip("†*+↑"): code for code in sorted(codes, reverse=True)}
    return [list(dict.fromkeys(code for one in own if (code := _listed(one, in_capitals)))) for own in stated]


def _listed(code: str, codes: Mapping[str, str]) -> str:
    """Return the code as the list writes it, by its form in capitals; else the closest one above it, or nothing."""
    # K25.903: K25.903, K25.90, K25.900, K25.9, K25.900, K25, K25.X00, K25.000 are tried in this order.
    stem, _, rest = code.partition(".")
    for length in range(len(rest), -1, -1):
        above = f"{stem}.{rest[:length]}" if length else stem
        zeros = (f"{above}{'0' * (3 - length)}",) if length else (f"{stem}.X00", f"{stem}.000")
        for candidate in (above, *zeros):
            if candidate in codes:
                return codes[candidate]
    return ""


def _unambiguous(pairs: Iterable[tuple[str, str]], terms: Mapping[str, Sequence[str]], max_codes: int) -> CodeNames:
    frame = pl.DataFrame(list(pairs), schema={"code": pl.String, "name": pl.String}, orient="row")
    frame = frame.with_columns(form=normalise_names(frame["name"])).filter(pl.col("form") != "")
    standard = pl.DataFrame(
        [(code, term) for code, own in terms.items() for term in own],
        schema={"code": pl.String, "term": pl.String},
        orient="row",
    )
    standard = standard.select("code", form=normalise_names(standard["term"]))
    own_terms = frame.join(standard, on=["code", "form"], how="semi")
    foreign = frame.join(standard, on="form", how="semi").join(standard, on=["code", "form"], how="anti")
    free = frame.join(standard, on="form", how="anti").with_columns(codes=pl.col("code").n_unique().over("form"))
    kept = free.filter(pl.col("codes") <= max_codes).sort("code", "name")
    counts = Counter(
        names_already_terms=own_terms.height,
        names_of_other_terms=foreign.height,
        names_of_several_codes=kept.filter(pl.col("codes") > 1).height,
        names_of_too_many_codes=free.height - kept.height,
    )
    names = {str(code): own["name"].to_list() for (code,), own in kept.group_by("code", maintain_order=True)}
    return CodeNames(names, counts)
