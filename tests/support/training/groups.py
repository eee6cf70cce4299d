"""Starts groups of training processes, one after the other, from one program that imports torch once."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from types import TracebackType

from infra.settings import REPOSITORY
from tasks.training.run_spec import RunSpec
from tests.support.training.group_member import STATUSES


class Groups:
    """A program such as group_member.py, from which groups are forked; ends with the block."""

    def __init__(self, module: str) -> None:
        self._numbers = itertools.count()
        self._program = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=REPOSITORY,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Groups:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._program.kill()
        self._program.communicate()

    def run(self, spec: RunSpec, size: int, leaves: int = 0) -> list[int]:
        """Return the exit statuses of a group, whose last process is killed at the checkpoint of step `leaves`."""
        stdin, stdout = self._program.stdin, self._program.stdout
        assert stdin is not None and stdout is not None
        rendezvous = f"{spec.storage}/rendezvous-{next(self._numbers)}"
        stdin.write(json.dumps([size, rendezvous, spec.run_path, leaves]) + "\n")
        stdin.flush()
        for line in stdout:
            _, found, statuses = line.partition(STATUSES)
            if found:
                return list(json.loads(statuses))
        raise AssertionError("the program has ended")
