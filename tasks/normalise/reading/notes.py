"""Notes beside the name of a disease: 肺炎(支原体) may be 支原体肺炎, and 锁骨骨折 左 移位 may be 锁骨骨折.

Only the list can tell, so these are names to be looked up, and not yet readings.
"""

from __future__ import annotations

import re

from tasks.normalise.queries.compounds import names_disease

# 急性心肌梗死(前壁), 糖尿病(2型)
_NOTED = re.compile(r"(?P<course>急性|亚急性|慢性)?(?P<name>[^()]{2,20})\((?P<note>[^()]{1,20})\)")


def moved_notes(text: str) -> tuple[str, ...]:
    """Return the names that a text in NFKC form may stand for, with its note before the name; none without a note.

    糖尿病(2型)         2型糖尿病
    急性心肌梗死(前壁)  急性前壁心肌梗死, 前壁急性心肌梗死

    Of several notes, each is tried: 高胆红素血症(新生儿,非溶血性).
    """
    match = _NOTED.fullmatch(text)
    if match is None:
        return ()
    course, name = match["course"] or "", match["name"]
    notes = dict.fromkeys((match["note"], *re.split(r"[,;、\s]+", match["note"])))
    # (++) of 尿蛋白(++) is a value, and no part of a name.
    orders = ((f"{course}{note}{name}", f"{note}{course}{name}") for note in notes if _WORD.search(note))
    return tuple(dict.fromkeys(each for order in orders for each in order))


# What a site makes another disease: matches 骨折 of "骨折 左桡骨远端", but not 白癜风.
_OF_ANY_SITE = re.compile(
    "(?:骨折|[伤折癌瘤疝痛]|(?<!关节)(?<!滑膜)(?<!腱鞘)炎|脱位|肿[块物]|结[石节核]|息肉|[脓囊水血]肿|感染|出血|血栓|栓塞|积液|畸形|溃疡|狭窄)$"
)
_SITE = re.compile(
    "[头面颈胸背腰腹臀骶手足趾指腕踝膝髋肘肩臂腿肢骨椎眼耳鼻口唇咽喉肺肝胆胰脾胃肠肛肾尿膀宫卵乳脑心脉管腺叶]"
)


def names_before_notes(text: str) -> tuple[str, ...]:
    """Return what may be the name of a text in NFKC form that goes on after a blank, longest first.

    白癜风 节段型 稳定  白癜风 节段型, 白癜风
    糖尿病 肾病         none: what follows is a disease
    骨折 左桡骨远端     none: what follows is the site, without which the name is another
    """
    gaps = [match for match in re.finditer(r"\s+", text)]
    heads = ((text[: gap.start()], text[gap.end() :]) for gap in reversed(gaps))
    return tuple(head for head, note in heads if len(head) > 1 and _is_note(head, note))


# What may be a short form of a disease, or makes it another: VSD of "先心病 VSD", 轻度 of "精神发育迟滞 轻度". A number
# alone is a value: 12.5 of "PSA 12.5".
_NO_NOTE = re.compile(
    r"(?<![a-z])(?![ivx]+(?![a-z]))[a-z]{2,}(?![a-z])(?<!mm|cm|kg|ml)|[轻中重]度|^[不未无]|^[\d.<>≤≥↑↓+-]+$",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w")
# Matches (继发孔型) of 房间隔缺损(继发孔型).
_BRACKETS = re.compile(r"\([^()]*\)$")


def _is_note(head: str, note: str) -> bool:
    words = (_BRACKETS.sub("", word) for word in re.split(r"[\s,;、，；+]+", note))
    if _NO_NOTE.search(note) or any(names_disease(word) and not word[-1].isdigit() for word in words if word):
        return False
    of_any_site = _OF_ANY_SITE.search(head)
    return not (of_any_site and _SITE.search(note) and not _SITE.search(head[: of_any_site.start()]))
