"""A user's own rules in one TOML file: kinds, recognisers, cue words, words that are always or never replaced.

    allow = ["张仲景"]                 # never replaced, whatever finds them

    [kinds.project]                    # a kind of your own
    placeholder = "〔课题号〕"

    [[recogniser]]
    kind = "project"                   # this, or a kind of `python -m flows deidentify --kinds`
    pattern = 'KT-\\d{4}-\\d{3}'         # or words = ["…"]
    found = ["课题{KT-2023-017}"]      # examples are checked when the file is read
    kept = ["KT-12"]

    [deny]
    name = ["老王头"]                   # always replaced

    [cues]
    record = ["随访编码"]               # what follows them is read as behind the kind's own cues

Every pattern must be linear in time: its repeats are bounded, and it has at most 1,000 ways to match at one place.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from infra.errors import UserError
from tasks.deidentify.forms.cues import NO_MEASURE, SEPARATOR, Values, names_behind_role
from tasks.deidentify.forms.identifier import About, Cues, IdentifierType, OwnPattern, OwnWords, Reader, Way
from tasks.deidentify.kinds import KINDS

MOST_WAYS = 1_000
"""Ways in which a pattern may match at one place: the steps of a search per character are bounded by them."""

LONGEST_MATCH = 300
"""Characters of the longest identifier that a pattern may match."""

LEAST_WORD = 2
"""Characters of the shortest word of a list: one of a single character would be everywhere."""

_parser: Any = importlib.import_module("re._parser")

# matches: "project", "ward_3"
# not: "Projekt", "3a"
_KIND_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}$")
# matches: "〔课题号〕"
# not: "课题号", "〔〕"
_PLACEHOLDER = re.compile(r"〔[^〔〕#=\s]{1,12}〕$")
# matches: "课题{KT-2023-017}"
# not: "KT-2023-017"
_BRACED = re.compile(r"\{([^{}]*)\}")

_ANY_VALUE = Values(re.compile(rf"{SEPARATOR}(?P<value>[A-Za-z0-9][A-Za-z0-9\-_]{{2,30}}+){NO_MEASURE}"))


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Kind(_Table):
    placeholder: str
    what: str = ""


class _Recogniser(_Table):
    kind: str
    pattern: str | None = None
    words: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


class _File(_Table):
    allow: tuple[str, ...] = ()
    kinds: Mapping[str, _Kind] = Field(default_factory=dict)
    recogniser: tuple[_Recogniser, ...] = ()
    deny: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    cues: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)


@dataclass(frozen=True)
class UserRules:
    """Rules of a file. Two are equal if their files have the same content; the content itself enters no artifact."""

    fingerprint: str
    """SHA-256 of the file's content."""
    types: tuple[IdentifierType, ...]
    """The user's own kinds, and those of the table with the user's ways added."""
    own_kinds: frozenset[str]
    """Names of the user's own kinds, which are always treated."""
    allow: tuple[str, ...]

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserRules) and other.fingerprint == self.fingerprint


def read_rules(path: Path | str) -> UserRules:
    """Read a file of rules.

    Raises:
        UserError: the file cannot be read, is not TOML, or holds something that cannot be used; with the file, the key
            and the remedy.
    """
    return parse_rules(rules_text(path), str(path))


def rules_text(path: Path | str) -> str:
    """Return the content of a file of rules; raises `UserError` where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UserError(f"deidentify.rules: there is no file {path}.") from error
    except OSError as error:
        raise UserError(f"deidentify.rules: {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"deidentify.rules: {path} is not UTF-8 text ({error}); convert it to UTF-8.") from error


@functools.lru_cache(maxsize=8)
def parse_rules(content: str, origin: str) -> UserRules:
    """Return the rules in the content of a file; `origin` is its path, for messages and reasons."""
    try:
        given = _File.model_validate(tomllib.loads(content))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{origin} is not valid TOML: {error}") from error
    except ValidationError as error:
        raise UserError("\n".join(_said(origin, problem) for problem in error.errors())) from error
    types = {name: _own_type(origin, name, kind) for name, kind in given.kinds.items()}
    file = Path(origin).name
    for kind, way in _ways(origin, file, given):
        known = types.get(kind) or KINDS.get(kind)
        if known is None:
            raise UserError(
                f"{origin}: there is no kind {kind!r}. Add [kinds.{kind}] with a placeholder, or use one of "
                f"{', '.join([*types, *KINDS])}."
            )
        if isinstance(way, Cues):
            way = replace(way, beside=_reader(origin, known))
        types[kind] = replace(known, ways=(*known.ways, way))
    for at, word in enumerate(given.allow):
        _check_word(origin, f"allow[{at}]", word)
    digest = hashlib.sha256(content.encode()).hexdigest()
    return UserRules(digest, tuple(types.values()), frozenset(given.kinds), tuple(sorted(set(given.allow))))


def _said(origin: str, problem: Any) -> str:
    key = ".".join(map(str, problem["loc"])) or "the file"
    if problem["type"] == "extra_forbidden":
        return f"{origin}: unknown key {key!r}; there are allow, kinds, recogniser, deny and cues."
    if key == "recogniser" and problem["type"] == "tuple_type":
        return f"{origin}: recogniser: write [[recogniser]] with two pairs of brackets above each one."
    if problem["type"] == "tuple_type":
        return f'{origin}: {key} must be a list of words: {problem["loc"][-1]} = ["…", "…"].'
    return f"{origin}: {key}: {problem['msg']}"


def _own_type(origin: str, name: str, kind: _Kind) -> IdentifierType:
    if name in KINDS:
        raise UserError(f"{origin}: kinds.{name} is a kind of the table already; choose another name.")
    if not _KIND_NAME.match(name):
        raise UserError(f"{origin}: kinds.{name}: a name has small letters, digits and _, and begins with a letter.")
    taken = {each.placeholder for each in KINDS.values()}
    if not _PLACEHOLDER.match(kind.placeholder) or kind.placeholder in taken:
        raise UserError(
            f"{origin}: kinds.{name}.placeholder = {kind.placeholder!r} must be a word of up to 12 characters in "
            "brackets 〔…〕 that no other kind has."
        )
    return IdentifierType(name, kind.placeholder, About(what=kind.what or f"the user's kind {name}"), ())


def _ways(origin: str, file: str, given: _File) -> Iterator[tuple[str, Way]]:
    """Yield kinds with the ways that are added to them, in the order of the file."""
    for place, one in enumerate(given.recogniser, start=1):
        key, reason = f"recogniser {place}", f"recogniser {place} of {file}"
        if (one.pattern is None) == (not one.words):
            raise UserError(f"{origin}: {key} needs either a pattern or words.")
        for word in one.words:
            _check_word(origin, f"{key}, words", word)
        if one.pattern is None:
            way: OwnPattern | OwnWords = OwnWords(
                found=one.found, kept=one.kept, words=frozenset(one.words), reason=reason
            )
        else:
            pattern = checked_pattern(one.pattern, f"{origin}: {key}")
            way = OwnPattern(found=one.found, kept=one.kept, pattern=pattern, reason=reason)
        _check_examples(f"{origin}: {key}", way)
        yield one.kind, way
    for kind, words in given.deny.items():
        for word in words:
            _check_word(origin, f"deny.{kind}", word)
        yield kind, OwnWords(found=(), kept=(), words=frozenset(words), reason=f"deny list of {file}")
    for kind, words in given.cues.items():
        for word in words:
            _check_word(origin, f"cues.{kind}", word)
            if len(word.split()) != 1:
                raise UserError(f"{origin}: cues.{kind}: {word!r} holds a blank; give it without.")
        yield kind, Cues(found=(), kept=(), words=" ".join(words), beside=_ANY_VALUE, origin=file)


def _reader(origin: str, kind: IdentifierType) -> Reader:
    """Return what reads a value of a kind behind a cue: that of the kind's own first cues."""
    if kind.name == "name":
        return names_behind_role
    readers = [way.beside for way in kind.ways if isinstance(way, Cues) and (way.header or way.beside is _ANY_VALUE)]
    if readers:
        return readers[0]
    if kind.name not in KINDS:
        return _ANY_VALUE
    raise UserError(f"{origin}: cues.{kind.name}: this kind is recognised by its form alone; add a [[recogniser]].")


def _check_word(origin: str, key: str, word: str) -> None:
    if not LEAST_WORD <= len(word.strip()) <= LONGEST_MATCH or word != word.strip():
        raise UserError(f"{origin}: {key}: {word!r} needs 2 to {LONGEST_MATCH} characters, without blanks around.")


def checked_pattern(pattern: str, where: str) -> re.Pattern[str]:
    """Compile a user's pattern; refuse one whose search could take more than linear time, or that matches nothing.

    Raises:
        UserError: the message begins with `where` and names the remedy.
    """
    try:
        parsed = _parser.parse(pattern)
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise UserError(f"{where}, pattern {pattern!r} is not a regular expression of Python: {error}") from error
    ways = _count(parsed, where, pattern)
    least, most = parsed.getwidth()
    if least == 0:
        raise UserError(f"{where}, pattern {pattern!r} also matches nothing; ask for at least one character.")
    if ways > MOST_WAYS or most > LONGEST_MATCH:
        raise UserError(
            f"{where}, pattern {pattern!r} takes too long: it has {min(ways, 10**6):,} ways to match at one place, of "
            f"up to {most:,} characters, and {MOST_WAYS:,} and {LONGEST_MATCH} are allowed. Lower the bounds of its "
            "repeats, and do not nest them."
        )
    return compiled


def _count(parsed: Any, where: str, pattern: str) -> int:
    """Return an upper bound of the ways in which a parsed pattern can match, or fail, at one place."""
    ways = 1
    for operation, value in parsed:
        ways = min(ways * _count_one(str(operation), value, where, pattern), 10**7)
    return ways


def _count_one(operation: str, value: Any, where: str, pattern: str) -> int:
    match operation:
        case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN" | "AT":
            return 1
        case "BRANCH":
            return sum(_count(branch, where, pattern) for branch in value[1])
        case "SUBPATTERN" | "ASSERT" | "ASSERT_NOT":
            return _count(value[-1], where, pattern)
        case "ATOMIC_GROUP":
            return _count(value, where, pattern)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, inner = value
            if most > LONGEST_MATCH:
                raise UserError(
                    f"{where}, pattern {pattern!r} has an unbounded repeat; write {{1,40}} for +, {{0,40}} for *."
                )
            of_one = _count(inner, where, pattern)
            total = 0
            for times in range(int(least), int(most) + 1):
                total += of_one**times
                if total > 10**7:
                    break
            return total
    raise UserError(f"{where}, pattern {pattern!r} uses {operation.lower()}, which is not allowed here.")


def _check_examples(where: str, way: OwnPattern | OwnWords) -> None:
    """Check that a recogniser finds its examples whole, and nothing in its counter-examples."""
    for marked in way.found:
        text = marked.replace("{", "").replace("}", "")
        wanted = [match[1] for match in _BRACED.finditer(marked)]
        found = [text[start:end] for start, end in way.spans(text)]
        if not wanted:
            raise UserError(
                f"{where}, found: {marked!r} marks nothing. Put what is to be found into braces: 床{{X12}}."
            )
        if found != wanted:
            raise UserError(f"{where}, found: in {marked!r} it finds {found}, not what the braces mark: {wanted}.")
    for text in way.kept:
        if found := [text[start:end] for start, end in way.spans(text)]:
            raise UserError(f"{where}, kept: in {text!r} it finds {found}.")
