"""Names that are words too, or words with a surname in front, where what stands around them leaves no other reading.

Behind 患者之夫 and before a mobile number, 古今 is a person. So is what stands between 巡回护士 and a comma, between a
number and a sex (D77120;苏打;男), or before 敬上. Each reader looks at a bounded stretch around its cue.
"""

from __future__ import annotations

import re

import rjieba

from tasks.deidentify.forms.identifier import Span
from tasks.deidentify.forms.names import LATIN_WORD, SURNAMES_BESIDE_DATA, is_nobody, surname_length
from tasks.deidentify.forms.numbers import is_date
from tasks.deidentify.forms.places import words
from tasks.deidentify.forms.role_fields import is_answer

_HAN = "\u4e00-\u9fff"
MOBILE = r"(?:(?:\+?(?:00)?86[ \-]?)?1[3-9]\d[ \-]?[\d*]{2,4}[ \-]?[\d*]{2,4}|〔(?:手机号|〓{8,})〕)"
"""Pattern of a mobile number, which may be found or replaced already."""
_KIN = (
    "[长次幼大小其之三四]?(?:儿子|女儿|妻子|丈夫|父亲|母亲|配偶|爱人|子|女|妻|夫|父|母|兄|弟|姐|妹|侄|孙|儿媳|女婿|外甥女?"
    "|[表堂][兄弟姐妹哥])|朋友|同事|邻居|监护人"
)

# matches: "155 3711 9046", "（138 0013 8000", "(长子)", "（其妻，", "先生"
# not: "，", "(左)", "155次"
_OF_A_PERSON = re.compile(
    rf"\s?[（(]?\s?(?:(?:手机号?|电话|联系电话)[：:]?\s?)?{MOBILE}|[（(](?:{_KIN})[）)，,、]|先生(?!们)|女士(?!们)"
)
_NO_NAMES = frozenset(
    words(
        "母亲 母女 母子 祖母 祖父 师傅 师母 师兄 师弟 师姐 师妹 公司 公安 公婆 官方 房东 单位 门诊 门卫 党员 海外 国外 "
        "宁波 万一 车主 车队 司机 时间 平时 平日 常用 应急 临时 连同 相关 全家 全体 全科 支书 管家 于是 任何 容易 那个 "
        "余下 方便 明天 周一 周二 周三 周四 周五 周六 周日 周末 从未 向其 和其 和他 向他 时任 曾任 解释 查询 计生 祝愿 "
        "水电 国内 何时 应该 甘肃 云南 海南 河南 江苏 江西 安徽 吉林 宁夏 广东 广州"
    )
)
"""Words behind a relation or a role that may stand before a telephone, too."""


def _surname_of(text: str, at: int) -> int:
    """Return `surname_length`, and 1 for surnames that elsewhere are words of a sentence."""
    return surname_length(text, at) or int(text[at : at + 1] in SURNAMES_BESIDE_DATA)


def _is_whole(name: str) -> bool:
    """Return whether a word is a surname and one or two characters more."""
    surname = _surname_of(name, 0)
    return bool(surname) and 1 <= len(name) - surname <= 2


def person_end(text: str, start: int) -> int | None:
    """Return the end of a name before a mobile number, a relation in brackets or 先生: 古今155 3711, 严守一(长子)."""
    surname = _surname_of(text, start)
    if not surname:
        return None
    for length in (2, 1):
        end = start + surname + length
        name = text[start:end]
        if _ALL_HAN.fullmatch(name) and _OF_A_PERSON.match(text, end):
            return None if name in _NO_NAMES or is_nobody(name) or _NO_PART.search(name) else end
    return None


def person_directly(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The name directly behind a role, as `person_end` finds it: 家长农民先生."""
    stop = person_end(text, end)
    return [(end, stop)] if stop is not None else []


# matches: "古今"
# not: "古1"
_ALL_HAN = re.compile(rf"[{_HAN}]{{2,4}}")
# matches: "于是的"
# not: "严守一"
_NO_PART = re.compile("[的了在因无不为有是及与]|本人|电话|手机|联系")
# matches: "和平，", "计划因"
# not: "和平路上的车"
_TO_A_MARK = re.compile(rf"[{_HAN}]{{2,4}}?(?=[，,。；;、\s)）]|因(?![此而为])|$)")
_ROLES = frozenset(
    words(
        "巡回护士 器械护士 洗手护士 麻醉医师 麻醉医生 手术医师 手术医生 主刀医生 主刀医师 第一助手 第二助手 诊断医师 "
        "报告医师 审核医师 取材医师 检查医师 责任医师 审核药师 检查技师 借款人 付款人 交款人 缴费人 缴款人 代缴人 "
        "代办人 司机签字 医师签字 医生签字 护士签字 操作员签字 经办人签字 "
        "受益人 投保人 被保险人 出险人 收款人 报案人 报警人 委托人 受托人"
    )
)
"""Roles in which nothing but a name stands between them and a mark."""


def role_word_end(text: str, start: int, role: str) -> int | None:
    """Return the end of a word behind a role that fills the place up to a mark: 巡回护士和平,. It is no verb."""
    filled = _TO_A_MARK.match(text, start) if role in _ROLES else None
    if filled is None or not _is_whole(filled[0]):
        return None
    name = filled[0]
    if name in _NO_NAMES or is_nobody(name) or is_answer(name) or _NO_PART.search(name):
        return None
    return None if any(tag[0] in "vdpcrmfu" for _, tag in rjieba.tag(name, False)) else filled.end()


# matches: "乌兰托娅性别"
# not: "，"
_BEFORE_A_LABEL = re.compile(
    rf"[{_HAN}]{{2,8}}?(?=性别|年龄|民族|出生|身份证|住址|住院号|病案号|床号|籍贯|职业|联系电话|电话|手机)"
)
# matches: "安定国,"
# not: "安定国说"
_BEFORE_A_MARK = re.compile(rf"[{_HAN}]{{3,4}}(?=[，,；;])")
# matches: "错误", "核对一致", "不详"
# not: "乌兰托娅"
_ABOUT_NAMES = re.compile("[的了和与及或是有无不未同]|核对|错误|一致|相符|信息|缩写|拼音|首字母|栏|等")


def label_name_end(text: str, start: int) -> int | None:
    """Return the end of the name directly behind 姓名: before the next label or, with a surname, before a mark."""
    filled = _BEFORE_A_LABEL.match(text, start)
    if filled is None:
        filled = _BEFORE_A_MARK.match(text, start) if _surname_of(text, start) else None
        if filled and (len(filled[0]) - _surname_of(text, start) > 2 or rjieba.has_word(filled[0])):
            return None
    if filled is None or is_nobody(filled[0]) or _ABOUT_NAMES.search(filled[0]):
        return None
    return filled.end()


# matches: "D77120;苏打;", "|00458213|白雪|"
# not: "，腹痛，"
_COLUMN_BEFORE = re.compile(
    rf"(?P<code>[A-Za-z0-9\-]{{4,20}}|[〕〓])(?P<mark>[;；|/｜])\s?(?P<name>[{_HAN}]{{2,4}})\s?(?P=mark)\s?$"
)
# matches: ";5岁", "|46|"
# not: ";高血压"
_AGE_BEHIND = re.compile(r"\s?[;；|/｜]\s?\d{1,3}(?:岁|月|天|Y|\s?[;；|/｜])")


def name_in_a_row(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The name between a number and a sex with an age behind it, in a row with marks: D77120;苏打;男;5岁."""
    left = max(0, start - 30)
    row = _COLUMN_BEFORE.search(text[left:start])
    if row is None or not _AGE_BEHIND.match(text, end) or left + row.start("name") < free_from:
        return []
    is_code = row["code"] in "〕〓" or (any(map(str.isdigit, row["code"])) and not is_date(row["code"]))
    if not is_code or not _is_whole(row["name"]):
        return []
    return [(left + row.start("name"), left + row.end("name"))]


# matches: "医院 丰收 ", "，王芳", "科　欧阳锋"
# not: "我们敬请丰收"
_LAST_FIELD = re.compile(rf"(?:^|[\s，,。：:〕])(?P<name>[{_HAN}]{{2,4}})[ \u3000]{{0,2}}$")


def name_of_a_letter(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The name that signs a letter: 某市第二医院 丰收 敬上."""
    left = max(free_from, start - 10)
    field = _LAST_FIELD.search(text[left:start])
    if field is None or not _is_whole(field["name"]) or is_nobody(field["name"]):
        return []
    return [(left + field.start("name"), left + field.end("name"))]


# matches: "(真是姓党名参),15929760088", "：138 0013 8000"
# not: "，13次", "到"
_MOBILE_BEHIND = re.compile(
    rf"(?:[（(][^（）()\n]{{0,12}}[）)])?[\s，,：:。；;]{{0,2}}(?:电话|手机|手机号)?[：:]?\s?{MOBILE}"
)
# matches: " 党参", "，王芳"
# not: "请本人亲自", "已经全部收"
_RECEIVER = re.compile(rf"(?:^|[\s，,；;。：:0-9室号）)〕])(?P<name>[{_HAN}]{{2,4}})$")


def receiver(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The name of who receives a parcel, before 收 and a mobile number: 党参收,15929760088."""
    if not _MOBILE_BEHIND.match(text, end):
        return []
    left = max(free_from, start - 6)
    field = _RECEIVER.search(text[left:start])
    if field is None or not _is_whole(field["name"]):
        return []
    name = field["name"]
    if name in _NO_NAMES or is_nobody(name) or is_answer(name):
        return []
    return [(left + field.start("name"), left + field.end("name"))]


# matches: "3号窗口", "12号诊室"
# not: "3号"
_WINDOW_BEHIND = re.compile("[0-9]{1,3}号(?:窗口?|诊[室台间区]|柜台|检查室|采血|台)")
# matches: "请安静", "请王小明（128号）"
# not: "请您"
_CALLED_UP = re.compile(rf"请(?P<name>[{_HAN}]{{2,4}})(?:[（(][^（）()\n]{{1,10}}[）)])?$")


def called_up(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The name that a loudspeaker calls to a window: 请安静到3号窗口取药."""
    if not _WINDOW_BEHIND.match(text, end):
        return []
    left = max(free_from, start - 18)
    call = _CALLED_UP.search(text[left:start])
    if call is None or not _is_whole(call["name"]):
        return []
    if call["name"] in _NO_NAMES or is_nobody(call["name"]) or _NO_PART.search(call["name"]):
        return []
    return [(left + call.start("name"), left + call.end("name"))]


# matches: "接康健", "，盛夏", "@平安"
# not: "很高兴"
_WORD_BEFORE = re.compile(rf"(?:^|[找请接问约系挂谢转让有跟和]|[^{_HAN}A-Za-z0-9])(?P<name>[{_HAN}]{{2}})$")
_TAGS_OF_NAMES = ("a", "an", "nr", "nz", "t", "z")
_BEFORE_TITLES = frozenset(
    words(
        "谢谢 麻烦 麻醉 严格 普通 舒服 高级 高端 普外 全科 康复 周末 平时 平日 夏季 冬季 相关 单独 华西 明白 高明 "
        "普内 干部 常驻 常务 应届 晏然 安全 全职 成熟 强大 温和 严厉 和蔼 和善 全能 伟大 高龄 平均 明天 时下 祖传 "
        "易感 花心 满意 万能 宣传 充分 公正 公平 公开 明确 高度 于是"
    )
)
"""Words of such classes that stand before titles and are no names."""


def word_before_title(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The name before a title that is a word, and says nothing about a doctor: 已为您转接康健医生."""
    left = max(free_from, start - 3)
    before = _WORD_BEFORE.search(text[left:start])
    if before is None or not _surname_of(before["name"], 0) or before["name"] in _BEFORE_TITLES:
        return []
    tags = rjieba.tag(before["name"], False)
    return [(start - 2, start)] if len(tags) == 1 and tags[0][1] in _TAGS_OF_NAMES else []


# matches: ":", "，", "〕", "者"
# not: "于", "*"
_BEFORE_SURNAME = re.compile(rf"[^{_HAN}A-Za-z0-9*＊×]|[是由人者]")


def masked_name(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A surname alone behind a mark, with the signs that hide the rest: 签字为证:元××."""
    begin = start - (2 if _surname_of(text, max(0, start - 2)) == 2 else 1)
    if begin < free_from or _surname_of(text, begin) != start - begin:
        return []
    if begin and not _BEFORE_SURNAME.match(text[begin - 1]):
        return []
    return [] if _GOES_ON.match(text, end) else [(begin, end)]


# matches: "医院", "*", "5"
# not: "，", "男", "签"
_GOES_ON = re.compile(rf"(?![男女签诉因同先])[{_HAN}A-Za-z0-9*＊×]")
# matches: "Malee缴费"
# not: "CT"
_LATIN_PAYER = re.compile(rf"(?P<name>{LATIN_WORD}(?: {LATIN_WORD}){{0,2}})(?=缴|取|签|办|挂|付|领|交|预约|报)")


def latin_for_whom(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A Latin name between 替 and what is done for this person: 替Malee缴费."""
    match = _LATIN_PAYER.match(text, end)
    return [match.span("name")] if match else []


# matches: "\nZhou Q 2:14 ", "Kevin 10:05 "
# not: "at 2:14 "
_CHAT_HEADER = re.compile(
    r"(?:^|\n)(?P<name>[A-Z][a-z]{1,14}(?: (?:[A-Z][a-z]{0,14}|[A-Z]\.)){0,2}) \d{1,2}:\d\d(?::\d\d)? ?$"
)
_NO_SPEAKERS = frozenset(words("Day Date Time At On From To Today Yesterday Monday Tuesday Wednesday Thursday Friday"))


def chat_header(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The Latin name that begins a message of a chat, with its time: Zhou Q 2:14 AM."""
    left = max(free_from, start - 50)
    header = _CHAT_HEADER.search(text[left:start])
    if header is None or header["name"] in _NO_SPEAKERS or (left and header.start() == 0 and text[left] != "\n"):
        return []
    return [(left + header.start("name"), left + header.end("name"))]


# matches: "，石", "找易", "@李"
# not: "在职", "施施"
_VOCATIVE = re.compile(rf"(?:^|[\s，,。：:@！!？?]|[找问请让叫])(?P<name>[{_HAN}])$")


def engineer(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A surname before 工 as people call an engineer: 石工,呼吸机自检不过."""
    left = max(free_from, start - 2)
    call = _VOCATIVE.search(text[left:start])
    if call is None or not _surname_of(call["name"], 0) or call["name"] in "施单全华农公":
        return []
    return [(start - 1, start)]


# matches: " zhoumin", "：yangjie_sn", "=huangyuting", "jiangtao"
# not: "：Zhou", " admin@"
_LOGIN = re.compile(r"[：:= ]{0,2}(?P<value>(?P<name>[a-z]{4,20})(?:[_.][a-z0-9]{1,10})?\d{0,6})(?![A-Za-z0-9@._\-])")
_FINAL = (
    "(?:iang|iong|uang|ang|eng|ing|ong|ian|iao|uai|uan|ai|ei|ao|ou|an|en|in|un|ie|ia|iu|ua|uo|ui|ue|er|a|e|i|u|o|v)"
)
"""Final of a syllable: what follows its initial."""
# matches: "zhoumin", "yangjie", "chenxl"
# not: "admin", "excel", "system", "python", "hello"
_PINYIN = re.compile(
    rf"(?P<surname>(?:zh|ch|sh|[bpmfdtnlghjqxrzcsyw]){_FINAL})"
    rf"(?P<given>(?:(?:zh|ch|sh|[bpmfdtnlgkhjqxrzcsyw])?{_FINAL}){{1,2}}|[a-z]{{1,2}})"
)
_SURNAMES_IN_PINYIN = frozenset(
    words(
        "li wang zhang liu chen yang zhao huang zhou wu xu sun hu zhu gao lin he guo ma luo liang song zheng xie "
        "han tang feng yu dong xiao cheng cao yuan deng fu shen zeng peng lv lu su jiang cai jia ding wei xue ye "
        "yan pan du dai xia zhong tian ren fan fang shi yao tan liao zou xiong jin hao kong bai cui kang mao qiu "
        "qin gu hou shao meng long wan duan lei qian yin chang qiao lai gong wen pang fei ji zhuang lan ge niu ruan "
        "tong miao ou nie ke zuo"
    )
)


def pinyin_login(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """The login of a member of staff in pinyin behind a role: 经办 zhoumin, user=yangjie_sn."""
    login = _LOGIN.match(text, end)
    if login is None or (text[start].isascii() and text[start - 1 : start].isalnum() and text[start - 1].isascii()):
        return []
    name = _PINYIN.fullmatch(login["name"])
    return [login.span("value")] if name and name["surname"] in _SURNAMES_IN_PINYIN else []


# matches: "，李", "床刘", "问王", "@高", "亏祁"
# not: "大小", "告诉"
_BEFORE_KIN = re.compile(rf"(?:^|[^{_HAN}A-Za-z]|[床找问请让给跟叫谢和由被亏替])(?P<name>[{_HAN}])$")
_NO_KIN = frozenset("和有于向从同时连应安常单方全平简明那")
"""Surnames that before 姐 or 妈妈 are more often words."""
# matches: "妹", "们", "弟"
# not: "，", "抱"
_OF_MANY = re.compile("[妹弟夫们嫂庄村]")


def called_as_kin(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A surname with a word of kin, as people call one another: 李姐, 刘老汉, 高妈妈."""
    before = _BEFORE_KIN.search(text, max(free_from, start - 3), start)
    if before is None or before["name"] in _NO_KIN or not surname_length(before["name"], 0):
        return []
    if before["name"] == "周" and text[start] in "二三四五六":
        return []  # 周三叔叔来接
    return [] if _OF_MANY.match(text, end) else [(start - 1, end)]


# matches: "我是苗苗", "，朵朵", "已告知轩轩"
# not: "星朵朵", "朵朵，"
_DOUBLED = re.compile(rf"(?:^|[^{_HAN}A-Za-z]|[是叫找问请让给跟喊知求与])(?P<name>([{_HAN}])\2)$")
_NO_DOUBLED = frozenset(
    words(
        "爸爸 妈妈 爷爷 奶奶 姥姥 姐姐 哥哥 弟弟 妹妹 叔叔 舅舅 姑姑 伯伯 婶婶 公公 婆婆 太太 宝宝 娃娃 "
        "谢谢 看看 问问 说说 听听 想想 试试 等等 找找 抱抱 亲亲 陪陪 劝劝 帮帮 求求 "
        "常常 天天 往往 刚刚 渐渐 慢慢 仅仅 偏偏 明明 恰恰 好好 早早 多多 人人 个个 各各 每每 家家 和和 晚晚 频频 连连 "
        "处处 时时 事事 老老 大大 小小"
    )
)
"""Doubled characters before 妈妈 that no child is called by, or that may be a verb or an adverb too."""


def doubled_before_kin(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """What a child is called, with a word of kin, as families are called by their child: 朵朵奶奶, 苗苗妈妈."""
    before = _DOUBLED.search(text, max(free_from, start - 3), start)
    return [] if before is None or before["name"] in _NO_DOUBLED else [(start - 2, end)]


SHORT_SURNAMES = (
    "张王李赵刘陈杨周吴徐胡朱何郭罗宋郑谢韩唐冯董萧程曹袁邓傅沈曾彭吕卢蒋蔡贾魏薛阎余潘杜戴汪"
    "姚谭廖邹陆郝崔邱秦顾侯邵孟黎乔贺龚孙"
)
"""Surnames that behind 小 and 老 are nothing else. 小梁 is of the eye, 小叶 of a lung, 小段 of a bowel."""
# matches: "大", "微"
# not: "，", "找"
_SIZE_BEFORE = re.compile("[大从极微较稍略幼瘦矮狭窄缩变偏弱胆娇]$")


def small_or_old(text: str, start: int, end: int, free_from: int) -> list[Span]:
    """A surname behind 小 or 老, as colleagues call one another: 小李在喝药, 老张. Not 老陈醋, 小王子."""
    if text[start : end + 1] == "小孙" or _SIZE_BEFORE.search(text, max(0, start - 1), start):
        return []
    stop = end + 1
    following = text[stop : stop + 1]
    words_of_it = (text[end : stop + 1], text[start : stop + 1], text[end : stop + 2])
    is_word = "\u4e00" <= following <= "\u9fff" and any(map(rjieba.has_word, words_of_it))
    return [] if is_word else [(start, stop)]
