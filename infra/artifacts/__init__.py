"""The artifact store: immutable, content-addressed folders of Parquet parts under one root.

    <root>/<stage>/<fingerprint>/manifest.json            written last; without it there is no artifact
    <root>/<stage>/<fingerprint>/<table>/part-00000-000.parquet
    <root>/<stage>/<fingerprint>/<file>                   what a stage writes beside its tables
    <root>/<stage>/.<fingerprint>.partial/                a build in progress, or what a killed build left behind

The root is a local path or any URI that fsspec opens. This package only reads; `infra.builds` writes.
"""

from infra.artifacts.checked_files import open_root, read_checked
from infra.artifacts.local import local_folder
from infra.artifacts.manifest import (
    MANIFEST,
    FileRecord,
    InputRecord,
    Manifest,
    PartRecord,
    TableRecord,
    fingerprint_of,
)
from infra.artifacts.store import Artifact, ArtifactStore, Part
from infra.artifacts.store_errors import make_folder, open_for_writing, store_error, store_explained

__all__ = [
    "MANIFEST",
    "Artifact",
    "ArtifactStore",
    "FileRecord",
    "InputRecord",
    "Manifest",
    "Part",
    "PartRecord",
    "TableRecord",
    "fingerprint_of",
    "local_folder",
    "make_folder",
    "open_for_writing",
    "open_root",
    "read_checked",
    "store_error",
    "store_explained",
]
