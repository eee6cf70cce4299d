"""Engines: what a worker does with texts. Each opens its files, and answers a batch with one JSON value per text.

An answer is a function of its text alone, bit for bit, whatever shares its batch. Neural networks are the exception:
sums of floats depend on the shape of a batch. So each record passes through a model by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from flows.service.answers import (
    deidentified_value,
    mentions_value,
    normalised_value,
    prediction_value,
    refused_value,
    to_bytes,
)
from infra.errors import UserError

NORMALISE, PREDICT, LINK, DEIDENTIFY = "normalise", "predict", "link", "deidentify"


@dataclass(frozen=True)
class EngineSpec:
    """What a worker opens; it travels to the worker's process."""

    kind: str
    name: str
    """Name of the engine: its kind, or predict/NAME."""
    folder: Path | None = None
    device: str | None = None
    together: bool = False
    """True: a model computes the records of a batch together, so that scores depend on them in the seventh digit."""
    profile: str = "minimal"
    rules: Path | None = None
    encoder: bool = False


@dataclass(frozen=True)
class Opened:
    """What is known of an engine once it is open."""

    fingerprint: str
    artifact: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


class BadRecordError(Exception):
    """A record that an engine does not take; the message does not repeat its text."""


class Engine(Protocol):
    """An open engine."""

    opened: Opened
    one_by_one: bool
    """True if each answer is yielded before the next item is looked at."""

    sample: Any
    """An item that is answered before any request is: what is loaded or compiled then would delay the first."""

    def answers(self, items: Sequence[Any]) -> Iterator[bytes]:
        """Yield the answer to each item as JSON. Raises `BadRecordError` for an item that it does not take."""


def open_engine(spec: EngineSpec) -> Engine:
    """Open an engine.

    Raises:
        UserError: a folder is missing, damaged or of another kind; the message names the option and the folder.
    """
    option = _OPTIONS[spec.kind].format(spec.name.partition("/")[2])
    try:
        engine = _ENGINES[spec.kind](spec)
        list(engine.answers([engine.sample]))
        return engine
    except UserError as error:
        raise UserError(f"{option}: {' '.join(str(error).split())}") from error  # pydantic's have several lines
    except ModuleNotFoundError:
        raise
    except Exception as error:  # a damaged file may raise anything
        raise UserError(f"{option}: {spec.folder} cannot be opened ({type(error).__name__}: {error}).") from error


class Normalising:
    """Diagnoses to standard terms. Items: (text, number of candidates to return)."""

    def __init__(self, spec: EngineSpec) -> None:
        from tasks.normalise.normaliser import Normaliser

        folder = _folder(spec)
        if (folder / "task.json").is_file():
            raise UserError(f"{folder} is a fine-tuned model. Give it with --model NAME={folder}.")
        self._normaliser = Normaliser(folder, device=spec.device)
        about = {
            "terms": self._normaliser.source.partition(" terms of ")[0],
            "ranker": self._normaliser.is_trained,
            "threshold": self._normaliser.threshold,
        }
        self.opened = Opened(fingerprint_of_folder(folder), artifact_of(folder), about)
        self.one_by_one = self._normaliser.is_trained
        self.sample = ("高血压3级，否认糖尿病", 0)

    def answers(self, items: Sequence[tuple[str, int]]) -> Iterator[bytes]:
        texts = [text for text, _ in items]
        found = (self._normaliser.normalise([text])[0] for text in texts)
        for one, (_, wanted) in zip(
            found if self.one_by_one else self._normaliser.normalise(texts), items, strict=True
        ):
            yield to_bytes(normalised_value(one, wanted))


class Predicting:
    """Records to a model's answers. Items: a text, or the texts of a record."""

    def __init__(self, spec: EngineSpec) -> None:
        folder = _folder(spec)
        self.one_by_one = not spec.together
        if (folder / "fields.json").is_file() or (folder / "index" / "fields.json").is_file():
            raise UserError(f"{folder} is a normaliser. Give it with --normaliser {folder}.")
        from tasks.downstream.catalogue import task as task_of
        from tasks.finetune.predict import Predictor

        self._predictor = Predictor(folder, spec.device)
        shape = self._predictor.shape
        name = spec.name.partition("/")[2]
        if name != shape.task and _is_task(task_of, name):
            raise UserError(
                f"{folder} was trained for {shape.task}, not for the task {name}. Write --model {shape.task}={folder}, "
                "or take another name."
            )
        self.sample = ["患者头痛三天"] * (self._predictor.texts_of_a_record or 4)
        about = {
            "task": shape.task,
            "kind": str(shape.kind),
            "labels": list(shape.labels),
            "texts_per_record": self._predictor.texts_of_a_record,
        }
        self.opened = Opened(fingerprint_of_folder(folder), artifact_of(folder), about)

    def answers(self, items: Sequence[str | list[str]]) -> Iterator[bytes]:
        for batch in [[item] for item in items] if self.one_by_one else [items]:
            yield from self._answered(batch)

    def _answered(self, items: Sequence[str | list[str]]) -> Iterator[bytes]:
        for item in items:
            if fault := self._predictor.fault(item):
                raise BadRecordError(fault)
        refusals = [self._predictor.refusal(item) for item in items]
        asked = [item for item, refusal in zip(items, refusals, strict=True) if not refusal]
        found = iter(self._predictor.predict(asked) if asked else ())
        for item, refusal in zip(items, refusals, strict=True):
            if refusal:
                yield to_bytes(refused_value(refusal))  # the other records have answers, as rows of a file have
            else:
                yield to_bytes(prediction_value(next(found), item if isinstance(item, str) else item[0]))


class Linking:
    """Texts to mentions of entities. Items: texts."""

    one_by_one = False
    sample = "患者头痛三天"

    def __init__(self, spec: EngineSpec) -> None:
        from infra.artifacts import ArtifactStore
        from tasks.knowledge.link import entity_linker

        folder = _folder(spec).resolve()
        artifact = ArtifactStore(folder.parent.parent).get(folder.parent.name, folder.name)
        if artifact is None:
            raise UserError(f"{folder} is no artifact. Give the folder that knowledge/fuse or entities/mine printed.")
        self._linker = entity_linker(artifact, {})
        table = next(name for name in ("entities", "kg_entities") if name in artifact.manifest.tables)
        name = "name" if table == "kg_entities" else "surface"
        rows = artifact.scan(table).select("entity_id", name, "type").collect().iter_rows()
        self._entities: dict[str, tuple[str, str]] = {}
        for entity, called, kind in rows:
            self._entities.setdefault(entity, (called, kind))  # of an entity's surfaces, the first
        about = {"entities": len(self._entities), "names": self._linker.num_surfaces}
        self.opened = Opened(fingerprint_of_folder(folder), f"{artifact.stage}/{artifact.fingerprint}", about)

    def answers(self, items: Sequence[str]) -> Iterator[bytes]:
        found = self._linker.link_many(items)
        mentions: list[list[tuple[int, int, str]]] = [[] for _ in items]
        columns = (column.tolist() for column in (found.texts, found.starts, found.ends, found.entities))
        for text, start, end, entity in zip(*columns, strict=True):
            mentions[text].append((start, end, self._linker.entity_ids[entity]))
        for own, text in zip(mentions, items, strict=True):
            yield to_bytes(mentions_value(own, text, self._entities))


class Deidentifying:
    """Texts without identifiers. Items: (text, True to say where identifiers were)."""

    one_by_one = True
    sample = ("患者王伟，男，头痛三天，电话13812345678。", True)

    def __init__(self, spec: EngineSpec) -> None:
        from infra.version import VERSION
        from tasks.deidentify.forms.identifier import PROFILES
        from tasks.deidentify.plan import make_plan
        from tasks.deidentify.user_rules import read_rules, rules_text

        profile = next((one for one in PROFILES if one == spec.profile), None)
        if profile is None:
            raise UserError(f"--profile {spec.profile}: there are {', '.join(PROFILES)}.")
        rules = rules_text(spec.rules) if spec.rules else ""
        own = read_rules(spec.rules) if spec.rules else None
        self._plan = make_plan(profile, rules=own, encoder=spec.encoder)
        code = Path(make_plan.__code__.co_filename).parent
        settings = VERSION, *sorted(self._plan.kinds), rules, *(["encoder"] if spec.encoder else [])
        digest = hashlib.sha256("\0".join(settings).encode())
        digest.update(fingerprint_of_folder(code, lambda path: path.suffix in (".py", ".npz", ".txt")).encode())
        about = {"profile": profile, "kinds": sorted(self._plan.kinds), "own_rules": spec.rules is not None}
        about |= {"encoder": True} if spec.encoder else {}
        self.opened = Opened(digest.hexdigest()[:32], None, about)

    def answers(self, items: Sequence[tuple[str, bool]]) -> Iterator[bytes]:
        from tasks.deidentify import deidentify
        from tasks.deidentify.explain import counts_of, explain

        for text, wanted in items:
            if wanted:
                treated, reasons = explain(text, self._plan)
                yield to_bytes(deidentified_value(treated, counts_of(reasons), reasons))
            else:
                yield to_bytes(deidentified_value(*deidentify(text, self._plan), None))


_ENGINES: Mapping[str, Callable[[EngineSpec], Engine]] = {
    NORMALISE: Normalising, PREDICT: Predicting, LINK: Linking, DEIDENTIFY: Deidentifying,
}  # fmt: skip
_OPTIONS = {NORMALISE: "--normaliser", PREDICT: "--model {}", LINK: "--linker", DEIDENTIFY: "--deidentify"}


def fingerprint_of_folder(folder: Path, counts: Callable[[Path], bool] = lambda path: True) -> str:
    """Return a hash of the names and contents of a folder's files, as far as they count: 32 hexadecimal digits.

    A copy of the folder has the same one. Time grows with the bytes, about 1 GB per second.
    """
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and counts(path)):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def artifact_of(folder: Path) -> str | None:
    """Return stage/fingerprint of the artifact that a folder is, or is part of; None for a plain copy."""
    for path in (folder.resolve(), folder.resolve().parent):
        if (path / "manifest.json").is_file():
            return f"{path.parent.name}/{path.name}"
    return None


def _folder(spec: EngineSpec) -> Path:
    assert spec.folder is not None, "only de-identification has no folder"
    path = spec.folder.expanduser()
    if not path.is_dir():
        raise UserError(f"there is no folder {path}.")
    return path


def _is_task(task_of: Callable[[str], Any], name: str) -> bool:
    try:
        return bool(task_of(name).name == name)
    except UserError:
        return False
