"""Sums of the postings of a query: the loops in which a search of the embedded index spends its time.

Postings are int64 [tokens, 2]: where the documents and weights of each token begin and end, in the query's order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from infra.arrays.compiled import compiled


@compiled
def best_of_entries(
    postings: npt.NDArray[np.int64],
    documents: npt.NDArray[np.int32],
    weights: npt.NDArray[np.float32],
    owners: npt.NDArray[np.int32],
    sums: npt.NDArray[np.float64],
    entries: int,
) -> npt.NDArray[np.float32]:
    """Return the best sum of each entry's documents, float32 [entries]; 0 where no token of the query is.

    Args:
        documents: the document of each posting; ascending for each token.
        weights: its weight.
        owners: the entry of each document.
        sums: zeros, one for each document; they are zeros again at the end.
    """
    count = 0
    for token in range(postings.shape[0]):
        count += postings[token, 1] - postings[token, 0]
    touched = np.empty(count, dtype=np.int32)
    count = 0
    # Summed in float64 and rounded to float32 once, like Lucene, so that both engines agree on ties.
    for token in range(postings.shape[0]):
        for place in range(postings[token, 0], postings[token, 1]):
            document = documents[place]
            if sums[document] == 0.0:
                touched[count] = document
                count += 1
            sums[document] += weights[place]
    best = np.zeros(entries, dtype=np.float32)
    for at in range(count):
        document = touched[at]
        own = np.float32(sums[document])
        sums[document] = 0.0
        if own > best[owners[document]]:
            best[owners[document]] = own
    return best


@compiled
def best_places(scores: npt.NDArray[np.float32], k: int) -> npt.NDArray[np.int64]:
    """Return the places of the k best positive scores, int64 [at most k]; of equal scores the first places."""
    # A heap of the best so far, the worst of them on top. A later place never replaces an earlier one of equal score.
    found = np.empty(k, dtype=np.int64)
    held = np.empty(k, dtype=np.float32)
    count = 0
    least = np.float32(0.0)
    for place in range(scores.shape[0]):
        score = scores[place]
        if score <= least:
            continue
        if count < k:
            at = count
            count += 1
            while at > 0:
                above = (at - 1) // 2
                # An equal score that comes later is the worse one.
                if held[above] < score:
                    break
                found[at], held[at] = found[above], held[above]
                at = above
            found[at], held[at] = place, score
        else:
            at = 0
            while True:
                below = 2 * at + 1
                if below >= k:
                    break
                other = below + 1
                if other < k and (
                    held[other] < held[below] or (held[other] == held[below] and found[other] > found[below])
                ):
                    below = other
                if held[below] >= score:
                    break
                found[at], held[at] = found[below], held[below]
                at = below
            found[at], held[at] = place, score
        if count == k:
            least = held[0]
    return found[:count].copy()


@compiled
def in_turn(
    places: npt.NDArray[np.int64],
    scores: npt.NDArray[np.float64],
    starts: npt.NDArray[np.int64],
    entries: int,
    k: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Merge rows of candidates: each contributes its first one, then each its second, and so on.

    Args:
        places: places of the candidates of all rows, one row after the other.
        starts: where each row begins, and where the last one ends, int64 [rows + 1].

    Returns:
        Places and scores of at most k candidates. A repeated one keeps its first turn, and its best score.
    """
    turns = 0
    for row in range(starts.shape[0] - 1):
        turns = max(turns, starts[row + 1] - starts[row])
    turn_of = np.zeros(entries, dtype=np.int32)  # from 1
    merged, best = np.empty_like(places), np.empty_like(scores)
    count = 0
    for turn in range(turns):
        for row in range(starts.shape[0] - 1):
            at = starts[row] + turn
            if at < starts[row + 1]:
                own = turn_of[places[at]] - 1
                if own < 0:
                    merged[count], best[count] = places[at], scores[at]
                    count += 1
                    turn_of[places[at]] = count
                elif best[own] < scores[at]:
                    best[own] = scores[at]
    kept = min(count, k)
    return merged[:kept].copy(), best[:kept].copy()


@compiled
def with_siblings(
    places: npt.NDArray[np.int64],
    scores: npt.NDArray[np.float64],
    category: npt.NDArray[np.int64],
    first_of: npt.NDArray[np.int64],
    members: npt.NDArray[np.int64],
    k: int,
    kept: int,
    of: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Give the last of k places to siblings of the first candidates, whose scores are then 0.

    Args:
        category: category of each entry, int64 [entries]; -1 for none.
        first_of: where the members of each category begin, and where the last ones end, int64 [categories + 1].
        members: entries of the categories, one category after the other.
        kept: number of candidates that keep their place.
        of: number of candidates whose siblings are taken.
    """
    kept = min(kept, places.shape[0])
    taken = np.zeros(category.shape[0], dtype=np.bool_)
    for at in range(kept):
        taken[places[at]] = True
    siblings = np.empty(k, dtype=np.int64)
    count = 0
    for at in range(min(kept, of)):
        own = category[places[at]]
        if own >= 0:
            for member in range(first_of[own], first_of[own + 1]):
                if not taken[members[member]]:
                    taken[members[member]] = True
                    if count < k:
                        siblings[count] = members[member]
                    count += 1
    found, worth = np.empty(k, dtype=np.int64), np.zeros(k)
    filled = min(kept, k)
    found[:filled], worth[:filled] = places[:filled], scores[:filled]
    # With few siblings the places that they leave go to further candidates.
    room = max(0, k - kept - count)
    for at in range(kept, places.shape[0]):
        if room > 0 and not taken[places[at]]:
            found[filled], worth[filled] = places[at], scores[at]
            filled += 1
            room -= 1
    for at in range(min(count, k - filled)):
        found[filled + at] = siblings[at]
    filled = min(k, filled + count)
    return found[:filled].copy(), worth[:filled].copy()


@compiled
def sums_between(
    postings: npt.NDArray[np.int64],
    documents: npt.NDArray[np.int32],
    weights: npt.NDArray[np.float32],
    first: int,
    end: int,
) -> npt.NDArray[np.float64]:
    """Return the sum of each document from `first` to before `end`, float64 [end - first]."""
    sums = np.zeros(end - first)
    for token in range(postings.shape[0]):
        low, high = postings[token, 0], postings[token, 1]
        last = high
        while low < high:
            middle = (low + high) // 2
            if documents[middle] < first:
                low = middle + 1
            else:
                high = middle
        while low < last and documents[low] < end:
            sums[documents[low] - first] += weights[low]
            low += 1
    return sums
