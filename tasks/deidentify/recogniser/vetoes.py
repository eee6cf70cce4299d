"""What stays although the recogniser takes it for an identifier: words of medicine, measured values, what is public."""

from __future__ import annotations

import re

import rjieba

from tasks.deidentify.forms.names import is_nobody, is_stop
from tasks.deidentify.forms.numbers import CATALOGUED, is_date, is_of_a_thing
from tasks.deidentify.forms.places import CITIES, PROVINCES, words
from tasks.deidentify.recogniser.contexts import KIN

# matches: "2023-04", "20230918", "2016.5", "9-10-10"
# not: "201131862"
_DATE = re.compile(
    r"(?:19|20)\d\d[-.年/]?(?:0?[1-9]|1[0-2])(?:[-.月/]?\d{1,2}日?)?|\d{1,2}[-./]\d{1,2}(?:[-./]\d{1,4})?"
)
# matches: "23床", "+17床"
# not: "床"
_BED = re.compile(r"[加+]?[0-9A-Za-z\-]{1,8}床$")
# matches: "rsID:", "基因ID：", "ID ", "文章编号：", "PLT：", "微生物", "chr7:", "60(12): ", "2018;379:"
# not: "住院号：", "(12):", "379:"
_OF_OTHER_THINGS = re.compile(
    r"(?:[A-Za-z\d]ID[：:]?|微生物|序列数?|基因[A-Za-z]*[：:]?|ID|文章编号[：:]?|[0-9]号|伦审第|[A-Z]{2,6}[：:]"
    r"|chr[0-9XYM]{1,2}:|[0-9]\([0-9]{1,3}\):|;[0-9]{1,4}:)[：:\s]{0,2}$"
)
# matches: "张家人", "高三学生"
# not: "张家"
_NOBODY = re.compile(
    "家[人属]$|学生$|医生$|患者$|[病症癌瘤轴码械状]$|加达波$|国械注$|^[低中高极]危$|^年令$|^(?:纯合|杂合|臂展|空腹|餐后|睡前)$|全长$|[一二三四五六七八九十]$|^老爷子$|支付宝|^(?:小夜|大夜|小计|合计|惠顾|图文|续方|温馨|事由|新入|窦律|房律|包吃|呼车|学平险?|微博|幸福|祝[愿福]|将其|滑雪|栗子|文言文|公众号|雪碧|层厚|平车|枕部|商保|占线|白屏|蓝屏|黑屏|艾特|班级|暴雨|病检|依情|丁肝|羊藿|全层|革兰|[工农建交]行|植发|毕竟|范畴|顾名思义|唐诗|达英|毛巾|红茶|米汤|银行卡|培训|尿垫|过寿|全血|献浆|日志|焦点|英文|日文|双语|公里|起付线|疾控|公卫|义诊|索要|涂氟|呼入|承运商|扩容|勾脚|绷脚|噪声|盖章|公章|不良反应|杂志)$|氏[牙征病]$|单抗$"
)


_COUNTRIES = words(
    "马来西亚 孟加拉 孟加拉国 巴基斯坦 哈萨克斯坦 乌兹别克斯坦 吉尔吉斯斯坦 塔吉克斯坦 阿富汗 阿根廷 阿联酋 "
    "埃塞俄比亚 安哥拉 古巴 韩国 柬埔寨 莫桑比克 尼泊尔 尼日利亚 沙特 叙利亚 伊拉克 伊朗 印度 越南 老挝 缅甸 泰国 "
    "蒙古 俄罗斯 加拿大 巴西 美国 英国 法国 德国 日本 荷兰 波兰 芬兰 瑞士 瑞典 挪威 丹麦 希腊 智利 秘鲁 墨西哥 "
    "爱尔兰 新西兰 澳大利亚 新加坡 菲律宾 印尼 印度尼西亚 朝鲜 刚果 南非 奥地利 匈牙利 乌克兰 白俄罗斯 喀麦隆 肯尼亚 "
    "加纳 赞比亚 津巴布韦 苏丹 埃及 土耳其 以色列 约旦 也门 葡萄牙 西班牙 意大利"
)
_WIDE = frozenset((*(name[:2] for name in PROVINCES), "黑龙江", "内蒙古", *_COUNTRIES))
"""Provinces and countries, which are too large for an address."""
_PLACES = frozenset((*CITIES, *_WIDE))
"""Places and countries that begin with surnames, or look like names from abroad, and are no names: 安徽, 马来西亚."""

_RELATIONS = frozenset(
    (
        *KIN,
        *words(
            "孙女 外孙女 堂弟 堂妹 堂姐 表哥 表妹 弟媳 妹夫 伯母 婶婶 姑父 姨妈 姥姥 姥爷 外婆 公婆 宝宝 保姆 月嫂 "
            "护工 警察 民警 司机 路人 老师 主任 老乡 室友 病友"
        ),
    )
)
"""People who are named by what they are to somebody."""
_BEFORE_RELATIONS = frozenset("由让被叫给其他她您你我请把将问和跟随与对向")
"""Words that stand before a person and look like surnames: 由爷爷陪同, 让孙子去拿药."""


# matches: "征(+)", "格费征（+）", "凡他试验", "管均", "腺、"
# not: "，征", "诉头痛"
_OF_A_SIGN = re.compile(
    "[\u4e00-\u9fff]{0,2}?(?:征\\s?[(（、+＋\\-±阳阴]|试验|综合征|反射|三角|染色|氏|评分|分[级期型]|[腺管线体][，,、。；均为(（])"
)
# matches: "奴单抗", "不动杆菌", "伐他汀"
# not: "，霉素", "诉头痛", "服他汀", "感染病毒"
_OF_A_DRUG_OR_GERM = re.compile(
    "(?:(?![服用使口予给停换加改含对因患有的检诉感染者查测])[\u4e00-\u9fff]){0,2}?(?:单抗|替尼|非尼|他汀|沙坦|普利|霉素|西林|沙星|地平|洛尔|拉唑|康唑|夫定|洛韦|西泮|列汀|列净|鲁肽|培南|库铵|太尼"
    "|杆菌|球菌|弧菌|念珠菌|霉菌|曲霉|病毒|螺旋体|支原体|衣原体)"
)
# matches: "达 2.5mg", " 5mg", "10g"
# not: "，10mg", "予阿司匹林100mg"
_DOSE_BEHIND = re.compile(
    r"[\u4e00-\u9fff]{0,2}\s?\d+(?:\.\d+)?\s?(?:mg|μg|ug|g(?![A-Za-z])|ml|mL|片|粒|支|IU|万?U(?![A-Za-z]))"
)
# matches: "EPG ", "克隆号"
# not: "ID ", "住院号"
_VALUE_NAME = re.compile(r"(?:(?<![A-Za-z])(?!ID|MRN|NO|No|CT|MR|US|DR|HIS)[A-Z]{2,6} |克隆号?)$")
# matches: "SBP┃162", "a,b", "4000～11000", "44.37@95", "GRCh38"
# not: "B20-03381", "加3床"
_NO_NUMBER = re.compile("[┃│|｜丨,，→>_～~@]|GRCh")
# matches: "45-125", "48000000", "148000", "384×288", "36.0600x004"
# not: "2023-0417", "20190871", "12-3床"
_RANGE_OR_COUNT = re.compile(r"\d{1,3}-\d{1,3}|[1-9]\d{0,5}0{4,9}|[1-9]\d{0,3}000|[\d.]+[×xX*][\d.]+")
"""Limits of a result, a count of cells, the size of a matrix."""
# matches: "HCG286.4", "CK8600", "HR130", "CA199312", "10000IU", "CA125 88"
# not: "HD0388", "MR0091827", "CK20190871"
_RESULT = re.compile(
    r"[A-Za-z]{1,6}\d{1,5}\.\d{1,3}|\d+(?:\.\d+)?(?:IU|ml|mL|mg|kg|KG|cm|mm)"
    r"|(?:HCG|CK|CKMB|HR|BP|RR|CVP|MAP|WBC|PLT|HB|HGB|RBC|CRP|PCT|ESR|ALT|AST|GGT|ALP|LDH|BNP|CEA|AFP|PSA|TSH|INR|BUN|GFR"
    r"|UA|Cr|TG|LDL|HDL|CA(?:199|125|153|724|242|50))[: ]?\d{1,5}"
)
"""A measured value that is written to its name."""
# matches: "S-100", "T-04000", "M81400/3", "铱-192", "GLI-2012", "MDA-MB-231"
# matches: "miR-4746-5", "LINC00675", "LNC01309", "MGC-803", "AC099850.3", "SW480", "FK506"
# not: "AC20190871", "HT20190871", "MIR", "S-0119", "X-43280", "骨-311"
_CODE_OF_A_THING = re.compile(
    r"(?:hsa-)?(?:mi[Rr]|MIR|let)-?\d{1,5}[a-z]?(?:-\d{1,2}p?)?|(?:LINC|LNC|LOC)-?\d{3,9}|A[CLP]\d{6}\.\d{1,2}"
    r"|(?:MGC|SGC|SMMC|BEL|HCT|HT|SW|MKN|MCF|PANC|FK)-?\d{1,4}|MDA-MB-\d{3}|S-100[AB]?|[GR]-250|[MT]-\d{5}"
    r"|M-?\d{4,5}/\d|[碘钴铯铱锶磷镭镥锝镓氟氙铟钇钐]-\d{2,3}|[A-Z]{2,5}-(?:19|20)\d\d"
)
"""Names of RNA and of lines of cells, FK506, stains, isotopes, codes of SNOMED and ICD-O, guidelines with a year."""
# matches: "国械注", "国药准字", "械注准"
# not: "住院号"
_APPROVED = re.compile(r"(?:械注|药准|卫食|妆)[准字进许]{0,2}$")
# An Oxford and a Montreal classification, for example.
# matches: " M1E1S1T1C1", " A2L3B1p"
# not: " A", " M 36岁"
_OF_A_SCORE = re.compile(r"\s?[A-Z]\d[A-Z]\d")
# A dose behind Dmean and a count behind Reads, for example.
# matches: " 26.3Gy", " 28734561条", " Ⅲ", "带瓣管道", "术"
# not: " 36岁", "，诉头痛"
_OF_A_LATIN_TERM = re.compile(r"\s?(?:\d+\.\d|\d{5,9}[\u4e00-\u9fff]|[ⅠⅡⅢⅣⅤ]|[\u4e00-\u9fff]{0,2}(?:术|瓣))")


# matches: "办医发〔2023〕12号", "医函[2019]"
# not: "鉴〔2023〕12号", "，发〔2023〕"
_OF_A_DOCUMENT = re.compile("[\u4e00-\u9fff]{0,6}[发函令规通][〔\\[](?:19|20)[0-9]{2}[〕\\]]")
"""The rest of the number of a public document: 国卫办医发〔2023〕12号."""
# matches: "-约翰逊综合征", "斯-约翰逊综合征", "-巴雷病"
# not: "-王强", "，约翰逊综合征"
_OF_TWO_AUTHORS = re.compile(
    "[\u4e00-\u9fff]{0,3}[-－·][\u4e00-\u9fff]{1,5}?(?:综合征|病(?!人|房|区|史)|征(?!求)|试验|评分|定律)"
)
"""The second author of a syndrome: 史蒂文斯-约翰逊综合征, 吉兰-巴雷综合征."""
# matches: "VV-ECMO", "CRRT-CVVHDF"
# not: "LI XIAOMENG", "Soo-jin"
_CAPITALS = re.compile("[A-Z]{2,8}(?:-[A-Z0-9]{2,8}){1,3}")
"""Abbreviations of methods."""
# matches: "柯雷骨折", "惠普尔术后", "艾森门格综合征", "羊穿核型", "陈-施呼吸", "Holter：总心搏"
# not: "柯雷，男", "陈施，女", "Glasgowski"
_EPONYM = re.compile(
    "柯雷骨折|史密斯骨折|惠普尔[术手]|潘科斯特|艾森门格|马尔尼菲|帕哲病|诺西那生|季德胜蛇|史国公药|马应龙[痔麝]|费森尤斯|羊穿|簇状|全膝|强阳"
    "|唐筛|库欣|桥本|陈[-—]?施(?=呼吸|氏|二氏)|费城染色|梅奥|左旋[布多肉氧咪甲]|全长|Schirmer|DRG"
    "|(?:Holter|Doppler|Foley|Apgar|Glasgow|Barthel|Braden|Caprini)(?![A-Za-z])"
)
"""Words of medicine that begin like names."""


# matches: "医生", "主任", "某", "先生"
# not: "收据"
_TITLED = re.compile("医|主任|教授|某|先生|女士|护|老师|大|阿姨|[：:，,／/、]")
# matches: "PT NAME", "ECG ST", "BALF mNGS"
# not: "ZHANG WEI", "NG WAI MING", "WANG XH"
_ABBREVIATION = re.compile(r"(?!NG\b|LV\b)[B-DF-HJ-NP-TV-XZ]{2,6}\b|.*\b(?:ECG|[A-Za-z]?[B-DF-HJ-NP-TV-XZ]{3,6})\b")
"""Words without a vowel, which no name begins with but Ng and Lv; behind one they are initials if they are short."""
# matches: "证 ", "出 "
# not: "："
_SPACED_BEFORE = re.compile("[\u4e00-\u9fff] $")
# matches: "东门", "北门口", "中药房门口", "急诊楼后面", "河沟里", "竹匾里", "华南地区", "山区", "门诊楼四楼B区"
# not: "幸福里", "和平里", "城北", "东门街", "苏州地区", "玉泉路中药房门口", "杨柳青"
_ANYWHERE = re.compile(
    "[东南西北正后侧]门口?$|[^市区县镇村路街道巷]{0,4}[房室科厅楼](?:门口|后面|前面|旁边|楼下)$"
    "|[^0-9]{0,3}[沟盆店钵匾井院屋袋箱缸碗山田家楼河水]里$|华?[东南西北中]?[山牧林草原农]?(?:地区|区)$|高原地区$|门诊楼[^0-9路]{0,4}区$"
)
"""Gates, corners of a hospital, containers and regions, written without a town or street."""
# matches: "六楼示教室", "3楼护士站"
# not: "六楼", "玉泉路3楼护士站"
_ROOM_OF_A_HOUSE = re.compile(
    "[0-9一二三四五六七八九十]{1,2}楼(?:示教室|会议室|护士站|办公室|诊室|手术室|病房|病区|阶梯教室)$"
    "|[^市区县镇村路街道巷]{1,8}[0-9]{1,4}号(?:柜|箱|架|冰箱|抽屉|储物柜)子?$"
)
# matches: "T2N0M0", "pT1cN0", "ypT3N1aM0", "T4bN2"
# not: "T2-0917", "TN20190871"
_STAGE_OF_A_TUMOUR = re.compile(r"[cypra]{0,3}T(?:[0-4]|is|x)[a-d]?N[0-3xX][a-c]?(?:M[01xX][a-c]?)?", re.IGNORECASE)
# matches: "12320", "打12393", "95519"
# not: "12号", "123201"
_HOTLINE = re.compile(
    r"[打拨]?(?:12(?:3(?:0[56]|15|[24]0|45|48|5[0158]|6[5-9]|7[17]|88|9[35])|580|117|121)|955\d\d|95\d{3}|100(?:00|10|86))"
)
"""A number that everybody calls."""
# matches: "47远中龋", "45残根", "门诊楼四楼", "楼四楼", "保温箱6号"
# not: "47号院", "锦绣楼四楼"
_TOOTH_OR_FLOOR = re.compile(
    r"[1-8][1-8](?:[远近]中|残[根冠]|龋|缺失|埋伏|阻生|牙|烤瓷)|(?:(?:门诊|住院|急诊|医技)?楼)?[一二三四五六七八九十]{1,2}楼$|(?:保温箱|暖箱|诊室|工位)\d{1,2}号"
)
# matches: "长江轮", "远洋货轮"
# not: "长江路", "轮台县"
_SHIP = re.compile("[江海河货客]轮$")
# matches: "中国建设银行", "工商银行"
# not: "建设银行南湖支行"
_BANK = re.compile("(?:中国)?(?:建设|工商|农业|交通|招商|邮政储蓄|邮储|民生|光大|中信|浦发|兴业|平安)?银行$")
"""A bank without its branch, which is no place."""
# matches: "Bismuth IIIa", "Hunt-Hess II"
# not: "Anna Berg", "Li Vi"
_CLASS_OF_A_SCALE = re.compile(r"[A-Z][a-z]{2,}(?:-[A-Z][a-z]+)? (?:I{1,3}|IV|VI{0,3}|[ⅠⅡⅢⅣⅤⅥ])[a-d]?(?![A-Za-z])")
# matches: " IIIa", "IV", "3级"
# not: "，"
_CLASS_BEHIND = re.compile(r"\s?(?:I{1,3}|IV|VI{0,3}|[ⅠⅡⅢⅣⅤⅥ])[a-d]?(?![A-Za-z.])|\s?\d[a-d]?(?:级|期|型|度)")
# matches: "祝您早日康复", "祝你", "祝早日", "祝健康"
# not: "祝医生", "祝晓燕", "祝安民"
_WISHED = re.compile("祝(?:[您你]|早日|愿|福|贺|大家|各位|健康|好运|一切|生活|平安$)")
# matches: "陈旧性心梗", "卫健委令", "高敏C反应蛋白", "权威医院", "扶正祛邪", "替吉奥", "毫米汞柱", "葱、姜、", "姜,蒜"
# not: "陈，男", "高敏，女", "权威，男", "扶正来了", "姜、王"
_IN_A_PHRASE = re.compile(
    "陈(?=旧)|卫健(?=委)|高敏(?=[CcT超感型心肌])|(?<=毫)米汞柱|(?<=[葱蒜椒料][、,，])姜(?=[、,，。])|姜(?=[、,，](?:[豆茴]|葱|蒜|花?椒))|权威(?=医院|的|专家|机构|认证|部门)|扶正(?=祛邪|固本|培元|的)|(?<=祛邪)扶正|(?<=替)吉奥"
)
# matches: "1周前", "3月余前", "半年余前", "12,周前"
# not: "周前，男", "患者周前"
_AGO = re.compile("(?<=[0-9][,，])周前|(?<=[0-9一二三四五六七八九十半几数多年月周天日])[周余]前")
# matches: "闻人语1年", "闻人声半年"
# not: "闻人语嫣"
_HEARD = re.compile("闻人[语声] ?[0-9一二三半数几近]")


# matches: "3", "加3", "十二"
# not: "加瘤"
_OF_A_BED = re.compile("[0-9一二三四五六七八九十]")
# matches: "号手术间", "号机", "楼", "床位", "级"
# not: "床", "抽血", "号病人", "、"
_NO_BED = re.compile("号?(?:手术间|诊室|窗口?|机|楼|层|门|厅|线|柜|室|间)|床位|[级度期型倍次]")
"""What stands behind one or two digits that are no bed."""


def stays(text: str, start: int, end: int, kind: str, is_sure: bool = False) -> bool:
    """Return True for words or a number that must stay.

    Args:
        text: what holds them.
        start: first character of them.
        end: end of them.
        kind: kind of identifier that they were taken for.
        is_sure: True for what a whole sentence tells: a name may be a word of the lists, or stand before a dose, and a
            number may be a bed of one or two digits (3、8抽血).
    """
    written = text[start:end]
    if "〔" in written or "〓" in written:
        return True
    if kind == "record":
        is_public = _HOTLINE.fullmatch(written) or _STAGE_OF_A_TUMOUR.fullmatch(written)
        return is_public is not None or _number_stays(text, start, end, written, is_sure)
    if _TOOTH_OR_FLOOR.match(written):
        return True
    if _OF_A_SCORE.match(text, end):
        return True
    if kind == "name":
        return _name_stays(text, start, end, written) or (not is_sure and _word_stays(text, end, written))
    if _BANK.match(written) or _SHIP.search(written):
        return True
    if _ROOM_OF_A_HOUSE.match(written) or _ANYWHERE.match(written):
        return True
    return is_nobody(written) or written in _WIDE


def _name_stays(text: str, start: int, end: int, written: str) -> bool:
    """Return True for eponyms, drugs, signs and other words of medicine that look like names."""
    if end < len(text) and _OF_A_SIGN.match(text, end):
        return True
    if end < len(text) and _OF_A_DRUG_OR_GERM.match(text, end):
        return True
    if _CLASS_OF_A_SCALE.match(written) or (
        written.isascii() and " " not in written and _CLASS_BEHIND.match(text, end)
    ):
        return True
    if end < len(text) and (_OF_TWO_AUTHORS.match(text, end) or _OF_A_DOCUMENT.match(text, end)):
        return True
    if (
        _HEARD.match(text, start)
        or _WISHED.match(text, start)
        or _AGO.match(text, start)
        or _IN_A_PHRASE.match(text, start)
        or written.endswith("样体")
    ):
        return True
    if _EPONYM.match(text, start) or _CAPITALS.fullmatch(written) or _ABBREVIATION.match(written):
        return True
    if len(written.split()) > 1 and _is_spaced_word(text, start, written):
        return True
    if written.isascii() and " " not in written and _OF_A_LATIN_TERM.match(text, end):
        return True
    return written.endswith(("征", "腺", "管")) and text[end : end + 1] in tuple("(（、+")


def _word_stays(text: str, end: int, written: str) -> bool:
    """Return True for words that people may be called by, too, and mostly are not: 幸福, 毕节, 石膏 before a dose."""
    if end < len(text) and _DOSE_BEHIND.match(text, end):
        return True
    if _is_a_relation(written):
        return True
    if written == "费" and not _TITLED.match(text, end):
        return True
    return written in _PLACES or is_stop(written) or is_nobody(written) or bool(_NOBODY.search(written))


def _is_a_relation(written: str) -> bool:
    """Return True for 孙子 and 由爷爷, and for 让 alone, which of 让主任 is taken for a surname with a title."""
    rest = written[1:] if written[:1] in _BEFORE_RELATIONS else written
    return written in _RELATIONS or rest in _RELATIONS or written in ("让", "由", "被", "给")


def _is_spaced_word(text: str, start: int, written: str) -> bool:
    """Return True for a word with blanks (职  业), and for the end of a heading with blanks (出 院 证 明 书)."""
    joined = "".join(written.split())
    if rjieba.has_word(joined) and not rjieba.tag(joined, False)[0][1].startswith("nr"):
        return True
    before = _SPACED_BEFORE.search(text[max(0, start - 2) : start])
    return before is not None and bool(rjieba.has_word(before[0][0] + written[0]))


def _number_stays(text: str, start: int, end: int, written: str, is_sure: bool) -> bool:
    if _BED.match(written):
        return False
    if len(written) < 4 and written.isdigit() and text[start - 1 : start] == "\t" == text[end : end + 1]:
        return True  # a count in a table
    before = text[start - 1 : start]
    if before.isascii() and before.isalnum() and written[0].isascii() and written[0].isalnum():
        return True  # XA02BCA114|E001010100483 is the rest of a code
    digits = re.sub("[^0-9]", "", written)
    if _NO_NUMBER.search(written) or "_" in (text[start - 1 : start], text[end : end + 1]):  # 18929329_21108367
        return True
    if (
        CATALOGUED.fullmatch(written)
        or _RESULT.fullmatch(written)
        or _CODE_OF_A_THING.fullmatch(written)
        or _RANGE_OR_COUNT.fullmatch(written)
        or written.startswith("准")
        or _APPROVED.search(text, max(0, start - 6), start)
    ):
        return True
    if len(digits) < 7 and _VALUE_NAME.search(text, max(0, start - 8), start):
        return True
    if len(digits) < 3 and (not is_sure or not _OF_A_BED.search(written) or _NO_BED.match(text, end)):
        return True
    if " " in written or _DATE.fullmatch(written) or (len(digits) == 8 and is_date(digits)):
        return True
    if text.startswith(("课题", "项目", "基金", "方案"), end):  # KT-2023-017课题
        return True
    if _OF_OTHER_THINGS.search(text, max(0, start - 10), start):
        return True
    if text[start - 1 : start] in ("（", "(") and len(digits) > 5:  # 茹志刚（2210834）
        return is_of_a_thing(f"，{written}{text[end : end + 8]}", 1, written)
    return is_of_a_thing(text, start, written)
