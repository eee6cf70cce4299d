"""A few examples of each benchmark in its official form. All are made up."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

LUNG = "患者咳嗽三天，诊断为肺炎。予头孢治疗。"


def as_list(rows: list[Any]) -> str:
    return json.dumps(rows, ensure_ascii=False, indent=1)


def as_lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def as_tsv(rows: list[tuple[str, ...]]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


def _labelled(texts: list[dict[str, Any]], labels: list[str]) -> list[dict[str, Any]]:
    return [
        {"id": f"s{number}", **text, "label": label}
        for number, (text, label) in enumerate(zip(texts, labels, strict=True), 1)
    ]


CMEEE = [
    {
        "text": "呼吸肌麻痹可并发肺炎。",
        "entities": [
            {"start_idx": 0, "end_idx": 2, "type": "bod", "entity": "呼吸肌"},
            {"start_idx": 0, "end_idx": 4, "type": "sym", "entity": "呼吸肌麻痹"},
            {"start_idx": 8, "end_idx": 9, "type": "dis", "entity": "肺炎"},
        ],
    },
    {"text": "无明显不适。", "entities": []},
]

CMEIE = [
    {
        "text": LUNG,
        "spo_list": [
            {
                "Combined": True,
                "predicate": "药物治疗",
                "subject": "肺炎",
                "subject_type": "疾病",
                "object": {"@value": "头孢"},
                "object_type": {"@value": "药物"},
            },
            {
                "Combined": False,
                "predicate": "临床表现",
                "subject": "肺炎",
                "subject_type": "疾病",
                "object": {"@value": "咳嗽"},
                "object_type": {"@value": "症状"},
            },
        ],
    }
]

PAIRS = [("1", "糖尿病能吃西瓜吗", "糖尿病可以吃西瓜么"), ("0", "糖尿病能吃西瓜吗", "高血压能喝酒吗")]

BIO = "\n".join(
    f"{sign}\t{tag}"
    for sign, tag in zip("咳嗽，肺炎", ["B_symptom", "I_symptom", "O", "B_disease", "I_disease"], strict=True)
)

DOCUMENTS = [
    {
        "query": "牙结石",
        "documents": [{"title": "洗牙", "label": "2", "url": "x"}, {"title": "天气", "label": "0", "url": "y"}],
    }
]

OPTIONS = [
    {
        "question": "成人退热首选",
        "options": {"A": "甲药", "B": "乙药", "C": "丙药", "D": "丁药", "E": "戊药"},
        "evidence": "乙药用于退热。",
        "answer": "B",
    },
    {
        "question": "止咳用",
        "options": ["甲药", "乙药", "丙药", "丁药", "戊药"],
        "evidence": "戊药止咳。",
        "answer": "戊药",
    },
]

MENTIONS = [
    {
        "text": "咳嗽肺炎",
        "mention_data": [
            {"mention": "咳嗽", "offset": "0", "type": "symptom"},
            {"mention": "肺炎", "offset": 2, "type": "disease"},
        ],
    }
]

WEBMEDQA = [
    ("q1", "1", "内科", "发烧怎么办", "多喝水"),
    *[("q1", "0", "内科", "发烧怎么办", f"无关{one}") for one in "甲乙丙丁"],
]

OFFICIAL: dict[str, tuple[str, str]] = {
    "cmeee": ("CMeEE_train.json", as_list(CMEEE)),
    "cmeie": ("CMeIE_train.jsonl", as_lines(CMEIE)),
    "chip-cdn": (
        "CHIP-CDN_train.json",
        as_list([{"text": "左膝退变伴游离体", "normalized_result": "膝骨关节病##膝关节游离体"}]),
    ),
    "chip-ctc": (
        "CHIP-CTC_train.json",
        as_list(_labelled([{"text": "年龄18岁以上"}, {"text": "孕妇"}], ["Age", "Pregnancy-related Activity"])),
    ),
    "chip-sts": (
        "CHIP-STS_train.json",
        as_list(
            [
                {"id": str(number), "text1": one, "text2": other, "label": label, "category": "diabetes"}
                for number, (label, one, other) in enumerate(PAIRS)
            ]
        ),
    ),
    "kuake-qic": (
        "KUAKE-QIC_train.json",
        as_list(_labelled([{"query": "心肌缺血如何治疗"}, {"query": "什么叫痔"}], ["治疗方案", "疾病表述"])),
    ),
    "kuake-qtr": (
        "KUAKE-QTR_train.json",
        as_list(_labelled([{"query": "咳嗽", "title": "咳嗽怎么办"}, {"query": "咳嗽", "title": "天气"}], ["3", "0"])),
    ),
    "kuake-qqr": (
        "KUAKE-QQR_train.json",
        as_list(
            _labelled([{"query1": "打呼噜", "query2": "打鼾"}, {"query1": "打呼噜", "query2": "感冒"}], ["2", "NA"])
        ),
    ),
    "cmedqnli": ("train.txt", as_tsv(PAIRS)),
    "webmedqa": ("medQA.train.txt", as_tsv(WEBMEDQA)),
    "nlpec": ("train.json", as_list(OPTIONS)),
    "cmedqaner": ("train.json", as_lines(MENTIONS)),
    "cehrner": (
        "train.json",
        as_lines([{"text": "咳嗽", "mention_data": [{"mention": "咳嗽", "offset": "0", "label": "症状"}]}]),
    ),
    "cmedqq": ("train.txt", as_tsv(PAIRS)),
    "cmedqa": ("train.txt", as_tsv(PAIRS)),
    "cmedir": ("train.txt", as_lines(DOCUMENTS)),
    "cmedic": ("train.tsv", as_tsv([("1", "碘试验"), ("2", "挂号")])),
    "cmedtc": ("train.tsv", as_tsv([("Age", "年龄18岁以上"), ("Disease", "艾滋病")])),
    "cnner": ("train_data.txt", "呼吸肌麻痹|||0 2 bod|||0 4 sym|||\n"),
    "chip-re": ("train_data.json", as_lines(CMEIE)),
    "qtrel-easy": ("train.tsv", as_tsv([("感冒", "感冒灵颗粒", "1"), ("感冒", "创可贴", "0")])),
    "qtrel-hard": ("train.tsv", as_tsv([("中耳炎", "头孢克肟片", "1"), ("中耳炎", "创可贴", "0")])),
    "qic-pap": ("train.txt", as_tsv([("感冒灵", "101"), ("头痛", "102")])),
    "qner": ("train.txt", BIO),
    "ccks2019-ner": (
        "train.json",
        as_lines([{"originalText": LUNG, "entities": [{"start_pos": 10, "end_pos": 12, "label_type": "疾病和诊断"}]}]),
    ),
    "sahsu-ner": (
        "train.json",
        as_lines([{"originalText": LUNG, "entities": [{"start_pos": 10, "end_pos": 12, "label_type": "疾病和诊断"}]}]),
    ),
    "cmed-classification": ("train.tsv", as_tsv([("Cause", "由病毒引起"), ("Symptom", "咳嗽")])),
    "symptom-department": ("train.tsv", as_tsv([("呼吸内科", "咳嗽、发热"), ("消化内科", "腹痛")])),
    "disease-diagnosis": ("train.jsonl", as_lines([{"text": LUNG, "labels": ["肺炎", "高血压"]}])),
}
"""Name and text of a training file, by task; cmedqa-embert's three files are in write_cmedqa."""


def write_cmedqa(folder: Path) -> None:
    """cMedQA 1.0: questions, answers, and candidates by their ids."""
    (folder / "questions.csv").write_text('que_id,content\n1,"头疼,怎么办"\n2,牙疼\n', encoding="utf-8")
    (folder / "answers.csv").write_text("ans_id,que_id,content\n11,1,休息\n12,2,看牙\n13,2,拔牙\n", encoding="utf-8")
    (folder / "train_candidates.txt").write_text(
        "question_id,pos_ans_id,neg_ans_id\n1,11,12\n1,11,13\n", encoding="utf-8"
    )
    (folder / "dev_candidates.txt").write_text("question_id,ans_id,cnt,label\n2,12,0,1\n2,11,1,0\n", encoding="utf-8")


def write_official(
    name: str, folder: Path, change: Callable[[str], str] = lambda text: text, split: str = "train"
) -> Path:
    """A task's file in a folder of its own; `change` spoils its text."""
    folder.mkdir(exist_ok=True, parents=True)
    if name == "cmedqa-embert":
        write_cmedqa(folder)
        return folder
    file, text = OFFICIAL[name]
    (folder / file.replace("train", split)).write_text(change(text), encoding="utf-8")
    return folder
