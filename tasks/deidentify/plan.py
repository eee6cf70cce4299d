"""A plan of de-identification: which kinds are treated, how each is replaced, and a user's own rules and key."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from infra.errors import UserError
from tasks.deidentify.forms.identifier import Profile
from tasks.deidentify.kinds import ALWAYS_SEARCHED, KINDS, MINIMAL, PLACEHOLDERS, check_kind, kinds_of
from tasks.deidentify.operators import DATE_KINDS, NEED_KEY, OF_DATES, OPERATORS, Key, Operator, apply
from tasks.deidentify.recogniser import shipped_recogniser
from tasks.deidentify.search.find import Finder
from tasks.deidentify.user_rules import UserRules


@dataclass(frozen=True)
class Plan:
    """Kinds that are treated, their operators, and a user's rules and key. Plans with the same content are equal."""

    kinds: frozenset[str] = MINIMAL
    operators: tuple[tuple[str, Operator], ...] = ()
    """Kinds with operators, as far as they are not replaced by placeholders; in order."""
    rules: UserRules | None = None
    key: Key | None = None
    recogniser: bool = True
    """True where the trained recogniser looks for more than the rules do, if its weights are there."""
    encoder: bool = False
    """True where a larger encoder reads again whatever the recogniser doubts."""

    @functools.cached_property
    def finder(self) -> Finder:
        """The search for the kinds of the plan."""
        return _finder(self.kinds, self.rules, self.recogniser, self.encoder)

    @functools.cached_property
    def rules_alone(self) -> Finder:
        """The same search without the recogniser."""
        return _finder(self.kinds, self.rules, False, False)

    @functools.cached_property
    def placeholders(self) -> Mapping[str, str]:
        """Placeholder by kind, with those of the user's own kinds."""
        own = {} if self.rules is None else {each.name: each.placeholder for each in self.rules.types}
        return {**PLACEHOLDERS, **own}

    @functools.cached_property
    def only_placeholders(self) -> bool:
        """True where every identifier becomes its placeholder."""
        return not self.operators

    def replacement(self, kind: str, written: str, scope: str) -> str:
        """Return what an identifier becomes in a person's or document's scope."""
        return apply(
            dict(self.operators).get(kind, "placeholder"), kind, self.placeholders[kind], written, self.key, scope
        )


@dataclass(frozen=True)
class Given:
    """Names under which a user gave settings, for errors: parameters of a flow, or options of a command."""

    kinds: str = "deidentify.kinds"
    operator: str = "deidentify.operator"
    one_operator: str = "deidentify.operators.{}"
    """Name of the operator of one kind, with the kind in braces."""


MINIMAL_PLAN = Plan()
"""Placeholders for the kinds of the profile minimal: the default."""


def make_plan(
    profile: Profile = "minimal",
    kinds: Mapping[str, bool] | None = None,
    operator: Operator = "placeholder",
    operators: Mapping[str, Operator] | None = None,
    rules: UserRules | None = None,
    recogniser: bool = True,
    encoder: bool = False,
    given: Given | None = None,
) -> Plan:
    """Return the plan of a user's settings.

    Args:
        profile: the kinds to begin with.
        kinds: single kinds switched on or off.
        operator: what is done to every kind.
        operators: what is done to single kinds instead.
        rules: the user's own rules; their own kinds are always on.
        recogniser: look for more by the trained recogniser too.
        encoder: let a larger encoder read again whatever the recogniser doubts.
        given: what the user calls the settings; None for parameters of a flow.

    Raises:
        UserError: an unknown kind or operator, an operator that does not fit its kind, a key that is missing, or an
            encoder without the recogniser.
    """
    given = given or Given()
    if encoder and not recogniser:
        raise UserError(
            "deidentify.encoder reads again what the recogniser is not sure of; "
            "leave deidentify.recogniser at true with it."
        )
    if unknown := sorted({operator, *(operators or {}).values()} - set(OPERATORS)):
        raise UserError(f"There is no operator {unknown[0]!r}; there are {', '.join(OPERATORS)}.")
    own = rules.own_kinds if rules else frozenset()
    table = {name: is_on for name, is_on in (kinds or {}).items() if name not in own}
    off = {name for name, is_on in (kinds or {}).items() if name in own and not is_on}
    treated = kinds_of(profile, table, given.kinds) | (own - off)
    chosen = dict.fromkeys(treated, operator)
    for name in sorted({each.name for each in rules.types} - treated - {*(kinds or {})} if rules else ()):
        raise UserError(
            f"Your rules look for the kind {name}, which the profile {profile} leaves as it is: "
            f"switch it on or off ({given.kinds})."
        )
    for name, one in (operators or {}).items():
        where = given.one_operator.format(name)
        if name not in own:
            check_kind(name, where)
        if name not in treated and one != "keep" and name not in (kinds or {}):
            raise UserError(
                f"{where}: the profile {profile} leaves {name} as it is: switch it on or off ({given.kinds}) or leave "
                "the operator out."
            )
        if one in OF_DATES and name not in DATE_KINDS:
            where = given.one_operator.format(name)
            raise UserError(f"{where}: {one} is for {' and '.join(sorted(DATE_KINDS))} only.")
        chosen[name] = one
    if operator in OF_DATES:
        instead = f"{given.one_operator.format('date')}={operator}"
        raise UserError(f"{given.operator}: {operator} is for dates; set {instead} instead.")
    kept = {name for name, one in chosen.items() if one == "keep"}
    others = tuple(
        (name, one)
        for name, one in sorted(chosen.items())
        if name in treated - kept and one not in ("placeholder", "keep")
    )
    key = Key.from_environment() if any(one in NEED_KEY for _, one in others) else None
    return Plan(frozenset(treated - kept), others, rules, key, recogniser, encoder)


@functools.lru_cache(maxsize=16)
def _finder(kinds: frozenset[str], rules: UserRules | None, recogniser: bool, encoder: bool) -> Finder:
    types = {name: each for name, each in KINDS.items() if name in kinds | ALWAYS_SEARCHED}
    if rules is not None:
        types |= {each.name: each for each in rules.types if each.name in kinds}
    recognise = shipped_recogniser(encoder) if recogniser else None
    return Finder(list(types.values()), kinds, rules.allow if rules else (), recognise)
