"""A small corpus of synthetic medical sentences, for tests that need text in files."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

DISEASES = ("糖尿病", "高血压", "支气管哮喘", "肺炎", "胃溃疡", "偏头痛", "贫血", "甲状腺功能亢进症", "肾结石", "湿疹")
SYMPTOMS = ("乏力", "发热", "咳嗽", "头晕", "腹痛", "恶心", "心悸", "多饮多尿", "皮肤瘙痒", "体重下降")
DRUGS = (
    "二甲双胍",
    "阿司匹林",
    "布地奈德",
    "阿莫西林",
    "奥美拉唑",
    "布洛芬",
    "硫酸亚铁",
    "甲巯咪唑",
    "坦索罗辛",
    "氯雷他定",
)


def synthetic_documents() -> list[dict[str, str]]:
    """100 short synthetic articles."""
    documents = []
    for number, (disease, symptom) in enumerate(itertools.product(DISEASES, SYMPTOMS)):
        drug = DRUGS[number % len(DRUGS)]
        dose = f"{number % 9 + 1}.5mg"
        text = (
            f"{disease}患者常出现{symptom}，病程{number + 2}天，查ECG及MRI未见异常。"
            f"建议口服{drug}，每次{dose}，每日{number % 3 + 1}次；如{symptom}加重，应及时到医院就诊。"
            f"复查血常规，白细胞{number % 7 + 4}.2×10^9/L，HIV阴性。"
        )
        documents.append({"title": disease, "text": text * 2})
    return documents


def write_corpus(folder: Path) -> Path:
    """The articles as a JSON-lines file in a new folder; returns the folder."""
    folder.mkdir(parents=True)
    lines = [json.dumps(document, ensure_ascii=False) for document in synthetic_documents()]
    (folder / "articles.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


def synthetic_texts(folder: Path, files: int = 60) -> Path:
    """Write half a megabyte of synthetic sentences per file; 60 files are 10 to 30 seconds of work in parts."""
    folder.mkdir(parents=True)
    drawn = random.Random(3)
    for number in range(files):
        documents = ("".join(_sentence(drawn) for _ in range(30)) for _ in range(300))
        (folder / f"{number:03d}.txt").write_text("\n".join(documents), encoding="utf-8")
    return folder


def _sentence(drawn: random.Random) -> str:
    return (
        f"患者{drawn.randrange(10**8)}号出现{drawn.choice(SYMPTOMS)}，病程{drawn.randrange(99)}天，复查血常规未见异常。"
    )
