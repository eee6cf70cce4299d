"""Whether documents that are not de-identified look as if they should be: a sample of each part is looked at.

Records under a name that nobody knows (notes, ward3) would pass in clear without a word. What is found is counted by
source, never written down.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from tasks.deidentify.find import find_identifiers
from tasks.documents import SUB_DOMAINS

SAMPLE = 32
"""Documents of a source that are looked at in a part, evenly over it: few records among many articles are seen too."""

BEGINNING = 2_000
"""Characters of each that are looked at: records begin with who it is."""

OF_PATIENTS = frozenset({"identity", "record"})
"""What published text does not hold: it does hold telephone numbers of hospitals and names of authors."""

_COUNTER = "untreated_with_identifiers_"


def count_untreated(sources: Sequence[str], texts: Sequence[str], treated: Collection[str]) -> Counter[str]:
    """Counters of the sampled documents whose source is not treated and which hold an identifier, by source.

    Of the sources of `SUB_DOMAINS` only identifiers of patients count, of any other source all.
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


def untreated_warning(counters: Mapping[str, int], treated: Sequence[str]) -> str | None:
    """What to tell the user of the counters of `count_untreated`; None where there are none."""
    found = {name.removeprefix(_COUNTER): count for name, count in counters.items() if name.startswith(_COUNTER)}
    if not found:
        return None
    named = ", ".join(f"{source} ({count:,})" for source, count in sorted(found.items()))
    remedy = ",".join(f'"{source}"' for source in [*treated, *sorted(found)])
    return (
        f"Not de-identified, although a sample of their documents holds identifiers of persons: {named}. To treat them "
        f"too, give --param 'deidentify.sources=[{remedy}]', or say that they are records with ingest.source_of."
    )
