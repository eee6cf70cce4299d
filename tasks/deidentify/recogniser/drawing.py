"""Lines for training: drawn names, addresses and institutions in templates and in real sentences.

Everything is drawn with one seeded generator, so that equal inputs and seeds give equal lines.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import rjieba

from tasks.deidentify.forms import places
from tasks.deidentify.recogniser import contexts, names

TEMPLATES = Path(__file__).with_name("templates.txt")
"""Lines with slots in braces; the two characters \\n are a line's end."""

# matches: "{N}", "{dx}", "{name:王伟}"
# not: "{}"
_SLOT = re.compile(r"\{(\w+)(?::([^{}]*))?\}")
_PLACEHOLDERS = {"N": "〔姓名〕", "A": "〔地址〕", "num": "〔编号〕", "phone": "〔手机号〕"}
_KIND_OF = {
    **dict.fromkeys("NFKLG", "name"),
    **dict.fromkeys("ACP", "address"),
    **dict.fromkeys("HSE", "institution"),
    **dict.fromkeys(("num", "B", "bednum"), "record"),
}
_OTHER_NUMBERS = frozenset(
    places.words(
        "mobile identity landline bank_card passport email wechat qq url account licence device imei mac ip plate"
    )
)
_CALLED = names.HONORIFICS["kin"] + names.HONORIFICS["work"] + names.HONORIFICS["polite"]
_HIDDEN = 0.25
"""Share of the names that are replaced already, as those that rules find."""
LABELLED_SHARE = 0.4
"""Share of the lines that come from labelled ones, with other names, of those that are no plain text."""
_WORD_STAYS_WORD = 0.7
"""Share of the names of labelled lines that are replaced by another word where they are one."""
_KEPT = 0.3
"""Share of the addresses, institutions and numbers of labelled lines that are kept as they are."""
# matches: "SBP", "JAK2", "BCR-ABL"
# not: "a", "的"
_ABBREVIATION = re.compile("[A-Z][A-Za-z0-9]{1,6}(?:-[A-Z0-9]{1,4})?")
# matches: "眼轴", "站立位全长"
# not: "，", "CT"
_HAN = re.compile("[\u4e00-\u9fff]+")
# matches: "\n", "；", "。"
# not: "，"
_PIECE_END = re.compile(r"(?<=[。；\n])|(?=\n)| {4}")
"""Ends of the pieces that a labelled line may be cut into."""


class Line(NamedTuple):
    """A line with what is to be recognised in it."""

    text: str
    spans: tuple[tuple[int, int, str], ...]
    """Start, end and kind, in order."""


class Source(NamedTuple):
    """Real text and terms that templates are filled with."""

    sentences: Sequence[str]
    """Sentences without persons."""
    terms: dict[str, Sequence[str]]
    """Terms by slot: dx, sx, drug, herb, exam, op, lab."""
    labelled: Sequence[str] = ()
    """Lines with identifiers in braces, whose names are mostly replaced by drawn ones."""


class Drawing:
    """Draws lines with one generator."""

    def __init__(
        self, source: Source, seed: int, labelled_share: float = LABELLED_SHARE, names_kept: float = 0.0
    ) -> None:
        """Prepare to draw lines from a source.

        Args:
            source: what is drawn from.
            seed: of the generator.
            labelled_share: share of the lines that come from labelled ones.
            names_kept: share of the names of labelled lines that stay as they were written.
        """
        self.labelled_share = labelled_share
        self.names_kept = names_kept
        self.rng = random.Random(seed)
        self.source = source
        templates = TEMPLATES.read_text(encoding="utf-8").splitlines()
        self.templates = [template.replace("\\n", "\n").replace("\\t", "\t") for template in templates]
        self.words = _words_like_names(source.sentences)
        self.labelled_words = _called_by_words(source.labelled)
        self.abbreviations = _abbreviations(source.sentences)
        self.phrases = _phrases(source.sentences)
        self.slots: dict[str, Callable[[], str]] = {
            "N": self.person, "F": self.surname_alone, "K": self.nickname, "L": self.latin, "A": self.address,
            "C": self.town, "P": self.half_address, "G": self.given_alone,
            "H": self.hospital, "S": self.school, "E": self.employer, "B": self.bed,
            "bednum": self.bed_number, "gap": lambda: self.pick((" ", "  ", "  ", "    ", "\u3000\u3000", "\t", "，")),
            "sex": lambda: self.pick(("男", "女", "男", "女", "男性", "女性")),
            "age": lambda: str(self.rng.randint(1, 95)),
            "n": lambda: str(self.rng.choice((1, 2, 3, 5, 7, 10, 12, 15, 24, 30, 36, 60, 80))), "num": self.number,
            "phone": lambda: "1" + "".join(self.rng.choices("0123456789", k=10)), "date": self.date,
            "time": lambda: f"{self.rng.randint(0, 23):02}:{self.rng.randint(0, 59):02}",
            "fact": lambda: self.pick(self.source.sentences), "dept": lambda: self.pick(contexts.DEPARTMENTS),
            "title": lambda: self.pick(names.HONORIFICS["clinic"]), "hon": lambda: self.pick(_CALLED),
            "short": lambda: self.pick(contexts.SHORT_ROLES), "kin": lambda: self.pick(contexts.KIN),
            "kinchar": lambda: self.pick("子女妻夫母父弟兄妹姐"), "role": lambda: self.pick(contexts.ROLES),
            "occ": lambda: self.pick(contexts.OCCUPATIONS), "eth": lambda: self.pick(contexts.PEOPLES),
        }  # fmt: skip
        for slot, terms in source.terms.items():
            self.slots[slot] = functools.partial(self.pick, terms)

    def pick(self, items: Sequence[str]) -> str:
        """Return one of some strings."""
        return items[int(self.rng.random() * len(items))]

    def line(self) -> Line:
        """Return a line: of a template, of a labelled line, of a real sentence with a person put in, or as it is."""
        rng = self.rng
        if rng.random() < 0.24:
            return Line(self.pick(self.source.sentences), ())
        if rng.random() < 0.16:
            return self._terms() if rng.random() < 0.6 else self._findings()
        if self.source.labelled and rng.random() < self.labelled_share:
            return self._of_labelled(self.pick(self.source.labelled))
        if rng.random() < 0.34:
            return self._in_sentence()
        template = self.pick(self.templates)
        if rng.random() < 0.3:
            template += self.pick(("", "\n", " ", "，", "。")) + self.pick(self.templates)
        if rng.random() < 0.12:  # forms with plain marks or none
            template = template.translate(
                {ord("，"): self.pick((",", " ", "、")), ord("："): self.pick((":", " ", ""))}
            )
        return self.filled(template)

    def filled(self, template: str) -> Line:
        """Return a template with drawn values."""
        pieces: list[tuple[str, str]] = []
        end = 0
        for slot in _SLOT.finditer(template):
            pieces.append((template[end : slot.start()], ""))
            pieces.append(self._value(slot[1]))
            end = slot.end()
        return _line([*pieces, (template[end:], "")])

    def _terms(self) -> Line:
        """Return medical terms, alone or in a list: drugs and herbs often look like names."""
        rng = self.rng
        any_term = [
            self.pick(self.source.terms[self.pick(("any", "herb", "herb", "drug", "product"))]) for _ in range(8)
        ]
        count = rng.choice((1, 1, 2, 3, 4, 6, 8))
        dose = self.pick(("", "", "", "10g", "15克", "（先煎）", " 3片", "0.5g"))
        joint = self.pick(("、", "、", "，", " ", "；", ",", "+", "\n"))
        text = joint.join(term + dose for term in any_term[:count])
        before = self.pick(
            (
                "",
                "",
                "予",
                "服用",
                "处方：",
                "方药：",
                "配伍",
                "口服",
                "药用",
                "治宜",
                "静滴",
                "用过",
                "建议吃",
                "比如",
                "（",
            )
        )
        behind = self.pick(
            (
                "",
                "",
                "等",
                "。",
                "治疗",
                "，" + self.pick(self.source.sentences),
                "，水煎服",
                "各等分",
                "可以吃吗",
                "）",
            )
        )
        return Line(before + text + behind, ())

    def _findings(self) -> Line:
        """Return measured values and findings, in prose or in a table: 眼轴26.3mm，CD61(+), SBP┃162┃146."""
        joint = self.pick(("，", "，", "，", "、", "；", " ", " ", "┃", " | ", "\t", "，\n", "/"))
        return Line(joint.join(self._finding() for _ in range(self.rng.choice((1, 2, 3, 4, 6)))), ())

    def _finding(self) -> str:
        rng = self.rng
        chance = rng.random()
        if chance < 0.3:
            what = self.pick(self.abbreviations)
        elif chance < 0.65:
            what = self.pick(self.phrases)
        elif chance < 0.8:
            what = self.pick(self.phrases) + self.pick(self.abbreviations)
        else:
            what = self.pick(self.source.terms[self.pick(("any", "exam", "dx", "herb"))])
        number = self.pick(
            (self.digits(2), self.digits(3), f"{self.digits(2)}.{self.digits(1)}", f"0.{self.digits(2)}")
        )
        unit = self.pick(
            ("", "", "mm", "cm", "mg/L", "%", " mmol/L", "级", "分", "°", "ml", " U/L", "次/分", "Gy", "条")
        )
        value = number + unit
        return what + self.pick(
            (
                value,
                value,
                f" {value}",
                f"：{value}",
                f"┃{value}",
                "(+)",
                "(-)",
                "（+）",
                "阳性",
                "正常",
                "",
                f"/{number}",
            )
        )

    def _value(self, slot: str) -> tuple[str, str]:
        hidden = _PLACEHOLDERS.get(slot)
        if hidden and self.rng.random() < (1 if slot == "phone" else _HIDDEN):
            return hidden, ""
        kind = _KIND_OF.get(slot, "")
        return self.slots[slot](), kind

    def _of_labelled(self, marked: str) -> Line:
        """Return a labelled line, or a piece of it, with other names and addresses."""
        if self.rng.random() < 0.3:
            marked = self.pick([piece for piece in _PIECE_END.split(marked) if piece and piece.strip()] or [marked])
        if self.rng.random() < 0.15:  # forms with other marks
            marked = marked.translate({ord("，"): self.pick(", 、"), ord("\n"): self.pick((" ", "  ", "；"))})
        pieces: list[tuple[str, str]] = []
        end = 0
        for mark in _SLOT.finditer(marked):
            pieces.append((marked[end : mark.start()], ""))
            pieces.append(self._like(mark[1], mark[2] or ""))
            end = mark.end()
        return _line([*pieces, (marked[end:], "")])

    def _like(self, kind: str, value: str) -> tuple[str, str]:
        if kind == "name":
            if self.rng.random() < _HIDDEN:
                return "〔姓名〕", ""
            is_kept = self.names_kept > 0 and self.rng.random() < self.names_kept
            return value if is_kept else self._name_like(value), "name"
        is_kept = self.rng.random() < _KEPT
        if kind == "address":
            return value if is_kept else (self.town() if len(value) <= 5 else self.address()), "address"
        draw = {"hospital": self.hospital, "school": self.school, "employer": self.employer}.get(kind)
        if draw:
            return value if is_kept else draw(), "institution"
        if kind == "record":
            if self.rng.random() < 0.1:
                return "〔编号〕", ""
            return self.number() if self.rng.random() < 0.25 and len(value) > 4 else self.same_shape(value), "record"
        if kind == "landline" and sum(map(str.isdigit, value)) <= 6:  # inside a house: 束伟（8855）
            return self.same_shape(value), "record"
        if kind in _OTHER_NUMBERS:
            return "〔编号〕", ""
        return value, ""

    def _name_like(self, value: str) -> str:
        """Return a name of the kind of another: a word, a surname alone, a Latin one, a nickname, one with blanks."""
        if value in self.labelled_words and self.rng.random() < _WORD_STAYS_WORD:
            return self.pick(self.labelled_words)
        if len(value) == 1:
            return self.surname()
        if len(value) == 2 and (value[0] == value[1] or not names.SURNAMES.issuperset(value[0])):  # 婷婷, 建军
            return self.nickname() if self.rng.random() < 0.5 else self.called()
        if re.match("[A-Z]", value):
            name = self.latin()
            return name.upper() if value.isupper() else name
        if value[0] in "老小阿" or value[-1] in "总叔伯婶嫂爷头太妈哥姐":
            return self.nickname()
        if "·" in value:
            return self.minority() if self.rng.random() < 0.8 else self.foreign()
        if " " in value and len(value) < 8:
            return self.pick((" ", "  ", "　")).join((self.surname() + self.given())[:4])
        return self.person()

    def same_shape(self, value: str) -> str:
        """Return a number with other digits and letters, in the shape of one that was written: ZY00452187, 加3床."""
        rng = self.rng
        return "".join(
            rng.choice("0123456789")
            if one.isdigit()
            else rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZ")
            if "A" <= one <= "Z"
            else one
            for one in value
        )

    def _in_sentence(self) -> Line:
        """Return a real sentence with a person at its beginning, behind a mark or at its end."""
        sentence = self.pick(self.source.sentences)
        marks = [mark.end() for mark in re.finditer("[，。；]", sentence[:-1])]
        left, right = self.pick(contexts.LEFT), self.pick(contexts.RIGHT)
        name = self._value(self.pick("NNNNNNFKKLG") if left.strip() and left not in "（【@“、/-：" else "N")
        place = self.pick([str(mark) for mark in [0, *marks]])
        if name[1] and right == "" and len(name[0]) == 1:
            right = self.pick(names.HONORIFICS["clinic"])
        first = sentence[: int(place)]
        rest = sentence[int(place) :]
        joint = self.pick(("，", "，", "：", "", " ")) if rest and right else self.pick(("，", "：", " "))
        return _line([(first + left, ""), name, (right + joint + rest, "")])

    # --- names

    def surname(self) -> str:
        """Return a surname: half of them by frequency, others any, some of two characters."""
        chance = self.rng.random()
        if chance < 0.5:
            rank = int(len(names.FREQUENT_SURNAMES) ** self.rng.random()) - 1
            return (
                names.FREQUENT_SURNAMES[rank + int(self.rng.random() * 3)]
                if rank < 90
                else self.pick(names.FREQUENT_SURNAMES)
            )
        if chance < 0.54:
            return self.pick(names.SURNAMES_THAT_ARE_WORDS)
        return self.pick(names.OTHER_SURNAMES) if chance < 0.93 else self.pick(names.COMPOUNDS)

    def surname_alone(self) -> str:
        """Return a surname for a place that tells it by itself, where some people have one that no table holds."""
        return self.any_character() if self.rng.random() < 0.1 else self.surname()

    def given(self) -> str:
        """Return a given name of one or two characters, of one period, with some rare characters."""
        rng = self.rng
        table = names.GIVEN_BY_PERIOD[self.pick(tuple(names.GIVEN_BY_PERIOD))]
        length = 1 if rng.random() < 0.42 else 2
        characters = []
        for _ in range(length):
            chance = rng.random()
            if chance < 0.48:
                characters.append(table[int(len(table) * rng.random() ** 1.3)])
            elif chance < 0.78:
                characters.append(self.pick(names.RARE_GIVEN))
            elif chance < 0.85:
                characters.append(self.pick(names.ODD_GIVEN))
            elif chance < 0.94:
                characters.append(self.any_character())
            else:
                characters.append(self.pick(names.OTHER_SURNAMES))
        if length == 2 and rng.random() < 0.05:
            characters[1] = characters[0]
        return "".join(characters)

    def any_character(self) -> str:
        """Return a character of real text: what surrounds a name has to count more than its characters."""
        for character in self.pick(self.source.sentences):
            if "\u4e00" <= character <= "\u9fff" and self.rng.random() < 0.2:
                return character
        return self.pick(names.ODD_GIVEN)

    def chinese(self) -> str:
        """Return a surname with a given name; some are words, some have two surnames or blanks."""
        chance = self.rng.random()
        if chance < 0.045:
            return self.pick(names.WORDS_AS_NAMES)
        if chance < 0.065:
            return self.pick(names.CALLED_BY_WORDS)
        if chance < 0.09:
            return self.pick(self.words)
        # now and then the first character is in no table of surnames, so that context counts
        name = (self.any_character() if self.rng.random() < 0.03 else self.surname()) + self.given()
        if chance < 0.105:
            return self.surname() + name
        if chance < 0.13:
            return self.pick((" ", "  ", "　")).join(name) if len(name) < 4 else name
        if chance < 0.135:
            return name[0] + self.pick(("某", "某某", "×", "**", "*")) + (name[2:] if self.rng.random() < 0.3 else "")
        return name

    def person(self) -> str:
        """Return the whole name of a person of any people."""
        chance = self.rng.random()
        if chance < 0.815:
            return self.chinese()
        if chance < 0.915:
            return self.minority()
        if chance < 0.945:
            return self.foreign()
        return self.latin() if chance < 0.96 else self.nickname()

    def minority(self) -> str:
        """Return a name of a Uyghur, Kazakh, Mongol, Tibetan, Yi or Korean."""
        kind = int(self.rng.random() * 6)
        if kind == 5:
            return self.pick("金朴李崔全韩") + self.pick(names.KOREAN_GIVEN)
        table = (names.UYGHUR, names.KAZAKH, names.MONGOL, names.TIBETAN, names.YI)[kind]
        first, last = self.pick(table), self.pick(table)
        if kind < 2:
            if self.rng.random() < 0.12:
                return first + self.pick(("江", "古丽", "汗", "木", "尼亚孜", "别克"))
            return first + "·" + last if self.rng.random() < 0.5 else first
        if kind == 2:
            return self.pick(("", "", "", "", "", "包", "白", "吴")) + first
        if self.rng.random() < 0.35:
            return first
        return first + last if kind == 3 or self.rng.random() < 0.5 else first + "·" + last

    def foreign(self) -> str:
        """Return a foreign name in Chinese characters."""
        first, last = self.pick(names.TRANSLITERATED), self.pick(names.TRANSLITERATED)
        return first + "·" + last if self.rng.random() < 0.6 else first

    def latin(self) -> str:
        """Return a name in Latin letters or in pinyin."""
        chance = self.rng.random()
        if chance < 0.06:
            return f"{self.pick(names.LATIN_FIRST)} {self.pick(names.LATIN_FIRST)} {self.pick(names.LATIN_LAST)}"
        if chance < 0.09:
            return f"{self.pick('ABCDEFGHJKLMNPRSTW')}. {self.pick(names.LATIN_LAST)}"
        if chance < 0.13:
            return self.pick(names.VIETNAMESE_FIRST) + " " + self.pick(names.VIETNAMESE_REST)
        if chance < 0.16:
            first, article = self.pick(names.LATIN_FIRST), self.pick(("Al-", "El-", "de ", "van ", "Mc", "Mac"))
            return f"{first} {article}{self.pick(names.LATIN_LAST)}"
        if chance < 0.25:
            return self.pick(names.LATIN_FIRST)
        if chance < 0.55:
            return self.pick(names.LATIN_FIRST) + self.pick((" ", " ", " A. ", " J. ")) + self.pick(names.LATIN_LAST)
        surname = self.pick(names.PINYIN_SURNAMES)
        given = "".join(self.pick(names.PINYIN_SYLLABLES) for _ in range(1 + (self.rng.random() < 0.6))).capitalize()
        if len(given) > 4 and self.rng.random() < 0.12:
            given = given[:2] + "-" + given[2:]
        joint = ", " if self.rng.random() < 0.12 else " "
        name = f"{surname}{joint}{given}" if self.rng.random() < 0.6 else f"{given} {surname}"
        if self.rng.random() < 0.3:
            return name.upper()
        return surname if self.rng.random() < 0.1 else name

    def called(self) -> str:
        """Return a given name without its surname: 建军, 海燕."""
        table = names.GIVEN_BY_PERIOD[self.pick(tuple(names.GIVEN_BY_PERIOD))]
        return "".join(table[int(len(table) * self.rng.random() ** 1.3)] for _ in range(2))

    def nickname(self) -> str:
        """Return what people are called: 小王, 老李, 阿珍, 豆豆, 王叔, 陈总."""
        rng = self.rng
        chance = rng.random()
        if chance < 0.14:
            return self.called()
        if chance < 0.21:
            return self.pick(names.CALLED_BY_WORDS)
        if chance < 0.3:
            return self.pick(names.NICKNAMES)
        if chance < 0.5:
            return self.pick("小老阿") + self.surname()
        if chance < 0.6:
            return self.pick("小阿大") + self.pick(names.GIVEN_BY_PERIOD["women"] + names.GIVEN_BY_PERIOD["men"])
        if chance < 0.75:
            return self.pick(names.GIVEN_BY_PERIOD["women"] + names.GIVEN_BY_PERIOD["children"]) * 2
        return self.surname() + self.pick(names.HONORIFICS["kin"] + ("总", "工", "嫂", "老太", "大妈", "叔"))

    def given_alone(self) -> str:
        """Return what the family calls somebody: 建斌, 春妮, 圆圆, 小玉."""
        chance = self.rng.random()
        if chance < 0.5:
            return self.called()
        if chance < 0.7:
            return self.pick(names.GIVEN_BY_PERIOD["women"] + names.GIVEN_BY_PERIOD["children"]) * 2
        if chance < 0.8:
            return self.pick("小阿") + self.pick(names.GIVEN_BY_PERIOD["women"] + names.GIVEN_BY_PERIOD["men"])
        if chance < 0.9:
            return self.pick(names.GIVEN_BY_PERIOD["men"] + names.GIVEN_BY_PERIOD["women"]) + self.pick("子儿妮妹娃宝")
        return self.pick(names.NICKNAMES)

    # --- places

    def place_name(self) -> str:
        """Return the name of a village, a road or a house without its level."""
        if self.rng.random() < 0.4:
            return self.pick(places.STREET_PIECES)
        return "".join(self.pick(places.PLACE_CHARACTERS) for _ in range(2 + (self.rng.random() < 0.25)))

    def city(self) -> str:
        """Return a city, mostly with its level."""
        return self.pick(places.CITIES) + ("市" if self.rng.random() < 0.75 else "")

    def town(self) -> str:
        """Return a wide place: 湖北宜昌, 长阳县, 深圳."""
        chance = self.rng.random()
        if chance < 0.04:
            return self.pick(places.ABROAD)
        if chance < 0.3:
            return self.pick(places.CITIES)
        if chance < 0.5:
            return self.city() + self.pick(places.DISTRICTS + places.COUNTIES)
        if chance < 0.7:
            return self.pick(places.COUNTIES)
        if chance < 0.85:
            return self.pick(places.PROVINCES).removesuffix("省") + self.city()
        return self.pick(places.CITIES) + self.place_name() + self.pick("镇乡")

    def door(self) -> str:
        """Return a house and a door: 28号3栋2单元501室."""
        rng = self.rng
        pieces = [
            str(rng.randint(1, 999)) + self.pick(("号", "号", "号", "弄", "号院", "号附1号"))
            if rng.random() < 0.8
            else ""
        ]
        if rng.random() < 0.4:
            pieces.append(self.place_name() + self.pick(places.COMMUNITY_ENDS))
        if rng.random() < 0.5:
            pieces.append(str(rng.randint(1, 40)) + self.pick(("栋", "幢", "号楼", "座", "-")))
            pieces.append(
                self.pick(("", "1单元", "2单元", "3-"))
                + str(rng.randint(1, 33) * 100 + rng.randint(1, 8))
                + self.pick(("室", "", "房", "号"))
            )
        return "".join(pieces)

    def address(self) -> str:
        """Return an address from province to door, with some levels left out."""
        rng = self.rng
        wide = ""
        if rng.random() < 0.45:
            wide += self.pick(places.PROVINCES)
        if rng.random() < 0.65 and not wide.startswith(("北京", "上海", "天津", "重庆")):
            wide += self.city()
        chance = rng.random()
        if chance < 0.08:  # as somebody says it on the telephone
            count = self.pick("一二三四五六七八九十") + self.pick(("", "", "十", "十二"))
            block = self.pick(("区", "号院", "号楼", "栋", "期", "组", "弄"))
            return (
                self.place_name()
                + self.pick(("里", "小区", "村", "新村", "花园", "路"))
                + count
                + block
                + self.pick(("", "", "三单元", "二零一", "五楼", "十六号楼", "四零二"))
            )
        if chance < 0.16:
            return self.part_of_address()
        if chance < 0.4:  # a town
            district = self.pick(places.DISTRICTS) if rng.random() < 0.7 else self.pick(places.COUNTIES)
            street = self.place_name() + self.pick(("街道", "镇", "街道办事处")) if rng.random() < 0.35 else ""
            return wide + district + street + self.place_name() + self.pick(places.ROAD_ENDS) + self.door()
        if chance < 0.7:  # a village
            county = self.pick(places.COUNTIES)
            group = self.pick(("", "", "三组", "5组", "二队", "12号", "六社", "一组18号", "村民小组"))
            return wide + county + self.place_name() + self.pick("镇镇镇乡") + (
                self.place_name() + self.pick(places.VILLAGE_ENDS) + group if rng.random() < 0.8 else ""
            )  # fmt: skip
        if chance < 0.8:
            near = self.pick(("附近", "旁边", "对面", "东侧", "交叉口", "门口", "北门", "楼下", "交汇处"))
            road = self.place_name() + self.pick(places.ROAD_ENDS)
            other = "与" + self.place_name() + "路" if rng.random() < 0.4 else ""
            return (wide if rng.random() < 0.5 else "") + road + other + near
        if chance < 0.9:
            return self.place_name() + self.pick(places.ROAD_ENDS) + self.door()
        return (wide or self.town()) + (
            self.place_name() + self.pick(("街道", "社区", "镇", "村")) if rng.random() < 0.6 else ""
        )

    def part_of_address(self) -> str:
        """Return what is enough for those who know the place: 锦绣花园东门, 11栋, G60沪昆高速K1128+400."""
        rng = self.rng
        motorway = f"G{rng.randint(1, 90)}{self.pick(('', '沪昆', '京港澳', '沪蓉', '连霍'))}高速"
        return self.pick(
            (
                self.place_name() + self.pick(places.COMMUNITY_ENDS) + self.pick(("东门", "西门", "南门", "门口", "")),
                f"{rng.randint(1, 30)}{self.pick(('栋', '号楼', '幢'))}{self.pick(('', '', '2单元', '1002'))}",
                f"{self.place_name()}{self.pick('东西南北一二三')}街与{self.place_name()}大道交叉口",
                f"{motorway}K{rng.randint(1, 2000)}+{rng.randint(1, 9)}00",
                self.place_name()
                + self.pick(("工地", "新城工地", "菜市场", "老屋", "水库", "码头", "加油站", "收费站")),
                f"{self.city()}{self.place_name()}{self.pick(places.ROAD_ENDS)}{rng.randint(1, 999)}号门诊楼2层",
            )
        )

    def half_address(self) -> str:
        """Return a place as people name it: 东莞厚街, 沭阳县贤官镇, 御景湾7-1602, 宝龙广场三楼火锅店, 青年路."""
        rng = self.rng
        chance = rng.random()
        if chance < 0.2:
            return self.pick(places.CITIES) + self.place_name()
        if chance < 0.35:
            return self.pick(places.COUNTIES) + self.place_name() + self.pick(("镇", "乡", "街道", "村", ""))
        if chance < 0.5:
            house = f"{rng.randint(1, 30)}-{rng.randint(1, 33) * 100 + rng.randint(1, 8)}"
            return (
                self.place_name()
                + self.pick(("湾", "府", "苑", "园", "城", "里", "新村"))
                + self.pick((house, "", "A3区"))
            )
        if chance < 0.65:
            floor = self.pick(("", "", "一楼", "三楼", "负一层"))
            shop = self.pick(("火锅店", "超市", "健身房", "网吧", "药店", "停车场", "地铁站", "菜场"))
            return self.place_name() + self.pick(("广场", "大厦", "路", "商城", "中路")) + floor + shop
        if chance < 0.8:
            return self.place_name() + self.pick(("路", "街", "门", "街道", "社区", "大桥", "公园"))
        return self.part_of_address() if chance < 0.9 else self.pick(places.ABROAD)

    def hospital(self) -> str:
        """Return the name of a hospital."""
        chance = self.rng.random()
        if chance < 0.2:
            return self.pick(places.SHORT_HOSPITALS)
        if chance < 0.35:
            return self.pick(places.UNIVERSITIES) + self.pick(places.UNIVERSITY_HOSPITALS)
        return self.pick(
            (self.city(), self.town(), self.pick(places.COUNTIES) + self.place_name() + "镇", "")
        ) + self.pick(places.HOSPITAL_KINDS)

    def school(self) -> str:
        """Return the name of a school."""
        if self.rng.random() < 0.4:
            return self.pick(places.UNIVERSITIES)
        return self.pick((self.city(), self.pick(places.COUNTIES), "", self.place_name())) + self.pick(
            places.SCHOOL_KINDS
        )

    def employer(self) -> str:
        """Return the name of a firm or an office."""
        firm = "".join(self.pick(places.COMPANY_PIECES) for _ in range(2))
        return (
            self.pick((self.city(), self.pick(places.CITIES), ""))
            + firm
            + self.pick(("", self.pick(places.TRADES)))
            + self.pick(places.COMPANY_KINDS)
        )

    # --- others

    def number(self) -> str:
        """Return a number of a paper: 20190871, ZY0012345, P22-07815, R-0331."""
        rng = self.rng
        digits = [self.digits(rng.randint(5, 12)), self.digits(rng.randint(3, 8))]
        letters = "".join(rng.choices("ABCDEFGHJKLMNPQRSTUVWXYZ", k=rng.randint(1, 4)))
        chance = rng.random()
        if chance < 0.1:
            year = f"{rng.randint(18, 25)}"
            return self.pick(
                (
                    f"{self.pick('门急住外内妇儿特')}{digits[0]}",
                    f"{year}-{digits[1]}",
                    f"20{year}-{self.digits(4)}-{self.digits(2)}",
                    f"{letters}{year}{self.digits(4)}-{self.digits(2)}",
                    f"{letters}-{digits[1]}-{self.digits(2)}",
                    f"{self.digits(4)}-{self.digits(4)}-{self.digits(5)}",
                    f"{self.digits(4)} {self.digits(4)}",
                    f"〔20{year}〕{self.digits(3)}" if rng.random() < 0.1 else f"{letters}20{year}-{self.digits(3)}",
                )
            )
        if chance < 0.5:
            return digits[0]
        if chance < 0.7:
            return letters + digits[0]
        if chance < 0.8:
            return letters + digits[1] + "-" + self.digits(rng.randint(2, 5))
        if chance < 0.9:
            return letters + "-" + digits[1]
        return f"{digits[1]}-{self.digits(rng.randint(2, 4))}" if chance < 0.95 else digits[0] + letters

    def digits(self, length: int) -> str:
        """Return some digits."""
        return "".join(self.rng.choices("0123456789", k=length))

    def bed(self) -> str:
        """Return a bed: 23床, 加3床, 5-12床."""
        number = str(self.rng.randint(1, 60))
        before = ("", "", "", "", "", "", "加", "+", f"{self.rng.randint(1, 9)}-", self.pick(places.BED_ROOMS))
        return self.pick(before) + number + "床"

    def bed_number(self) -> str:
        """Return the number of a bed without the word: 23, +3, ICU-05, 12-3."""
        number = str(self.rng.randint(1, 60))
        before = ("", "", "", "", "", "加", "+", "0", f"{self.rng.randint(1, 30)}-", self.pick(places.BED_ROOMS))
        return self.pick(before) + number

    def date(self) -> str:
        """Return a date in one of many forms."""
        rng = self.rng
        year, month, day = rng.randint(2010, 2025), rng.randint(1, 12), rng.randint(1, 28)
        return self.pick(
            (
                f"{year}年{month}月{day}日", f"{year}-{month:02}-{day:02}",
                f"{month}月{day}日",
                f"{year}.{month}.{day}", f"{month}-{day}", f"{year}/{month}/{day}",
                "昨日", "今晨", "今日", "当日", "次日",
            )
        )  # fmt: skip


def _words_like_names(sentences: Sequence[str]) -> Sequence[str]:
    """Return words of two characters that begin with a surname, such as 平原, 左右: people are called anything."""
    found = {word for sentence in sentences[::25] for word in rjieba.cut(sentence, False)}
    return sorted(word for word in found if len(word) == 2 and word[0] in names.SURNAMES) or names.WORDS_AS_NAMES


def _called_by_words(labelled: Sequence[str]) -> Sequence[str]:
    """Return the names of labelled lines that are words: 厚道, 竹叶, 季节."""
    found = {mark[2] or "" for line in labelled for mark in _SLOT.finditer(line) if mark[1] == "name"}
    return sorted(name for name in found if len(name) > 1 and _HAN.fullmatch(name) and _is_word(name))


def _is_word(name: str) -> bool:
    """Return True for a word of the dictionary that it does not hold as a name, such as 王建国."""
    tagged = rjieba.tag(name, False)
    return len(tagged) == 1 and not tagged[0][1].startswith("nr")


def _abbreviations(sentences: Sequence[str]) -> Sequence[str]:
    """Return Latin words of real text, such as SBP, JAK2, BCR-ABL."""
    return sorted({word for sentence in sentences[::3] for word in _ABBREVIATION.findall(sentence)}) or ["CT"]


def _phrases(sentences: Sequence[str]) -> Sequence[str]:
    """Return the beginnings of clauses of real text, of two to five characters: 眼轴, 站立位全长."""
    clauses = (clause for sentence in sentences[::5] for clause in _HAN.findall(sentence))
    return sorted({clause for clause in clauses if 2 <= len(clause) <= 5}) or ["眼轴"]


def _line(pieces: Sequence[tuple[str, str]]) -> Line:
    text, spans = "", []
    for piece, kind in pieces:
        if kind and piece:
            spans.append((len(text), len(text) + len(piece), kind))
        text += piece
    return Line(text, tuple(spans))
