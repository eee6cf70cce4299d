"""Stage `name_vectors`: the vectors of all names of a terminology, with the encoder that made them.

Beside the manifest are `vectors.npy` (names x width, in the order of the documents of the list's embedded index),
`meaning.json`, which says of which names and of which encoder they are, and the folder `encoder/`, so that an index
that holds these files can encode queries by itself.

Names are encoded in batches. Time grows with the tokens of all names, memory with the names and their vectors.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.limits import small_text
from infra.stage import Output, stage
from tasks.finetune.inputs import ModelFolder
from tasks.normalise.meaning.encoder import NameEncoder
from tasks.normalise.meaning.folders import ABOUT_FILE, ENCODER, MEANING, VECTORS_FILE, has_vectors, write_pooling
from tasks.normalise.meaning.params import NameVectorsParams
from tasks.normalise.terms.terminology import entries_of
from tasks.retrieve.embedded import EmbeddedIndex
from tasks.retrieve.fields import documents_of
from tasks.retrieve.vectors import VectorIndex


@dataclass(frozen=True)
class About:
    """Content of `meaning.json`."""

    names: str
    """Digest of the names that have vectors (`names_digest`)."""
    encoder: str
    """Fingerprint of the encoder's files."""
    pooling: str


@stage(name="name_vectors", version=1, params=NameVectorsParams, heavy=True)
def name_vectors(inputs: Mapping[str, Any], params: NameVectorsParams, out: Output) -> None:
    """Encode the names of `inputs["terminology"]` by `inputs["encoder"]` (`ModelFolder`).

    Raises:
        UserError: the folder has no encoder or no tokeniser, or the two do not belong together.
    """
    documents = documents_of(entries_of(inputs["terminology"]))
    source: ModelFolder = inputs["encoder"]
    encoder = NameEncoder.of_folder(source.path, params.pooling)
    total = len(documents.names)
    vectors_ND = encoder.vectors(documents.names, lambda done: out.on_progress("name_vectors", done, total))
    out.count("names", total)
    out.count("names_without_vector", int((~vectors_ND.any(1)).sum()))
    out.count("width", encoder.width)
    codes, terms = ([getattr(entry, name) for entry in documents.entries] for name in ("code", "term"))
    with tempfile.TemporaryDirectory(prefix="yiwen-vectors-") as name:
        folder = Path(name)
        np.save(folder / VECTORS_FILE, vectors_ND.astype(params.dtype), allow_pickle=False)
        source.copy_to(folder / ENCODER)
        write_pooling(folder / ENCODER, encoder.pooling)
        about = About(
            names_digest(codes, terms, documents.names, documents.owners), source.fingerprint, encoder.pooling
        )
        (folder / ABOUT_FILE).write_text(json.dumps(asdict(about), indent=1) + "\n", encoding="utf-8")
        out.add_folder(folder)


def names_digest(codes: Sequence[str], terms: Sequence[str], names: Sequence[str], owners: Sequence[int]) -> str:
    """Return an identifier of the names of a list in their order, 32 hex digits."""
    content = json.dumps([list(codes), list(terms), list(names), [int(owner) for owner in owners]])
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def put_vectors(vectors: Artifact, index: Path) -> None:
    """Copy the files of an artifact of the stage into the folder of the list's index."""
    vectors.download(index / MEANING)


def open_vectors(own: EmbeddedIndex, encoder: str | Path | None = None, device: str | None = None) -> VectorIndex:
    """Open vectors of the names of an index: those in its folder or, if it has none, by `encoder`, now and in memory.

    Args:
        encoder: folder of the encoder; None: that of the index.

    Raises:
        UserError: there are neither vectors nor an encoder, the vectors are of another encoder or of other names, or a
            file is damaged.
    """
    folder = own.folder / MEANING
    if not own.has_names:
        raise UserError(f"{own.folder} was made by an older version and has no names. Build it again.")
    names, owners = own.names()
    if not has_vectors(own.folder):
        if encoder is None:
            raise UserError(f"{own.folder} has no vectors of names. Build it with --param encoder=FOLDER.")
        opened = NameEncoder.of_folder(encoder, device=device)
        return VectorIndex(own.codes, own.terms, own.first_names, opened.vectors(names), opened.vectors)
    about = _about(folder)
    if encoder is not None and ModelFolder(encoder, "encoder").fingerprint != about.encoder:
        raise UserError(
            f"The vectors in {own.folder} are of another encoder than {encoder}. Leave encoder out to search with "
            "theirs, or repeat normalise/index with --param encoder=FOLDER."
        )
    if ModelFolder(folder / ENCODER, "encoder").fingerprint != about.encoder:
        raise UserError(
            f"The encoder in {folder / ENCODER} is not the one that made the vectors beside it. Build the index again."
        )
    if names_digest(own.codes, own.terms, names, owners) != about.names:
        raise UserError(f"The vectors in {folder} are of other names than the index's. Build the index again.")
    try:
        matrix = np.load(folder / VECTORS_FILE, mmap_mode="r", allow_pickle=False)
        opened = NameEncoder.of_folder(folder / ENCODER, about.pooling, device)
        if matrix.shape != (len(names), opened.width):
            raise ValueError(f"its shape is {matrix.shape} and not {(len(names), opened.width)}")
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{folder / VECTORS_FILE} is damaged ({error}). Build the index again.") from error
    return VectorIndex(own.codes, own.terms, own.first_names, matrix, opened.vectors)


def _about(folder: Path) -> About:
    try:
        return TypeAdapter(About).validate_json(small_text(folder / ABOUT_FILE))
    except (OSError, ValueError, ValidationError) as error:
        raise UserError(f"{folder / ABOUT_FILE} is damaged ({error}). Build the index again.") from error
