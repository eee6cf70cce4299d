"""Names of employers, schools, hospitals and departments: around the word that ends them, or behind a cue.

Each reader looks at a bounded stretch around the cue.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import rjieba

from tasks.deidentify.forms.cues import FIELD_SEPARATOR
from tasks.deidentify.forms.identifier import Span

_WINDOW = 20
"""Characters before the word that ends an institution in which its name may begin."""

_HAN = "\u4e00-\u9fff"
# matches: "，华西", "送检医院：宜昌市第二人民", "孩子在实验"
# not: "，", "在"
_NAME_BEFORE = re.compile(
    rf"(?:.*(?:[^{_HAN}A-Za-z0-9]|[在到于去从转往是请])|^)(?P<name>[{_HAN}A-Za-z0-9]{{2,18}})$", re.DOTALL
)
# matches: "当地", "外院及本", "某三甲", "一家", "就读"
# not: "武汉", "宜昌市第二人民"
_GENERIC = re.compile(
    r"^(?:互联网|就近|离|当地|本地|外地|附近|某|我|你|他|她|本|该|各|外|上级|下级|基层|三甲|二甲|三级|二级|综合|专科|大|小|其他|其它|别的|这|那|哪|"
    r"一家|一所|两家|几家|多家|全国|国内|国外|保险|医药|制药|医科|就读|所在|农村|城市|普通|重点|公立|私立|民营|正规|"
    r"送检|申请|住|出|入|转|同(?!济)|原|每|到|在|上(?!海)|读|念|完成|文化|教育|患者|参加|毕业|曾|未|因|予|及|与|和|或|建议|需|请|要)"
)
_PROPER = frozenset(("ns", "nr", "nt", "nz", "nrt", "nrfg", "j", "x", "eng"))
"""Tags of jieba's words that name one place, person or thing."""
_NO_PART = "rcpduyeoq"
"""First letters of the tags of words that are no part of a name: pronouns, conjunctions, prepositions, adverbs, …"""
_PARTS = frozenset(("附属", "实验", "同济", "协和", "康复", "第一", "第二", "第三", "第四", "红会", "招商", "师范"))
"""Words that are part of names whatever their tag."""
_VERBS = frozenset("去到有带给想找看来回进没在")
"""Verbs of one character that are no part of a name: 带孩子去."""
_COMMON = frozenset(("上市", "我国", "全国", "国内", "一般", "有限", "个人", "专科", "综合"))
"""Words that name nothing by themselves whatever their tag."""
# matches: "生", "文化", "附属医院"
# not: "。", "二年级"
_NOT_A_SCHOOL = re.compile(r"生(?!物|命)|文化|学历|程度|毕业|教授|以上|以下|教育|水平|分化|[一二三四]?附|医院|阶段|时")
# matches: "内感染", "获得性肺炎"
# not: "，", "行"
_NOT_A_HOSPITAL = re.compile(r"内感染|感染|获得性|性|外心|制剂|管理|信息|前")
# matches: "支行", "第二分公司"
# not: "，"
_BRANCH = re.compile(rf"[{_HAN}]{{0,8}}?(?:分公司|支公司|中心支公司|分行|支行|分局|分店|分院)")
# matches: "高二3", "三年级4", "初三（2）"
# not: "3", "夜"
_CLASS = re.compile(r"(?:[初高大][一二三四1-4]|[一二三四五六七八九1-9]年级)[（(]?\d{1,2}[)）]?$")
# matches: "中铁四局集团第二工程有限公司", "白云出租汽车公司"
# not: "，", "无"
_FILLED = re.compile(rf"[{_HAN}A-Za-z0-9（）()·]{{4,40}}+")
# matches: "计"
# not: "，"
_IS_HAN = re.compile(rf"[{_HAN}]")
# matches: "无", "退休", "国际单位"
# not: "合肥市第四十八中学"
_NO_EMPLOYER = re.compile(r"无|退休|离休|同上|不详|待业|务农|自由|国际|个|毫|微|万|千|元|保密|见|〔")
# matches: "电话", "职业"
# not: "公司"
_NEXT_FIELD = re.compile(r"电话|职业|邮编|地址|联系|部门|职务")
# matches: "在富士康电子厂", "在招商银行"
# not: "在高温下"
_PLACE_OF_WORK = re.compile(
    rf"在(?P<name>[{_HAN}]{{2,12}}?(?:银行|厂|店|局|所|院|中心|公司|集团|酒店|餐厅|超市|工地|物业|幼儿园|学校))$"
)
# matches: "门诊", "ICU", "二病区"
# not: "手术"
_WARD = re.compile(r"[一二三四五六七八九十\d]{0,2}(?:病区|病房|门诊|ICU|科)")
# matches: "手术", "疾病"
# not: "，", "会诊"
_NOT_A_DEPARTMENT = re.compile(r"手术|学|疾病|病史|治疗|情况|系统|炎|病(?!区|房)|急症|并发症|常规|器械|用药|检查")
# matches: "退休教师", "出租车司机", "电焊工"
# not: "，", "无"
_JOB = re.compile(rf"[{_HAN}]{{2,10}}+")
# matches: "不详", "无", "其他", "同上"
# not: "教师"
_NO_JOB = re.compile(r"不详|无|其他|其它|同上|未|见|病|史|暴露|接触|婚|民族|性|〔")
# matches: "医", "药"
# not: "，"
_OF_A_PEOPLE = re.compile("医|药|人群|地区|自治|聚居|语")
# matches: "藏", "维吾尔", "汉"
# not: "不"
_SHORT_PEOPLE = re.compile(
    r"(?:汉|满|回|藏|苗|壮|侗|瑶|白|彝|黎|傣|畲|水|羌|京|怒|土家|布依|朝鲜|蒙古|维吾尔|哈萨克|哈尼|傈僳|仡佬|锡伯|纳西)族?"
    r"(?=$|[\s，,。；;）)、])"
)


# matches: "宜昌市第二人民医院", "市一院", "护河镇卫生室", "附二院"
# not: "实验小学"
_HOSPITAL_END = re.compile(
    "医院|卫生[院所室站]|诊所|门诊部|保健[院所站]|卫生服务|急救|疾病预防|疾控|体检|检验|附[一二三]|[一二三四五六七八九十]院|妇幼|省人民|华西|协和|湘雅"
    "|同济|瑞金|仁济|阜外|安贞|积水潭|院区?$"
)
# matches: "武汉大学", "滨湖路小学", "合肥一中", "童乐堡幼儿园"
# not: "供电公司"
_SCHOOL_END = re.compile("大学|学院|小学|中学|学校|职高|幼儿园|托儿所|[一二三四五六七八九十]中|[大中小]$|学$|校$")


def institution_kind(name: str) -> str | None:
    """Return the kind of an institution by its name: hospital, school or employer; None for 当地医院."""
    if _GENERIC.match(name) or len(name) < 3:
        return None
    if _HOSPITAL_END.search(name):
        return "hospital"
    return "school" if _SCHOOL_END.search(name) else "employer"


def _before(text: str, start: int, free_from: int) -> tuple[int, str] | None:
    """Return the start and text of the name that ends at `start`; None where none does, or it names no one place."""
    left = max(free_from, start - _WINDOW)
    match = _NAME_BEFORE.search(text[left:start])
    name = _without_sentence(match["name"]) if match else ""
    return (start - len(name), name) if len(name) >= 2 and not _GENERIC.match(name) else None


def _without_sentence(written: str) -> str:
    """Return the end of a run of words that may name one institution; "" where it names none.

    Words of the sentence before it are cut off: 建议您尽早到. A place, a person or another proper noun must be left, or
    characters that are no words: 南宁市滨湖路, 盐步, but not 教师发展 or 专科.
    """
    words = rjieba.tag(written, False)
    first = 0
    for place, (word, tag) in enumerate(words):
        if (tag[0] in _NO_PART and word not in _PARTS) or (
            tag == "v" and (len(word) > 1 or word in _VERBS) and word not in _PARTS
        ):
            first = place + 1
    kept = words[first:]
    alone = sum(len(word) == 1 for word, _ in kept)
    proper = any((tag in _PROPER and word not in _COMMON) or word in _PARTS for word, tag in kept)
    return "".join(word for word, _ in kept) if proper or alone >= 2 else ""


def _around(refused: re.Pattern[str]) -> Callable[[str, int, int, int], list[Span]]:
    """Return a reader of the institution that a word ends, unless what follows it is `refused`."""

    def read(text: str, start: int, end: int, free_from: int) -> list[Span]:
        name = _before(text, start, free_from)
        if name is None or refused.match(text, end):
            return []
        return [(name[0], end)]

    return read


school_around = _around(_NOT_A_SCHOOL)
"""The school or university that a word ends: 南宁市滨湖路小学."""

hospital_around = _around(_NOT_A_HOSPITAL)
"""The hospital that a word ends: 宜昌市第二人民医院."""


def company_around(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The company that a word ends, with its branch: 平安财险宜昌中心支公司."""
    name = _before(text, start, free_from)
    branch = _BRANCH.match(text, end)
    return [(name[0], branch.end() if branch else end)] if name else []


def class_before(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The class of a school: 高二3班. Not a shift: 3班."""
    left = max(free_from, start - 8)
    match = _CLASS.search(text[left:start])
    return [(left + match.start(), end)] if match else []


def employer_behind(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """What fills a field 单位; no unit of measurement, and none behind another word: 单位：mmol/L, 送检单位：."""
    separator = FIELD_SEPARATOR.match(text, end)
    plain = text[start:end] == "单位"
    if separator is None or (plain and not ("：" in separator[0] or ":" in separator[0])):
        return []
    if plain and start and _IS_HAN.match(text, start - 1):
        return []  # 计量单位：
    filled = _FILLED.match(text, separator.end())
    if filled is None or _NO_EMPLOYER.match(filled[0]) or filled[0].isascii():
        return []
    cut = _NEXT_FIELD.search(filled[0])
    stop = separator.end() + cut.start() if cut else filled.end()
    return [(separator.end(), stop)] if stop - separator.end() >= 4 else []


def workplace_before(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The place before 上班 or 工作: 在招商银行工作. Not a general word: 在工厂上班."""
    left = max(free_from, start - 14)
    match = _PLACE_OF_WORK.search(text[left:start])
    if (
        match is None
        or _GENERIC.match(match["name"])
        or (len(match["name"]) < 4 and len(rjieba.cut(match["name"], False)) < 2)
    ):
        return []
    return [(left + match.start("name"), start)]


def department(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A department with its ward: 心血管内科二病区. Not a subject: 外科手术."""
    ward = _WARD.match(text, end)
    stop = ward.end() if ward else end
    return [] if _NOT_A_DEPARTMENT.match(text, stop) else [(start, stop)]


def job_behind(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """What fills a field 职业: 电焊工."""
    separator = FIELD_SEPARATOR.match(text, end)
    job = _JOB.match(text, separator.end()) if separator else None
    return [job.span()] if job and not _NO_JOB.match(job[0]) else []


def job(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A job that stands between two marks: ，渔民，."""
    return [(start, end)]


def people(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """One of the 56 peoples: 维吾尔族. Not its medicine: 藏族医药."""
    return [] if _OF_A_PEOPLE.match(text, end) else [(start, end)]


def people_behind(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A people in its short form behind 民族: 民族：满."""
    separator = FIELD_SEPARATOR.match(text, end)
    match = _SHORT_PEOPLE.match(text, separator.end()) if separator else None
    return [match.span()] if match else []
