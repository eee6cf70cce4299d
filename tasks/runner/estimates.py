"""Estimates of what a stage will cost, from the manifests of its earlier artifacts.

They are scaled by the size of the input, a training's time by its steps or its budget in place of that.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.artifacts import ArtifactStore, Manifest

LEAST_BYTES = 1 << 20
"""Inputs below this size count as this large: what they cost is the start of a stage, whatever they hold."""

MOST_ASKED = 5
"""Number of earlier artifacts that an estimate is the median of."""

LIMITS = ("flops", "cpu_seconds", "steps")
"""Settings of the section `training` that end a run. With a budget, the number of steps is only the most."""


@dataclass(frozen=True)
class Estimate:
    """Cost of one stage, by earlier ones."""

    seconds: float
    bytes: int
    runs: int
    """Number of earlier artifacts that it is the median of."""
    same_params: bool
    """They had the same parameters."""
    scaled: bool
    """The cost was scaled: the sizes of their inputs and of this one's are known, or the work of a training is."""
    by: str = ""
    """Parameter in proportion to which the time of a training was estimated; "" if it was not."""


def estimated(
    store: ArtifactStore, manifests: Sequence[Manifest], params: Mapping[str, Any], size: int | None
) -> Estimate | None:
    """Return the cost of a stage; None if no earlier artifact says.

    Args:
        manifests: of the stage's earlier artifacts, the newest first. Those with the same parameters are preferred, and
            those that were made in one go: the time of parts that were reused is not in a manifest.
        params: parameters as JSON.
        size: bytes of all inputs; None if unknown: then the cost is that of earlier artifacts, as it was.
    """
    whole = [one for one in manifests if not one.resumed_parts and not one.taken_over_parts]
    same = [one for one in whole if one.params == params]
    asked = (same or whole)[:MOST_ASKED]
    limit = _limit(params)
    trained = [(one, before[1]) for one in asked if limit and (before := _limit(one.params)) and before[0] == limit[0]]
    if limit and trained:
        # A corpus of ten times the size does not make a training of as many steps longer, nor its checkpoints larger.
        return Estimate(
            seconds=statistics.median(one.wall_seconds * limit[1] / amount for one, amount in trained),
            bytes=round(statistics.median(one.bytes for one, _ in trained)),
            runs=len(trained),
            same_params=bool(same),
            scaled=True,
            by=f"training.{limit[0]}",
        )
    sizes = {one.fingerprint: _input_bytes(store, one) for one in asked}
    known = [one for one in asked if sizes[one.fingerprint]]
    if size is not None and known:
        shares = [max(size, LEAST_BYTES) / max(sizes[one.fingerprint] or 0, LEAST_BYTES) for one in known]
        pairs = list(zip(known, shares, strict=True))
        return Estimate(
            seconds=statistics.median(one.wall_seconds * share for one, share in pairs),
            bytes=round(statistics.median(one.bytes * share for one, share in pairs)),
            runs=len(known),
            same_params=bool(same),
            scaled=True,
        )
    if not asked:
        return None
    return Estimate(
        seconds=statistics.median(one.wall_seconds for one in asked),
        bytes=round(statistics.median(one.bytes for one in asked)),
        runs=len(asked),
        same_params=bool(same),
        scaled=False,
    )


def _limit(params: Mapping[str, Any]) -> tuple[str, float] | None:
    """Return the setting that ends a training, and its value; None for parameters of other work."""
    training = params.get("training")
    if not isinstance(training, Mapping):
        return None
    found = ((name, training.get(name)) for name in LIMITS)
    return next(((name, value) for name, value in found if isinstance(value, int | float) and value > 0), None)


def _input_bytes(store: ArtifactStore, manifest: Manifest) -> int | None:
    """Return the bytes of an artifact's inputs; None if one of them is not known."""
    total = 0
    for record in manifest.inputs.values():
        size = record.bytes
        if size is None:  # made before manifests had sizes
            found = store.get(record.stage, record.fingerprint)
            size = None if found is None else found.manifest.bytes
        if size is None:
            return None
        total += size
    return total
