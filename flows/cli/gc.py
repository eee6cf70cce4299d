"""The verb `gc`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from flows.cli.stored.garbage import Garbage
    from infra.artifacts import ArtifactStore


def collect(
    delete: Annotated[bool, typer.Option("--delete", help="Delete it; without this it is only listed.")] = False,
    keep: Annotated[int, typer.Option(metavar="N", min=0, help="Finished runs of every flow to keep.")] = 3,
    days: Annotated[
        float, typer.Option(metavar="DAYS", min=0, help="Age from which on an unfinished try counts as given up.")
    ] = 7,
    spare: Annotated[
        list[str] | None,
        typer.Option(metavar="ARTIFACT", help="Keep this one too, with all that it comes from (may be given again)."),
    ] = None,
    unrecorded: Annotated[
        bool,
        typer.Option("--unrecorded", help="Count artifacts that no recorded run has used as not needed, too."),
    ] = False,
) -> None:
    """List what no kept run needs, and delete it with --delete.

    Of every flow the last N finished runs are kept, and what was run since. A run needs all artifacts that it used and
    all that these come from. The folders of tries that were given up are deleted too. What a living process writes is
    never touched, nor what one has opened, such as a service or a session of Python, and while a run goes on no
    artifact is deleted. A deleted artifact is made again by the run that needs it; its manifest is kept, so that the
    lineage of what was made from it still resolves.

    Examples:
      python -m flows gc --keep 1
      python -m flows gc --keep 1 --delete
    """
    from flows.cli.stored.find import find_artifact, local_store
    from flows.cli.stored.garbage import find_garbage
    from infra.console.printable import printable
    from infra.runs import read_runs

    store = local_store("gc")
    kept = [f"{one.stage}/{one.fingerprint}" for one in map(find_artifact, spare or [])]

    def find() -> Garbage:
        return find_garbage(store, read_runs(store, strict=delete), keep, days, kept, unrecorded)

    found = find()
    print(printable("\n".join(_lines(store, found, days))))
    if delete:
        _delete(store, find)
    elif found.artifacts or found.partial:
        print("Nothing was deleted: give --delete for that.")


def _lines(store: ArtifactStore, found: Garbage, days: float) -> list[str]:
    from flows.cli.stored.garbage import size_of_folder
    from flows.cli.stored.summary import contents
    from flows.cli.wording.figures import megabytes

    lines = [f"{one.stage}/{one.fingerprint[:8]}  {contents(one.manifest)}" for one in found.artifacts]
    lines += [f"{one.relative_to(store.base)}  given up; {megabytes(size_of_folder(one))}" for one in found.partial]
    size = sum(one.manifest.bytes for one in found.artifacts) + sum(map(size_of_folder, found.partial))
    finished = sum(one.state == "finished" for one in found.kept_runs)
    others = len(found.kept_runs) - finished
    runs = f"the {finished:,} finished run{'s' * (finished != 1)}"
    runs += f" and {others:,} later one{'s' * (others != 1)} without a result" if others else ""
    is_one = len(found.kept_runs) == 1
    kept = f"{runs} that {'is' if is_one else 'are'} kept"
    if found.artifacts or found.partial:
        lines.append(
            f"{_count(len(found.artifacts), 'artifact')} and {_count(len(found.partial), 'unfinished try')}, "
            f"{megabytes(size)} in {store.root}, can be deleted: {kept} {'does' if is_one else 'do'} not need them. "
            "Parts that artifacts share on the disk take their room once."
        )
    else:
        reason = f"{kept} may need all that was recorded" if found.kept_runs else "no recorded run has used any of it"
        lines.append(
            f"Nothing in {store.root} can be deleted: {reason}, and no unfinished try is older than "
            f"{days:g} days (--days)."
        )
    if found.of_no_run:
        size = sum(one.manifest.bytes for one in found.of_no_run)
        lines.append(
            f"{len(found.of_no_run):,} artifacts ({megabytes(size)}) were used by no recorded run: they were made "
            "before runs were recorded, or by code that calls no flow. They are kept; --unrecorded counts them, too."
        )
    if found.in_use:
        is_open = "is" if len(found.in_use) == 1 else "are"
        lines.append(
            f"{_count(len(found.in_use), 'artifact')} {is_open} open in a service, a session or a prediction, and "
            f"{is_open} kept."
        )
    return lines


def _count(number: int, name: str) -> str:
    plural = f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
    return f"{number:,} {name if number == 1 else plural}"


def _delete(store: ArtifactStore, find: Callable[[], Garbage]) -> None:
    from flows.cli.stored.garbage import is_anything_built
    from infra.builds import discard, discard_partial
    from infra.console.printable import printable
    from infra.errors import UserError
    from infra.runs import no_runs

    artifacts = tries = 0
    try:
        with no_runs(store) as alone:
            # Looked for once more: a run may have begun and ended since, and have used what was found.
            found = find()
            tries = sum(discard_partial(one) for one in found.partial)
            if alone and not is_anything_built(store):
                for one in found.artifacts:
                    try:
                        discard(store, one)
                        artifacts += 1
                    except UserError as error:
                        print(f"warning: {printable(str(error))}", file=sys.stderr)
            elif found.artifacts:
                print("warning: a run is going on, which may use any artifact: none was deleted.", file=sys.stderr)
    except OSError as error:
        raise UserError(
            f"{store.root} cannot be written: {error.strerror or error}. Nothing more was deleted."
        ) from error
    print(f"Deleted {_count(artifacts, 'artifact')} and {_count(tries, 'unfinished try')}.")
