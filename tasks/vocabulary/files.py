"""`vocab.txt` files that a user brings: a token a line, id = number of the line from 0, as BERT has them."""

from __future__ import annotations

from infra.errors import UserError
from models.tokenizer.wordpiece import SPECIAL_TOKENS
from tasks.files.raw_input import RawInput


def read_vocabularies(given: RawInput) -> dict[str, list[str]]:
    """The tokens of every vocabulary, by the file's name. In a folder those are the files called vocab.txt, or all
    .txt files where there is none of that name.

    Raises:
        UserError: there is no such file, or one is no vocabulary; the message names the line.
    """
    files = given.files
    if len(files) > 1:
        named = [file for file in files if file.name.rpartition("/")[2] == "vocab.txt"]
        files = tuple(named) or tuple(file for file in files if file.name.endswith(".txt"))
    if not files:
        raise UserError(f"{given.path} holds no vocab.txt. Give the file, or a folder that it lies in.")
    return {file.name: parse_vocabulary(file.read(), file.name) for file in files}


def parse_vocabulary(data: bytes, name: str) -> list[str]:
    """The tokens of one `vocab.txt`.

    Raises:
        UserError: it is not UTF-8, a line is empty, a token stands there twice, or a special token is missing.
    """
    tokens: list[str] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").split(b"\n"), start=1):
        try:
            token = line.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{name}, line {number}: {line[:40]!r} is not UTF-8. Save the file as UTF-8.") from error
        if not token:
            raise UserError(f"{name}, line {number} is empty. A vocabulary has a token on every line.")
        if token in lines:
            raise UserError(
                f"{name}, line {number}: {token!r} stands on line {lines[token]} already. Which id is meant cannot be "
                "told; give every token once."
            )
        lines[token] = number
        tokens.append(token)
    missing = [token for token in SPECIAL_TOKENS if token not in lines]
    if missing:
        raise UserError(
            f"{name} has {len(tokens):,} lines, but no {', '.join(missing)}: it is no vocabulary of a BERT. It needs "
            f"{' '.join(SPECIAL_TOKENS)}, each on a line of its own."
        )
    return tokens
