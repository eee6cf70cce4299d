"""Stage `text_synonyms`: synonyms that a text itself states.

    面神经麻痹，又称面瘫或贝尔氏面瘫   →   (面神经麻痹, 面瘫), (面神经麻痹, 贝尔氏面瘫)
    尖锐湿疣（俗称“菜花病”）           →   (尖锐湿疣, 菜花病)

Cues such as 又称, 俗称, 学名 and 也就是我们常说的 announce a second name (lexical patterns as in Hearst, 1992, for
synonyms). Chinese has no boundary between a name and its sentence, so a name ends at punctuation and at words that
names do not contain. What remains is not always a name. So users of the table accept a pair only if they know one side
(text_names.py). Brackets without a cue, as in 肝硬化（失代偿期）, and a bare 即 are ignored, since they
mostly introduce something else.

A pair counts once per document. Time grows with the number of characters, memory with one part.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest

from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.stage import Output, StageParams, stage

MAX_NAME = 20
"""Maximum length of a name in characters; the minimum is two."""

# 人们常 and 我们所 of cues such as 就是人们常说的 and 即我们所说的.
_PEOPLE = "(?:人们|我们|大家|俗话|平时|平常|通常)*(?:常|所)+"
_CUES = (
    "又称之?|又名|又叫|亦称|亦名|也称之?|也叫",  # 面神经麻痹又称面瘫
    "俗称|俗名|别名|别称|旧称|曾称|古称|简称|学名",  # 尖锐湿疣（俗称“菜花病”）
    "(?:中医|西医|医学上|临床上)[又也亦]?[称叫]之?",  # 带状疱疹中医称之为“蛇串疮”
    f"就?是{_PEOPLE}[说讲]的",  # 癫痫就是人们常说的羊角风
    f"即{_PEOPLE}[说讲谓]的?",  # 癫痫即俗话所说的羊角风, but not 即羊角风
)
# Matches 又称 of 面瘫又称贝尔氏面瘫, 也俗称 and 也就是我们常说的, but not 称 alone or 即.
_CUE = re.compile(f"[也又还常]?(?:{'|'.join(_CUES)})")

# Characters without a border: 面神经麻痹, β-地中海贫血 and Graves病, but not "面瘫，" with its comma.
_RUN = rf"[\w\-—·'’/]{{2,{MAX_NAME}}}"
_OPEN, _CLOSE = '["“‘「『《]?', '["”’」』》]?'
# The text before a cue: matches 面神经麻痹， and “腕管综合征”(, but not 面瘫。
_BEFORE = re.compile(rf"({_RUN}){_CLOSE}[ \t,，(（]*$")
# The text behind a cue: matches 为“蛇串疮” and 面瘫或贝尔氏面瘫, but not 。面瘫
_AFTER = re.compile(rf"[为作做叫是]?[ \t:：,，]*({_OPEN}{_RUN}{_CLOSE}(?:[、或]{_OPEN}{_RUN}{_CLOSE})*)")
# Matches 、 of 鼠标手、妈妈手, but not a comma.
_BETWEEN = re.compile("[、或]")
_COMMAS = ' \t,，()（）"”’」』》'
_REACH = MAX_NAME + 6
"""Number of characters before a cue that are searched for a name."""

_PUNCTUATION = "-—·'’/\"“”‘「」『』《》_"
# Words that may be attached to a name: matches 称为 of 称为面瘫 and 等 of 面瘫等, but nothing of 面瘫.
_EDGES = re.compile("^(?:称为|因而|[是为在者与和及])+|(?:[是为在等与和及])+$")
# What ends a name: matches 的 of 风疹块的一种皮肤病 and 患者, but nothing of 行为障碍. There are few single characters,
# since most of them occur in names, too.
_NO_NAME = re.compile(
    "[的了我你您她它们这就吧呢啊很将向又也]|常?被|什么|以下|民间|故有|故称|那种|那些|种疾病|此病|本病|该病|其实|因为|因此|"
    "所以|所谓|所致|由于|如果|通常|一般|主要|常见|属于|好发|多见|临床|中医|西医|现代|医学|以及|可以|可能|应该|不能|没有|"
    "一种|一类|需要|表现|患者|患有|考虑|建议|出现|现在|目前|引起|导致|发生|治疗|检查|包括|问题分析|意见|病情分析|指导|"
    "分为|有时|来说|认为|等等|知道|方面|药名|商品名"
)


def definitions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs (name, second name) that a text states, in order; names have 2 to `MAX_NAME` characters."""
    cues = list(_CUE.finditer(text))
    name, end = "", 0
    for cue, ahead in zip_longest(cues, cues[1:]):
        after = _AFTER.match(text, cue.end(), ahead.start() if ahead else len(text))
        # In 麦粒肿又名针眼，俗称偷针眼 the second cue directly follows a name, and refers to 麦粒肿 again.
        if not name or text[end : cue.start()].strip(_COMMAS):
            before = _BEFORE.search(text, max(end, cue.start() - _REACH), cue.start())
            name = _bare(_NO_NAME.split(before[1])[-1]) if before else ""
        end = after.end() if after else cue.end()
        for run in _BETWEEN.split(after[1]) if after else ():
            other = _bare(_NO_NAME.split(run)[0])
            if min(len(name), len(other)) >= 2 and name != other:
                yield name, other


def count_definitions(texts: Iterable[str]) -> Counter[tuple[str, str]]:
    """Return the number of texts that state each pair."""
    return Counter(pair for text in texts for pair in set(definitions(text)))


class TextSynonymsParams(StageParams):
    """No parameters."""


@stage(name="text_synonyms", version=2, params=TextSynonymsParams, tables=("text_synonyms",), heavy=True)
def text_synonyms(inputs: Mapping[str, Artifact], params: TextSynonymsParams, out: Output) -> None:
    """Count the pairs in `inputs["documents"]`. Parts are counted separately, so a pair may have several rows."""
    out.map(_count_part, inputs["documents"].parts("documents"))


def _count_part(writer: PartWriter, part: Part) -> None:
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in part.read(["source", "text"]).to_pylist():
        counts.update((*pair, row["source"]) for pair in set(definitions(row["text"])))
        writer.count("documents_in")
    rows = [
        {"name": name, "synonym": other, "source": source, "documents": number}
        for (name, other, source), number in sorted(counts.items())
    ]
    writer.write("text_synonyms", rows)
    writer.count("definitions", sum(counts.values()))


def _bare(run: str) -> str:
    return _EDGES.sub("", run.strip(_PUNCTUATION)).strip(_PUNCTUATION)
