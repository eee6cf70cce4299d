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
    best = np.zeros(entries, dtype=np.float32)
    # Summed in float64 and rounded to float32 once, like Lucene, so that both engines agree on ties.
    for token in range(postings.shape[0]):
        for place in range(postings[token, 0], postings[token, 1]):
            sums[documents[place]] += weights[place]
    for token in range(postings.shape[0]):
        for place in range(postings[token, 0], postings[token, 1]):
            document = documents[place]
            own = np.float32(sums[document])
            if own > best[owners[document]]:
                best[owners[document]] = own
            sums[document] = 0.0
    return best


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
