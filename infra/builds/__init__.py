"""Building one artifact so that it appears complete or not at all.

A build is in `<root>/<stage>/.<fingerprint>.partial/`:

    content/    what will become the artifact: finished parts and files, the manifest last
    records/    one JSON per finished part: its files, hashes, counters and cost; written after the part
    staging/    files being written; nothing here counts
    scratch/    for stages that resume by themselves (training checkpoints)
    lock        held by the process that builds (local roots only)

A killed build leaves its records, and the next build reuses the parts that they list. On a local root one rename
turns `content/` into the artifact. Object stores cannot rename folders: there, content is written straight to its final
location, and the manifest, written last, is the commit, because readers ignore a folder without one. On a local root
two builders of one address wait for each other; the kernel drops the lock when its holder dies. Elsewhere there is no
lock: both builders write the same bytes to the same locations, each file in one put, and the last manifest wins.
"""

from infra.builds.build import PREPARED, ArtifactBuild, open_build, sweep
from infra.builds.disk_errors import explained, open_scratch, temporary_files_explained
from infra.builds.lock import discard_partial, is_being_built
from infra.builds.parts import MAX_EXCERPT, PartWriter, Unit, WorkRecord, run_unit
from infra.builds.place import DISCARDED, BuildPlace, discard, measure, sync

__all__ = [
    "DISCARDED",
    "MAX_EXCERPT",
    "PREPARED",
    "ArtifactBuild",
    "BuildPlace",
    "PartWriter",
    "Unit",
    "WorkRecord",
    "discard",
    "discard_partial",
    "explained",
    "is_being_built",
    "measure",
    "open_build",
    "open_scratch",
    "run_unit",
    "sweep",
    "sync",
    "temporary_files_explained",
]
