"""The mean of encoders that were trained one from the other: it errs less than either of them.

    python -m tasks.deidentify.recogniser.encoder_mean ONE.npz TWO.npz --cost 1.5 --least-lead 0 --output MEAN.npz

The files are `encoder.npz` as encoder_training.py writes them, with equal characters and layers (Izmailov et al. 2018,
averaging weights). Equal files give equal bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tasks.deidentify.recogniser.archive import write_arrays
from tasks.deidentify.recogniser.encoder import unrounded
from tasks.deidentify.recogniser.encoder_training import rounded

_SETTINGS = ("cost", "least_lead")
_SHARED = ("characters", "heads")


def main() -> None:
    """Read, write the mean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", help="weights")
    parser.add_argument("--cost", type=float, required=True, help="what a span must be worth more than none, in nats")
    parser.add_argument("--least-lead", type=int, required=True, help="see encoder.py")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    held = [_read(file) for file in options.files]
    settings = {"cost": np.array(options.cost), "least_lead": np.array(options.least_lead)}
    write_arrays(options.output, mean_of(held) | settings)


def _read(file: Path) -> dict[str, np.ndarray]:
    with np.load(file) as held:
        return dict(held)


def mean_of(encoders: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the mean of some weights, without cost and least lead; matrices of 8 bits are rounded again.

    Raises:
        ValueError: the encoders have other characters, heads or layers.
    """
    first = encoders[0]
    for other in encoders[1:]:
        if other.keys() != first.keys() or not all(np.array_equal(other[name], first[name]) for name in _SHARED):
            raise ValueError("only encoders with equal characters, heads and layers have a mean")
    means = {name: np.asarray(first[name]) for name in _SHARED}
    for name in first:
        if "/" in name or name in _SHARED or name in _SETTINGS:
            continue
        mean = np.mean([unrounded(each, name) for each in encoders], axis=0)
        means |= rounded(name, mean) if f"{name}/scale" in first else {name: mean.astype(np.float32)}
    return means


if __name__ == "__main__":
    main()
