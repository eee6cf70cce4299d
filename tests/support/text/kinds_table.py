"""Tables of docs/privacy.md, made from the table of kinds."""

from __future__ import annotations

from tasks.deidentify.explain import examples_of, profiles_text
from tasks.deidentify.kinds import KINDS

SAFE_HARBOR = {
    "A": "names",
    "B": "geographic subdivisions smaller than a state",
    "C": "all elements of dates except the year; ages over 89",
    "D": "telephone numbers",
    "E": "fax numbers",
    "F": "electronic mail addresses",
    "G": "social security numbers",
    "H": "medical record numbers",
    "I": "health plan beneficiary numbers",
    "J": "account numbers",
    "K": "certificate and license numbers",
    "L": "vehicle identifiers, licence plates",
    "M": "device identifiers and serial numbers",
    "N": "web universal resource locators",
    "O": "internet protocol addresses",
    "P": "biometric identifiers",
    "Q": "full-face photographs",
    "R": "any other unique identifying number, characteristic or code",
}
"""The 18 identifiers of 45 CFR 164.514(b)(2)(i)."""


def kinds_table() -> list[str]:
    """Return the rows of the table of kinds in Markdown."""
    rows = ["| kind | placeholder | profiles | found in | stays |", "|---|---|---|---|---|"]
    for kind in KINDS.values():
        found, kept = examples_of(kind)
        rows.append(f"| `{kind.name}` | {kind.placeholder} | {profiles_text(kind)} | {found} | {kept} |")
    return rows


def safe_harbor_table() -> list[str]:
    """Return the rows of HIPAA's identifiers with the kinds that the profile hipaa treats for each."""
    rows = ["| | HIPAA Safe Harbor | kinds of the profile `hipaa` |", "|---|---|---|"]
    for letter, name in SAFE_HARBOR.items():
        kinds = [
            f"`{kind.name}`"
            for kind in KINDS.values()
            if "hipaa" in kind.about.profiles and letter in kind.about.hipaa.partition(":")[0].split(", ")
        ]
        rows.append(f"| {letter} | {name} | {', '.join(kinds) or 'none: text holds none'} |")
    return rows


def gbt_table() -> list[str]:
    """Return the rows of what GB/T 35273 and the PIPL name, with the kinds of the profile gbt35273."""
    rows = ["| GB/T 35273-2020, annexes A and B; PIPL, article 28 | kind |", "|---|---|"]
    return rows + [
        f"| {kind.about.gbt} | `{kind.name}` |"
        for kind in KINDS.values()
        if kind.about.gbt and "gbt35273" in kind.about.profiles
    ]
