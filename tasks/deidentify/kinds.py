"""Table of all kinds of identifiers: what is recognised, what replaces it, which profiles and regulations ask for it.

To add a kind, add an `IdentifierType` to `REGULATED_TYPES`, or to `TYPES` if it is looked for even where it is off.
`python -m flows deidentify --kinds` prints the table, and docs/privacy.md shows it by regulation.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from infra.errors import UserError
from tasks.deidentify.forms.identifier import IdentifierType, Profile
from tasks.deidentify.identifier_types import TYPES
from tasks.deidentify.regulated_types import REGULATED_TYPES

KINDS: Mapping[str, IdentifierType] = {each.name: each for each in (*TYPES, *REGULATED_TYPES)}
"""All kinds by name. Where two numbers cover the same characters, the kind that is listed first counts."""

PLACEHOLDERS = {name: each.placeholder for name, each in KINDS.items()}
"""Placeholder of each kind by its name."""

ALWAYS_SEARCHED = frozenset(each.name for each in TYPES)
"""Kinds that are looked for even where they are switched off, so that none is mistaken for another: then it stays."""


def kinds_of(
    profile: Profile, switches: Mapping[str, bool] | None = None, where: str = "deidentify.kinds"
) -> frozenset[str]:
    """Return the names of the kinds that a profile treats, with single kinds switched on or off.

    Args:
        profile: the kinds to begin with.
        switches: kinds that are on or off whatever the profile says.
        where: the setting or option that gave them, for errors.

    Raises:
        UserError: a switch for a kind that does not exist.
    """
    switches = switches or {}
    for name in switches:
        check_kind(name, where)
    treated = {name for name, each in KINDS.items() if profile in each.about.profiles}
    return frozenset(name for name in KINDS if switches.get(name, name in treated))


MINIMAL = kinds_of("minimal")
"""Kinds of the profile minimal, which is the default."""


def check_kind(name: str, where: str) -> None:
    """Raise an error that names the nearest kinds, if there is no kind of this name.

    Args:
        name: the name that a user gave.
        where: the key or file that it was given in.
    """
    if name not in KINDS:
        near = difflib.get_close_matches(name, KINDS, n=2, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(KINDS)}."
        raise UserError(f"{where}: there is no kind {name!r}; {hint}")
