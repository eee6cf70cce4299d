"""Texts with known near duplicates: synthetic sentences, and copies with a share of their characters edited."""

from __future__ import annotations

import random

from benchmarks.text.near_duplicates import edited

__all__ = ["document", "edited", "sentence"]

_SUBJECTS = ["患者", "老年人", "孕妇", "儿童", "术后病人", "糖尿病人", "高血压病人", "吸烟者"]
_SIGNS = ["发热", "咳嗽", "头痛", "胸闷", "乏力", "恶心", "皮疹", "腹泻", "心悸", "水肿", "失眠", "便血", "黄疸"]
_VERBS = [
    "应当及时就诊",
    "需要完善检查",
    "建议卧床休息",
    "可以口服药物治疗",
    "不宜剧烈运动",
    "应当注意饮食清淡",
    "要预防感染",
]
_ORGANS = ["心脏", "肝脏", "肾脏", "胃部", "肺部", "甲状腺", "胆囊", "脾脏", "前列腺", "乳腺"]


def sentence(drawn: random.Random) -> str:
    """Return a synthetic sentence without numbers."""
    return (
        f"{drawn.choice(_SUBJECTS)}出现{drawn.choice(_SIGNS)}、{drawn.choice(_SIGNS)}，"
        f"{drawn.choice(_ORGANS)}可能有{drawn.choice(_SIGNS)}表现，{drawn.choice(_VERBS)}。"
    )


def document(drawn: random.Random, sentences: int = 6) -> str:
    """Return a synthetic document."""
    return "".join(sentence(drawn) for _ in range(sentences))
