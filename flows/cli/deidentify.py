"""The command `deidentify`: a text or a file in, the text without identifiers out, and the reason of every find."""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.errors import UserError

if TYPE_CHECKING:
    from tasks.deidentify.plan import Plan


FILE_NAME = re.compile(r"\S+\.(?:txt|text|md|csv|tsv|jsonl?|html?|xlsx?|docx?|pdf)", re.IGNORECASE)
"""`notes/patient_1.txt`: a text of this form is more likely a file that is not there."""


def add_deidentify(add: Callable[..., Any]) -> None:
    """Add the command with its arguments; `add` takes its name, its action and the options of its parser."""
    command = add(
        "deidentify",
        deidentify,
        help="replace identifiers of persons in a text, and say why",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Print a text with the identifiers of persons replaced. No rule finds them all: a person has to\n"
        "review what may not leak (docs/privacy.md).",
        epilog="examples:\n"
        "  python -m flows deidentify 患者王伟，电话13812345678 --explain\n"
        "  python -m flows deidentify note.txt --profile hipaa --operator date=month > clean.txt\n"
        "  python -m flows deidentify --rules my_rules.toml --explain < note.txt\n"
        "  python -m flows deidentify --kinds\n",
    )
    command.add_argument("text", nargs="?", metavar="TEXT|FILE", help="a text, or a file of text (default: stdin)")
    command.add_argument(
        "--explain", action="store_true", help="say for every span its kind and the rule that found it"
    )
    command.add_argument("--profile", default="minimal", metavar="NAME", help="minimal, hipaa or gbt35273")
    command.add_argument("--rules", type=Path, metavar="FILE", help="TOML file with rules of your own")
    command.add_argument(
        "--on", action="append", default=[], metavar="KIND", help="treat this kind too (may be given again)"
    )
    command.add_argument("--off", action="append", default=[], metavar="KIND", help="leave this kind as it is")
    command.add_argument(
        "--operator",
        action="append",
        default=[],
        metavar="[KIND=]NAME",
        help="placeholder, mask, hash, surrogate, encrypt or keep, for a kind or for all; date and birth_date also "
        "take shift, month and year",
    )
    command.add_argument("--restore", action="store_true", help="decrypt what the operator encrypt made, with your key")
    command.add_argument("--kinds", action="store_true", help="print the table of kinds")


def deidentify(options: argparse.Namespace) -> int:
    """Print what was asked for; the table of `--explain` goes to stdout behind the text."""
    from tasks.deidentify.explain import explain, explained_lines, kinds_lines
    from tasks.deidentify.operators import Key, count_sealed, restore
    from tasks.deidentify.treatment import deidentify as treat

    if options.kinds:
        print("\n".join(kinds_lines()))
        return 0
    plan = _plan(options)
    text = _read(options.text)
    # Surrogates and shifted dates agree within a text, and tell nothing about another one.
    scope = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    if options.restore:
        restored, opened = restore(text, Key.from_environment(), dict(plan.placeholders))
        print(restored, end=_ending(text))
        _warn_of_sealed(count_sealed(text) - opened)
        return 0
    if not options.explain:
        print(treat(text, plan, scope)[0], end=_ending(text))
        return 0
    treated, found = explain(text, plan, scope)
    print(treated.rstrip("\n"), *explained_lines(found, plan), sep="\n")
    return 0


def _warn_of_sealed(left: int) -> None:
    if left:
        print(
            f"warning: {left:,} of the ciphertexts (〔姓名=…〕) could not be read and stayed: each was cut or changed, "
            "or is of a kind of your own, which needs --rules.",
            file=sys.stderr,
        )


def _plan(options: argparse.Namespace) -> Plan:
    from tasks.deidentify.identifier import PROFILES
    from tasks.deidentify.operators import OPERATORS
    from tasks.deidentify.plan import make_plan
    from tasks.deidentify.user_rules import read_rules

    if options.profile not in PROFILES:
        raise UserError(f"--profile {options.profile}: there are {', '.join(PROFILES)}.")
    operators: dict[str, Any] = {}
    for given in options.operator:
        kind, equals, name = given.rpartition("=")
        if name not in OPERATORS:
            raise UserError(f"--operator {given}: there is no operator {name!r}; there are {', '.join(OPERATORS)}.")
        operators[kind if equals else ""] = name
    return make_plan(
        options.profile,
        {**dict.fromkeys(options.on, True), **dict.fromkeys(options.off, False)},
        operators.pop("", "placeholder"),
        operators,
        read_rules(options.rules) if options.rules else None,
    )


def _read(given: str | None) -> str:
    """Return the text that was given, or the content of the file of that name, or of stdin."""
    if given is None:
        data = sys.stdin.buffer.read()
        return _decoded(data, "stdin")
    try:
        is_file, is_folder = Path(given).is_file(), Path(given).is_dir()
    except (OSError, ValueError):  # a text may be too long for a path
        return given
    if is_folder:
        raise UserError(f"{given} is a folder. Give a file; `run corpus/refresh` treats a folder of texts.")
    if not is_file and FILE_NAME.fullmatch(given):
        raise UserError(f"There is no file {given}. (A text that looks like a file's name goes through stdin.)")
    return _decoded(Path(given).read_bytes(), given) if is_file else given


def _decoded(data: bytes, origin: str) -> str:
    for encoding in ("utf-8-sig", "gb18030"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise UserError(f"{origin} is neither UTF-8 nor GB18030; convert it to UTF-8.")


def _ending(text: str) -> str:
    return "" if text.endswith("\n") else "\n"
