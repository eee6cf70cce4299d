"""A small graph in the form of CMeKG, and its pickle."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

GRAPH = {
    "糖尿病": {"常见症状": ["多饮", "多尿", "消瘦"], "ICD10": ["E14.9"], "英文名称": ["diabetes mellitus"]},
    "当归": {"性味": ["味甘", "性温"], "别称": ["云归", "秦归"], "科": ["伞形科"], "用量": ["6～12g"]},
    "阿司匹林": {"不良反应": [f"反应{number}" for number in range(60)], "手术_麻醉方式": ["全麻"]},
}


def written(folder: Path, content: Any) -> Path:
    path = folder / "graph.pkl"
    path.write_bytes(pickle.dumps(content))
    return path
