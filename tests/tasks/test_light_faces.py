"""Faces of rooms that the command line and other rooms import: they load no stage."""

from __future__ import annotations

import subprocess
import sys

import pytest

from infra.settings import REPOSITORY

HEAVY = {"infra.stage", "polars", "pandas", "pyarrow.dataset", "torch", "ray", "prefect"}


@pytest.mark.parametrize("room", ["tasks.clean", "tasks.deidentify"])
def test_face_loads_no_stage_and_no_tables(room: str) -> None:
    program = f"import sys, {room}; print(*sorted({HEAVY!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
