"""The files of a task of a user: one, one per split, or a folder with one per split."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path

from infra.errors import UserError
from tasks.downstream.readers.tables import READERS
from tasks.downstream.spec import Split
from tasks.files.access import hash_file
from tasks.own.records import SPLIT_NAMES


class OwnFiles:
    """Files by split, identified by their names and contents; satisfies `infra.stage.StageInput`."""

    stage = "own_files"

    def __init__(self, data: str | Path, dev: str | Path | None = None, test: str | Path | None = None) -> None:
        """`data`: the file of train or of all rows; or a folder with train.csv, dev.csv and test.csv, or the like.

        Raises:
            UserError: a file does not exist, or the folder has none for train or several for a split.
        """
        path = Path(data).expanduser().resolve()
        self.files = _in_folder(path) if path.is_dir() else {"train": path}
        given: tuple[tuple[Split, str | Path | None], ...] = (("dev", dev), ("test", test))
        for split, file in given:
            if file is not None:
                self.files[split] = Path(file).expanduser().resolve()
        for name, found in self.files.items():
            if not found.is_file():
                parameter = "data" if name == "train" else name
                raise UserError(f"There is no file {found}. Give one, as in --param {parameter}=FILE.csv.")

    @property
    def title(self) -> str:
        """Name of the folder or file, for people."""
        train = self.files["train"]
        return train.parent.name if train.stem.lower() in SPLIT_NAMES else train.stem

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the splits, and the names and contents of their files.

        Raises:
            UserError: a file cannot be read.
        """
        digest = hashlib.sha256()
        for split, path in sorted(self.files.items()):
            try:
                content = hash_file(str(path))
            except OSError as error:
                raise UserError(
                    f"{path} cannot be read: {error.strerror or error}. Grant read permission, or give another file."
                ) from error
            digest.update(f"{split}\0{path.name}\0{self.title}\0{content}\n".encode())
        return digest.hexdigest()[:32]


def _in_folder(folder: Path) -> dict[Split, Path]:
    found: dict[Split, Path] = {}
    for path in sorted(folder.iterdir()):
        split = SPLIT_NAMES.get(path.stem.lower())
        if split is None or path.suffix.lower() not in READERS:
            continue
        if split in found:
            raise UserError(f"{folder} has {found[split].name} and {path.name} for {split}. Move one of them away.")
        found[split] = path
    if "train" not in found:
        there = ", ".join(sorted(path.name for path in folder.iterdir())[:12]) or "no files"
        raise UserError(
            f"{folder} has no train file; it has {there}. Give the file itself, or a folder with train.csv, dev.csv "
            "and test.csv."
        )
    return found
