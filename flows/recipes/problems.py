"""What is wrong with a value, in plain words: pydantic's own speak of inputs, strings and integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_WORDS: Mapping[str, str] = {
    "int_type": "must be a whole number, such as 8",
    "int_parsing": "must be a whole number, such as 8",
    "int_from_float": "must be a whole number, such as 8",
    "float_type": "must be a number, such as 0.5",
    "float_parsing": "must be a number, such as 0.5",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object of keys and values",
    "none_required": "must be null",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "too_short": "must have at least {min_length}",
    "too_long": "must have at most {max_length}",
}
"""By pydantic's type of problem; braces are filled in from its context."""


def in_words(problem: Mapping[str, Any]) -> str:
    """Return what is wrong, for one of the problems of a `pydantic.ValidationError`."""
    words = _WORDS.get(problem["type"])
    if words is None:  # a validator of ours, whose message is a sentence already
        return str(problem["msg"]).removeprefix("Value error, ")
    return words.format_map(problem.get("ctx", {}))
