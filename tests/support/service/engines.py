"""Engines that hang, fail and die, for workers in real processes; light, so that these start within a second."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from flows.service.engines import EngineSpec, Opened
from infra.errors import UserError


class Scripted:
    opened = Opened("f")
    one_by_one = True
    sample = "a"

    def answers(self, items: Sequence[str]) -> Iterator[bytes]:
        for item in items:
            if item == "hang":
                time.sleep(600)
            if item == "die":
                os._exit(3)
            if item == "raise":
                raise RuntimeError(item)
            yield json.dumps(item).encode()


def open_scripted(spec: EngineSpec) -> Scripted:
    """Open the engine, unless the name says otherwise."""
    if spec.name == "refused":
        raise UserError("folder x is no folder")
    if spec.name == "dying":
        os._exit(3)
    return Scripted()


def is_running(pid: int) -> bool:
    """Return whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
