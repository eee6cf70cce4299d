"""CMeKG, the Chinese medical knowledge graph, from the package `PyCMeKG`: one pickle.

The package is located but never imported, and its pickle is read by an unpickler that can build only dict, list, tuple
and str: a pickle is a program, and this one came over the network.

Time and memory: the whole graph is read at once (967,409 triples: 1 s, 200 MB).
"""

from __future__ import annotations

import importlib.util
import io
import pickle
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import polars as pl

from infra.errors import UserError
from kg.sources.pickle_opcodes import misplaced
from kg.sources.source_triples import SourceTriples, checked, with_types

PACKAGE = "pyCMeKG"
PICKLE = Path("model", "cmekg.pkl")

TYPES = Path(__file__).with_name("cmekg_types.csv")
"""Types of heads and tails by relation, which users can edit; they are ours, because CMeKG has none."""

Subjects = dict[str, dict[str, list[str]]]
"""Subject → relation → values, as in CMeKG."""


def locate() -> Path:
    """Return the pickle of the installed package, found without importing the package.

    Raises:
        UserError: the package is not installed, or does not contain the file.
    """
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec and spec.submodule_search_locations) or ():
        if (path := Path(folder, PICKLE)).is_file():
            return path
    state = "is not installed" if spec is None else f"does not contain {PICKLE.as_posix()}"
    raise UserError(
        f"The knowledge graph CMeKG is needed, but the package PyCMeKG {state}. "
        "Install it with: pip install PyCMeKG (or: pip install -e '.[demo]')."
    )


def load(path: str | Path | None = None) -> Subjects:
    """Read CMeKG: subject → relation → values. `path` is the pickle; by default that of the installed package.

    Raises:
        UserError: the file does not exist, is damaged, would build anything but containers and strings, or does not
            have the structure of CMeKG. The message names the file and what was refused.
    """
    file = Path(path) if path is not None else locate()
    try:
        data = file.read_bytes()
        if (place := misplaced(data)) >= 0:
            raise UserError(
                f"{file} asks at byte {place:,} for more memory than its {len(data):,} bytes can need. It was refused. "
                f"{_REINSTALL}"
            )
        content = _PlainUnpickler(io.BytesIO(data)).load()
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}. Give the path of cmekg.pkl.") from error
    except _RefusedError as error:
        raise UserError(
            f"{file} is not a plain knowledge graph: it asks for {error}. It was refused, and nothing in it was "
            "run. Get the file from PyPI again: pip install --force-reinstall PyCMeKG."
        ) from error
    except _UNREADABLE as error:
        raise UserError(f"{file} is not a readable pickle ({error}). {_REINSTALL}") from error
    _check_structure(file, content, len(data))
    return content


def triples(subjects: Mapping[str, Mapping[str, list[str]]]) -> Iterator[tuple[str, str, str]]:
    """Yield (head, relation, tail) for every value, in the order of the graph."""
    for head, attributes in subjects.items():
        for relation, values in attributes.items():
            for tail in values:
                yield head, relation, tail


def read_cmekg(path: str | Path | None = None, types: Path = TYPES) -> SourceTriples:
    """Return the triples, with types of their ends by relation from the table; `path` as in `load`.

    Raises:
        UserError: as `load`, or the table cannot be read.
    """
    columns = dict.fromkeys(("head", "relation", "tail"), pl.String)
    rows = pl.DataFrame(list(triples(load(path))), schema=columns, orient="row")
    return checked(with_types(rows, types), PICKLE.name)


_REINSTALL = "Reinstall it with: pip install --force-reinstall PyCMeKG."

# Errors of the unpickler on damaged bytes; MemoryError and OverflowError when they announce an absurd length.
_UNREADABLE = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    MemoryError,
    OverflowError,
)


class _RefusedError(Exception):
    """The pickle asks for something that a graph of strings never needs."""


class _PlainUnpickler(pickle.Unpickler):
    """Builds only containers and strings.

    They have opcodes of their own, so every named global can be refused, and without one a pickle cannot call anything.
    """

    def find_class(self, module: str, name: str) -> NoReturn:
        raise _RefusedError(f"the global {module}.{name}")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise _RefusedError(f"the persistent object {pid!r}")


def _check_structure(file: Path, content: object, size: int) -> None:
    # The unpickler cannot ensure this: sets and bytes have opcodes too.
    if type(content) is not dict:
        raise _misshapen(file, "the content", "a dict of subjects", content)
    values_left = size
    for subject, attributes in content.items():
        if type(subject) is not str:
            raise _misshapen(file, f"subject {subject!r}", "a string", subject)
        if type(attributes) is not dict:
            raise _misshapen(file, f"subject {subject!r}", "a dict of relations", attributes)
        for relation, values in attributes.items():
            place = f"relation {relation!r} of {subject!r}"
            if type(relation) is not str:
                raise _misshapen(file, place, "named by a string", relation)
            if type(values) is not list:
                raise _misshapen(file, place, "a list of strings", values)
            # One list may be the value of a million relations: each value of a real graph takes bytes of its own.
            values_left -= len(values)
            if values_left < 0:
                raise UserError(f"{file} has more values than its {size:,} bytes can hold. {_REINSTALL}")
            for value in values:
                if type(value) is not str:
                    raise _misshapen(file, place, "a list of strings", value)
            _refuse_half_characters(file, (subject, relation, *values))


def _refuse_half_characters(file: Path, texts: Sequence[str]) -> None:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{file}: a value of {texts[0]!a} contains half a character ({error.object[error.start]!a}). {_REINSTALL}"
        ) from error


def _misshapen(file: Path, place: str, expected: str, found: object) -> UserError:
    return UserError(
        f"{file} is not CMeKG: {place} should be {expected}, but is a {type(found).__name__}. {_REINSTALL}"
    )
