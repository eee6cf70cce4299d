"""Notes in brackets that belong before the name of a disease: 肺炎(支原体) may be 支原体肺炎.

Only the list can tell, so these are names to be looked up, and not yet readings.
"""

from __future__ import annotations

import re

# 急性心肌梗死(前壁), 糖尿病(2型)
_NOTED = re.compile(r"(?P<course>急性|亚急性|慢性)?(?P<name>[^()]{2,20})\((?P<note>[^()]{1,10})\)")


def moved_notes(text: str) -> tuple[str, ...]:
    """Return the names that a text in NFKC form may stand for, with its note before the name; none without a note.

    糖尿病(2型)         2型糖尿病
    急性心肌梗死(前壁)  急性前壁心肌梗死, 前壁急性心肌梗死
    """
    match = _NOTED.fullmatch(text)
    if match is None:
        return ()
    course, name, note = match["course"] or "", match["name"], match["note"]
    return tuple(dict.fromkeys((f"{course}{note}{name}", f"{note}{course}{name}")))
