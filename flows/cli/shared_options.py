"""Options that several verbs take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Knowledge = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Knowledge arrays of a model that reads some (default: look for).")
]

Device = Annotated[
    Literal["cpu", "cuda"] | None, typer.Option(help="Where to compute (default: a GPU if there is one).")
]
