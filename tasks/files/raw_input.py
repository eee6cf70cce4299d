"""Raw input of a stage: files and folders, local or behind URIs, identified by their content.

The fingerprint is a hash of relative names and content, so the same files give the same artifact wherever they are
stored. Names that begin with a dot are left out: they belong to tools, not to the corpus. Links are followed. A folder
that cannot be listed is an error: a corpus must not shrink in silence.

Time grows with the bytes (SHA-256, about 1 GB/s per core, several files at once), memory with the number of files.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from infra.console.printable import one_line
from infra.errors import UserError
from infra.inputs import DescribedInput
from infra.uris import refuse_secrets
from tasks.documents import sub_domain_of
from tasks.files.access import changed_file, filesystem_of, hash_file, is_local, open_file, size_and_stamp

HASHED_AT_ONCE = 8
"""Number of files hashed at the same time: hashing releases Python's lock, and remote files keep it waiting."""


@dataclass(frozen=True)
class RawFile:
    """One file of a raw input."""

    path: str
    """Local path, or URI."""
    name: str
    """Path relative to the folder, with slashes; of a single file its own name."""
    sha256: str
    size: int
    """Bytes of the file."""
    stamp: str
    """Stamp of its state when it was hashed; see `size_and_stamp`."""
    sub_domain: str = ""
    """Sub-domain that the given folder is named after, or the folder of the given file; empty for other names."""

    def read(self) -> bytes:
        """Return all bytes of a file that is small by nature.

        Raises:
            ChangedFileError: the bytes are no longer those that were hashed.
        """
        try:
            with open_file(self.path) as file:
                data = file.read()
        except OSError as error:
            raise changed_file(self.name) from error
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise changed_file(self.name)
        return data


class RawInput(DescribedInput):
    """Files and folders given to a stage, read-only; satisfies `infra.stage.StageInput`.

    Several are given as a list or separated by commas. The names of their files then begin with the last part of the
    given path (`emr/a.txt`), so that equal names in different folders remain distinct.
    """

    stage = "raw"

    def __init__(self, path: str | Path | Iterable[str | Path]) -> None:
        self._roots = [_absolute(root) for root in _listed(path)]

    def describe(self) -> dict[str, Any]:
        """Return the absolute paths and URIs."""
        return {"path": self._roots}

    @property
    def path(self) -> str:
        """The given paths and URIs, separated by commas; used in messages."""
        return ", ".join(self._roots)

    @cached_property
    def files(self) -> tuple[RawFile, ...]:
        """All files, ordered by name, hashed on first use.

        Raises:
            UserError: there are no files, or one cannot be read; the message names it.
        """
        found = self._found()
        names = sorted(found)
        with ThreadPoolExecutor(HASHED_AT_ONCE) as pool:
            return tuple(pool.map(lambda name: _hashed(*found[name], name), names))

    def places(self) -> dict[str, str]:
        """Return the path or URI of every file by its name, without reading any.

        Raises:
            UserError: there are no files; the message names the folder.
        """
        return {name: path for name, (path, _) in self._found().items()}

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits: a hash of the sorted names and of every file's SHA-256 and sub-domain, if it has one."""
        digest = hashlib.sha256()
        for file in self.files:
            sub_domain = f"\0{file.sub_domain}" if file.sub_domain else ""
            digest.update(f"{file.name}\0{file.sha256}{sub_domain}\n".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()[:32]

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(file.size for file in self.files)

    def _found(self) -> dict[str, tuple[str, str]]:
        """Return, by file name, the path or URI and the sub-domain that the given folder is named after."""
        found: dict[str, tuple[str, str]] = {}
        for root, prefix in zip(self._roots, self._prefixes(), strict=True):
            *_, above, last = ["", "", *root.rstrip("/").split("/")]
            sub_domain = sub_domain_of(above if _is_file(root) else last) or ""
            for name, path in _walk(root):
                if not is_local(path):
                    refuse_secrets(path)  # a listing over http may consist of links that are signed
                found[prefix + name] = path, sub_domain
        if not found:
            raise UserError(f"{one_line(self.path)} contains no files. Put some there, or give another folder.")
        return found

    def _prefixes(self) -> Iterator[str]:
        """Yield what the names of each root's files begin with: `emr/`, or `2/emr/` for the second folder emr."""
        if len(self._roots) == 1:
            yield ""
            return
        lasts = [root.rstrip("/").rpartition("/")[2] for root in self._roots]
        seen: Counter[str] = Counter()
        for root, last in zip(self._roots, lasts, strict=True):
            number = f"{seen[last] + 1}/" if lasts.count(last) > 1 else ""
            seen[last] += 1
            yield number if _is_file(root) else f"{number}{last}/"


def _listed(given: str | Path | Iterable[str | Path]) -> list[str]:
    if isinstance(given, Path):
        return [str(given)]
    if isinstance(given, str):
        # The name of an existing file may contain commas.
        is_one = is_local(given) and given.strip() and Path(given).expanduser().exists()
        given = [given] if is_one else [part.strip() for part in given.split(",")]
    roots = list(dict.fromkeys(str(part) for part in given if str(part)))
    if not roots:
        raise UserError("No corpus was given. Give a file, a folder or a URI, as in --param corpus=PATH.")
    return roots


def _absolute(root: str) -> str:
    if root.startswith("file://"):
        root = filesystem_of(root)[1]
    if is_local(root):
        path = Path(root).expanduser()
        # A link is not resolved: its name may be that of a sub-domain.
        return str(path.resolve() if ".." in path.parts else path.absolute())
    refuse_secrets(root)
    return root.rstrip("/") if root.split("://")[1].strip("/") else root


def _is_file(root: str) -> bool:
    if is_local(root):
        return Path(root).is_file()
    filesystem, place = filesystem_of(root)
    return bool(filesystem.isfile(place))


def _walk(root: str) -> Iterator[tuple[str, str]]:
    """Yield the files of a root, each with its relative name and its path or URI."""
    try:
        if _is_file(root):
            yield root.rpartition("/")[2], root
            return
        if is_local(root):
            found = _local_files(root) if Path(root).exists() else None
            base = root.rstrip("/") + "/"
            pairs = [(path.removeprefix(base), path) for path in found or ()]
        else:
            filesystem, place = filesystem_of(root)
            found = filesystem.find(place) if filesystem.exists(place) else None
            base = place.rstrip("/") + "/"
            pairs = [(path.removeprefix(base), filesystem.unstrip_protocol(path)) for path in found or ()]
    except OSError as error:
        place, why = error.filename or root, error.strerror or error
        raise UserError(
            f"{one_line(place)} cannot be listed: {why}. Grant read permission, or give another path."
        ) from error
    if found is None:
        raise UserError(f"{one_line(root)} does not exist. Give an existing file or folder.")
    # Object stores may list a folder as an empty file named after it, `emr/`, whose relative name is empty.
    yield from (pair for pair in pairs if not any(not part or part.startswith(".") for part in pair[0].split("/")))


def _local_files(root: str) -> list[str]:
    """Return the files below a folder except hidden ones, following links but for those to a folder above.

    Raises:
        OSError: a folder cannot be listed, or a file's type cannot be read.
        UserError: a link is broken.
    """
    found: list[str] = []
    above: dict[str, frozenset[tuple[int, int]]] = {}
    """Devices and inodes of the folders above each folder that is still to be visited."""
    for folder, folders, files in os.walk(root, onerror=_raised, followlinks=True):
        own = above.pop(folder, frozenset()) | {_identity(folder)}
        shown = [name for name in folders if not name.startswith(".")]
        folders[:] = [name for name in shown if _identity(os.path.join(folder, name)) not in own]
        above.update((os.path.join(folder, name), own) for name in folders)
        found += (path for name in files if not name.startswith(".") and _is_a_file(path := os.path.join(folder, name)))
    return found


def _raised(error: OSError) -> None:
    raise error


def _identity(folder: str) -> tuple[int, int]:
    status = os.stat(folder)
    return status.st_dev, status.st_ino


def _is_a_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except PermissionError:
        raise
    except OSError as error:
        if not os.path.islink(path):
            return False  # deleted since its folder was listed
        raise UserError(f"{one_line(path)} is a broken link. Repair it, or remove it from the corpus.") from error


def _hashed(path: str, sub_domain: str, name: str) -> RawFile:
    try:
        size, stamp = size_and_stamp(path)
        digest = hash_file(path)
        if size_and_stamp(path) != (size, stamp):
            raise changed_file(name)
    except FileNotFoundError as error:
        raise changed_file(name) from error
    except OSError as error:
        raise UserError(
            f"{one_line(path)} cannot be read: {error.strerror or error}. Grant read permission, or remove it from the "
            "corpus."
        ) from error
    return RawFile(path, name, digest, size, stamp, sub_domain)
