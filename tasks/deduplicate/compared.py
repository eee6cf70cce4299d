"""Clusters of candidates that an earlier artifact of `near` has compared.

The drops of a cluster depend on its texts and pairs alone. When new text comes in, most clusters stay as they were:
their drops are read from the earlier artifact, and their texts are not gathered again. Time and memory grow with the
pairs.
"""

from __future__ import annotations

import logging

import numpy as np
import polars as pl

from infra import schemas
from infra.arrays.compiled import compiled
from infra.artifacts import Artifact
from infra.errors import DamagedArtifactError
from tasks.deduplicate.shingles import mix
from tasks.deduplicate.sketches import KEY

logger = logging.getLogger(__name__)

NAME = ["cluster_high", "cluster_low"]
"""Columns of a cluster's name, 64 bits each."""


def named_clusters(keys: np.ndarray, one: np.ndarray, other: np.ndarray, component: np.ndarray) -> pl.DataFrame:
    """Name the components of a graph of texts, so that they are recognised in a later graph.

    Components with the same pairs have the same name, whatever the order of the pairs.

    Args:
        keys: uint64 (T, 2), the texts' keys.
        one, other: int64 (P,), places of pairs in `keys`.
        component: int64 (T,), as `tasks.deduplicate.clusters.components` returns it.

    Returns:
        Columns component and NAME (128 bits), a row for each component that has a pair.
    """
    names = np.zeros((len(keys), len(NAME)), dtype=np.uint64)
    _add_names(keys, one, other, component, names)
    paired = np.unique(component[one])
    return pl.DataFrame({"component": paired} | {name: names[paired, half] for half, name in enumerate(NAME)})


@compiled
def _add_names(keys: np.ndarray, one: np.ndarray, other: np.ndarray, component: np.ndarray, names: np.ndarray) -> None:
    for pair in range(len(one)):
        for half in range(names.shape[1]):
            name = mix(np.uint64(half + 1))
            for text in (one[pair], other[pair]):
                name = mix(mix(name ^ keys[text, 0]) ^ keys[text, 1])
            names[component[one[pair]], half] += name  # a sum does not depend on the order of the pairs


def readable(earlier: Artifact | None) -> Artifact | None:
    """Return an earlier artifact of `near` that has compared anything and is undamaged, or None.

    Memory: one of its parts.
    """
    if earlier is None or not earlier.rows("compared"):
        return None
    try:
        for table in ("compared", "near"):
            earlier.scan(table)  # checks the hashes of the parts
    except DamagedArtifactError as error:
        logger.warning("All candidates are compared again: %s", error)
        return None
    return earlier


def known_drops(
    texts: pl.DataFrame, clusters: pl.DataFrame, earlier: Artifact | None
) -> tuple[pl.DataFrame, pl.Series]:
    """Return what an earlier artifact knows of clusters that it has compared.

    Args:
        texts: columns KEY and component.
        clusters: names as `named_clusters` returns them.
        earlier: an artifact of `near` with the same parameters.

    Returns:
        The rows of its table near about texts of known clusters, and the components of those clusters.
    """
    empty = pl.DataFrame(schemas.NEAR.empty_table()), pl.Series("component", [], dtype=pl.Int64)
    if earlier is None:
        return empty
    try:
        compared = pl.DataFrame(earlier.to_table("compared"))
        drops = pl.DataFrame(earlier.to_table("near"))
    except DamagedArtifactError as error:
        logger.warning("All candidates are compared again: %s", error)
        return empty
    known = clusters.join(compared, on=NAME, how="semi")["component"]
    of_known = texts.join(known.to_frame(), on="component", how="semi")
    return drops.join(of_known, on=KEY, how="semi"), known
