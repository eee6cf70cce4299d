"""Arrays in one compressed file: equal arrays give equal bytes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np


def write_arrays(file: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays so that `numpy.load` reads them, by LZMA and without a date."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        for name, array in arrays.items():
            held = io.BytesIO()
            np.save(held, array)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), held.getvalue(), zipfile.ZIP_LZMA)
