"""Models of the Hugging Face hub by their id: found in the local cache, fetched only where the user allows it.

An id is `hfl/chinese-macbert-base`, or `bert-base-chinese`; a revision (branch, tag or commit) follows an @:
`hfl/chinese-macbert-base@main`. The cache is that of the library `huggingface_hub` (HF_HOME, HF_HUB_CACHE).

Nothing is asked of the hub by default (infra/settings.py sets HF_HUB_OFFLINE=1). With HF_HUB_OFFLINE=0 a model that the
cache lacks is fetched: its config, its weights and its tokeniser, and no code. Weights are fetched as safetensors or,
if the model has none, as pytorch_model.bin, of which only tensors are ever read (models/weights/pretrained.py).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from infra.errors import UserError

CONFIG = "config.json"
TOKENISERS = ("tokenizer.json", "vocab.txt")
"""Files of a tokeniser; either of them suffices."""
SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"
SMALL_FILES = (CONFIG, *TOKENISERS, "tokenizer_config.json", "special_tokens_map.json")
# matches: "hfl/chinese-macbert-base@main", "bert-base-chinese"
# not: "./model", "/data/model", "a/b/c", "model/"
_ID = re.compile(r"(?P<id>(?:[\w-][\w.-]*/)?[\w-][\w.-]*)(?:@(?P<revision>[\w./-]+))?", re.ASCII)


class HubOrigin(NamedTuple):
    """A model of the hub, at a commit."""

    id: str
    revision: str
    """Commit, 40 hex digits."""

    def __str__(self) -> str:
        return f"{self.id}@{self.revision}"


def is_id(given: str) -> bool:
    """Return whether a text has the form of a model's id, which the path of a folder may have too."""
    found = _ID.fullmatch(given)
    return found is not None and "--" not in found["id"] and ".." not in given


def in_cache(given: str, parameter: str) -> Path:
    """Return the folder of a hub's model in the cache; with HF_HUB_OFFLINE=0 it is fetched if the cache lacks it.

    Args:
        given: the id, with or without a revision.
        parameter: name of the users' parameter, for messages.

    Raises:
        UserError: it is not there, or only a part of it; the message names the cache and the command that fetches it.
    """
    found = _ID.fullmatch(given)
    assert found is not None, "is_id says so"
    name, revision = found["id"], found["revision"]
    cache, offline = _library()
    folder = _snapshot(cache, name, revision)
    missing = ["everything"] if folder is None else _missing(folder)
    if missing and not offline:
        folder = _fetched(name, revision)
        missing = _missing(folder)
    if folder is None:
        raise UserError(
            f"There is no folder {given}, and the cache {cache} has no model {given!r} of the Hugging Face hub. Give "
            f"the folder of one, as in --param {parameter}=FOLDER, or fetch the model: {_command(name, revision)}"
            ". With HF_HUB_OFFLINE=0 in the environment it is fetched when it is needed; by default no hub is asked."
        )
    if missing:
        raise UserError(
            f"{given}: the cache has only a part of it, {folder} lacks {', '.join(missing)}. Fetch the rest: "
            f"{_command(name, revision)}."
        )
    return folder


def origin_of(folder: str | Path) -> HubOrigin | None:
    """Return the model of the hub whose snapshot a folder of the cache is; None for any other folder."""
    path = Path(folder)
    if len(path.parts) < 4 or path.parent.name != "snapshots":
        return None
    kind, found, name = path.parent.parent.name.partition("--")
    # `models--hfl--chinese-macbert-base/snapshots/<commit>`; a name has no two hyphens in a row.
    return HubOrigin(name.replace("--", "/"), path.name) if kind == "models" and found else None


def _library() -> tuple[Path, bool]:
    """Return the cache's folder, and whether the hub must not be asked."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE).expanduser(), bool(constants.HF_HUB_OFFLINE)


def _snapshot(cache: Path, name: str, revision: str | None) -> Path | None:
    """Return the folder of a model's files at a revision, by default that of `main`, or the only one."""
    place = cache / f"models--{name.replace('/', '--')}"
    commit = revision or "main"
    reference = place / "refs" / commit
    if reference.is_file():
        commit = reference.read_text(encoding="utf-8").strip()
    if (place / "snapshots" / commit).is_dir():
        return place / "snapshots" / commit
    kept = [one for one in (place / "snapshots").glob("*") if one.is_dir()] if revision is None else []
    return kept[0] if len(kept) == 1 else None


def _missing(folder: Path) -> list[str]:
    """Return what a snapshot lacks to be read as an encoder; links to files that were not fetched count as missing."""
    missing = [] if (folder / CONFIG).is_file() else [CONFIG]
    if not any((folder / name).is_file() for name in TOKENISERS):
        missing.append(f"a tokeniser ({' or '.join(TOKENISERS)})")
    if not any((folder / name).is_file() for name in (SAFE, PICKLED)):
        indices = [one for name in (SAFE, PICKLED) if (one := folder / f"{name}.index.json").is_file()]
        pieces = _pieces(indices[0]) if indices else [SAFE]
        missing += [one for one in pieces if not (folder / one).is_file()]
    return missing


def _pieces(index: Path) -> Sequence[str]:
    """Return the files that an index of weights names; itself if it is damaged."""
    try:
        return sorted({str(one) for one in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return [index.name]


def _fetched(name: str, revision: str | None) -> Path:
    """Fetch a model's files, and return their folder. Raises `UserError` if the hub does not give them."""
    from huggingface_hub import snapshot_download

    try:
        wanted = [*SMALL_FILES, SAFE, f"{SAFE}.index.json", "model-*.safetensors"]
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=wanted))
        if SAFE in _missing(folder):
            pickled = [PICKLED, f"{PICKLED}.index.json", "pytorch_model-*.bin"]
            folder = Path(snapshot_download(name, revision=revision, allow_patterns=pickled))
    except (OSError, ValueError) as error:  # of the network and of the hub alike
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"{name} cannot be fetched from the Hugging Face hub: {said}. Look at the id and the network, or give the "
            "folder of a model."
        ) from error
    return folder


def _command(name: str, revision: str | None) -> str:
    at = f" --revision {revision}" if revision else ""
    allowed = "HF_HUB_OFFLINE=0 " if os.environ.get("HF_HUB_OFFLINE") else ""
    return f"`{allowed}hf download {name}{at}`"
