"""Inputs of fine-tuning: the folder of an encoder and the files of a task, each with a fingerprint of its content."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import shutil
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self, get_args

from infra.errors import UserError
from infra.inputs import DescribedInput
from models.encoder.config import TRANSFORMERS_TYPES
from models.knowledge_model.source import BESIDE
from tasks.downstream.features.alignment import TOKENIZER_FILES
from tasks.downstream.own import OWN_TASK_FILE
from tasks.downstream.readers.question import ANSWERS, QUESTIONS
from tasks.downstream.readers.read import sources
from tasks.downstream.spec import Split, TaskSpec
from tasks.files.access import hash_file
from tasks.files.hub import in_cache, is_id, origin_of

WEIGHTS_IN_PIECES = ("*.index.json", "model-*-of-*.safetensors", "pytorch_model-*-of-*.bin")
"""Names of weights in several files, as Hugging Face's tools split them: model-00001-of-00003.safetensors."""
ENCODER_FILES = ("config.json", "model.safetensors", "pytorch_model.bin", *WEIGHTS_IN_PIECES, *TOKENIZER_FILES)
"""Names and patterns of the files that make up a model of transformers."""
CARD = "README.md"


class ModelFolder(DescribedInput):
    """An encoder with its tokeniser in Hugging Face's layout, or of a kind of `models.heads.encoders.KINDS`.

    It satisfies `infra.stage.StageInput`. A model card beside the weights does not change the fingerprint; a picture
    does not either, unless the encoder is of a kind of its own, whose files are not known here.
    """

    stage = "model"

    def __init__(self, folder: str | Path, parameter: str = "model", knowledge: str | Path | None = None) -> None:
        """`folder`: or the id of a model in the cache of the Hugging Face hub (tasks/files/hub.py).

        `parameter`: name of the users' parameter, for messages.

        `knowledge`: folder of the knowledge of a model that reads some; None: it is looked for. It does not change the
        fingerprint, since the model accepts no other knowledge than the one it was trained with.

        Raises:
            UserError: there is no such folder or cached model, or it has no model.
        """
        self.parameter = parameter
        self.knowledge = None if knowledge is None else str(Path(knowledge).expanduser().resolve())
        self.path = Path(folder).expanduser().resolve()
        if not self.path.exists() and is_id(str(folder)):
            self.path = in_cache(str(folder), parameter).resolve()
        if not self.path.is_dir():
            raise UserError(
                f"There is no folder {self.path}. Give the folder of an encoder, as in --param {parameter}=FOLDER: "
                "one that a pretrain flow printed, or a downloaded one with config.json, weights and tokeniser."
            )
        if not (self.path / "config.json").is_file():
            inner = self.path / "model"
            hint = f" Did you mean {inner}?" if (inner / "config.json").is_file() else ""
            raise UserError(
                f"{self.path} has no config.json. Give the folder of a model in Hugging Face's layout.{hint}"
            )

    @property
    def name(self) -> str:
        """Name for tables and cards: that of its folder, or the id of a model of the hub."""
        found = origin_of(self.path)
        return self.path.name if found is None else found.id

    @property
    def origin(self) -> str | None:
        """Id and revision of a model of the hub, which manifests record; None for any other folder."""
        found = origin_of(self.path)
        return None if found is None else str(found)

    def describe(self) -> dict[str, Any]:
        """Return the folder, and that of the knowledge if one was named."""
        return {"folder": str(self.path), "parameter": self.parameter, "knowledge": self.knowledge}

    @property
    def hidden_size(self) -> int | None:
        """Width of the encoder's states, as its config.json has it; None if it does not say."""
        found = self._config().get("hidden_size")
        return found if isinstance(found, int) else None

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the names and contents of the model's files."""
        return _fingerprint(self._files())

    @property
    def bytes(self) -> int:
        """Size of the model's files."""
        return sum(file.stat().st_size for file in self._files().values())

    def copy_to(self, folder: Path) -> None:
        """Copy the model's files into a new folder, which then has the same fingerprint."""
        for name, file in self._files().items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, folder / name)

    def _files(self) -> dict[str, Path]:
        """Return the model's files by their names in its folder."""
        names = ENCODER_FILES if self._is_of_transformers() else ("**/*",)
        files = {file for name in names for file in self.path.glob(name) if file.is_file() and file.name != CARD}
        own = {file.relative_to(self.path).as_posix(): file for file in files}
        # Knowledge beside the model is known by its digest in config.json, and may be there or elsewhere.
        return {name: file for name, file in own.items() if not name.startswith(f"{BESIDE}/")}

    def _is_of_transformers(self) -> bool:
        """Return True also for a broken config.json, which the encoder's loader explains."""
        return str(self._config().get("model_type", TRANSFORMERS_TYPES[0])) in TRANSFORMERS_TYPES

    def _config(self) -> dict[str, Any]:
        """Return the content of config.json; empty if it is broken."""
        try:
            found = json.loads((self.path / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


class TaskFiles(DescribedInput):
    """The files of one task, in a folder that may have those of many; satisfies `infra.stage.StageInput`."""

    stage = "task_files"

    def __init__(self, spec: TaskSpec, folder: str | Path) -> None:
        """Raise `UserError` if there is no such folder, or it has no file of the task."""
        self.path = Path(folder).expanduser().resolve()
        self.files = sources(spec, self.path)
        if not self.files:
            names = [name for patterns in spec.files.values() for name in patterns]
            names += [spec.parquet] if spec.parquet else []
            raise UserError(f"{self.path} has no file of {spec.title}. Expected one of {', '.join(names)}.")

    def describe(self) -> dict[str, Any]:
        """Return the folder and the file of each split: the task itself is among the stage's parameters."""
        return {"folder": str(self.path), "files": {str(split): str(path) for split, path in self.files.items()}}

    @classmethod
    def reopen(cls, described: Mapping[str, Any]) -> Self:
        """Return the files as they were found; raises `UserError` for one that is missing here."""
        opened = cls.__new__(cls)
        opened.path, files = Path(described["folder"]), described["files"]
        opened.files = {split: Path(files[split]) for split in get_args(Split) if split in files}
        for path in opened.files.values():
            if not path.is_file():
                raise UserError(f"{path} does not exist.")
        return opened

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the splits and the contents of their files, of those with cMedQA's texts, and of the
        description of a task on a user's own files.
        """
        return _fingerprint(self._all_files())

    @property
    def bytes(self) -> int:
        """Size of the files."""
        return sum(file.stat().st_size for file in self._all_files().values())

    def _all_files(self) -> dict[str, Path]:
        beside = {path.parent / name for path in self.files.values() for name in (*QUESTIONS, *ANSWERS, OWN_TASK_FILE)}
        texts = {path.name: path for path in beside if path.is_file()}
        return texts | {str(split): path for split, path in self.files.items()}


def model_fingerprint(digests: Mapping[str, str]) -> str:
    """Return the fingerprint that a folder of transformers' has as `ModelFolder`, from its files' names and SHA-256."""
    wanted = {name for name in digests for pattern in ENCODER_FILES if fnmatch.fnmatchcase(name, pattern)} - {CARD}
    return _of_digests({name: digests[name] for name in wanted})


def _fingerprint(files: dict[str, Path]) -> str:
    return _of_digests({name: hash_file(str(path)) for name, path in files.items()})


def _of_digests(digests: Mapping[str, str]) -> str:
    digest = hashlib.sha256()
    for name, sha256 in sorted(digests.items()):
        digest.update(f"{name}\0{sha256}\n".encode())
    return digest.hexdigest()[:32]
