"""Names that fill the field of a role, whatever else their characters mean: 责任护士：幸福, 复核：左。

Nothing but a person follows such a role and a colon, so a name may be a word there, or a surname alone. A speaker in a
dialogue is no such role (护士：安静，别动), and none of 患者, 人员 and 作者. Time is constant.
"""

from __future__ import annotations

import re

import rjieba

from tasks.deidentify.forms.names import is_nobody, is_wordlike, surname_length
from tasks.deidentify.forms.places import words

# matches: "责任护士", "评估人", "记录者", "随访员", "医师签名", "复核"
# not: "护士", "患者", "工作人员", "老师", "签名"
_ROLE = re.compile(
    "(?:(?:责任|主管|主治|住院|经治|管床|上级|值班|接诊|首诊|报告|审核|诊断|送检|申请|麻醉|手术|巡回|器械|洗手|执行|当班|带教"
    "|会诊|家庭|签约|规培|进修|取材|检查|记录|操作|接班|交班|随访)(?:医生|医师|护士|护师|技师|药师)"
    "|[录核对估查验算告请检办批评签诊访派转联负执采送操带责收缴投理调洗配包切制阅][人者]|(?<![人客店])[录入查访护核检票调费务记管作协]员"
    "|(?:医师|医生|护士|家属|患者|患方|医方|本人|代表)(?:签名|签字)|核对|复核|审核|审批|录入|校对|巡回|器械|一助|二助|三助|接诊|经办|交班|接班|带教|审签|复阅|主检|总检|责护|代领|签收)$"
)
# matches: "幸福 ", "左。", "令狐/"
# not: "，", "白带多年以来"
_FILLED = re.compile(r"[\u4e00-\u9fff]{1,4}+(?=$|[\s，,。；;、/／()（）]|〔)")
_ANSWERS = frozenset(
    words(
        "阴 阳 阴性 阳性 双 双侧 左侧 右侧 全部 明白 符合 成功 相符 安全 连续 平稳 尚可 时间 安排 应急 常规 双人 "
        "管理 查无 查对 查房 费用 车间 卫生间 门诊 急诊 温度 严格 平时 和 于 连 全 应 时 单 查 向 后 同 从"
    )
)
"""What such fields say that is no name, and words of one character that end a field without filling it."""


def is_answer(word: str) -> bool:
    """Return True for a word that fills the field of a role and is no name: 符合, 通过."""
    return word in _ANSWERS


def role_field_end(text: str, end: int, start: int) -> int | None:
    """Return the end of the name that fills a field from `start` on, behind a role that ends at `end`; or None."""
    filled = _FILLED.match(text, start)
    surname = surname_length(text, start)
    if filled is None or not surname or not _ROLE.search(text, max(0, end - 6), end):
        return None
    name = filled[0]
    if name in _ANSWERS or is_nobody(name) or not 0 <= len(name) - surname <= 2:
        return None
    if len(name) - surname == 2 and surname == 1 and _is_phrase(name):
        return None
    return filled.end()


def _is_phrase(name: str) -> bool:
    """Return True for three characters that are words: 白带多, 左下肺."""
    first_is_word = len(rjieba.cut(name, False)[0]) == 2
    return first_is_word or (is_wordlike(name[0]) and bool(rjieba.has_word(name[:2]) or rjieba.has_word(name[1:])))
