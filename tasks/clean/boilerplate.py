"""Lines that a portal puts around its articles, recognised by their phrases and dropped if they are short.

The lists are made for precision. A phrase that medical prose could hold counts only at the beginning of a line, and a
line with a measured value or a dose stays, whatever else it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from tasks.text.phrase_glance import PhraseGlance

MAX_LINE = 80
"""Characters of the longest line that is dropped; a longer one is a paragraph that happens to hold the phrase."""

ANYWHERE: Mapping[str, str] = {
    r"版权所有": "版权所有",
    r"版權所有": "版權所有",
    r"版权归.{1,20}所有": "版权归某网站所有",
    r"[Aa]ll [Rr]ights [Rr]eserved": "All Rights Reserved",
    r"未经(?:本站|本网|本院|作者|书面|许可)?(?:明确|书面)?(?:授权|许可|允许|同意)[，, ]?(?:任何.{0,10})?"
    r"(?:不得|禁止|严禁|请勿|谢绝|均?视为)?.{0,4}(?:转载|复制|摘编|镜像|翻印)": "未经本站书面授权，任何网站不得转载",
    r"未经授权[，,。！!]": "未经授权，",
    r"(?:严禁|禁止|谢绝|请勿)(?:擅自)?转载": "严禁擅自转载",
    r"转载(?:请|须|需|时请)(?:注明|保留|标明|联系)": "转载请注明",
    r"ICP备": "粤ICP备12345678号",
    r"公网安备": "京公网安备",
    r"(?:京|沪|粤|浙|苏|津|渝)ICP证": "京ICP证010001号",
    r"互联网药品信息服务资格": "互联网药品信息服务资格证书",
    r"责任编辑[：:∶ ]": "责任编辑：李明",
    r"(?:扫描|扫一扫|长按识别|识别).{0,8}二维码": "扫描下方二维码",
    r"(?:关注|搜索|添加).{0,12}(?:公众号|公众微信|微信号)": "关注我们的公众号",
    r"点击(?:此处|这里|查看|阅读|进入|下载|咨询|链接|关注|展开|收起)": "点击查看",
    r"(?:微博|微信|朋友圈|QQ空间)[ 、/|,，_]{1,3}(?:腾讯|新浪)?(?:微博|微信|朋友圈|QQ空间)": "微信、新浪微博",
    r"违法和?不良信息举报": "违法和不良信息举报",
}
"""Patterns of phrases, wherever in a line, each with an example."""
AT_THE_BEGINNING: Mapping[str, str] = {
    r"[《<【]{0,2}\s?(?:上|下)[一1](?:篇|页|条|章)(?:[：:∶]|$|\s)": "上一篇：头痛",
    r"(?:本站|本网|网站)?(?:免责声明|版权声明)": "本站免责声明",
    r"责任编辑": "责任编辑李明",
    r"返回(?:首页|顶部|列表|目录)": "返回首页",
    r"(?:相关|推荐|延伸|热门|更多)(?:阅读|文章|推荐|链接|新闻|资讯)(?:[：:∶]|$)": "相关阅读：",
    r"(?:分享|转发)到": "分享到",
    r"(?:文章|信息|内容|图片)来源[：:∶]": "文章来源：",
    r"(?:阅读|浏览|点击)(?:次数|量|数)?[：:∶]\s?\d": "阅读次数：12",
    r"(?:上传|发布|更新)(?:时间|日期|者)[：:∶]": "发布时间：",
    r"您(?:现在的|当前)(?:所在)?位置": "您现在的位置",
    r"当前位置[：:∶]": "当前位置：",
    r"打印(?:本页|此文)": "打印本页",
    r"关闭(?:窗口|本页)": "关闭窗口",
    r"加入收藏": "加入收藏",
    r"设为首页": "设为首页",
}
"""Patterns of phrases at the beginning of a line, each with an example."""

_UNITS = (
    r"[kKmMμµu]?g|[mMdDμµu]?[lL]|[cmnμµ]?m|[cm]m[23²³]|[mμµnpk]?mol|m?Eq|[mMkK]?IU|U|mmHg|kPa|Gy|kcal|bpm|[\u3380-\u33df]|"
    r"[毫微千]?克|[毫微]?升|[毫厘]米|毫摩|毫米汞柱|单位|℃|°C|度|％|‰|%(?!\d)|×\s?10|[xX*]\s?10\^|片|粒|丸|支|滴|次/"
)
"""Units of measured values and doses: the mg of 5mg, the ×10 of 3.2×10^9, the 片 of 2片."""
# matches: "5mg", "12.3×10^9", "36.5℃", "每日3次", "每次 2"
# not: "2019年3月", "%2mg", "3天前"
_MEASURED = re.compile(
    rf"(?<![%\d.])\d[\d.,]*\s?(?:{_UNITS})(?![A-Za-z])"
    r"|(?:每[日天晚早]|[一1][日天])\s?[\d一二两三四][次粒片丸]|每次\s?[\d一二两三四半]"
)
"""A number with its unit, or how often to take a drug. Days, hours and years do not count: a portal dates its pages."""

_HINTS = (
    "版权 版權 Rights rights 未经 转载 ICP 公网安备 互联网药品 责任编辑 二维码 公众 微信 点击 微博 朋友圈 "
    "QQ空间 不良信息 上一 上1 下一 下1 免责声明 返回 相关 推荐 延伸 热门 更多 分享 转发 来源 阅读 浏览 上传 "
    "发布 更新 位置 打印 关闭 收藏 首页"
)
"""Words of which every phrase holds at least one."""

hints = PhraseGlance(_HINTS.split())
"""Glance that shows which texts need not be searched; many times faster than the search."""

_BEGINNING = "|".join(AT_THE_BEGINNING)
# matches: "粤ICP备12345678号", "标题\n上一篇：头痛"
# not: "患者上一篇"
_PATTERN = re.compile("|".join((*ANYWHERE, f"^(?:{_BEGINNING})")), re.MULTILINE)


def without_boilerplate(text: str, phrases: Sequence[str] = ()) -> str:
    """Return the text without its short lines that hold a phrase of the lists, or one of the given phrases."""
    places = hints.places(text)
    for phrase in phrases:
        places += (match.start() for match in re.finditer(re.escape(phrase), text))
    dropped = {start for start, end in _short_lines(text, sorted(places)) if _is_boilerplate(text[start:end], phrases)}
    if not dropped:
        return text
    lines = text.split("\n")
    starts = accumulate((len(line) + 1 for line in lines), initial=0)
    return "\n".join(line for line, start in zip(lines, starts, strict=False) if start not in dropped)


def _short_lines(text: str, places: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each short line that holds one of the places, which are ascending."""
    end = -1
    for place in places:
        if place > end:
            start = text.rfind("\n", 0, place) + 1
            end = text.find("\n", place)
            end = end if end >= 0 else len(text)
            if end - start <= MAX_LINE:
                yield start, end


def _is_boilerplate(line: str, phrases: Sequence[str]) -> bool:
    return any(phrase in line for phrase in phrases) or bool(_PATTERN.search(line) and not _MEASURED.search(line))
