"""Properties of characters: two tables over all of Unicode, looked up for a whole text at once.

`needs_of` returns the repairs that a text needs, so that the others cost nothing; `counts_of` counts its characters by
kind. Both take linear time and 4 bytes per character.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import regex

from infra.arrays.code_points import code_points, points_of
from infra.arrays.compiled import compiled

BLOCK = 2**16
"""Characters that are looked up at once; they fit in the cache of a core."""

END = 0x34000
"""First code of a range with nothing but private use, tags, variation selectors and unassigned codes."""

LINE_END = "\r\x0b\x0c\x85\u2028\u2029"
"""Line ends other than \\n."""
BLANK = "\t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
"""Blanks other than U+0020, as a character class."""

_INVISIBLE = (
    r"\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}"
    r"\u034f\u115f\u1160\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U00034000-\U0010ffff"
)
# matches: "\u200b", "\ufeff", "\x00", "\ud800"
# not: "\n", "\u3000", "病"
INVISIBLE = regex.compile(rf"[{_INVISIBLE}--[\n{LINE_END}{BLANK}]]", regex.VERSION1)
"""Control, format (zero-width), private-use and unassigned codes, half surrogates, fillers, variation selectors."""

# matches: "☆", "😀", "a^b"
# not: "10^9", "5℃", "血压120/80，正常", "㎎"
NO_TEXT = regex.compile(r"[^\p{L}\p{M}\p{N}\p{P}\p{Sm}\p{Zs}\n°℃℉Ωµ%‰\u3380-\u33df^]|(?<!\d)\^|\^(?![+\-−]?\d)")
"""Everything but letters, digits, punctuation, signs of a measurement, units in one character (㎎) and ^ of a power."""

SIMPLIFIED = (
    "个们来时国会对发说学医药疗诊脏肿疡疯疮疱经动见现问应进这为体点过还没从样开关无间东车门长马鸟鱼龙"
    "风飞电话语请让认识讲论证该详谢谁读课调谈记设许热爱儿岁妈爷孙亲员报场块坏处备复头实宝审将尔岛师带帮广庆库"
    "张弹强归当录忆态总恶惊愿战户护损换据摄败断术权条极构标树检欢残毁毕气汉汤沟泪泽洁浆测济浓涛涩润涨渐湿滞满"
    "灭灯灵炼烂烧烦焕营环疟痈瘫瘾盐监盖矿码确碍种积稳窍笔筛纤红级纪纯纳纸线组细终绍给络绝统继续绿缓缩罗肃肠肤"
    "肾胀胁胆胜脉脑脓脸腊腻艺节苏荣莲获虑虽蚀补装订训议讯评词译试诱误诸诺谓谨谱负贫质购贵费资赖赶趋跃踪转轮软轻载"
    "较辅输辩达迁运远违连迟适选递遗邓邻释针钙钟钠钢钾铁铅银锌镜闭闻阳阴阵阶际陆陈险难静韧页顶项顺须顾预领频题颜额颗"
    "饭饮饱饲饿馆驱验"
)
TRADITIONAL = (
    "個們來時國會對發說學醫藥療診臟腫瘍瘋瘡皰經動見現問應進這為體點過還沒從樣開關無間東車門長馬鳥魚龍"
    "風飛電話語請讓認識講論證該詳謝誰讀課調談記設許熱愛兒歲媽爺孫親員報場塊壞處備復頭實寶審將爾島師帶幫廣慶庫"
    "張彈強歸當錄憶態總惡驚願戰戶護損換據攝敗斷術權條極構標樹檢歡殘毀畢氣漢湯溝淚澤潔漿測濟濃濤澀潤漲漸濕滯滿"
    "滅燈靈煉爛燒煩煥營環瘧癰癱癮鹽監蓋礦碼確礙種積穩竅筆篩纖紅級紀純納紙線組細終紹給絡絕統繼續綠緩縮羅肅腸膚"
    "腎脹脅膽勝脈腦膿臉臘膩藝節蘇榮蓮獲慮雖蝕補裝訂訓議訊評詞譯試誘誤諸諾謂謹譜負貧質購貴費資賴趕趨躍蹤轉輪軟輕載"
    "較輔輸辯達遷運遠違連遲適選遞遺鄧鄰釋針鈣鐘鈉鋼鉀鐵鉛銀鋅鏡閉聞陽陰陣階際陸陳險難靜韌頁頂項順須顧預領頻題顏額顆"
    "飯飲飽飼餓館驅驗"
)
"""Frequent characters that only one of the two scripts uses."""

CANTONESE = "嘅咗喺嚟哋冇啲嗰佢咁噉嘢攞瞓搵諗谂嘥嗌嘞喎啱"
"""Characters that are rare except in written Cantonese."""


class Need:
    """Repairs that a text needs because of a character it holds, as bits of a number (enums are ten times slower)."""

    LINE_ENDS = 1
    BLANKS = 2
    INVISIBLE = 4
    COMPOSITION = 8
    RADICALS = 16
    NO_TEXT = 32
    SPACING = 64  # two blanks or line ends in a row, or one at the edge
    MARKUP = 128  # it may hold markup
    ADDRESSES = 256  # it may hold an address of the net
    LINES = 512  # it has more than one line

    CHARACTERS = LINE_ENDS | BLANKS | INVISIBLE | COMPOSITION | RADICALS | NO_TEXT | SPACING


class Kind:
    """Kinds of characters: places in the list of counts."""

    BLANK = 0
    SYMBOL = 1
    DIGIT = 2
    LETTER = 3
    HAN = 4
    SIMPLIFIED = 5
    TRADITIONAL = 6
    CANTONESE = 7
    KANA = 8
    HANGUL = 9


KINDS = 10
_SPACING = Need.SPACING  # compiled code reads no attributes of classes

# matches: "\u0301", "\u1160"
# not: "病"
_MARK = regex.compile(r"[\p{M}\u1160-\u11ff]")
"""Marks, and vowels of jamo, which may combine with the character before them."""


def needs_of(text: str) -> int:
    """Return the repairs that a text needs, as bits of `Need`."""
    return all_needs([text])[0]


def all_needs(texts: Sequence[str]) -> list[int]:
    """Return the repairs that each text needs, as bits of `Need`."""
    points, ends = code_points(texts)
    needs = np.zeros(len(texts), dtype=np.uint16)
    _gather_needs(points, ends, _need_table(), needs)
    found: list[int] = needs.tolist()
    return found


@compiled
def _gather_needs(points: np.ndarray, ends: np.ndarray, table: np.ndarray, needs: np.ndarray) -> None:
    spacing = np.uint16(_SPACING)
    for text in range(len(needs)):
        gathered, is_space = np.uint16(0), True  # one blank at the edge is as bad as two within
        for place in range(ends[text], ends[text + 1]):
            need = table[points[place]]
            was_space, is_space = is_space, (need & spacing) != 0
            gathered |= need if was_space else need & ~spacing
        if is_space and ends[text + 1] > ends[text]:
            gathered |= spacing
        needs[text] = gathered


def counts_of(text: str) -> list[int]:
    """Return the number of characters of each `Kind` in a text. Han characters are counted under one of four kinds."""
    counts: list[int] = all_counts([text])[0].tolist()
    return counts


def all_counts(texts: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return `counts_of` each text: int64 (T, KINDS)."""
    points, ends = code_points(texts)
    counts = np.zeros((len(texts), KINDS), dtype=np.int64)
    _count_kinds(points, ends, _kind_table(), counts)
    return counts


@compiled
def _count_kinds(points: np.ndarray, ends: np.ndarray, table: np.ndarray, counts: np.ndarray) -> None:
    for text in range(len(counts)):
        for place in range(ends[text], ends[text + 1]):
            counts[text, table[points[place]]] += 1


def han_of(counts: Sequence[int]) -> int:
    """Return the number of Chinese characters among those counted."""
    return sum(counts[Kind.HAN : Kind.CANTONESE + 1])


def codes_of(text: str, overlap: int = 0) -> Iterator[npt.NDArray[np.uint32]]:
    """Yield the codes of a text in blocks, each with the first `overlap` characters of the next block."""
    for start in range(0, len(text), BLOCK):
        piece = text if len(text) <= BLOCK else text[start : start + BLOCK + overlap]
        yield points_of(piece)


@functools.cache
def radicals() -> dict[int, str]:
    """Return a map from the radicals that fonts of PDF files show for whole characters to these characters."""
    kangxi = {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0x2F00, 0x2FD6)}
    # Unicode's EquivalentUnifiedIdeograph, for those of the supplement that stand for a modern character.
    supplement = zip(
        "⺟⺠⻁⻄⻅⻆⻉⻋⻑⻓⻔⻗⻘⻙⻚⻛⻜⻝⻢⻣⻤⻥⻦⻧⻨⻩⻬⻮⻰⻳",
        "母民虎西见角贝车長长门雨青韦页风飞食马骨鬼鱼鸟卤麦黄齐齿龙龟",
        strict=True,
    )
    return kangxi | {ord(radical): character for radical, character in supplement}


@functools.cache
def _need_table() -> npt.NDArray[np.uint16]:
    table = np.zeros(0x110000, dtype=np.uint16)
    table[END:] = Need.INVISIBLE | Need.NO_TEXT
    _mark(table, INVISIBLE, Need.INVISIBLE)
    _mark(table, NO_TEXT, Need.NO_TEXT)
    _mark(table, regex.compile(f"[{LINE_END}]"), Need.LINE_ENDS)
    _mark(table, regex.compile(f"[{BLANK}]"), Need.BLANKS)
    _mark(table, _MARK, Need.COMPOSITION)
    changed = [code for code in range(END) if not unicodedata.is_normalized("NFC", chr(code))]
    table[changed] |= np.uint16(Need.COMPOSITION)
    table[list(radicals())] |= np.uint16(Need.RADICALS)
    for characters, need in ((" \n", Need.SPACING), ("<&", Need.MARKUP), ("@/wW", Need.ADDRESSES), ("\n", Need.LINES)):
        table[list(map(ord, characters))] |= np.uint16(need)
    return table


@functools.cache
def _kind_table() -> npt.NDArray[np.uint8]:
    table = np.full(0x110000, Kind.SYMBOL, dtype=np.uint8)
    for pattern, kind in (
        # In this order: what is a Han character and traditional ends as traditional.
        (r"[\s\u2500-\u257f]", Kind.BLANK),  # the rules of a table count as blanks: ─│┼
        (r"\p{N}", Kind.DIGIT),
        (r"[\p{L}\p{M}]", Kind.LETTER),
        (r"\p{Han}", Kind.HAN),
        (f"[{SIMPLIFIED}]", Kind.SIMPLIFIED),
        (f"[{TRADITIONAL}]", Kind.TRADITIONAL),
        (f"[{CANTONESE}]", Kind.CANTONESE),
        (r"[\p{Hiragana}\p{Katakana}]", Kind.KANA),
        (r"\p{Hangul}", Kind.HANGUL),
    ):
        for match in regex.finditer(f"(?:{pattern})+", _all_characters()):
            table[match.start() : match.end()] = kind
    return table


def _mark(table: npt.NDArray[np.uint16], pattern: regex.Pattern[str], need: int) -> None:
    runs = regex.compile(f"(?:{pattern.pattern})++", pattern.flags & regex.VERSION1)
    for match in runs.finditer(_all_characters()):
        table[match.start() : match.end()] |= np.uint16(need)


@functools.cache
def _all_characters() -> str:
    return "".join(map(chr, range(END)))
