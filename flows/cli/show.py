"""The verb `show`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.completing import artifact_names
from infra.counted import counted

if TYPE_CHECKING:
    from infra.artifacts import Artifact

Which = Annotated[
    str,
    typer.Argument(
        metavar="ARTIFACT",
        help="Its folder, STAGE, STAGE/PREFIX of its fingerprint, or latest (of all stages).",
        autocompletion=artifact_names,
    ),
]


def show(artifact: Which) -> None:
    """Say what an artifact is, and where it comes from.

    Its tables, files, counters and parameters, what it was made from, what was made from it, and its page.

    Examples:
      python -m flows show segment
      python -m flows show train/3f2ab1c0
    """
    from flows.cli.stored.find import find_artifact
    from infra.console.printable import printable

    print(printable("\n".join(_lines(find_artifact(artifact)))))


def _lines(artifact: Artifact) -> list[str]:
    from flows.cli.stored.ancestry import Lineage
    from flows.cli.stored.summary import contents, described
    from flows.cli.wording.figures import duration, megabytes
    from infra.artifacts import ArtifactStore

    manifest = artifact.manifest
    lines = [f"{artifact.stage}/{artifact.fingerprint}", f"  {artifact.path}", ""]
    cost = f"{duration(manifest.wall_seconds)} ({duration(manifest.cpu_seconds)} of CPU)"
    memory = megabytes(manifest.peak_memory_bytes)
    lines.append(f"made      {manifest.created_at[:19].replace('T', ' ')} UTC in {cost}, at most {memory} of memory")
    lines.append(f"by        version {manifest.stage_version} of the stage, Yiwen {manifest.code_version}")
    reused = manifest.resumed_parts + manifest.taken_over_parts
    lines += [f"reused    {counted(reused, 'parts')} of earlier work"] if reused else []
    for name, table in manifest.tables.items():
        rows, parts = counted(table.rows, "rows"), counted(len(table.parts), "parts")
        lines.append(f"table     {name}: {rows}, {megabytes(table.bytes)}, {parts}")
    names = [file.path for file in manifest.files]
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8:,} more" if len(names) > 8 else "")
    lines += [f"files     {shown}"] if names else []
    lines += [f"page      {artifact.path}/report.html"] if "report.html" in names else []
    lines += ["", "counters", *(f"  {name}: {count:,}" for name, count in manifest.counters.items())]
    lines = lines if manifest.counters else lines[:-2]
    lines += ["", "parameters", *(f"  {key} = {_value(value)}" for key, value in manifest.params.items())]
    lines = lines if manifest.params else lines[:-2]
    lineage = Lineage(ArtifactStore(artifact.store_root))
    lines += ["", "made from", *(f"  {one.name}: {described(one)}" for one in lineage.tree(artifact).parents)]
    below = lineage.made_from(artifact)
    lines += ["", "used by", *(f"  {one.stage} {one.fingerprint[:8]}  {contents(one.manifest)}" for one in below)]
    return lines if below else lines[:-2]


def _value(value: object, most: int = 100) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
