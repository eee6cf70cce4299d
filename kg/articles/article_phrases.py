"""Chinese wording of CMeKG's relations: for each its section of the article, the separator between its values, and
several sentences with the same meaning.

In a sentence `{s}` is the subject (or a pronoun for it) and `{v}` the joined values. The wording is our own. Relations
that are not listed here (most of the 469 are headings of clinical pathways that occur a few times) use `GENERIC` and
`GENERIC_UNDER`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Section(IntEnum):
    """Paragraphs of an article, in order."""

    WHAT = 0
    NAMES = 1
    MAKE_UP = 2
    CAUSES = 3
    SYMPTOMS = 4
    EXAMINATIONS = 5
    TREATMENT = 6
    DOSAGE = 7
    SAFETY = 8
    STORAGE = 9
    OTHER = 10


class Phrases(NamedTuple):
    """Wording of one relation."""

    section: Section
    separator: str
    sentences: tuple[str, ...]


NAMES, CLAUSES = "、", "；"
"""Separators: a light one for lists of short names, a stronger one for statements with commas of their own."""

GENERIC = ("{s}的{r}为{v}。", "就{r}而言，{s}有{v}。", "{s}的{r}包括{v}。", "关于{r}，{s}记有{v}。")
GENERIC_UNDER = ("{s}的{t}中，{r}为{v}。", "在{t}方面，{s}的{r}包括{v}。", "论{t}，{s}的{r}是{v}。")
"""For relations with two parts, such as 手术_麻醉方式: {t} is the heading, {r} the item below it."""

CONTINUATIONS = ("此外还有{v}。", "另有{v}。", "还包括{v}。", "同时有{v}。", "除此之外还见{v}。", "再有{v}。")
"""Sentences that continue a list too long for one sentence."""

TAXONOMY = ("界", "门", "亚门", "纲", "亚纲", "目", "亚目", "科", "亚科", "属", "种")
"""Relations that share one sentence, from kingdom to species, under the name `TAXONOMY_RELATION`."""

TAXONOMY_RELATION = "生物分类"

WHOLE_ANSWERS = {
    ("传染性", "无"): ("{s}没有传染性。", "{s}不具有传染性。"),
    ("传染性", "有"): ("{s}具有传染性。", "{s}可以传染。"),
}
"""Sentences for relations whose value is yes or no."""

PHRASES: dict[str, Phrases] = {}


def _say(section: Section, separator: str, relations: str, *sentences: str) -> None:
    for relation in relations.split():
        PHRASES[relation] = Phrases(section, separator, sentences)


_say(Section.WHAT, NAMES, "分类", "{s}属于{v}。", "在分类上，{s}归入{v}。", "{s}是{v}中的一种。")
_say(Section.WHAT, NAMES, "所属分类", "{s}属于{v}类检查。", "按类别，{s}归入{v}。", "{s}列在{v}项下。")
_say(Section.WHAT, NAMES, "用途分类", "按用途，{s}归为{v}。", "{s}在用途上属于{v}。")
_say(Section.WHAT, NAMES, "药品类型", "{s}的药品类型为{v}。", "从药品类型看，{s}是{v}。")
_say(Section.WHAT, NAMES, "OTC类型", "{s}的非处方药类型为{v}。", "在非处方药管理上，{s}列为{v}。")
_say(Section.WHAT, NAMES, "药品监管分级", "在药品监管上，{s}列为{v}。", "{s}的监管分级为{v}。")
_say(Section.WHAT, NAMES, "特殊药品", "{s}列入特殊药品中的{v}。", "作为特殊药品，{s}按{v}管理。")
_say(Section.WHAT, NAMES, "上位关系", "{s}是{v}的一种。", "{s}属于{v}。", "{s}归在{v}之下。")
_say(Section.WHAT, NAMES, "下位关系", "{s}可分为{v}。", "{s}之下有{v}。", "{s}包括{v}。")
_say(Section.WHAT, NAMES, "病理分型", "{s}在病理上分为{v}。", "{s}的病理分型有{v}。")
_say(Section.WHAT, NAMES, "ICD10", "{s}的ICD-10编码为{v}。", "在ICD-10中，{s}编码为{v}。")
_say(Section.WHAT, NAMES, "就诊科室 所属科室", "{s}应到{v}就诊。", "{s}患者宜就诊于{v}。", "{s}由{v}诊治。")
_say(
    Section.WHAT,
    NAMES,
    TAXONOMY_RELATION,
    "在生物分类上，{s}来源于{v}。",
    "{s}的基原属于{v}。",
    "{s}的原生物隶属{v}。",
)
_say(Section.NAMES, NAMES, "别称 又称 其他名称", "{s}又称{v}。", "{s}的别称有{v}。", "{s}也叫{v}。")
_say(Section.NAMES, NAMES, "同义词", "{s}的同义词有{v}。", "{s}即{v}。")
_say(Section.NAMES, NAMES, "通用名", "{s}的通用名为{v}。", "{s}的通用名称是{v}。")
_say(Section.NAMES, NAMES, "商品名", "{s}的商品名有{v}。", "市售{s}的商品名包括{v}。")
_say(
    Section.NAMES,
    NAMES,
    "英文名 英文名称 英文别名 英文别称 外文名",
    "{s}的英文名为{v}。",
    "{s}在英文中称为{v}。",
    "{s}的英文名称是{v}。",
)
_say(Section.NAMES, NAMES, "汉语拼音 拼音", "{s}的汉语拼音为{v}。", "{s}用拼音写作{v}。")
_say(Section.NAMES, NAMES, "中医病名", "中医称{s}为{v}。", "{s}的中医病名为{v}。")
_say(Section.MAKE_UP, NAMES, "成份 组成", "{s}的成份有{v}。", "{s}含有{v}。", "{s}由{v}等组成。")
_say(Section.MAKE_UP, CLAUSES, "性状", "{s}的性状为{v}。", "从性状看，{s}为{v}。", "{s}的外观性状是{v}。")
_say(Section.MAKE_UP, CLAUSES, "规格", "{s}的规格为{v}。", "{s}的常见规格是{v}。")
_say(Section.MAKE_UP, NAMES, "入药部位", "{s}以{v}入药。", "{s}的入药部位是{v}。")
_say(Section.MAKE_UP, NAMES, "性味", "{s}的性味为{v}。", "论性味，{s}{v}。", "{s}的药性记为{v}。")
_say(Section.MAKE_UP, NAMES, "分布区域 分布", "{s}分布于{v}。", "{s}产于{v}。", "{s}主要见于{v}。")
_say(
    Section.MAKE_UP,
    NAMES,
    "采收时间 采集时间 采收季节",
    "{s}的采收时间为{v}。",
    "采收{s}的时间是{v}。",
    "{s}于{v}采收。",
)
_say(Section.MAKE_UP, NAMES, "出处", "{s}出自{v}。", "{s}的记载见于{v}。")
_say(
    Section.CAUSES,
    NAMES,
    "常见病因 病因 主要病因",
    "{s}的病因有{v}。",
    "引起{s}的原因包括{v}。",
    "{s}常由下列因素引起：{v}。",
)
_say(Section.CAUSES, NAMES, "高危因素", "{s}的高危因素有{v}。", "下列因素会增加{s}的风险：{v}。")
_say(Section.CAUSES, NAMES, "多发群体", "{s}多发于{v}。", "{s}的多发人群是{v}。", "{v}容易患{s}。")
_say(Section.CAUSES, NAMES, "多发地区", "{s}多发于{v}。", "{s}在{v}较为多见。")
_say(Section.CAUSES, NAMES, "传播途径", "{s}的传播途径有{v}。", "{s}可通过以下途径传播：{v}。")
_say(Section.CAUSES, CLAUSES, "传染性", "关于传染性，{s}的记载是{v}。", "{s}的传染性为{v}。")
_say(
    Section.CAUSES,
    NAMES,
    "常见发病部位 发病部位",
    "{s}常见的发病部位是{v}。",
    "{s}多发生在{v}。",
    "{s}常累及{v}。",
)
_say(
    Section.SYMPTOMS,
    NAMES,
    "常见症状 临床症状及体征 主要症状",
    "{s}的常见症状有{v}。",
    "{s}患者可出现{v}。",
    "{s}在临床上表现为{v}。",
    "患有{s}时可见{v}。",
)
_say(Section.SYMPTOMS, NAMES, "相关症状", "与{s}相关的症状有{v}。", "出现{v}时可考虑{s}。")
_say(Section.SYMPTOMS, NAMES, "并发症", "{s}可并发{v}。", "{s}的并发症有{v}。", "{s}可能引起{v}等并发症。")
_say(Section.SYMPTOMS, NAMES, "转移部位", "{s}可转移至{v}。", "{s}的转移部位有{v}。")
_say(
    Section.EXAMINATIONS,
    NAMES,
    "检查 辅助检查",
    "{s}需要做的检查有{v}。",
    "诊断{s}可做{v}。",
    "怀疑{s}时应检查{v}。",
)
_say(Section.EXAMINATIONS, NAMES, "影像学检查", "{s}的影像学检查有{v}。", "影像上，{s}可做{v}。")
_say(Section.EXAMINATIONS, NAMES, "实验室检查", "{s}的实验室检查有{v}。", "实验室方面，{s}应查{v}。")
_say(Section.EXAMINATIONS, NAMES, "鉴别诊断", "{s}应与{v}相鉴别。", "诊断{s}时需排除{v}。")
_say(
    Section.TREATMENT,
    NAMES,
    "适应症 主治 适应证",
    "{s}适用于{v}。",
    "{s}可用于治疗{v}。",
    "{s}主要用于{v}。",
    "{s}主治{v}。",
)
_say(Section.TREATMENT, NAMES, "功能主治", "{s}的功能主治为{v}。", "在功能主治上，{s}用于{v}。")
_say(Section.TREATMENT, NAMES, "功效 功用 功能", "{s}的功效是{v}。", "{s}能{v}。", "{s}具有{v}的功效。")
_say(Section.TREATMENT, NAMES, "治疗", "{s}的治疗涉及{v}。", "在治疗上，与{s}有关的是{v}。")
_say(Section.TREATMENT, NAMES, "药物治疗", "治疗{s}的药物有{v}。", "{s}可用{v}治疗。", "{s}的用药包括{v}。")
_say(Section.TREATMENT, NAMES, "手术治疗", "{s}的手术治疗有{v}。", "手术上，{s}可行{v}。")
_say(Section.TREATMENT, NAMES, "辅助治疗", "{s}的辅助治疗有{v}。", "治疗{s}还可辅以{v}。")
_say(Section.TREATMENT, CLAUSES, "治疗方案", "{s}的治疗方案是{v}。", "对{s}可采取的方案为{v}。")
_say(Section.TREATMENT, NAMES, "相关疾病", "与{s}相关的疾病有{v}。", "与{s}有关的疾病包括{v}。")
_say(Section.TREATMENT, NAMES, "相关药物", "与{s}相关的药物有{v}。", "涉及{s}的药物包括{v}。")
_say(Section.DOSAGE, CLAUSES, "用法用量", "{s}的用法用量：{v}。", "使用{s}时，{v}。", "{s}的用法为{v}。")
_say(Section.DOSAGE, CLAUSES, "用量", "{s}的用量为{v}。", "{s}的常用剂量是{v}。")
_say(
    Section.SAFETY,
    NAMES,
    "不良反应",
    "{s}的不良反应有{v}。",
    "使用{s}后可能出现{v}。",
    "{s}可引起{v}。",
    "有报道称，{s}的不良反应包括{v}。",
)
_say(Section.SAFETY, CLAUSES, "禁忌 主要用药禁忌", "{s}的禁忌：{v}。", "{s}的使用禁忌是{v}。")
_say(Section.SAFETY, CLAUSES, "注意事项", "使用{s}应注意：{v}。", "{s}的注意事项有{v}。")
_say(Section.SAFETY, NAMES, "药物相互作用", "{s}与{v}之间存在相互作用。", "与{s}相互作用的药物有{v}。")
_say(Section.SAFETY, NAMES, "毒性", "在毒性方面，{s}记载为{v}。", "关于毒性，{s}{v}。")
_say(Section.STORAGE, CLAUSES, "贮藏", "{s}的贮藏条件是{v}。", "贮藏{s}的要求为{v}。")
_say(Section.STORAGE, NAMES, "有效期", "{s}的有效期为{v}。", "{s}的保质期限是{v}。")
_say(Section.OTHER, NAMES, "预防", "预防{s}的措施有{v}。", "为预防{s}，可采取{v}。")
_say(Section.OTHER, NAMES, "预后状况", "{s}的预后：{v}。", "就预后而言，{s}记为{v}。")
_say(Section.OTHER, NAMES, "标准住院时间", "{s}的标准住院时间为{v}。", "{s}患者的标准住院日是{v}。")
_say(Section.OTHER, CLAUSES, "出院标准", "{s}患者的出院标准：{v}。", "出院时，{s}患者应达到{v}。")

GENERIC_SECTIONS = {
    "诊断依据": Section.EXAMINATIONS,
    "住院必检项目": Section.EXAMINATIONS,
    "术前准备": Section.TREATMENT,
    "手术": Section.TREATMENT,
    "术后住院": Section.TREATMENT,
    "选择治疗方案的依据": Section.TREATMENT,
}
"""Sections, by heading, of relations without their own sentences; otherwise `Section.OTHER`."""
