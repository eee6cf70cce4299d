"""Identifiers of persons in a text: `deidentify`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from infra.console.displayed import marked, table
from infra.errors import UserError
from infra.keywords import explained_keywords
from tasks.deidentify.explain import counts_of, explain
from tasks.deidentify.forms.identifier import PROFILES, Profile
from tasks.deidentify.operators import Operator
from tasks.deidentify.plan import make_plan
from tasks.deidentify.user_rules import read_rules

# matches: "〔姓名〕"
_PLACEHOLDER = re.compile("〔[^〔〕]{1,40}〕")


class Place(NamedTuple):
    """Place of an identifier in the text given: characters `start` to `end`, exclusive, without what was there."""

    start: int
    end: int
    kind: str
    rule: str
    """The rule that found it."""
    becomes: str


class Deidentified(NamedTuple):
    """A text without identifiers, how many of each kind were replaced, and where."""

    text: str
    counts: dict[str, int]
    places: tuple[Place, ...]
    """Identifiers in the order of the text given."""

    def _repr_html_(self) -> str:
        spans = [(found.start(), found.end(), found[0]) for found in _PLACEHOLDER.finditer(self.text)]
        return marked(self.text, spans) + table(("kind", "replaced"), list(self.counts.items()))


@explained_keywords
def deidentify(
    text: str,
    *,
    profile: Profile = "minimal",
    kinds: Mapping[str, bool] | None = None,
    operator: Operator = "placeholder",
    operators: Mapping[str, Operator] | None = None,
    rules: str | Path | None = None,
    recogniser: bool = True,
    encoder: bool = False,
    scope: str = "",
) -> Deidentified:
    """Replace the identifiers of persons in a text, and say where they were. No rule finds them all (docs/privacy.md).

    Args:
        profile: the kinds to begin with: minimal, hipaa or gbt35273.
        kinds: single kinds switched on or off, such as `{"hospital": True}`.
        operator: what becomes of identifiers: placeholder, mask, hash, surrogate, encrypt or keep.
        operators: what becomes of single kinds instead, such as `{"date": "month"}`.
        rules: TOML file with rules of your own.
        recogniser: look for more by the trained recogniser too, if its weights are there.
        encoder: let a larger encoder read again whatever the recogniser doubts: more is found, slowly.
        scope: person or document in which surrogates are consistent and dates are shifted by the same days.

    Raises:
        UserError: no text, an unknown profile or kind, an operator that does not fit its kind, a faulty file, a
            missing key, or a switch that is neither True nor False.
    """
    if not isinstance(text, str):
        raise UserError(f"deidentify takes one text, and was given {type(text).__name__}. Call it for each text.")
    if profile not in PROFILES:  # it would replace nothing
        raise UserError(f"There is no profile {profile!r}; there are {', '.join(PROFILES)}.")
    for name, given in {"recogniser": recogniser, "encoder": encoder}.items():
        if not isinstance(given, bool):  # "no" would count as yes
            raise UserError(f"deidentify takes {name}=True or {name}=False, and was given {given!r}.")
    own: Any = None if rules is None else read_rules(Path(rules))
    plan = make_plan(profile, kinds, operator, operators, own, recogniser, encoder)
    treated, found = explain(text, plan, scope)
    return Deidentified(
        treated, counts_of(found), tuple(Place(f.start, f.end, f.kind, f.rule, f.becomes) for f in found)
    )
