"""Inputs of stages opened again from their descriptions, as on the nodes of a cluster."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from infra.artifacts import ArtifactStore
from infra.cluster.jobs.description import InputDescription
from infra.errors import UserError
from infra.inputs import DescribedInput
from models.word_vectors import WordVectors
from tasks.downstream.catalogue import task
from tasks.embed.adopt import VectorsFile
from tasks.files.database import DatabaseTable
from tasks.files.raw_input import RawInput
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.finetune.sources.vector_file import VectorFile


def made(kind: str, folder: Path) -> DescribedInput:
    """Return an input of a kind, with files of its own."""
    if kind == "raw":
        for name in ("emr/a.txt", "more, and more/b.txt"):
            (folder / name).parent.mkdir()
            (folder / name).write_text("血糖")
        return RawInput([folder / "emr", folder / "more, and more"])
    if kind == "model":
        (folder / "config.json").write_text('{"model_type": "bert"}')
        return ModelFolder(folder, "init_from", knowledge=folder)
    if kind == "task":
        (folder / "KUAKE-QIC_train.json").write_text("[]")
        return TaskFiles(task("kuake-qic"), folder)
    if kind == "database":
        with sqlite3.connect(folder / "shop.db") as connection:
            connection.execute("create table products (title text, price text)")
            connection.execute("insert into products values ('钙片', null)")
        return DatabaseTable(f"sqlite:///{folder}/shop.db", "products", ["title", "price"])
    WordVectors(["血糖"], np.ones((1, 2), np.float32)).write(folder / "vectors.txt")
    return VectorFile(folder / "vectors.txt") if kind == "vectors" else VectorsFile(folder / "vectors.txt", "compare")


@pytest.mark.parametrize("kind", ["raw", "model", "task", "database", "vectors", "vectors file"])
def test_an_input_is_the_same_when_it_is_opened_again(kind: str, tmp_path: Path, store: ArtifactStore) -> None:
    given = made(kind, tmp_path)
    described = InputDescription.of("corpus", given)  # type: ignore[arg-type]
    travelled = InputDescription.model_validate(json.loads(described.model_dump_json()))
    opened = travelled.opened("corpus", store)
    assert type(opened) is type(given) and opened.fingerprint == described.fingerprint
    assert opened.describe() == given.describe()  # type: ignore[attr-defined]


def test_missing_files_of_a_task_are_named(tmp_path: Path, store: ArtifactStore) -> None:
    described = InputDescription.of("data", made("task", tmp_path))  # type: ignore[arg-type]
    (tmp_path / "KUAKE-QIC_train.json").unlink()
    with pytest.raises(UserError, match=r"KUAKE-QIC_train\.json does not exist\. Inputs of a job have to be"):
        described.opened("data", store)
