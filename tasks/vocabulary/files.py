"""`vocab.txt` files of users, as of BERT: one token per line, whose id is the line's number counted from 0."""

from __future__ import annotations

from infra.errors import UserError
from models.tokenizer.wordpiece import SPECIAL_TOKENS
from tasks.files.raw_input import RawInput


def read_vocabularies(given: RawInput) -> dict[str, list[str]]:
    """Return the tokens of every vocabulary by the name of its file.

    In a folder, the files named vocab.txt are read, or all .txt files if no file has that name.

    Raises:
        UserError: there is no such file, or one is not a vocabulary; the message names the line.
    """
    files = given.files
    if len(files) > 1:
        named = [file for file in files if file.name.rpartition("/")[2] == "vocab.txt"]
        files = tuple(named) or tuple(file for file in files if file.name.endswith(".txt"))
    if not files:
        raise UserError(f"{given.path} contains no vocab.txt. Give the file or its folder.")
    return {file.name: parse_vocabulary(file.read(), file.name) for file in files}


def parse_vocabulary(data: bytes, name: str) -> list[str]:
    """Return the tokens of one `vocab.txt`.

    Raises:
        UserError: it is not UTF-8, a line is empty, a token is repeated, or a special token is missing.
    """
    tokens: list[str] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").split(b"\n"), start=1):
        try:
            token = line.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{name}, line {number}: {line[:40]!r} is not UTF-8. Save the file as UTF-8.") from error
        if not token:
            raise UserError(f"{name}, line {number} is empty. Write one token on every line.")
        if token in lines:
            raise UserError(
                f"{name}, line {number}: {token!r} is already on line {lines[token]}, so its id is ambiguous. Write "
                "every token once."
            )
        lines[token] = number
        tokens.append(token)
    missing = [token for token in SPECIAL_TOKENS if token not in lines]
    if missing:
        raise UserError(
            f"{name} has {len(tokens):,} lines but no {', '.join(missing)}, so it is not the vocabulary of a BERT. It "
            f"needs {' '.join(SPECIAL_TOKENS)}, each on a line of its own."
        )
    return tokens
