"""The verb `deidentify`: a text or a file in, the text without identifiers out, and the reason of every find."""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra.errors import UserError
from tasks.files.office.package import COMPOUND_FILE

if TYPE_CHECKING:
    from tasks.deidentify.plan import Plan


FILE_NAME = re.compile(r"\S+\.(?:txt|text|md|csv|tsv|jsonl?|html?|xlsx?|docx?|pdf)", re.IGNORECASE)
"""`notes/patient_1.txt`: a text of this form is more likely a file that is not there."""
# matches: "\u738b\u4f1f"
# not: "\n", "王伟"
_ESCAPED = re.compile(r"\\u[4-9][0-9a-fA-F]{3}\\u[4-9][0-9a-fA-F]{3}")
"""Chinese characters as JSON may escape them."""


def deidentify(
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT|FILE", help="A text, or a file of text; - or nothing: stdin.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say for every span its kind and the rule that found it.")
    ] = False,
    profile: Annotated[str, typer.Option(metavar="NAME", help="minimal, hipaa or gbt35273")] = "minimal",
    rules: Annotated[Path | None, typer.Option(metavar="FILE", help="TOML file with rules of your own.")] = None,
    on: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="Treat this kind too (may be given again).")
    ] = None,
    off: Annotated[list[str] | None, typer.Option(metavar="KIND", help="Leave this kind as it is.")] = None,
    operator: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[KIND=]NAME",
            help="placeholder, mask, hash, surrogate, encrypt or keep, for a kind or for all; date and birth_date also "
            "take shift, month and year.",
        ),
    ] = None,
    encoder: Annotated[
        bool,
        typer.Option(
            "--encoder",
            help="Let a larger encoder read again wherever names may be: it finds more, slowly.",
        ),
    ] = False,
    restore: Annotated[
        bool, typer.Option("--restore", help="Decrypt what the operator encrypt made, with your key.")
    ] = False,
    kinds: Annotated[bool, typer.Option("--kinds", help="Print the table of kinds.")] = False,
) -> None:
    """Replace identifiers of persons in a text, and say why.

    The text is printed with the identifiers replaced. No rule finds them all: a person has to review what may not
    leak (docs/privacy.md).

    Examples:
      python -m flows deidentify 患者王伟，电话13812345678 --explain
      python -m flows deidentify note.txt --profile hipaa --operator date=month > clean.txt
      python -m flows deidentify note.txt --encoder > clean.txt
      python -m flows deidentify --rules my_rules.toml --explain < note.txt
      python -m flows deidentify --kinds
    """
    # The table of --explain goes to stdout behind the text.
    from tasks.deidentify import explain as explaining
    from tasks.deidentify.operators import Key, count_sealed
    from tasks.deidentify.operators import restore as restored_by
    from tasks.deidentify.treatment import deidentify as treat

    if kinds:
        print("\n".join(explaining.kinds_lines()))
        return
    if twice := sorted({*(on or ())} & {*(off or ())}):
        raise UserError(f"--on {twice[0]} --off {twice[0]}: leave one of them out.")
    plan = _plan(profile, rules, on or [], off or [], operator or [], encoder)
    given = _read(text)
    # Surrogates and shifted dates agree within a text, and tell nothing about another one.
    scope = hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()
    if restore:
        restored, opened = restored_by(given, Key.from_environment(), dict(plan.placeholders))
        print(restored, end=_ending(given))
        _warn_of_sealed(count_sealed(given) - opened)
    elif explain:
        with _reading_shown():
            treated, found = explaining.explain(given, plan, scope)
        print(treated.rstrip("\n"), *explaining.explained_lines(found, plan), sep="\n")
        if found and not sys.stdout.isatty():
            print(
                "warning: the table of --explain shows the identifiers; leave it out for a clean text.", file=sys.stderr
            )
    else:
        with _reading_shown():
            treated = treat(given, plan, scope)[0]
        print(treated, end=_ending(given))
    sys.stdout.flush()  # reports a full disk here, instead of a traceback while Python ends
    if _ESCAPED.search(given):
        print(
            "warning: the text contains characters escaped as in JSON (\\u738b), which are not decoded: identifiers in "
            "them stay. Decode it first, or let `run corpus/refresh` read it.",
            file=sys.stderr,
        )


SECONDS_BEFORE_A_BAR = 1.0
"""Reading that takes no longer shows no bar."""


@contextlib.contextmanager
def _reading_shown() -> Iterator[None]:
    """Show a bar on a terminal while the recogniser reads a long text."""
    from tqdm import tqdm

    from tasks.deidentify.recogniser import reading_told

    with tqdm(unit="character", unit_scale=True, disable=None, delay=SECONDS_BEFORE_A_BAR, leave=False) as bar:

        def show(read: int, of: int) -> None:
            bar.total = of
            bar.update(max(0, read - bar.n))  # where something was replaced the text is read again, mostly from memory

        with reading_told(show):
            yield


def _warn_of_sealed(left: int) -> None:
    if left:
        print(
            f"warning: {left:,} of the ciphertexts (〔姓名=…〕) could not be read and stayed: each was cut or changed, "
            "or is of a kind of your own, which needs --rules.",
            file=sys.stderr,
        )


def _plan(profile: str, rules: Path | None, on: list[str], off: list[str], operators: list[str], encoder: bool) -> Plan:
    from tasks.deidentify.forms.identifier import PROFILES
    from tasks.deidentify.operators import OPERATORS
    from tasks.deidentify.plan import Given, make_plan
    from tasks.deidentify.user_rules import read_rules

    if profile not in PROFILES:
        raise UserError(f"--profile {profile}: there are {', '.join(PROFILES)}.")
    chosen: dict[str, Any] = {}
    for option in operators:
        kind, equals, name = option.rpartition("=")
        if name not in OPERATORS:
            raise UserError(f"--operator {option}: there is no operator {name!r}; there are {', '.join(OPERATORS)}.")
        chosen[kind if equals else ""] = name
    return make_plan(
        profile,
        {**dict.fromkeys(on, True), **dict.fromkeys(off, False)},
        chosen.pop("", "placeholder"),
        chosen,
        read_rules(rules) if rules else None,
        encoder=encoder,
        given=Given(kinds="--on or --off", operator="--operator", one_operator="--operator {}"),
    )


def _read(given: str | None) -> str:
    """Return the text that was given, or the content of the file of that name, or of stdin."""
    if given == "":
        raise UserError("The text is empty. Give a text or a file, or pipe it in.")
    if given is None or given == "-":
        data = sys.stdin.buffer.read()
        return _decoded(data, "stdin")
    try:
        path = Path(given)
        is_file, is_folder = path.is_file() or path.is_fifo(), path.is_dir()
        is_other = path.exists() and not is_file and not is_folder
    except PermissionError:  # of its folder: it is a path, and must not be taken for a text
        raise
    except (OSError, ValueError):  # a text may be too long for a path
        return given
    if is_folder:
        raise UserError(f"{given} is a folder. Give a file; `run corpus/refresh` treats a folder of texts.")
    if is_other:
        raise UserError(f"{given} is neither a file nor a folder. Give a file, or pipe its content in.")
    if not is_file and FILE_NAME.fullmatch(given):
        raise UserError(f"There is no file {given}. (A text that looks like a file's name goes through stdin.)")
    return _decoded(path.read_bytes(), given) if is_file else given


_READ = "`run corpus/refresh --param corpus={}` reads it."
_DOCUMENTS = {
    b"%PDF-": ("a PDF", _READ),  # it may be ASCII throughout, with the text in pieces
    b"{\\rtf": ("an RTF, which writes Chinese characters as codes", "Save it as text or as DOCX."),
    b"PK\x03\x04": ("a DOCX, an XLSX or another ZIP", _READ),
    COMPOUND_FILE: (
        "an office file with a password or of before 2007",
        "Save it as text, or as DOCX without a password.",
    ),
}
"""What a file is that begins with these bytes, and what helps."""


def _decoded(data: bytes, origin: str) -> str:
    for beginning, (what, remedy) in _DOCUMENTS.items():
        if data.startswith(beginning):
            raise UserError(f"{origin} is {what}, not plain text. {remedy.format(origin)}")
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        raise UserError(f"{origin} is in UTF-32; convert it to UTF-8.")
    from tasks.files.encodings import BIG5, SAMPLE, WIDE, detect_encoding

    detected = detect_encoding(data[:SAMPLE])
    for encoding in (detected,) if detected in (*WIDE, *BIG5) else ("utf-8-sig", "gb18030"):
        try:
            return data.decode(encoding).removeprefix("\ufeff")
        except UnicodeDecodeError:
            continue
    raise UserError(f"{origin} is neither UTF-8, UTF-16, GB18030 nor Big5; convert it to UTF-8.")


def _ending(text: str) -> str:
    return "" if text.endswith("\n") else "\n"
