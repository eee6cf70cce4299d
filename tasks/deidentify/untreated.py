"""Sampling check for identifiers in sources that are not de-identified.

Records under a source name that is not configured (notes, ward3) would otherwise pass in clear without a warning.
Findings are counted by source and never written down.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from tasks.deidentify.search.find import find_identifiers
from tasks.documents import SUB_DOMAINS

SAMPLE = 32
"""Documents per source and part that are checked, spread evenly, so that few records among many articles are seen."""

BEGINNING = 2_000
"""Characters of each document that are checked: records begin with the person's data."""

OF_PATIENTS = frozenset({"identity", "record"})
"""Types that published text does not hold; it does hold telephone numbers of hospitals and names of authors."""

_COUNTER = "untreated_with_identifiers_"


def count_untreated(sources: Sequence[str], texts: Sequence[str], treated: Collection[str]) -> Counter[str]:
    """Count the sampled documents with an identifier, by source, among sources that are not treated.

    In the sources of `SUB_DOMAINS` only identifiers of patients count, in any other source all of them.
    """
    of_source: dict[str, list[int]] = defaultdict(list)
    for place, source in enumerate(sources):
        if source not in treated:
            of_source[source].append(place)
    counts: Counter[str] = Counter()
    for source, places in of_source.items():
        for place in places[:: -(-len(places) // SAMPLE)]:
            found = {identifier.type for identifier in find_identifiers(texts[place][:BEGINNING])}
            if found & OF_PATIENTS or (found and source not in SUB_DOMAINS):
                counts[_COUNTER + source] += 1
    return counts


def untreated_sources(counters: Mapping[str, int]) -> dict[str, int]:
    """Return the sampled documents with an identifier by source, from the counters of `count_untreated`."""
    found = {name.removeprefix(_COUNTER): count for name, count in counters.items() if name.startswith(_COUNTER)}
    return dict(sorted(found.items()))


def untreated_warning(counters: Mapping[str, int], treated: Sequence[str]) -> str | None:
    """Return a warning about the counters of `count_untreated`; None where there are none."""
    found = untreated_sources(counters)
    if not found:
        return None
    named = ", ".join(f"{source} ({count:,})" for source, count in found.items())
    remedy = ",".join(f'"{source}"' for source in [*treated, *found])
    nothing = "" if counters.get("documents_treated") else "No document was de-identified. "
    return (
        f"{nothing}Sources that are not de-identified hold identifiers of persons in a sample of their documents: "
        f"{named}. To de-identify them too, use --param 'deidentify.sources=[{remedy}]', or declare them as records "
        "with ingest.source_of."
    )
