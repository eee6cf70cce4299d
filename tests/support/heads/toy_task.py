"""A toy encoder and made-up task files, small enough to be learnt within seconds. No text here is real."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from models.encoder.config import EncoderConfig
from models.weights.pretrained import random_encoder, save_encoder
from tests.support.text.tokenizers import VOCABULARY, save_ours

SYMPTOMS = ("头痛", "发热", "咳嗽")
DISEASES = ("高血压", "糖尿病", "肺部感染")
FILLERS = "患者有的是不怎么办检查"


def encoder_config() -> EncoderConfig:
    """Sizes of an encoder that learns the toy tasks within seconds."""
    return EncoderConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_layers=1,
        num_heads=2,
        intermediate_size=64,
        max_positions=64,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        initializer_range=0.15,
    )


def save_toy_encoder(folder: Path, seed: int = 0) -> Path:
    """An encoder of random weights with its tokeniser, in Hugging Face's layout."""
    save_encoder(random_encoder(encoder_config(), seed), folder)
    return save_ours(folder)


def _filler(draw: random.Random, most: int = 4) -> str:
    return "".join(draw.choices(FILLERS, k=draw.randint(0, most)))


def tagged(count: int, seed: int) -> list[dict[str, Any]]:
    """Records as CMeEE has them, a symptom and a disease each, the disease sometimes inside a longer symptom."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        before, disease, symptom = _filler(draw), draw.choice(DISEASES), draw.choice(SYMPTOMS)
        text = f"{before}{disease}{symptom}{_filler(draw)}"
        start, middle, end = len(before), len(before) + len(disease), len(before) + len(disease) + len(symptom)
        rows.append(
            {
                "text": text,
                "entities": [
                    {"start_idx": start, "end_idx": middle - 1, "type": "dis", "entity": disease},
                    {"start_idx": start, "end_idx": end - 1, "type": "sym", "entity": disease + symptom},
                ],
            }
        )
    return rows


def pairs(count: int, seed: int) -> list[tuple[str, str, str]]:
    """Label, text, text as cMedQQ has them; 1 where the second text names a symptom."""
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        label = str(number % 2)
        told = draw.choice(SYMPTOMS if label == "1" else DISEASES)
        rows.append((label, _filler(draw) + draw.choice(DISEASES), _filler(draw) + told))
    return rows


def related(count: int, seed: int) -> list[dict[str, Any]]:
    """Records as CMeIE has them: a disease and the symptom that it causes."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        disease, symptom = draw.choice(DISEASES), draw.choice(SYMPTOMS)
        triple = {
            "Combined": False,
            "predicate": "临床表现",
            "subject": disease,
            "subject_type": "疾病",
            "object": {"@value": symptom},
            "object_type": {"@value": "症状"},
        }
        rows.append({"text": f"{disease}引起{symptom}{_filler(draw)}", "spo_list": [triple]})
    return rows


def save_cmeee(folder: Path, sizes: tuple[int, int, int] = (48, 12, 8)) -> Path:
    """CMeEE's three files, the test file without answers."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (split, size) in enumerate(zip(("train", "dev", "test"), sizes, strict=True)):
        rows = tagged(size, seed)
        if split == "test":
            rows = [{"text": row["text"]} for row in rows]
        (folder / f"CMeEE_{split}.json").write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    return folder


def save_cmeie(folder: Path, sizes: tuple[int, int, int] = (48, 12, 8)) -> Path:
    """CMeIE's three files, the test file without answers."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (split, size) in enumerate(zip(("train", "dev", "test"), sizes, strict=True)):
        rows = related(size, seed)
        if split == "test":
            rows = [{"text": row["text"]} for row in rows]
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"CMeIE_{split}.jsonl").write_text(lines, encoding="utf-8")
    return folder


def save_cmedqq(folder: Path, sizes: tuple[int, int, int] = (48, 16, 16)) -> Path:
    """cMedQQ's three files, all with labels."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (split, size) in enumerate(zip(("train", "dev", "test"), sizes, strict=True)):
        lines = "".join("\t".join(row) + "\n" for row in pairs(size, seed))
        (folder / f"{split}.txt").write_text(lines, encoding="utf-8")
    return folder


def save_other_kinds(folder: Path, count: int = 12) -> Path:
    """A few records of every other kind of task, each in a folder of its task's name."""
    draw = random.Random(0)
    files: dict[str, dict[str, str]] = {}
    for split in ("train", "dev", "test"):
        labelled = [(str(n % 3), _filler(draw) + SYMPTOMS[n % 3]) for n in range(count)]
        files.setdefault("cmedic", {})[f"{split}.tsv"] = "".join(f"{label}\t{text}\n" for label, text in labelled)
        answers = [f"{n // 4}\t{int(n % 4 == 0)}\t内科\t{DISEASES[0]}\t{_filler(draw)}发热\n" for n in range(count)]
        split_name = "valid" if split == "dev" else split
        files.setdefault("webmedqa", {})[f"medQA.{split_name}.txt"] = "".join(answers)
        options = list(DISEASES)
        asked = [
            {"question": SYMPTOMS[n % 3], "evidence": "检查" * 40, "options": options, "answer": n % 3}
            for n in range(count)
        ]
        files.setdefault("nlpec", {})[f"{split}.json"] = json.dumps(asked, ensure_ascii=False)
        several = [{"text": _filler(draw) + d, "labels": [d, DISEASES[0]]} for d in DISEASES * (count // 3)]
        files.setdefault("disease-diagnosis", {})[f"{split}.json"] = json.dumps(several, ensure_ascii=False)
        found = [{"title": SYMPTOMS[n], "url": "", "label": str(n)} for n in range(3)]
        queries = [{"query": f"{d}{n}", "documents": found} for n, d in enumerate(DISEASES)]
        files.setdefault("cmedir", {})[f"{split}.txt"] = "".join(
            json.dumps(q, ensure_ascii=False) + "\n" for q in queries
        )
    for task, contents in files.items():
        (folder / task).mkdir(parents=True)
        for name, content in contents.items():
            (folder / task / name).write_text(content, encoding="utf-8")
    return folder
