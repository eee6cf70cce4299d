"""A small corpus for phrase mining: real names of diseases among common words in random order (synthetic)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import Output, StageParams, run, stage
from tasks.files.raw_input import RawInput
from tasks.phrases.autophrase import SEGMENT, TRAIN, locate
from tasks.segment.words import segment_words

_NAMES = """
糖尿病肾病 急性心肌梗死 高血压脑病 肝硬化腹水 支气管哮喘 系统性红斑狼疮 慢性阻塞性肺疾病 缺铁性贫血 再生障碍性贫血
急性胰腺炎 溃疡性结肠炎 甲状腺功能减退 慢性肾功能不全 病毒性心肌炎 风湿性心脏病 上消化道出血 椎间盘突出
原发性高血压 肺动脉高压 急性阑尾炎 子宫内膜异位症 过敏性鼻炎 结核性胸膜炎 脂肪肝变性 骨质疏松症
"""

NAMES = _NAMES.split()

_COMMON = "患者 医生 今天 检查 出现 觉得 医院 以后 需要 发现 家属 明显 已经 建议 注意 身体"

COMMON = _COMMON.split()


def texts(seed: int, count: int = 700) -> list[str]:
    """Sentences, each with a name or two."""
    drawn = random.Random(seed)
    made = []
    for _ in range(count):
        words = drawn.choices(COMMON, k=drawn.randint(4, 9))
        for _ in range(drawn.randint(1, 2)):
            words.insert(drawn.randint(0, len(words)), drawn.choice(NAMES))
        words.insert(len(words) // 2, drawn.choice(["，", "、", "（", "）", "：", "", " "]))
        made.append("".join(words) + "。")
    return made


class RowsParams(StageParams):
    parts: tuple[tuple[str, ...], ...]


@stage(name="segment", version=1, params=RowsParams, tables=("segments",))
def _given_segments(inputs: Mapping[str, Any], params: RowsParams, out: Output) -> None:
    for number, rows in enumerate(params.parts):
        with out.part() as part:
            part.write(
                "segments",
                [
                    {
                        "segment_id": f"{number}-{place}",
                        "doc_id": str(number),
                        "source": "article",
                        "position": place,
                        "text": text,
                        "words": list(map(len, segment_words(text))),
                        "tokens": len(text),
                    }
                    for place, text in enumerate(rows)
                ],
            )


def segments_of(store: ArtifactStore, *parts: Sequence[str]) -> Artifact:
    """An artifact of segments with these texts, one sequence a part."""
    return run(_given_segments, store, RowsParams(parts=tuple(map(tuple, parts))), {}).artifact


def list_of(folder: Path, names: Sequence[str], encoding: str = "utf-8", name: str = "names.txt") -> RawInput:
    """A list of names, a line each."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes("\n".join(names).encode(encoding))
    return RawInput(folder / name)


def need_program() -> None:
    """Skip where the real program is not installed."""
    try:
        locate(TRAIN)
        locate(SEGMENT)
    except UserError as error:
        pytest.skip(f"needs the AutoPhrase program: {error}")
