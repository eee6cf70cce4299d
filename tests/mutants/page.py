"""The result page: what became of mutants by module, every survivor, and the errors that were known to survive once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from tests.mutants.judging import KILLED, LATE, SURVIVED, Verdict


@dataclass(frozen=True)
class Known:
    """An error of known.toml: what is wrong, and where."""

    name: str
    module: str


def reason(verdict: Verdict, equivalent: Sequence[Mapping[str, str]]) -> str | None:
    """Return why a survivor means nothing, or None if it is a missing test."""
    for one in equivalent:
        if (one["module"], one["code"], one["what"]) == (verdict.module, verdict.code, verdict.what):
            return one["why"]
    return None


def page(
    verdicts: Sequence[Verdict],
    known: Mapping[Known, Verdict | None],
    equivalent: Sequence[Mapping[str, str]],
    seed: int,
    unfinished: Sequence[str],
) -> str:
    """Return the page.

    Args:
        verdicts: on drawn changes, ordered by module.
        known: verdict on each error of known.toml; None: not judged.
        equivalent: entries of equivalent.toml.
        seed: with which the changes were drawn.
        unfinished: modules some of whose mutants are not judged.
    """
    survivors = [one for one in verdicts if one.outcome == SURVIVED]
    meant = [one for one in survivors if reason(one, equivalent) is None]
    killed = len(verdicts) - len(survivors)
    modules = list(dict.fromkeys(one.module for one in verdicts))
    lines = [
        f"# Mutants, {date.today()}",
        "",
        f"{len(verdicts)} changes in {len(modules)} modules, a sample drawn with seed {seed}: {killed} noticed by a "
        f"test ({share(killed, len(verdicts))}), {len(survivors) - len(meant)} change nothing that anybody could see, "
        f"{len(meant)} are missing tests. Of the others {share(killed, len(verdicts) - len(survivors) + len(meant))} "
        "are killed. `make mutants`.",
        "",
        "`failed`: a test failed; `time`: the tests took more than twice the processor time of the unchanged module "
        "and 10 s. `means nothing`: survives, with its reason below.",
        "",
        "| module | tried | failed | time | means nothing | survives |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for module in modules:
        own = [one for one in verdicts if one.module == module]
        outcomes = [one.outcome for one in own]
        missing = sum(one.module == module for one in meant)
        nothing = outcomes.count(SURVIVED) - missing
        counts = [len(own), outcomes.count(KILLED), outcomes.count(LATE), nothing, missing]
        lines.append(f"| {' | '.join([module, *map(str, counts)])} |")
    if unfinished:
        lines += ["", f"Not judged to the end: {', '.join(dict.fromkeys(unfinished))}."]
    lines += ["", "## Survivors", ""]
    lines += [shown(one) for one in meant] or ["None."]
    lines += ["", "## Changes that mean nothing", ""]
    lines += [f"{shown(one)}: {reason(one, equivalent)}" for one in survivors if one not in meant] or ["None."]
    lines += ["", "## Errors that once survived", ""]
    lines += ["Made by hand, by readers of the code (tests/mutants/known.toml).", ""]
    lines += ["| error | module | now | by |", "| --- | --- | --- | --- |"]
    for error, verdict in known.items():
        outcome, by = (verdict.outcome, verdict.test) if verdict else ("not judged", "")
        lines.append(f"| {error.name} | {error.module} | {outcome} | {by} |")
    return "\n".join(lines) + "\n"


def shown(verdict: Verdict) -> str:
    """Return a line that names a change."""
    what = "" if f"`{verdict.code}`" in verdict.what else f" (`{verdict.code}`)"
    return f"- {verdict.module}:{verdict.line} {verdict.what}{what}"


def share(part: int, whole: int) -> str:
    """Return a percentage, rounded down: 90 % means at least 90."""
    return f"{100 * part // max(whole, 1)} %"
