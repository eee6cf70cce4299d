"""Stages to run as jobs in tests, and an input of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from infra.builds import PartWriter
from infra.errors import KilledError, StoreLostError, UserError
from infra.inputs import DescribedInput
from infra.stage import Output, StageInput, StageParams, stage


class Words(DescribedInput):
    """A text file."""

    stage = "words"

    def __init__(self, path: str) -> None:
        self.path = path
        if not Path(path).is_file():
            raise UserError(f"{path} does not exist.")

    def describe(self) -> dict[str, Any]:
        return {"path": self.path}

    @property
    def fingerprint(self) -> str:
        return Path(self.path).read_text().strip()


class SpellParams(StageParams):
    number: float = 1.0
    hidden: int = Field(default=1, exclude=True)
    """In no fingerprint."""
    ending: str = "done"
    marker: str = Field(default="", exclude=True)
    """File that says how this attempt ends, for stages that fail once."""


def spell_part(part: PartWriter, letter: str) -> None:
    part.count("letters")


@stage(name="spell", version=1, params=SpellParams, heavy=True)
def spell(inputs: Mapping[str, StageInput], params: SpellParams, out: Output) -> None:
    """Count letters, and end as the parameters say."""
    print("血糖", params.number)
    out.map(spell_part, list(inputs["words"].fingerprint))
    out.count("hidden", params.hidden)
    ending = Path(params.marker).read_text() if params.marker else params.ending
    if ending == "user error":
        raise UserError("row 3 is empty.\nDelete it.")
    if ending == "defect":
        raise IndexError("no such place")
    if ending == "store":
        raise StoreLostError("s3://hospital does not answer")
    if ending == "killed":
        raise KilledError("memory ran out")
    if ending == "cluster":
        raise ConnectionError("the store is away")
    out.add_bytes("word.txt", inputs["words"].fingerprint.encode())


@stage(name="report_spelling", version=1, params=StageParams)
def report(inputs: Mapping[str, StageInput], params: StageParams, out: Output) -> None:
    """A light stage."""
    out.count("light")
