"""Names for the terms of a list from synonyms that text states (tasks/normalise/terms/text_synonyms.py).

A pair is used if exactly one of its sides is a name of an entry, compared as a whole in comparable form. The other side
then becomes a name of that entry. If both sides are known nothing is learned; if neither is, the pair refers to nothing
in the list. Names learned from text do not lead to further names, because a mistake would then spread.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from tasks.retrieve.candidates import Entry
from tasks.retrieve.fields import comparable_forms

TEXT = "text"
"""Source of names that text states."""

Pairs = Mapping[tuple[str, str], int]
"""Number of documents that state each pair of names."""


def with_text_names(
    entries: Sequence[Entry], pairs: Pairs, max_codes: int, min_documents: int = 1
) -> tuple[list[Entry], Counter[str]]:
    """Add names from text to entries. Time and memory grow with the number of names and pairs.

    Args:
        max_codes: names of more entries than this are too ambiguous, both known names and new ones.
        min_documents: pairs stated by fewer documents, in either order, are ignored.

    Returns:
        The entries in their order, and counts of used and ignored pairs.
    """
    owners: dict[str, set[int]] = defaultdict(set)
    names = [(place, name) for place, entry in enumerate(entries) for name in (entry.term, *entry.aliases)]
    for (place, _), form in zip(names, _forms([name for _, name in names]), strict=True):
        owners[form].add(place)
    found: dict[str, set[int]] = defaultdict(set)
    written: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for one, other in _stated(pairs, min_documents):
        known = [own for own in (one, other) if own[0] in owners]
        if len(known) != 1:
            counts["text_pairs_already_known" if known else "text_pairs_of_unknown_names"] += 1
        elif len(owners[known[0][0]]) > max_codes:
            counts["text_pairs_of_many_terms"] += 1
        else:
            # The unknown side is the new name of the known side's entries.
            form, name = other if known[0] == one else one
            found[form].update(owners[known[0][0]])
            written[form] = min(name, written.get(form, name))
    kept = {form: places for form, places in found.items() if len(places) <= max_codes}
    counts["text_names_of_many_terms"] = len(found) - len(kept)
    added: dict[int, set[str]] = defaultdict(set)
    for form, places in kept.items():
        for place in places:
            added[place].add(written[form])
    counts["text_names_added"] = sum(map(len, added.values()))
    richer = [entry.with_names(added[place], TEXT) if place in added else entry for place, entry in enumerate(entries)]
    return richer, counts


_Name = tuple[str, str]
"""Comparable form, and the name as written."""


def _stated(pairs: Pairs, min_documents: int) -> list[tuple[_Name, _Name]]:
    """Return the pairs that enough documents state, without repeats in other order or spelling."""
    written = sorted(pairs)
    forms = iter(_forms([name for pair in written for name in pair]))
    documents: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], tuple[_Name, _Name]] = {}
    for pair in written:
        one, other = sorted((next(forms), name) for name in pair)
        # Skips ("癫痫", "——"), whose second form is empty, and ("WPW", "wpw"), which are the same name.
        if one[0] and one[0] != other[0]:
            documents[one[0], other[0]] += pairs[pair]
            first.setdefault((one[0], other[0]), (one, other))
    return [first[key] for key in sorted(first) if documents[key] >= min_documents]


def _forms(names: Sequence[str]) -> list[str]:
    return ["".join(form) for form in comparable_forms(names)]
