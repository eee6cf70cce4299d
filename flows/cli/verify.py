"""The verb `verify`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from infra.artifacts import Artifact
    from infra.errors import DamagedArtifactError

DAMAGED = 1
"""Exit status if something is damaged."""


def verify(
    artifact: Annotated[
        str | None,
        typer.Argument(
            metavar="ARTIFACT", help="As in `show`; every artifact of the store without one.", show_default=False
        ),
    ] = None,
) -> int:
    """Check artifacts byte by byte against their manifests.

    Every file is read, and its size, SHA-256 and columns compared. Each artifact that is damaged is named with the
    remedy, and the exit status is then 1. Time grows with the bytes of the store.
    """
    from flows.cli.stored.find import find_artifact
    from flows.cli.wording.figures import megabytes
    from infra.console.printable import printable
    from infra.errors import DamagedArtifactError

    checked = size = damaged = 0
    for one in _all() if artifact is None else iter([find_artifact(artifact)]):
        try:
            if isinstance(one, DamagedArtifactError):
                raise one
            one.verify()
            size += one.manifest.bytes
        except DamagedArtifactError as error:
            damaged += 1
            print(printable(f"error: {error}"), file=sys.stderr)
        checked += 1
    print(f"{checked:,} artifact{'s' * (checked != 1)}, {megabytes(size)} whole, {damaged:,} damaged")
    return DAMAGED if damaged else 0


def _all() -> Iterator[Artifact | DamagedArtifactError]:
    """Yield every finished artifact of the store, or the error of its manifest."""
    from tqdm import tqdm

    from flows.cli.stored.find import existing_store
    from infra.errors import DamagedArtifactError

    store = existing_store()
    places = [(stage, fingerprint) for stage in store.stages() for fingerprint in store.fingerprints(stage)]
    for stage, fingerprint in tqdm(places, unit="artifact", disable=None, leave=False):
        try:
            found = store.get(stage, fingerprint)
        except DamagedArtifactError as error:
            yield error
        else:
            if found is not None:
                yield found
