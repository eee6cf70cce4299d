"""De-identification by rules alone, for tests of rules."""

from __future__ import annotations

import tasks.deidentify
from tasks.deidentify.plan import Plan

RULES_ALONE = Plan(recogniser=False)


def deidentify(text: str, plan: Plan = RULES_ALONE, scope: str = "") -> tuple[str, dict[str, int]]:
    """Return what `tasks.deidentify.deidentify` does without the trained recogniser."""
    return tasks.deidentify.deidentify(text, plan, scope)
