"""Artifacts by what users call them: a folder, `stage`, `stage/prefix`, or `latest`."""

from __future__ import annotations

import difflib
import posixpath
from pathlib import Path

from infra.artifacts import MANIFEST, Artifact, ArtifactStore
from infra.errors import UserError
from infra.settings import Settings

LATEST = "latest"


def existing_store() -> ArtifactStore:
    """Return the store of `YIWEN_HOME`.

    Raises:
        UserError: the store does not exist yet.
    """
    home = Settings.from_environment().home
    store = ArtifactStore(home)
    try:
        exists = store.filesystem.exists(store.base)
    except Exception as error:  # each storage has errors of its own for a wrong address or key
        raise UserError(
            f"The store {home} cannot be reached: {error}. Check YIWEN_HOME and its credentials."
        ) from error
    if not exists:
        raise UserError(f"There is no store {store.root} yet. Run a flow first, or set YIWEN_HOME to where one is.")
    return store


def local_store(verb: str) -> ArtifactStore:
    """Return the store of `YIWEN_HOME`, for a verb that needs a local disk. Raises `UserError` for any other."""
    store = existing_store()
    if not store.is_local:
        raise UserError(
            f"{verb} needs the store on a local or mounted disk: {store.root} has no locks, so work in progress cannot "
            "be told from work that was given up."
        )
    return store


def find_artifact(given: str) -> Artifact:
    """Return an artifact.

    Args:
        given: a folder or URI of an artifact, or of something in it; `stage` or `stage/latest`; `stage/PREFIX` of the
            fingerprint; or `latest` of all stages.

    Raises:
        DamagedArtifactError: its manifest cannot be read.
        UserError: there is no such artifact, or several.
    """
    if "://" in given or Path(given).expanduser().is_dir():
        found = _of_folder(given)
        if found is not None:
            return found
        # A folder of the working folder may be called like a stage.
        if "://" in given or given.partition("/")[0] not in existing_store().stages():
            raise UserError(
                f"{given} is not the folder of an artifact: no {MANIFEST} is in it or above it. Give a folder that a "
                "run printed, or stage/fingerprint."
            )
    store = existing_store()
    stage, _, prefix = given.strip("/").partition("/")
    if stage == LATEST and not prefix:
        return _newest(store, None)
    known = store.stages()
    if stage not in known:
        near = difflib.get_close_matches(stage, known, n=2)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Stages: {', '.join(known) or 'none'}."
        raise UserError(f"{store.root} has no artifact {given!r}. {hint}")
    if prefix in ("", LATEST):
        return _newest(store, stage)
    return _by_prefix(store, stage, prefix)


def _of_folder(given: str) -> Artifact | None:
    """Return the artifact that a folder is, or is in; None if it is neither."""
    place = given.rstrip("/") if "://" in given else str(Path(given).expanduser().absolute())
    for _ in range(4):
        above, fingerprint = posixpath.split(place)
        root, stage = posixpath.split(above)
        if not stage or not fingerprint or root.endswith(":/"):
            return None
        found = ArtifactStore(root).get(stage, fingerprint)
        if found is not None:
            return found
        place = above
    return None


def _newest(store: ArtifactStore, stage: str | None) -> Artifact:
    artifacts = store.list(stage)
    if not artifacts:
        raise UserError(f"{store.root} has no finished artifact{f' of {stage}' if stage else ''} yet.")
    return max(artifacts, key=lambda one: (one.manifest.created_at, one.fingerprint))


def _by_prefix(store: ArtifactStore, stage: str, prefix: str) -> Artifact:
    names = [fingerprint for fingerprint in store.fingerprints(stage) if fingerprint.startswith(prefix)]
    found = [artifact for name in names if (artifact := store.get(stage, name)) is not None]
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(
            f"{stage}/{prefix} may be any of {', '.join(one.fingerprint[:12] for one in found)}. Give more."
        )
    own = ", ".join(name[:8] for name in store.fingerprints(stage)) or "none"
    raise UserError(f"{store.root} has no artifact {stage}/{prefix}. Those of {stage}: {own}.")
