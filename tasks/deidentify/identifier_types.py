"""Types of identifiers that every profile treats: how each is recognised, and what replaces it.

To add a type, add an entry to `TYPES`. A number that is known by its digits has a way of the class `Number`, one that
only its context gives away has `Cues`. Give every way texts in which it finds identifiers (in braces) and similar
ones that must stay; `tests/tasks/deidentify/test_identifier_types.py` checks them all.

Every pattern has bounded or possessive repeats, so that its time stays linear in the text, and none crosses the
brackets of a placeholder.
"""

from __future__ import annotations

import re

from tasks.deidentify.forms.addresses import address_around, address_behind, english_address
from tasks.deidentify.forms.cues import (
    LOGIN_IN_THE_CLAUSE,
    NO_MEASURE,
    SEPARATOR,
    Values,
    account_fits,
    anonymous_name,
    anybody_behind,
    bed_before,
    bed_in_words,
    bed_of_unit,
    called,
    coded_fits,
    extension_around,
    extension_before,
    first_of,
    greeted,
    id_of_somebody,
    latin_behind,
    latin_field,
    login_around,
    long_enough,
    names_around,
    names_behind,
    names_behind_role,
    names_of_kin,
    number_fits,
    place_before,
    plain_id_fits,
    room_of_a_ward,
    spelled_mobile,
    subject_before,
    surname_alone,
    telephone_fits,
)
from tasks.deidentify.forms.identifier import About, Cues, IdentifierType, NetAddress, Number
from tasks.deidentify.forms.net import domain_around, email_span, spelled_mailbox, url_span
from tasks.deidentify.forms.numbers import (
    born_login_fits,
    card_fits,
    code_form_fits,
    foreign_telephone_fits,
    grouped_card_fits,
    identity_fits,
    image_fits,
    landline_fits,
    long_number_fits,
    masked_card_fits,
    mistyped_identity_fits,
    mobile_fits,
    old_identity_fits,
    passport_fits,
    short_code_fits,
    short_landline_fits,
    spaced_identity_fits,
    starred_fits,
    uneven_mobile_fits,
)
from tasks.deidentify.forms.papers import case_of_a_court, paper_around, paper_fits
from tasks.deidentify.forms.person_data import name_before_age, name_before_sex
from tasks.deidentify.forms.places import PROVINCE_SIGNS
from tasks.deidentify.forms.word_names import (
    SHORT_SURNAMES,
    called_as_kin,
    called_up,
    chat_header,
    doubled_before_kin,
    engineer,
    latin_for_whom,
    masked_name,
    name_in_a_row,
    name_of_a_letter,
    person_directly,
    pinyin_login,
    receiver,
    small_or_old,
    word_before_title,
)

_NO_UNIT = r"(?!\.\d|\s?(?:IU|U/|mg|ml|mL|ng|μ|copies|拷贝|个|元|×|%|/\s?(?:[A-Za-zμ]{1,2}(?![A-Za-z])|\d|次|视野)))"
"""Refuses a measured value: HBV DNA 13812345678 IU/ml, 13812345678/L. Not 13812345678/责任人."""
_COUNTRY = r"(?:\(?\+?(?:0086|86)\)?[ -]?)?"
_AREA = r"(?:10|2\d|[3-9]\d\d)"
"""Area code without its 0: 10 is Beijing, 755 is Shenzhen."""
_NUMBER_SIGN = r"(?:(?:[Nn][Oo]\.?|№|[#＃])\s?+)?+"
_NO_STUDY = r"(?!NCT|CTR|ChiCTR|ICD|GSE|GSM|SRR|PMID|rs\d)"
"""Refuses numbers of studies, samples and genes, which are published."""
_HAN = "\u4e00-\u9fff"
_SPELLED = "[零〇一二三四五六七八九幺壹贰叁肆伍陆柒捌玖]"
"""A digit as it is read out; 十 and 百 are of counts."""

TYPES = (
    IdentifierType(
        "mobile",
        "〔手机号〕",
        About(what="mobile telephone numbers", hipaa="D: telephone numbers", gbt="个人电话号码"),
        (
            Number(
                found=(
                    "打{138-1234-5678}",
                    "{138.1234.5678}",
                    "{+86 138 1234 5678}",
                    "{138****5678}",
                    "手机{159-1783-220*}又",
                    "瘢痕子宫/{13812345678}/责任人",
                    "{13812345678} / 左手压伤",
                    "手机_{13812345678}_ 住址",
                ),
                kept=(
                    "HBV DNA 13812345678 IU/ml",
                    "计数13812345678 /L",
                    "ISBN 13812345678",
                    "ab13812345678",
                    "img_13812345678",
                    "评分159-1783-220",
                ),
                pattern=re.compile(
                    rf"(?<![\d.]){_COUNTRY}1[3-9]\d(?:([ .-]?)\d{{4}}\1\d{{3}}[\d*]|\*{{4}}\d{{4}})(?!\d){_NO_UNIT}"
                ),
                least=11,
                fits=mobile_fits,
            ),
            Number(
                found=("护工（{18956 03 2217}）", "手机{+8618516 207 734}\n", "子仝亮 {138351940 72}"),
                kept=("血压 心率 135 120 118 76", "PLT 18956 03 2217 IU", "计数 12 18956 03 2217", "18956 03 2217 45"),
                pattern=re.compile(rf"(?<![\d.])(?:(?:\+|00)86[ -]?)?1[3-9]\d(?: ?\d){{8}}(?! ?\d|\.\d){_NO_UNIT}"),
                least=11,
                fits=uneven_mobile_fits,
            ),
            Number(
                found=("电话{+852 6173 4928}。", "{+1 415 555 0134}，", "{+44 20 7946 0958} 联系"),
                kept=("孕39+2 1234 5678", "WBC+12 345 6789", "（+）1 234 5678"),
                pattern=re.compile(
                    r"(?<![\d.A-Za-z)）])\+(?!86)[1-9]\d{0,2}[ \-]?(?:\d{2,4}[ \-]?){1,3}\d{3,4}(?![\d.])"
                    rf"{_NO_UNIT}"
                ),
                least=6,
                fits=foreign_telephone_fits,
            ),
            Number(
                found=(
                    "投诉人（{1 5 9 0 0 3 3 7 7 1 2}）反映",
                    "其子，{1-3-6-7-1-9-0-2-2-8-5}，",
                    "发到孙女{1 5 5 7 2 0 4 8 8 1 3}，",
                ),
                kept=("评分 1 3 6 7 1 9 0 2 2 8 5", "（1 3 6 7 1 9）", "组1 3 6 7 1 9 0 2 2 8 5，"),
                pattern=re.compile(
                    r"(?<=[（(：:，,、女儿子妻夫父母爸妈哥姐弟妹属])1(?P<gap>[ \-])[3-9](?:(?P=gap)\d){9}"
                    r"(?=[）)，,。；;、\n]|$)"
                ),
                least=11,
                fits=mobile_fits,
            ),
            Cues(
                found=(
                    "手机{1 3 6 7 1 9 0 2 2 8 5}无人接听",
                    "手机：{1 5 2 0 0 1 1 2 2 3 3}",
                    "请打{1 3 7 2 1 0 9 4 4 5 8} 孟",
                    "老公的号是{1 5 9 7 9 0 8 3 3 4 2}，",
                ),
                kept=("手机1 3 6", "手机1台", "打1 3 6次", "号是1 3 6"),
                words="手机 手机号 电话 请打 拨打 联系 号是 号码是",
                beside=Values(re.compile(rf"{SEPARATOR}(?P<value>1 [3-9](?: \d){{9}})(?! ?\d)")),
                header="number",
            ),
            Cues(
                found=(
                    "电话是{一三八七一二零四四五六}，",
                    "打{幺五二零零一一二二三三}",
                    "联系{一三六 九三八二 七零一五}。",
                    "电话：{一八七,零七九四,六六一五}。",
                ),
                kept=("一三五七九", "一三八七一二", "一三五 七九", "一八七,零七九四,"),
                words="一三 一四 一五 一六 一七 一八 一九 幺三 幺四 幺五 幺六 幺七 幺八 幺九",
                beside=spelled_mobile,
            ),
        ),
    ),
    IdentifierType(
        "landline",
        "〔电话号〕",
        About(what="landline and fax numbers", hipaa="D, E: telephone and fax numbers", gbt="个人电话号码"),
        (
            Number(
                found=(
                    "{(0755)2673 4410}",
                    "{0712-2831947转12}",
                    "{0691 2160 447}，",
                    "{400-820-6671}",
                    "拨打{86 10 6234 5678}",
                    "Tel{0755-2673 4410}，FAX{0755-2673 4411}",
                ),
                kept=("血袋D0612 1907 3345", "PLT：86 28 335 4520", "脉搏 86 20 120 1500", "2015-2019年"),
                pattern=re.compile(
                    rf"(?<![\d.\-])(?:\(?\+?86\)?[ -]{{0,2}}\(?0?{_AREA}[ )-]{{1,2}}\d{{3,4}}[ -]?\d{{4}}"
                    rf"|[(（]?0{_AREA}[ )）–—-]{{1,3}}(?:\d{{3,4}}[ -]?\d{{4}}|\d{{4}} \d{{3}})"
                    r"|[48]00-\d{3}-?\d{4}|[48]00-\d{4}-\d{3})(?!\d)"
                    rf"(?:\s?(?:转|ext\.?)\s?\d{{1,6}}|[-*]\d{{1,6}})?(?!\d){_NO_UNIT}"
                ),
                least=10,
                fits=landline_fits,
            ),
            Number(
                found=("致电{0575.8513.0029}。", "（{010.6234.5678}）"),
                kept=("系数0.575.8513", "主机010.62.34.56", "0575.8513.0029.1", "10575.8513.0029"),
                pattern=re.compile(rf"(?<![\d.\-A-Za-z])0{_AREA}\.\d{{3,4}}\.\d{{4}}(?![\d.]){_NO_UNIT}"),
                least=10,
                fits=landline_fits,
            ),
            Cues(
                found=("电话号码：{62345678}", "电 话：{62345678}", "电话{2019 0506}，"),
                kept=("电话随访", "电话2019-05-06随访", "联系电话：无"),
                words="电话 座机 固话 热线 传真 Tel TEL tel Fax",
                beside=Values(
                    re.compile(rf"{SEPARATOR}(?P<value>\d(?:[ -]?\d){{6,11}}(?:转\d{{1,6}})?)(?![\d.])"),
                    telephone_fits,
                ),
                header="number",
                padded=True,
            ),
            Cues(
                found=("打护士站{6023817}，", "总机：{8320 6607}转"),
                kept=("护士站3次", "服务台20231103领取"),
                words="护士站 服务台 总机 导诊台 咨询台 值班室",
                beside=Values(
                    re.compile(rf"{SEPARATOR}(?P<value>[2-9]\d{{2,3}}[ -]?\d{{4}})(?![\d.])"), telephone_fits
                ),
            ),
            Cues(
                found=(
                    "（内线{6317}）",
                    "手机短号：{669031} ",
                    "分机 {8855}，",
                    "电话短号：{66702}。",
                    "电话（内线）{66213}；",
                ),
                kept=("内线3次", "短号不详", "分机 12 台"),
                words="内线 短号 分机 分机号 内线电话 院内电话 小号",
                beside=Values(re.compile(rf"[）)]?{SEPARATOR}(?P<value>\d{{3,8}})(?![\d.次台个])")),
            ),
            Cues(
                found=("住院总已看，电话{3372}。", "联系办公室，电话 {8021转3}）", "已电话{2617}告内镜中心"),
                kept=("电话2019年", "电话1200次", "电话3372.5"),
                words="电话",
                next_characters="：: 23456789",
                beside=Values(
                    re.compile(
                        r"[：:]?\s?(?P<value>[2-9]\d{3,5}(?: ?转 ?\d{1,4})?)(?=[，,。；;、）)\s告找]|通知|联系|$)"
                    ),
                    telephone_fits,
                ),
            ),
            Cues(
                found=("电话核对{67550921}，", "电话通知{6755092}。", "电话回访 {67550921}\n"),
                kept=("电话随访20231104，", "电话通知2023110例", "电话通知3次"),
                words="电话核对 电话通知 电话联系 电话回访 电话随访 电话告知 电话咨询 电话报",
                next_characters="：: 23456789",
                beside=Values(re.compile(r"[：:]?\s?(?P<value>[2-9]\d{6,7})(?=[，,。；;、）)\s]|$)"), telephone_fits),
            ),
            Cues(
                found=("转{6632}分机", "总台 {6712}（短号）", "值班室{6712}短号"),
                kept=("转3分机", "2024短号", "共6632分机"),
                words="分机 短号",
                beside=extension_before,
                before=r"[\d（(]",
            ),
            Cues(
                found=("让她打{2110}找工程师", "请拨{66021}问药房", "不通打{6411023}。"),
                kept=("打120找人", "打3针找护士", "打2110元", "打20231104号"),
                words="打 拨",
                next_characters="23456789",
                beside=Values(
                    re.compile(r"(?P<value>[2-9]\d{6,7}(?=[，,。；;、）)\s]|$)|[2-9]\d{3,7}(?=[找转问叫报]))"),
                    telephone_fits,
                ),
            ),
            Number(
                found=("改拨邻居曲老伯{6632 9981}。", "邻居：{8234 5678}）"),
                kept=("〔姓名〕2024 0301。", "计数6632 9981。", "滴度 6632 9981，", "曲老伯6632 9981次"),
                pattern=re.compile(rf"(?<=[{_HAN}〕：:])[2-8]\d{{3}} \d{{4}}(?=[，,。；;）)\n]|$)"),
                least=8,
                fits=short_landline_fits,
                after_cues=True,
            ),
            Cues(
                found=("找办公室（{8021转3}），", "拨打{6602转8}。", "工位电话{6207 转 15}，"),
                kept=("由120mg转3片", "2021转3科", "由300转6，"),
                words="转",
                beside=extension_around,
                before=r"[\d ]",
            ),
        ),
    ),
    IdentifierType(
        "identity",
        "〔身份证号〕",
        About(
            what="resident identity numbers", hipaa="G: social security numbers (the Chinese equivalent)", gbt="身份证"
        ),
        (
            Number(
                found=(
                    "为{110101199003074514}，",
                    "{420106480915231}",
                    "{110101********1234}",
                    "为{110 101 19900307 4514}，",
                    "为{110101 1990 0307 4514}，",
                ),
                kept=("拷贝数991010199003074514个", "计数420106483215231个"),
                pattern=re.compile(
                    r"(?<![0-9A-Za-z.])(?:[1-8]\d{2} ?\d{3} ?\d{4} ?\d{4} ?\d{3}[\dXx]|[1-8]\d{14}"
                    r"|[1-8]\d{5}\*{6,10}\d{3}[\dXx])(?![0-9A-Za-z*])"
                ),
                least=15,
                fits=identity_fits,
            ),
            Number(
                found=("为{110101199003074515}，", "为{510 902 19780514 2213}，"),
                kept=("拷贝数991010199003074514个",),
                pattern=re.compile(
                    r"(?<![0-9A-Za-z.])[1-8]\d{2} ?\d{3} ?(?:19|20)\d{2} ?\d{4} ?\d{3}[\dXx](?![0-9A-Za-z*])"
                ),
                least=17,
                fits=mistyped_identity_fits,
                after_cues=True,
            ),
            Number(
                found=(
                    "证件{110101 1990030745 14}单位",
                    "证件号{110101199003074 514}）",
                    "号【{110 101 19900307 451 4}】",
                ),
                kept=("PLT 110 101 199 013 074 514", "拷贝数991010199003074 514个"),
                pattern=re.compile(r"(?<![0-9A-Za-z.])[1-8]\d{2}(?: ?\d){14} ?[\dXx](?! ?[0-9A-Za-z*])"),
                least=17,
                fits=spaced_identity_fits,
            ),
            Cues(
                found=(
                    "身份证号：{110101199003074515}",
                    "证 件 号：{110101199003074515}",
                    "身份证号{一一零一零一一九九零零三零七四五一五}",
                    "身份证：{一一零一零一一九九零零三零七四五一X}。",
                    "身份证:{1 1 0 1 0 1 1 9 9 0 0 3 0 7 4 5 1 5}",
                ),
                kept=("身份证原件", "身份证1 1 0 1 0 1", "身份证号：无", "身份证一一核对"),
                words="身份证 公民身份 身份号码 证件号 证件号码 老身份证",
                beside=Values(
                    re.compile(
                        rf"{SEPARATOR}(?P<value>(?:[0-9*]{{16,17}}[0-9Xx*]|\d{{15}}|\d(?: \d){{16}} [\dXx])"
                        r"(?![0-9A-Za-z*])"
                        rf"|(?:{_SPELLED}{{17}}(?:{_SPELLED}|[Xx])|{_SPELLED}{{15}})(?!{_SPELLED}|[0-9A-Za-z]))"
                    )
                ),
                header="number",
                padded=True,
            ),
            Cues(
                found=("HKID {K123456(7)}, Tel", "香港身份证号：{A123456（3）}。"),
                kept=("HKID card", "香港身份证复印件"),
                words="HKID 香港身份证 香港居民身份证",
                beside=Values(re.compile(rf"{SEPARATOR}(?P<value>[A-Z]{{1,2}}\d{{6}}[（(][\dA][)）])")),
            ),
            Cues(
                found=("旧身份证{620102 470223 532}，", "身份证：{620102 470223532} "),
                kept=("身份证620102 991323 532", "身份证 12 3"),
                words="身份证 证件号",
                next_characters="：: 号码12345678",
                beside=Values(
                    re.compile(rf"{SEPARATOR}(?P<value>[1-8]\d{{5}} ?\d{{6}} ?\d{{3}})(?! ?[\dA-Za-z])"),
                    old_identity_fits,
                ),
            ),
        ),
    ),
    IdentifierType(
        "passport",
        "〔护照号〕",
        About(what="passport numbers", hipaa="K: certificate numbers", gbt="护照"),
        (
            Number(
                found=("{E12345678}", "{EA1234567}"),
                kept=("国药准字S20063105", "批S12345678", "S20190506"),
                pattern=re.compile(r"(?<![0-9A-Za-z\-.])(?:[EGDSP]\d{8}|E[A-HJ-NP-Z]\d{7})(?![0-9A-Za-z\-])"),
                least=7,
                fits=passport_fits,
            ),
            Cues(
                found=(
                    "护照号：{EC123456}",
                    "护 照：{123456789}",
                    "护照{75 4198320}）",
                    "护照{M4471 9035},",
                    "passport No. {19FV60274};",
                ),
                kept=("护照已过期", "护照有效期10年", "passport expired 2019"),
                words="护照 passport Passport PASSPORT",
                beside=Values(
                    re.compile(
                        rf"(?:[ ](?:[Nn]o\.?|number))?{SEPARATOR}(?P<value>[A-Za-z]{{1,2}}\d{{6,9}}|\d{{2}} \d{{7}}"
                        r"|[A-Z]{1,2}\d{3,4} \d{4}|\d{9}|(?=(?:[A-Z]*\d){4})[A-Z0-9]{8,10})(?![0-9A-Za-z])"
                    )
                ),
                header="number",
                padded=True,
            ),
        ),
    ),
    IdentifierType(
        "bank_card",
        "〔银行卡号〕",
        About(what="bank card and account numbers", hipaa="J: account numbers", gbt="银行账户"),
        (
            Number(
                found=("{6228480122334455666}", "打到{6228 4801 2233 4455 666}"),
                kept=("拷贝数6228480122334455667个",),
                pattern=re.compile(
                    r"(?<![\d.\-])(?:62|4\d|5[1-5]|35)\d\d(?:([ -]?)\d{4}(?:\1\d{4}){2}(?:\1\d{1,3})?)(?![\d.])"
                ),
                least=16,
                fits=card_fits,
            ),
            Number(  # of any bank: four groups of four and one of three
                found=("开户{6013 8208 0009 4417 837}，", "账户 {9558 8200 1122 3344 557}。"),
                kept=("6013 8208 0009 4417", "计数 6013 8208 0009 4417 837 个"),
                pattern=re.compile(
                    rf"(?<![\d.\-A-Za-z])(?<!\d )[1-9]\d{{3}}(?: \d{{4}}){{3}} \d{{3}}(?! ?\d|\.\d){_NO_UNIT}"
                ),
                least=19,
                fits=grouped_card_fits,
            ),
            Number(
                found=(
                    "将打入{6228*********4417},",
                    "退{4367 42** **** 9951}，",
                    "汇至{622700 **** 0186},",
                    "先刷{6217****0071}，",
                ),
                kept=(
                    "评分6217****71",
                    "1234*********4417",
                    "6228*****4417",
                    "6228************4417",
                    "6228**4417",
                    "评分4*4",
                ),
                pattern=re.compile(
                    r"(?<![\d.\-A-Za-z*])(?:62|4\d|5[1-5]|35)\d\d ?(?:\d\d)?(?=(?: ?\*){4})[ *]{4,16}\d{4}(?![\d*])"
                ),
                least=12,
                fits=masked_card_fits,
            ),
            Number(  # a wrong check digit; nothing else is written in such groups
                found=(
                    "转至{6217 0033 2001 8845 671}，",
                    "退至{6225760018842203}，",
                    "农行 {622848 0402 5617 3389}",
                    "卡号？{622848 0402 5617 3389 4}\n",
                ),
                kept=("拷贝数6228480122334455667个", "6217 0033 2001", "计数6225760018842203个"),
                pattern=re.compile(
                    r"(?<![\d.\-A-Za-z])62(?:\d\d(?: \d{4}){3}(?: \d{1,3})?|\d{4}(?: \d{4}){3}(?: \d{1,3})?"
                    r"|\d{14}(?:\d{3})?)"
                    rf"(?![\d.]){_NO_UNIT}"
                ),
                least=16,
                fits=grouped_card_fits,
            ),
            Cues(
                found=(
                    "卡号：{6228480122334455667}",
                    "账号{6217 0028 7001 2345}",
                    "对公户{19-2251 0104 0033 761}，",
                    "卡号{44060519750302004X}是",
                    "扣款卡{5309 8600 4127 7753},",
                ),
                kept=("银行卡丢失", "账户余额1200元", "信用卡12张"),
                words=(
                    "银行卡 银行卡号 卡号 账号 帐号 账户 帐户 扣款卡 还款卡 收款卡 工资卡 储蓄卡 信用卡 借记卡 惠农卡 "
                    "对公户 公户 对公账户"
                ),
                beside=Values(re.compile(rf"{SEPARATOR}(?P<value>\d(?:[ -]?[\d*]){{11,18}}[Xx]?)(?![\d*])")),
                header="number",
            ),
        ),
    ),
    IdentifierType(
        "email",
        "〔邮箱〕",
        About(what="e-mail addresses", hipaa="F: electronic mail addresses", gbt="电子邮件地址"),
        (
            NetAddress(
                found=("发到{zhang.san_1@mail.example.cn}，", "发到{li.si @ mail.example.cn}，", "邮箱{a-b@c.cn}"),
                kept=("血压@卧位", "剂量5@10.5"),
                pattern=r"@ ?[A-Za-z0-9\-]{1,63}+(?:\.[A-Za-z0-9\-]{1,63}+)++",
                span=email_span,
            ),
            Cues(
                found=(
                    "邮箱{zhang163艾特163点com}，",
                    "发{li.si 艾特 qq 点 com}",
                    "{wangfang88#163.com}（#换成@）",
                    "{li.si at qq.com}",
                    "{wangfang(at)hosp(dot)cn}就行",
                    "邮箱{zhaolei at 126 dot com}",
                    "{wangfang[at]hosp.cn}",
                ),
                kept=("艾特一下", "我艾特163了", "C5#8.com", "HbA1c#3.5", "chatqq点com"),
                words="艾特 # at AT",
                beside=spelled_mailbox,
            ),
        ),
    ),
    IdentifierType(
        "url",
        "〔网址〕",
        About(what="web addresses", hipaa="N: web universal resource locators"),
        (
            NetAddress(
                found=("见{http://a.example.cn/x?y=1}。", "{www.example.com/a}上说"),
                kept=("血压120://80", "wwww"),
                pattern=r"(?:https?://|www\.)[\w\-./?%&=#:~+,;@!$'*]++",
                span=url_span,
            ),
            Cues(
                found=(
                    "在“{pacs.zyfy-cloud.cn/share}”输入",
                    "登录{my-hospital.com.cn}，",
                    "地址{vpn.hosp-intra.local:8443}，",
                    "连{pacs.ward.lan}看片",
                ),
                kept=("SPSS.comp", "12.5.com", "A.cnt", "12.5.local", "a.localised"),
                words="com cn net org gov edu example local lan internal intranet corp",
                beside=domain_around,
                before=r"[a-z0-9]\.",
                after="(?![A-Za-z0-9])",
            ),
        ),
    ),
    IdentifierType(
        "qq",
        "〔QQ号〕",
        About(what="QQ numbers", hipaa="R: any other unique identifying number", gbt="个人信息主体账号"),
        (
            Cues(
                found=(
                    "QQ：{847261593}",
                    "qq号是{847261593}",
                    "QQ群号：{12345678}",
                    "QQ留言：{1 0 2 8 8 4 6 6 1 9}，",
                    "QQ({二四八八零九七七一三})",
                ),
                kept=("QQ空间", "QQ群里", "QQ间期400", "QQ留言3条", "QQ群1 2 3"),
                words="QQ qq Qq 扣扣 企鹅号 QQ群 qq群 Qq群 扣扣群",
                beside=Values(
                    re.compile(
                        rf"(?:留言)?{SEPARATOR}"
                        rf"(?P<value>[1-9](?:\d{{4,11}}|(?: \d){{5,11}})|{_SPELLED}{{6,12}})(?! ?\d|\.)"
                    )
                ),
                header="number",
            ),
        ),
    ),
    IdentifierType(
        "wechat",
        "〔微信号〕",
        About(what="WeChat accounts", hipaa="R: any other unique identifying number", gbt="个人信息主体账号"),
        (
            Cues(
                found=(
                    "微信号：{lyr_wuxi87}",
                    "加vx {ab12345}",
                    "微信是{xiaofei}",
                    "微信号 {zhangliwei}，",
                    "wei信{haoyun2023}",
                    "转你微信就行,号是{wh_haihai79},",
                    "同行人微信{rahman_cd}。",
                    "发您微信行不，我号{luotiao_97}",
                    "联系：微信{zzj-guiyang}，",
                    "谁有她微信?——{hexie_ENT}，",
                    "微信号发你了:{wxid_k3f8x0q71b}\n",
                    "新微信{ff-liu_2024},旧的",
                    "微信语音随访({cdz_1965}),",
                ),
                kept=(
                    "微信公众号",
                    "微信 Android",
                    "微信号 Android版",
                    "invx ab12345",
                    "微信发的CT-2023结果",
                    "微信查看PCR报告",
                    "微信咨询。hs_crp12",
                    "微信推荐Omega-3鱼油",
                    "加个微信。abc_12组的患者",
                ),
                words="微信 薇信 威信 徽信 wei信 V信 v信 weixin Weixin wechat WeChat Wechat vx VX Vx wx WX",
                beside=first_of(
                    Values(
                        re.compile(
                            rf"(?:[{_HAN}，,]{{0,6}}?号(?:是|[：:])?|聊|[?？][—\-]{{1,2}}|{SEPARATOR})\s?"
                            r"(?P<value>[A-Za-z][A-Za-z0-9_\-]{5,19}|[1-9]\d{4,11})(?![A-Za-z0-9.])"
                        ),
                        account_fits,
                    ),
                    Values(LOGIN_IN_THE_CLAUSE),
                ),
                header="number",
            ),
            Cues(
                found=(
                    "绿泡泡搜 {mxq-health88},备注",
                    "绿泡泡头像是向日葵,号{afen_1122},",
                    "微❤:{yiyi_mama33},我拉你",
                    "挂号加微{JST-zhongyi02}。",
                ),
                kept=("加微量元素Zn-12", "绿泡泡里说"),
                words="微❤ 薇❤ 微心 绿泡泡 加微 加薇",
                beside=Values(LOGIN_IN_THE_CLAUSE),
            ),
            Cues(
                found=("护士你好,加我V:{lanlan_0917},片子", "加我{tang1987tang},"),
                kept=("加我院Holter-24检查", "加我V1导联", "加V5: 12"),
                words="加V 加v 加我V 加我v 加我",
                next_characters="：: abcdefghijklmnopqrstuvw",
                beside=Values(LOGIN_IN_THE_CLAUSE),
            ),
            Cues(
                found=("openid={oK7vT5xQ2nB8mLpD}，", "unionid：{o6_bmjrPTlm6_2sgVt7hMZOPfL2M} "),
                kept=("openid为空", "unionid: none"),
                words="openid OpenID openId unionid UnionID",
                next_characters="=：: ",
                beside=Values(
                    re.compile(r"[=：:]? ?(?P<value>(?=[A-Za-z_\-]{0,20}\d)[A-Za-z0-9_\-]{8,40})(?![A-Za-z0-9_\-])")
                ),
            ),
            Number(  # initials and a day of birth
                found=("卡照片到{hxp19760315}客服", "微信{lm20010904}，"),
                kept=("at20240315", "covid20200112", "hxp19761315"),
                pattern=re.compile(r"(?<![0-9A-Za-z])[a-z]{2,4}(?:19|20)\d\d(?:0[1-9]|1[0-2])[0-3]\d(?![0-9A-Za-z])"),
                least=8,
                fits=born_login_fits,
            ),
            Cues(  # letters in lower case, and digits at the end: nobody writes anything else so
                found=("，{yunduo_1127}）", "类风湿 {yuedj_ra62} 唐山", "微我（{yunduo_11}）"),
                kept=("hs_crp12", "curve_11", "age_2023", "pm_25", "ver_2024", "sf_36"),
                words="_",
                next_characters="abcdefghijklmnopqrstuvwxyz0123456789",
                before="[a-z]",
                after="[a-z]{0,12}[0-9]{2,4}(?![A-Za-z0-9_.])",
                beside=login_around,
            ),
            Cues(
                found=("换肾2018){lu-aiyi1956} FK506", "PICC能不能洗澡，{quan-sheng1975}加一下"),
                kept=("mir-1293", "covid-2019", "il-a12", "anti-ccp2", "p-tau181"),
                words="-",
                next_characters="abcdefghijklmnopqrstuvwxyz",
                before="[a-z]",
                after="[a-z]{1,12}(?:19|20)[0-9]{2}(?![A-Za-z0-9_.])",
                beside=login_around,
            ),
        ),
    ),
    IdentifierType(
        "record",
        "〔编号〕",
        About(
            what="numbers of records, beds, samples and other papers",
            hipaa="H, I: medical record and health plan beneficiary numbers",
            gbt="社保卡, 病历, 就诊编号",
        ),
        (
            Cues(
                found=("床号：{08、09、15}，", "床位:{3/12/加2}，"),
                kept=("床号栏", "床位3、5张"),
                words="床号 床位",
                next_characters="：:",
                beside=Values(
                    re.compile(
                        r"[：:]\s?(?P<value>加?\d{1,3}(?:[、,，]\s?加?\d{1,3}){1,12}|加?\d{1,3}(?:/加?\d{1,3}){2,12})"
                        r"(?=[\s，,。；;）)]|$)"
                    ),
                ),
            ),
            Cues(
                found=("条码:{8 811 0552 07}\n", "条形码：{26 1115 0388 71}，"),
                kept=("条码: 3 份", "条码：8 811", "条码 2 12 05 2024年"),
                words="条码 条码号 条形码",
                next_characters="：:",
                beside=Values(
                    re.compile(r"[：:]\s?(?P<value>\d{1,4}(?: \d{2,6}){2,5})(?! ?\d|[.年月日]|\s?[×%％])"), long_enough
                ),
            ),
            Cues(  # from one number to another
                found=(
                    "票号{00611201~00611377}",
                    "标本编号{21401~21409}，",
                    "照片编号{S-0426-1至S-0426-9}，",
                    "样本{SW-01至SW-06}\n",
                ),
                kept=("编号1~120", "编号0001～0120", "编号为21401~21409", "样本3至5份", "编号21401~214"),
                words="票号 编号 号码 单号 样本 标本 标本编号 样本编号 照片编号",
                next_characters="：:0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                beside=Values(
                    re.compile(
                        r"[：:]?\s?(?P<value>(?P<letters>[A-Z]{1,3}-(?:\d{2,6}-)?)\d{1,4}[~～至到](?P=letters)\d{1,4}"
                        r"|(?:\d{5}[~～至到]\d{5}|\d{6}[~～至到]\d{6}|\d{7}[~～至到]\d{7}|\d{8,12}[~～至到]\d{8,12}))"
                        rf"(?![\dA-Za-z.]){NO_MEASURE}"
                    )
                ),
            ),
            Cues(
                found=(
                    "住院号：{20190871}",
                    "住 院 号：{20190871}",
                    "病理号{B20-03381}",
                    "住院号：No.{0012345}",
                    "社保号{1103 2245 87}能报销",
                    "病历号 {2 0 2 3 0 8 8 1 7}",
                    "住院号 {201908} 35岁",
                    "住院号{二零二三零八一七}，",
                    "住院号{ZY-9907 21} 急诊",
                    "门诊号{MZ 5520819}。",
                    "门诊号：{〇〇三三一二七}",
                    "就诊卡{K7710 3382}，",
                    "处方号：{CF0091 2733 04}\n",
                    "病案号 {66 20 18}，",
                    "标本号 {20240311 0056}  ",
                    "条形码 *{1024110608831}* ",
                    "登记号{HN-OPO-24061}。",
                    "低保证号{DB34152200317}，",
                    "MRN分别{1028847}和{1082847}，",
                    "健康卡（{5001 2009 8812 0033}）",
                    "病历号 {12345} 2019-05-06入院",
                    "就诊人ID {7720418} ",
                ),
                kept=(
                    "现住院第5天",
                    "住院号：无",
                    "床号一二三，",
                    "样本号一一对应",
                    "住院号二〇二三年起改为八位",
                ),
                words=(
                    "住院号 门诊号 病历号 病案号 就诊卡 就诊卡号 就诊号 诊疗卡号 登记号 床号 检查号 检验号 病理号 "
                    "影像号 放射号 超声号 标本号 样本号 医保卡 医保卡号 医保号 医保编号 社保号 社保卡 社保卡号 "
                    "健康卡号 一卡通号 条码号 条形码 ID号 挂号单号 处方号 申请单号 流水号 急诊号 体检号 腕带号 "
                    "患者ID 病人ID 就诊ID 病历ID 病历编号 参合号 合作医疗号 MRN 住院ID 门诊ID 病案ID 社会保障号 "
                    "社会保障卡号 医疗保险号 医疗证号 医保证号 新农合证号 农合证号 合疗证号 低保证 低保证号 低保号 "
                    "健康卡 诊疗卡 就医卡 就诊人ID 受试者ID 客户ID 会员号"
                ),
                beside=Values(
                    re.compile(
                        rf"{SEPARATOR}{_NUMBER_SIGN}\*?"
                        r"(?P<value>\d(?: \d){5,17}(?! ?\d)|"
                        r"\d{3,8}(?: \d{3,6}){0,4} \d{2,6}(?! ?\d|[-./:：岁年月日床天次元])"
                        r"|[A-Z]{1,4}(?:-[A-Z]{1,5}){1,2}-\d{3,12}(?![\dA-Za-z])"
                        r"|\d\d(?: \d\d){2,4}(?! ?\d|[.岁年月日床天次元])"
                        r"|[A-Za-z]{1,4}(?: |-(?=\d+ \d))\d{3,8}(?: \d{2,6}){0,3}(?! ?[\dA-Za-z]|[-.岁年月日床天次元])"
                        r"|[A-Z]{1,5}\d{2,8}(?: \d{2,6}){1,3}(?! ?[\dA-Za-z]|[-.岁年月日床天次元])"
                        r"|\+?[A-Za-z]{0,5}-?\d[A-Za-z0-9]{0,23}+(?:-[A-Za-z0-9]{1,12}+){0,3}"
                        r"(?:\.\d{1,4}(?![\d.年月日岁]))?"
                        rf"|{_SPELLED}{{4,20}}+(?![年月日岁天次个位例份]))"
                    )
                ),
                header="number",
                padded=True,
            ),
            Cues(
                found=(
                    "血液科{12床}",
                    "，{加3床}出院",
                    "{EICU 4床}",
                    "患者{19-1床}",
                    "患者乙，{急3床}，",
                    "{监6床} 躁动",
                    "助产士报告：{待产2床}产妇",
                    "{B区8床} 患者",
                    "抢救室{1床}给你留好了",
                    "当晚调到{20床}，",
                    "患儿{3床}，",
                    "肿瘤二病区-{09床}-",
                    "{留观5床}，高新区",
                    "今转康复科{康8床}，",
                    "心电监护。{儿-22床}出院",
                    "您科{46加床}上官",
                    "{12/13/14床}三位",
                    "，{17号床}禁食",
                ),
                kept=(
                    "由300增至320床",
                    "1至20床",
                    "开放床位120张",
                    "共40床",
                    "每3床",
                    "12床位",
                    "32床日",
                    "起床困难",
                    "每室3床",
                ),
                words="床 加床 号床",
                beside=bed_before,
                before=r"\d",
            ),
            Cues(
                found=("，{26 床}出院", "{ICU 3 床}躁动"),
                kept=("共26 床", "26 床位", "0.5 床旁超声"),
                words="床",
                beside=bed_before,
                before=r"\d ",
            ),
            Cues(
                found=("和{十一床}调换", "{三十一床}的家属"),
                kept=("共三十床", "十床被子", "七床", "设二十床位"),
                words="床",
                beside=bed_in_words,
                before="[十一二三四五六七八九]",
            ),
            Cues(
                found=(
                    "产妇 床{加5} 今日出院",
                    "贾岛（床{28}）与",
                    "请送床{24}\n",
                    "头痛伴呕吐6h|床{12}\n",
                    "住床{30}，",
                ),
                kept=("床1张", "卧床3天", "起床12次", "床120张"),
                words="床",
                next_characters="0123456789加",
                beside=Values(re.compile(r"(?P<value>加?\d{1,3})(?=[\s，,。；;|/）)]|$)")),
                before=r"[\s|｜/，,、；;：:（(在住换送]",
            ),
            Cues(
                found=(
                    "急！{CCU4} 母国强",
                    "那个胖胖（{PICU2}）还在烧",
                    "联系护士，{VIP6}房贝蕾",
                    "@心外 {ICU-05}，乳酸4.4",
                ),
                kept=(
                    "转ICU2天",
                    "入ICU 3天",
                    "XCCU4，",
                    "ICU1-2周",
                    "VIP12%",
                    "VIP1对1",
                    "ICU4级",
                    "ICU2026",
                    "NICU 2/5",
                ),
                words="ICU PICU NICU EICU RICU SICU KICU CCU VIP",
                next_characters="-0123456789",
                beside=bed_of_unit,
            ),
            Cues(
                found=(
                    "新入1人,{411房},髋关节术后",
                    "{1103房}的血糖仪没电",
                    "{205}那位今天拉了四次",
                    "交接 {509}那个新来的",
                ),
                kept=("共411房", "205房颤", "病区房间411", "2024.411房", "3房2厅", "205那样的"),
                words="房 那位 那个",
                beside=room_of_a_ward,
                before=r"\d",
            ),
            Cues(
                found=("{1207}号受试者昨晚发烧", "群里说{021}受试者想退出", "{026}号受试者"),
                kept=("共120受试者", "30号受试者"),
                words="受试者 号受试者",
                beside=subject_before,
                before=r"\d",
            ),
            Cues(
                found=(
                    "床位{B区21}，",
                    "床号：{东区3}；",
                    "病床{A12}，",
                    "床位{三区08床}。",
                    "床位：{东12}\n",
                    "床位{外12}，",
                ),
                kept=("床位120张", "床位数B区21张", "病床3张", "床位A级", "床位T2级", "床位东12张"),
                words="床位 床号 病床",
                next_characters="：:ABCDEFGHJKLMNPQRSTUVWXYZ一二三四五六东西南北内外",
                beside=Values(
                    re.compile(
                        r"[：:]?\s?(?P<value>(?:[A-Z]{1,2}|[一二三四五六东西南北])区\d{1,3}床?|(?:[A-Z]{1,2}-?|[东西南北内外])\d{1,3}床?)"
                        r"(?=[，,。；;、）)\s]|$)"
                    )
                ),
            ),
            Cues(
                found=("：{加1}的老太太又拔管", "那个{加3}的病人"),
                kept=("加1的剂量", "加2片的老人"),
                words="加",
                next_characters="123456789",
                beside=Values(
                    re.compile(r"(?P<value>\d{1,2})(?=的(?:老[太头爷奶人]|病人|患者|阿姨|大[爷妈叔]|家属|那个))"),
                    from_cue=True,
                ),
            ),
            Cues(
                found=("床：{40}  ", "床位：{ICU-05} ", "床:{+2}\n"),
                kept=("床：40张", "床位：500张"),
                words="床 床位",
                beside=Values(
                    re.compile(
                        r"[：:]\s{0,3}(?P<value>(?:加|[+＋])?[A-Za-z]{0,5}[ \-]?\d{1,4}(?:-\d{1,3}){0,2})(?![\d.张个])"
                    )
                ),
            ),
            Cues(  # any other number of a paper: 预约号, 保单号, 血袋号
                found=(
                    "预约号{20230903-A117}，",
                    "手圈号{XSE-20230417-02}，",
                    "报案号{RCMD202334010000771203} ",
                    "片号{0001765521}。",
                    "透析号{HD0388} ",
                    "脑电图号{EEG-0473}。",
                    "协议号{B33 0091 7782}，",
                    "审批号{MT2311-99204} ",
                ),
                kept=(
                    "批号20190312",
                    "预约号12，",
                    "方案号CTR20212345",
                    "货号：20190312",
                    "国药准字号20190312",
                    "3号楼20190312",
                    "3号 20190312",
                    "批准文号：20190312",
                    "导管型号12345",
                    "5号10000元",
                    "国字第0412287号12345",
                    "文章编号：1001-9057(2019)05-0301-04",
                    "中图分类号：R541.4",
                ),
                words="号",
                beside=Values(
                    re.compile(
                        rf"码?(?:[：:]\s?|\s{{1,2}})?{_NO_STUDY}"
                        r"(?P<value>[A-Z]{1,6} ?\d{2,8}(?: \d{2,6}){1,4}(?! ?[\dA-Za-z.])"
                        r"|(?=[A-Z\-]{0,7}\d)[A-Z0-9]{1,24}+(?:-[A-Z0-9]{1,12}+){0,3}+)"
                        rf"(?![~～至到例个次年月日元.]|\s?[×%％]){NO_MEASURE}"
                    ),
                    number_fits,
                ),
                next_characters="：:0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ ",
            ),
            Cues(
                found=(
                    "就诊码{MZ44010600981277}，",
                    "电脑号：{604412087}；",
                    "条码 {220098123301} ",
                    "条码{6102483390 17} 董",
                    "卡主索引 {3A7F92C04E11} ",
                    "PatientID={0098812} ",
                    "MR号 {M998213} ",
                ),
                kept=("验证码8834", "条码打印", "流水20元", "回执单", "编号12"),
                words=(
                    "票据代码 就诊码 挂号码 取药码 条码 条码号码 单号 流水 原流水 回执 出生证编号 录像编号 档案编号 "
                    "个人编号 标本编号 电脑号 保单编号 血袋编号 手圈编号 MR号 CT号 PatientID AccessionNumber 主索引"
                ),
                beside=Values(
                    re.compile(
                        r"[：:=]?\s?(?P<value>[A-Z]{2,3}\d{4}(?: \d{2,6}){2,4}(?! ?\d)"
                        r"|\d{8,12} \d{2,4}(?! ?\d|[-./:：岁年月日床天次元])"
                        r"|(?=[A-Z\-]{0,7}\d)[A-Z0-9\-]{6,28}+)"
                        r"(?![a-z.×%％])",
                    )
                ),
            ),
            Cues(
                found=("复印件编号{补2024-031}。", "发票编号：{续2023-00412} "),
                kept=("编号为2024-031", "编号补写", "编号共2024-031"),
                words="编号 存根号",
                next_characters="：: 补续副重换",
                beside=Values(re.compile(r"[：:]?\s?(?P<value>[补续副重换]\d{4}-\d{2,8})(?![\d.\-])")),
            ),
            Cues(
                found=("残疾证号{63212319980417202X43}，", "残疾证：{11010119900307451462}B "),
                kept=("残疾证号不详", "残疾证3级"),
                words="残疾证 残疾证号 残疾人证 残疾人证号 残疾证件号",
                beside=Values(re.compile(rf"{SEPARATOR}(?P<value>[1-8]\d{{16}}[\dXx]\d{{2}})(?!\d)")),
            ),
            Cues(
                found=("证号{豫健2024088123} 有效", "证号：{皖A20231107}"),
                kept=("证号不清", "证号有效"),
                words="证号",
                beside=Values(re.compile(rf"[：:]?\s?(?P<value>[{_HAN}]{{1,3}}[A-Z]{{0,2}}\d{{6,18}})(?![\d.])")),
            ),
            Cues(  # any other word that ends in 编号, and words for what is sent, paid and drawn by lot
                found=(
                    "陪护证编号{PH-0931}，",
                    "入组编号{RENAL-CQ-017}，",
                    "随机号{R-0331}，",
                    "慢病号{0871}）",
                    "校验码：{a8f3c1}，",
                    "二维码序列 {3401-0087-1123-9918}。",
                    "腾讯会议{512-880-997}）",
                    "编号{BMD 0644}；",
                    "体检编号{TJ2024050981} 单位：",
                ),
                kept=(
                    "编号12",
                    "编号为1～120",
                    "文章编号：1001-9057(2019)05-0301-04",
                    "校验码不清",
                    "快递3天",
                    "会议30分钟",
                ),
                words=(
                    "编号 随机号 筛选号 入组号 慢病号 校验码 发票代码 发票号码 二维码序列 会议 会议号 快递 快递号 "
                    "运单号 寄件 结算号 建档号 手册号 保健手册号 治疗号 病人号 随访编码"
                ),
                beside=Values(
                    re.compile(
                        r"[：:]?\s?(?P<value>\d(?: \d){5,17}(?! ?\d)|\d{3,6}(?: \d{2,6}){1,4}(?! ?\d)"
                        r"|[A-Z]{2,3}\d{4}(?: \d{2,6}){2,4}(?! ?[\dA-Za-z.])"
                        r"|(?!CD|ICD|GB|YY|ISO|IL)[A-Z]{2,6} \d{3,8}(?: \d{2,6}){0,3}(?! ?[\dA-Za-z.])"
                        r"|(?=[A-Za-z\-]{0,12}\d)(?=(?:[A-Za-z\-]*\d){3})[A-Za-z0-9]{1,20}+(?:-[A-Za-z0-9]{1,16}+){0,3}+)"
                        rf"(?![~～至到例个次年月日元天.(（]|\s?[×%％]){NO_MEASURE}"
                    )
                ),
            ),
            Cues(
                found=(
                    "存根 第{0318}号：",
                    "诊断证明书第{202403-0912}号：",
                    "介绍信（第{0316}号）",
                    "登记簿第{0713}号",
                    "出院证明书 第{24-03391}号\n",
                    "认定书第{361127420240000863}号，",
                ),
                kept=("第3号楼", "公告第0318号", "卫生部令第0045号", "第12号切口", "国家标准第2019号公告"),
                words="第",
                next_characters="0123456789",
                beside=Values(
                    re.compile(
                        r"(?P<value>(?:0\d{3,9}|\d{4,24}|\d\d(?=-\d{4}))(?:-\d{1,8}){0,3})号(?![楼院房室线公令文法])"
                    ),
                    paper_fits,
                ),
            ),
            Cues(
                found=(
                    "{(2026)病字第5520号}：",
                    "{（2024）渝医鉴第0317号}，",
                    "{伤残鉴字〔2022〕00317号}",
                    "{伤残鉴〔2022〕31号}",
                    "公证书编号{（2024）云昆明信证字第20417号}，",
                    "低保证：{昆民低字第2023-0417号}，",
                    "{证明字第（2024）056号}",
                    "{云正鉴〔2024〕临鉴字第1182号}，",
                    "不动产权证：{云（2024）五华区不动产权第0087123号}",
                    "{ZM〔2024〕第0612号}",
                    "工伤认定书{昆人社工认〔2024〕0388号}，",
                ),
                kept=(
                    "国卫医发〔2022〕31号",
                    "国卫办医函〔2022〕1031号，",
                    "沪卫医〔2022〕31号",
                    "（2024）版第3号",
                    "〔2022〕31号文件",
                    "患者〔姓名〕20417号，",
                ),
                words="字第 鉴第 案第 诊第 权第 〕 〕第",
                next_characters="0123456789（(〔[",
                beside=paper_around,
            ),
            Cues(
                found=("法院传票（{(2024)赣0702民初1459号}），", "依据{（2023）京01刑终88号}判决"),
                kept=("民初号", "1459号民事", "（2024）民初心"),
                words="民初 民终 民再 民申 刑初 刑终 行初 行终 民特 执",
                next_characters="0123456789字第",
                beside=case_of_a_court,
                before=r"\d",
            ),
            Cues(
                found=(
                    "腕带{NB24-1178}，",
                    "检体{MIC24-7719}，",
                    "编码{LL-0891}，",
                    "申请单{BX26-0907}。",
                    "票号{0091-3374}，",
                    "献血条码{0121 4260 7788 31} 与",
                    "订单{DD7719 0046 2210}，",
                    "处方单{ZY-00381-6}\n",
                    "缴费单号{20260611 7720}，",
                    "个案编码{330106000202400031}，",
                    "转办单 {WX2405130897} ",
                    "收条{0044719}\n",
                    "抽查病历{B3300917}（",
                    "保单号：{PICC 3301 2200 7741 09} 出险",
                ),
                kept=(
                    "腕带齐全",
                    "编码基因",
                    "编码CD20的",
                    "检体3份",
                    "编码：ICD-10",
                    "票号不清",
                    "订单3份",
                    "收条2019年",
                ),
                words=(
                    "腕带 检体 编码 申请单 票号 票据号码 发票 资料 存根 批件 档案 工单 受理单 回单 转诊单 病理单 保单 "
                    "条码 标本 样本 Record Policy 签约号 代码 "
                    "处方单 取血单 缴费单 缴费单号 订单 收条 病历 病案 转办单"
                ),
                next_characters="：: 号0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                beside=Values(
                    re.compile(
                        r"(?:号?[：:])?\s?(?:No\.?\s?|号\s?)?(?P<value>\d{2,8}(?: \d{4,12}){1,3}(?: \d\d)?(?! ?\d)"
                        r"|(?:\d{12}|\d{16,20}|0\d{5,9})(?!\d)|[A-Z]{1,4} ?\d{3,8}(?: \d{2,6}){1,4}(?! ?\d)"
                        r"|(?=[A-Z\-]{0,9}\d)(?=(?:[A-Z\-]*\d){4})[A-Z0-9]{1,20}+(?:-[A-Z0-9]{1,14}+){1,3}+|[A-Z]{1,4}\d{6,14})"
                        rf"(?![~～至到例个次年月日元天份床岁.a-z]|\s?[×%％]){NO_MEASURE}"
                    ),
                    coded_fits,
                ),
            ),
            Cues(  # codes of what is collected, sent or shown at a door
                found=(
                    "献血码={G1532 24 001277},Rh",
                    "券码{1109 4482 703}。",
                    "探视码{ICU7K2},每日",
                    "运单{YT8817 4420 0196 3}显示",
                    "取件码：{8-2-3307}。",
                    "取片码 {7KQ2-90LM} ",
                    "二维码{WSI-7730-24-0919}，",
                ),
                kept=("券码不清", "运单3份", "探视码无", "取件码12", "券码2024年"),
                words=(
                    "献血码 券码 探视码 取件码 提货码 核销码 运单 乘车码 陪护码 住院码 病案码 取片码 取报告码 "
                    "取单码 预约码 二维码 转诊码"
                ),
                beside=Values(
                    re.compile(
                        r"(?:是|为)?[=：:]?\s?"
                        r"(?P<value>(?=(?:[A-Z \-]*\d){2})[A-Z0-9]{1,20}+(?:[ \-][A-Z0-9]{1,12}+){0,5}+)"
                        rf"(?<![ \-][A-Z])(?<!^\d)(?![~～至到例个次年月日元份.a-z%％]){NO_MEASURE}"
                    ),
                    long_enough,
                ),
            ),
            Cues(
                found=("受试者{S-017}(首字母", "受试者 {C-0312}，"),
                kept=("受试者T-1", "受试者CD-34阳性", "受试者12名"),
                words="受试者",
                next_characters=" ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                beside=Values(re.compile(r" ?(?P<value>[A-Z]{1,2}-\d{3,6})(?![\dA-Za-z.+%％])")),
            ),
            Cues(
                found=("处方{Rp.00981}打不出来", "处方 {Rp 20391}，"),
                kept=("处方Rp.阿莫西林", "处方Rp 3片"),
                words="处方",
                next_characters=" R",
                beside=Values(re.compile(r" ?(?P<value>R[pP][.： ]{0,2}\d{4,10})(?![\d.])")),
            ),
            Number(
                found=("快递{SF6044 1180 2297}。", "单号{JD0128 8841 7320},收", "骆晓，{ZTO 7366 2041 58}，"),
                kept=("SF6044", "JD0128 8841", "JT 12 1180 2297例", "STO 0128 8841 7320 IU"),
                pattern=re.compile(
                    r"(?<![0-9A-Za-z.\-])(?:SF|JD|YT|ZTO|STO|JT|EMS) ?\d{4}(?: ?\d{4})(?: ?\d{2,6}){1,2}(?![\dA-Za-z.])"
                    rf"{_NO_UNIT}"
                ),
                least=10,
                fits=image_fits,
                after_cues=True,
            ),
            Number(
                found=("带片子 {CT 0044718}", "袋子上写的{DR1187023}。", "{MR0091827}平扫"),
                kept=("SNOMED CT 38341003", "CT 20230918平扫", "CT 120kV", "DR 3张", "CT 0044718 IU/ml"),
                pattern=re.compile(
                    rf"(?<![0-9A-Za-z.\-])(?<!SNOMED )(?:CT|MRI?|DR|CR|DSA|PETCT) ?\d{{7,9}}(?![\dA-Za-z.]){_NO_UNIT}"
                ),
                least=6,
                fits=image_fits,
                after_cues=True,
            ),
            Cues(
                found=("处方笺 {No2406180772} 俞", "原始票（{No 5520078}）", "{№0039418276}，", "门诊本 [{No.00417}],"),
                kept=("No 12", "Nobody", "No 2024年", "NO 5520078 ppb", "No-touch"),
                words="No NO №",
                next_characters="0123456789 ：:.",
                beside=Values(
                    re.compile(
                        r"[.：:]{0,2} ?(?P<value>\d{6,14}|0\d{4})"
                        rf"(?![\d.\-~～至到例个次年月日元]){NO_MEASURE}(?! ?pp[bm])"
                    ),
                    from_cue=True,
                ),
            ),
            Cues(
                found=(
                    "暂以“{无名氏20240411}”建档",
                    "腕上写{无名女03}，",
                    "暂编{无名-07}。",
                    "（临时号{无名氏20241102A}）",
                ),
                kept=("无名氏1名", "无名指2cm", "无名氏12例", "无名肿毒3天"),
                words="无名氏 无名男 无名女 无名-",
                next_characters="-0123456789",
                beside=Values(
                    re.compile(r"(?P<value>-?\d{2,12}[A-Z]?(?:-\d{1,3})?)(?![\dA-Za-z例人名岁个位])"), from_cue=True
                ),
            ),
            Cues(
                found=(
                    "check bed {14}, Mr.",
                    "bed {B12}, read by",
                    "[BED {11}] 訾美",
                    "&bed={12A}&phone",
                    "胸片 [BED-{09}] ",
                    "Bed No.{19}  MRN",
                ),
                kept=("bed rest", "bed 2 weeks", "bed 14.5", "beds 12,"),
                words="bed Bed BED",
                next_characters=" #=：,\t-",
                header="number",
                beside=Values(
                    re.compile(
                        r"[ \-#=：]{1,2}(?:[Nn]o[.:]? ?)?(?P<value>[A-Z]?\d{1,3}[A-Z]?)"
                        r"(?=[&,，。;；)）\]]|$|\s(?![a-z]))"
                    )
                ),
            ),
            Number(  # serial numbers with zeros in front, and those of a year and a letter
                found=(
                    "饭卡{DN0273}在",
                    "审方拦截 {RX00917731}（",
                    "危急值登记 {WJZ0087}：",
                    "便签：{24B0494} 改期",
                    "送检{GX23D02030}，",
                ),
                kept=("SHR0302片", "AZD0530", "LNC01309", "PF0665", "GB0018-2019", "DN027", "AB2C0494"),
                pattern=re.compile(
                    r"(?<![0-9A-Za-z.\-/_])(?:(?!SHR|AZD|PF|GSK|TAK|HLX|IBI|BGB|AK|HRS|LOXO|BAY|MEDI|ABT|AMG|JNJ|ONO|NCT|CTR|GSE|GSM"
                    r"|SRR|PMID|HLA|CYP|LOC|LINC|LNC|RP|AC|AL|AP|NM|NR|NP|XM|ENS|CD|GB|YY|WS|DB|LB)"
                    r"[A-Z]{2,4}0\d{3,7}(?! ?\d)"
                    r"|[A-Z]{0,3}2\d[A-Z]0\d{3,5}(?!\d))(?![A-Za-z.\-])"
                ),
                least=4,
                fits=code_form_fits,
                after_cues=True,
            ),
            Number(  # three groups with hyphens
                found=(
                    "{24-06-1187} 阎（产妇）",
                    "体检{03-2-017}（青禾",
                    "医保{420503-88-00217}/主诉",
                    "筛查{X03-2-017}，",
                ),
                kept=(
                    "2024-06-118",
                    "12-05-2024",
                    "0755-12-345678",
                    "ISBN 978-7-117-20345",
                    "100-50-100mg",
                    "ISO 10993-1-200",
                ),
                pattern=re.compile(
                    r"(?<![0-9A-Za-z.\-/~～])(?!0\d{2,3}-|(?:19|20)\d\d-)[A-Z]{0,2}\d{2,6}-\d{1,3}-(?!(?:19|20)\d\d(?!\d))\d{3,6}(?![0-9A-Za-z.\-])"
                ),
                least=5,
                fits=code_form_fits,
                after_cues=True,
            ),
            Cues(
                found=(
                    "血袋号{03701 26 088214 3}，",
                    "血袋:{0370126102277}(血小板",
                    "血袋条码={037012611883000}，",
                    "袋号：{W0431 26 118205}\n",
                ),
                kept=("血袋3个", "血袋2026年", "血袋12345678ml"),
                words="血袋 血袋号 袋号 血袋条码 血袋条形码",
                next_characters="：:=0123456789ABCDEFGHJKLMNPQRSTUVWXYZ",
                beside=Values(
                    re.compile(
                        r"[：:]?\s?=?(?P<value>(?:\d{5}|[A-Z]\d{4}) \d\d \d{6}(?: \d{1,3})?|\d{12,16}|[A-Z]\d{10,14})"
                        rf"(?! ?\d|[A-Za-z.]){NO_MEASURE}"
                    )
                ),
            ),
            Cues(  # numbers of offices: province, what is decided, year
                found=("认定书号{甘人社工认2026-0314}，", "编号{甘职诊2026-055}\n", "证件号{川翻字0085}。"),
                kept=("编号为甘肃2026", "书号不清", "编号川贝母2024", "编号分别为2024-031"),
                words="书号 编号 证件号 证号",
                after=rf"[：:]?\s?[{PROVINCE_SIGNS}]",
                beside=Values(
                    re.compile(
                        rf"[：:]?\s?(?P<value>[{PROVINCE_SIGNS}]"
                        rf"[{_HAN}]{{1,5}}(?:(?:19|20)\d\d-\d{{2,5}}|(?<=字)第?\d{{3,8}}))(?![\d.])"
                    )
                ),
            ),
            Number(  # UID of a study, series or image in DICOM
                found=("StudyUID {1.2.840.113619.2.55.3.2831.20261118.77} 无",),
                kept=("1.2.840", "酶EC 1.2.3.4", "第1.2.3.4.5节", "TransferSyntaxUID 1.2.840.10008.1.2.1"),
                pattern=re.compile(r"(?<![\d.])(?!1\.2\.840\.10008\.)1\.[23]\.\d{1,10}(?:\.\d{1,30}){4,14}(?![\d.])"),
                least=10,
                fits=lambda text, start, number: True,
            ),
            Number(  # with an underscore
                found=("ID:{PID_00772631} 头颅",),
                kept=("NM_00054612", "img_20262133", "rs_00772631", "APID_00772631"),
                pattern=re.compile(r"(?<![0-9A-Za-z_.])(?:PID|ACC|MRN|SID|BLH|ZYH)_\d{6,12}(?![0-9A-Za-z_.])"),
                least=6,
                fits=code_form_fits,
                after_cues=True,
            ),
            Number(  # letters, year and number
                found=("FISH({F-26-661}):", "受理{SQ-11-20993}先压着"),
                kept=("T-25-100A", "CD-25-1234", "GB-20-1234", "F-26-661.5"),
                pattern=re.compile(
                    r"(?<![0-9A-Za-z.\-_])(?!CD|IL|GB|YY|WS|ISO|HLA)[A-Z]{1,3}-[12]\d-\d{3,6}"
                    r"(?![0-9A-Za-z.\-])"
                ),
                least=5,
                fits=code_form_fits,
                after_cues=True,
            ),
            Number(  # ISBT 128: the number of a donation, with the year in the middle
                found=("献血码[={G1532 24 001277}]", "{W0331 24 118827}冰冻解冻中", "{W1170 24 003917 Q},PRBC"),
                kept=("G1532 24 001277 IU", "G153 24 001277"),
                pattern=re.compile(
                    rf"(?<![0-9A-Za-z])[A-NP-Z]\d{{4}} \d\d \d{{6}}(?: [A-Z*](?![A-Za-z0-9]))?(?!\d){_NO_UNIT}"
                ),
                least=12,
                fits=image_fits,
            ),
            Number(  # S10 of the Universal Postal Union
                found=("EMS {EA 447 210 935 CN} 内含", "{RR447210935CN}寄出"),
                kept=("EA 447 210 935", "A 447 210 935 CN"),
                pattern=re.compile(r"(?<![0-9A-Za-z])[A-Z]{2} ?\d{3} ?\d{3} ?\d{3} ?CN(?![A-Za-z])"),
                least=9,
                fits=image_fits,
            ),
            Number(  # as the type of bar codes of samples, Code 39, is printed
                found=("*{690013377205}* 申屠静", "条码*{10241106}*\n"),
                kept=("3*690013377205*2", "数3*690013377205* 次", "*1024*"),
                pattern=re.compile(r"(?<=\*)\d{8,14}(?=\*(?![\d*]))"),
                least=8,
                fits=starred_fits,
            ),
            Cues(
                found=("受试者〔姓名〕（{S-0119}），", "〔姓名〕（{ZY77103}）", "父〔姓名〕({P26-771B})，"),
                kept=("〔姓名〕（CT）", "〔姓名〕（T2N0）", "〔医院〕（2019）"),
                words="〕（ 〕(",
                beside=Values(
                    re.compile(
                        r"(?P<value>[A-Z]{1,4}-?\d{4,12}(?:-\d{1,6}){0,2}|[A-Z]{1,3}\d\d-\d{3,6}[A-Z]?)(?=[)）])"
                    )
                ),
            ),
            Cues(
                found=(
                    "Hosp no. {SH-INT-20918}.",
                    "Sample ID {HK24-118-02};",
                    "MR# {GZ-88217}.",
                    "record {TJ-IC-5540}.",
                ),
                kept=("record keeping", "Sample ID of rs1234567", "Hosp no. of beds 12"),
                words="no No NO ID MR# MRN# record Ref",
                next_characters=".:：# ",
                beside=Values(
                    re.compile(r"[.:：#]{0,2} ?(?P<value>[A-Z]{1,4}\d{0,4}(?:-[A-Z0-9]{1,8}){1,3})(?![A-Za-z0-9\-])"),
                    coded_fits,
                ),
            ),
            Number(
                found=(
                    "{ZL26-08813}",
                    "秋实 {ZY018837-2} 2026-02-01",
                    "{BX26-0907}。",
                    "借出{S26-09933}HE片",
                    "电话:{P24-03917}(胃窦)",
                    "术中冰冻报({F240905-03})右侧",
                    "右手/{BC-5521038}左手",
                ),
                kept=(
                    "H26-12",
                    "C18-60001A",
                    "YY0505-2012",
                    "ISO10993-2019",
                    "CYP2C19-17681",
                    "国械注准ZL26-08813",
                    "ABC123-2019",
                ),
                pattern=re.compile(
                    r"(?<![0-9A-Za-z.\-_=])(?<![0-9A-Za-z][/:])(?!CYP|HLA|GB|YY|WS|ISO|IEC|NCT|CTR|CD|IL|KT|COVID)(?:[A-Z]{2,4}\d{2,8}-\d{1,8}(?![0-9A-Za-z.\-~～])"
                    r"|[A-Z]2\d(?:0[1-9]|1[0-2])[0-3]\d-\d{2,4}(?![0-9A-Za-z.\-~～])"
                    r"|[A-Z][12]\d-\d{4,6}(?![0-9.\-~～A-GI-Z])"
                    r"|[A-Z]{2}-\d{7,8}(?![0-9A-Za-z.\-~～]))"
                ),
                least=3,
                fits=short_code_fits,
                after_cues=True,
            ),
            Cues(
                found=("术后病理（{B23-19902}）回报", "处方（{RX20230619-77102}）", "病理({2024-0388}):左乳"),
                kept=("病理（2023-04）", "处方（3剂）", "病理（2024-0388～2024-0390）"),
                words="病理 处方",
                next_characters="（(",
                beside=Values(
                    re.compile(r"[（(](?P<value>[A-Z]{1,3}\d{2,12}-?\d{2,8}|(?:19|20)\d\d-\d{3,6})(?=[)）])")
                ),
            ),
            Number(  # whatever it counts, nothing medical has so many digits and no unit
                found=(
                    "{0001928374} 平扫",
                    "转{JDV008812773401}。",
                    "见{KM230910-8812}，",
                    "为{7228480122334455667}，",
                    "为{991010199003074514}，",
                ),
                kept=(
                    "HBV-DNA 12345678",
                    "HBV DNA 12345678 IU/ml",
                    "国药准字H20054321",
                    "20230918平扫",
                    "202309181530采样",
                    "NCT01234567",
                    "菌落100000000",
                    "骨密度230600001 T值",
                    "耗材码C02030207200006061890000006",
                    "批号23456789",
                    "共12345678元",
                    "CT2019-03-1210U",
                ),
                pattern=re.compile(
                    r"(?<![0-9A-Za-z.\-/_:=])(?:[A-Z]{0,6}\d{6,24}(?:-\d{1,12}){0,3}[Xx]?|[A-Z]{1,6}\d{0,9}(?:-[A-Z0-9]{2,12}){1,3})"
                    r"(?![0-9A-Za-z.\-])"
                ),
                least=0,
                fits=long_number_fits,
                after_cues=True,
            ),
            Cues(
                found=("手机尾号{4418}，", "身份证后四位{082X}，", "单号尾数{3391}\n"),
                kept=("尾号不清", "后四位医生"),
                words="尾号 尾数 后四位 末四位 后4位",
                beside=Values(re.compile(rf"{SEPARATOR}(?P<value>\d{{3}}[\dXx])(?![\dA-Za-z])")),
            ),
            Cues(  # words that also number the patients of a study
                found=("住院编号：{ZY001234}", "患者编号 {00123}"),
                kept=("将120例患者编号为1～120", "患者编号0001～0120", "登记编号：CTR20190001", "病人编号2019年"),
                words="患者编号 病人编号 住院编号 门诊编号 病案编号 就诊编号 登记编号 受试者编号",
                beside=Values(
                    re.compile(
                        rf"{SEPARATOR}{_NUMBER_SIGN}{_NO_STUDY}(?P<value>[A-Za-z]{{0,5}}-?\d[A-Za-z0-9]{{3,23}}+)"
                        rf"(?![~～—–\-至到例个次]|\.\d){NO_MEASURE}"
                    )
                ),
                header="number",
                padded=True,
            ),
            Cues(
                found=("患者（ID {7730021}，", "随访ID {FU-118} >", "住院病人编码ID {26070419}\n"),
                kept=("基因ID 7730021", "（ID 12）", "位点ID rs7730021", "项目ID 20231104"),
                words="ID",
                next_characters=" ",
                before=rf"[{_HAN}（(]",
                beside=Values(
                    re.compile(r" (?P<value>(?:[A-Z]{1,4}-\d{3,8}|[A-Z]{0,3}\d{6,14}))(?![A-Za-z0-9.~～\-]|[年月日])"),
                    id_of_somebody,
                ),
            ),
            Cues(
                found=(
                    "血透早班 {6}号机 翟",
                    "{A12}机位内瘘",
                    "换到{11}号机才",
                    "换{3}号箱\n",
                    "{2}号暖箱",
                    "{15}号椅PICC",
                    "固定{C-6}号座",
                ),
                kept=("手术机器人3号机械臂", "共6号机", "1.3号箱", "3箱牛奶", "12机位数", "第3号机"),
                words=(
                    "号机 机位 号箱 号暖箱 号保温箱 号光疗箱 号座 号椅 号躺椅 号单间 号产床 号平车 号手术间 号层流仓"
                ),
                beside=place_before,
                before=r"[0-9]",
            ),
            Cues(
                found=("，加床{J1}喻成龙", "普通床{14},ANC", "床位暂定{52}\n", "机位{B-17}，", "加床{+3}:满"),
                kept=("加床3张", "机位12个", "普通床14张", "加床2天", "机位B级"),
                words="加床 普通床 床位暂定 暂定床位 机位",
                beside=Values(
                    re.compile(r"[：:]?\s?(?P<value>(?:[A-Z]-?|[+＋])?\d{1,3})(?![\d.张个台次天名例%％\-~～])")
                ),
            ),
            Cues(  # headers of tables in English
                found=('"mrn": "{0087123}"', '"bedNo": "{17}"', "mrn={0087123},"),
                kept=("mrn of the patient", "bedNo unknown"),
                words="mrn bedNo bed_no patientId patient_id visitNo visit_no",
                next_characters="\"”' ：:=,\t",
                beside=Values(
                    re.compile(
                        r"[\"”']?\s?[：:=]\s?[\"“']?(?P<value>[+加]?[A-Z]{0,3}\d[A-Z0-9\-]{0,20})(?![A-Za-z0-9.])"
                    )
                ),
                header="number",
            ),
            Cues(
                found=("ID:{0012345}，", "ID：{P0098213}"),
                kept=("基因ID:0012345", "rsID:0012345", "ID：NCT01234567", "ID 0012345"),
                words="ID",
                beside=Values(
                    re.compile(rf"\s?[：:]\s?{_NO_STUDY}(?P<value>[A-Za-z]{{0,3}}\d{{5,18}})(?![A-Za-z0-9_.~～\-])"),
                    plain_id_fits,
                ),
                header="number",
            ),
        ),
    ),
    IdentifierType(
        "address",
        "〔地址〕",
        About(
            what="postal addresses and places of origin",
            hipaa="B: geographic subdivisions smaller than a state",
            gbt="住址",
        ),
        (
            Cues(
                found=(
                    "籍贯：{山东潍坊}",
                    "家 庭 住 址：{湖北省孝感市孝南区书院街道玉泉路28号3栋2单元501室}",
                    "地址 {云岭路188号 2 幢 2单元 9 0 2}，",
                    "地址：{玉泉路28号3栋2单元501}，",
                    "地址 {洪山区迎宾路88号海韵酒店1206}，",
                ),
                kept=("籍贯不详", "家庭住址：不详", "户籍人口"),
                words=(
                    "住址 家庭住址 现住址 地址 家庭地址 联系地址 户籍 籍贯 出生地 户籍地 参保地 就医地 收货地址 "
                    "邮寄地址 单位地址 开户行 事发地点"
                ),
                beside=address_behind,
                header="place",
                padded=True,
            ),
            Cues(
                found=(
                    "家住{武汉市洪山区珞喻路1037号}，",
                    "患者长住{五峰县采花乡星岩坪村三组}，",
                    "患者系{武汉市洪山区珞喻路}人",
                ),
                kept=("患者系胃窦区2号溃疡", "患者系肾区尿路结石", "家在农村"),
                words=(
                    "长住 常住 暂住 现居 邮寄 寄到 通讯地址 通信地址 户籍地址 户籍所在地 户口 户口地址 户口所在地 "
                    "居住地 现住 家住 住在 我家在 家在 患者系 原籍"
                ),
                beside=address_behind,
                header="place",
            ),
            Cues(
                found=("来自{湖北省黄冈市麻城市陡坡山村}，",),
                kept=("来自本村", "3个社区"),
                words="镇 乡 村",
                beside=address_around,
                before=rf"[{_HAN}]{{3}}",
            ),
            Cues(
                found=("来自{湖北省黄冈市麻城市龙池桥街道}，", "来自{湖北省武汉市洪山区关山社区}，"),
                kept=("各街道", "在社区医院就诊"),
                words="街道 社区 小区",
                beside=address_around,
                before=rf"[{_HAN}]{{3}}",
            ),
            Cues(
                found=("我在{珞喻路1037号}等", "我在{人民南路四段2号}等"),
                kept=("呼吸道3号病房", "静脉通路2号开放", "十二指肠降段2号息肉"),
                words="路 街 道 巷 弄 段",
                beside=address_around,
                after="[0-9]{1,5}[号弄]",
            ),
            Cues(
                found=(
                    "lives at {Flat 12B, Tower 3, 88 Queen's Garden, Nathan Road, Kowloon}.",
                    "at {Room 1203, Building 5, No. 216 Renmin East Road, Panlong District, Kunming 650051}",
                    "{12 Nanjing Road, Shanghai 200001},",
                    "{6 Queen's Road Central, Hong Kong}",
                ),
                kept=("Silk Road 2024", "2 cm Lane width", "Street drugs", "on day 3 of the Road"),
                words="Road Rd Street Lane Avenue",
                beside=english_address,
                before=" ",
            ),
        ),
    ),
    IdentifierType(
        "name",
        "〔姓名〕",
        About(what="names of persons", hipaa="A: names", gbt="个人姓名"),
        (
            Cues(
                found=(
                    "姓名：{古丽娜尔·买买提}，",
                    "姓 名：{王 芳} 性 别：女",
                    "姓名：{王小明}，{李小红}",
                    "姓名{乌兰托娅}性别女年龄57岁",
                    "姓名{安定国},平素体健",
                    "户名：{阿尔木}，",
                ),
                kept=(
                    "姓名：\u3000\u3000性别：男",
                    "姓 名： 性 别：女",
                    "姓名和性别不符",
                    "姓名应一致，",
                    "姓名全部正确，",
                    "核对姓名、年龄",
                    "姓名性别年龄",
                ),
                words="姓名 名字 病人姓名 患者姓名 户名 开户名",
                beside=anybody_behind,
                header="name",
                padded=True,
            ),
            Cues(
                found=("受试者姓名缩写：{LXM}，", "姓名首字母{W.J.H}", "姓名拼音缩写 {WF} 男"),
                kept=("姓名缩写：无", "姓名缩写COPD3", "姓名首字母大写"),
                words="姓名缩写 姓名首字母 姓名拼音缩写 姓名拼音首字母 姓名首字母缩写",
                beside=Values(re.compile(rf"{SEPARATOR}(?P<value>[A-Z](?:\.?[A-Z]){{1,3}})(?![A-Za-z0-9])")),
            ),
            Cues(
                found=("患者，{L.Y.}，女", "受试者，{W.J.H.}，"),
                kept=("患者，T.I.D.给药", "患者，B.P.高", "患者，I.V.给药"),
                words="患者， 受试者， 患儿，",
                next_characters="ABCDEFGHJKLMNPQRSTWXYZ",
                beside=Values(
                    re.compile(
                        r"(?P<value>(?!T\.I|B\.P|I\.V|B\.I|Q\.)[A-Z]\.(?:[A-Z]\.){1,2})"
                        r"(?=[，, 诉（(男女])"
                    )
                ),
            ),
            Cues(
                found=("医师签字：{丁浩然}", "术 者：{沈伯钧}、{吕晓东}", "家属签名：{王小明}，{李小红}，2019年"),
                kept=("联系人：本人", "责任护士", "签名：      日期："),
                words=(
                    "签名 签字 联系人 收件人 记录者 记录人 主诉者 陈述者 供史者 病史陈述者 随访人 开户人 术者 "
                    "主刀 一助 二助 三助 助手 一助手 二助手 三助手 麻醉者 主治 法定代理人 代理人 申请人 监护人 持卡人 "
                    "陪护 陪护人 通信作者 通讯作者 举报人 复印人 责任组长 经治 主管 组长 核对 责任护士"
                ),
                beside=names_behind,
                header="name",
                padded=True,
            ),
            Cues(  # any other role before a colon: 送检人：, 麻醉师：, 检验员：
                found=(
                    "送检人：{殷素梅} 日期",
                    "麻醉师：{王燕}",
                    "登记者：{zhoumin} ",
                    "评估人：{安静}；",
                    "录入员：{章韵}/{安}\n",
                ),
                kept=("人员：左 下肺", "护理员：白带多", "工作人员：温和", "老师：安静，"),
                words="人 者 师 员",
                beside=first_of(names_behind, pinyin_login),
                next_characters="：:",
            ),
            Cues(  # roles that are plain verbs without their colon
                found=("接诊：{应天} ", "审批：{景色}", "带教：{左}。", "交班：{章韵}/{安}\n", "签收：{chenxl}，"),
                kept=("接诊：左下肺", "审批：通过", "带教：白带多", "签收：符合", "采血：全部"),
                words="接诊 审批 交班 接班 带教 审签 复阅 主检 总检 责护 代领 签收 采血 首诊",
                beside=first_of(names_behind, pinyin_login),
                next_characters="：:",
            ),
            Cues(
                found=("12345床{王国强}，男",),  # a shorter number is found too
                kept=("起床困难",),
                words="床",
                beside=names_behind,
                before=r"\d",
            ),
            Cues(
                found=(
                    "患者{王伟}因腹痛入院",
                    "其女{汪佩}诉",
                    "患者{阿依古丽}，女",
                    "患者{闵慧}本人",
                    "患者{乔牧之}，",
                    "{梁敏}之女，",
                    "{王芳之女}，早产儿，",
                    "新生儿：{荀丽之女}，",
                    "丈夫{Michael Berg}了解病情",
                    "其侄女{隗文文}保管",
                    "其女儿{汪佩}诉",
                    "外甥女{邹岚}，",
                    "患者之夫{古今}〔手机号〕陪同",
                    "家属{严守一}(长子)签字",
                    "其妻{计划}（手机〔手机号〕）",
                ),
                kept=(
                    "患者于昨日发病",
                    "患者黄疸",
                    "母亲白血病",
                    "其子宫增大",
                    "其女儿高血压",
                    "其外甥女平素体健",
                    "患者平时155次",
                    "家属公司(左)",
                    "家属任何先生们",
                ),
                words=(
                    "患者 病人 患儿 产妇 孕妇 死者 伤者 家属 之子 之女 之妻 之夫 之母 之父 之弟 之兄 之妹 之姐 其子 "
                    "其女 其妻 其夫 其父 其母 其兄 其弟 其姐 其妹 儿子 女儿 妻子 丈夫 父亲 母亲 爱人 配偶 老公 老婆 "
                    "弟弟 哥哥 姐姐 妹妹 老伴 长子 次子 长女 次女 大女儿 小女儿 之侄 其侄 侄子 侄女 孙子 外孙 "
                    "外甥 外甥女 侄媳 堂弟 堂哥 堂姐 堂妹 表弟 表哥 表姐 表妹 岳父 岳母 婆婆 姨妈 姑妈 伯父 伯母 "
                    "未婚夫 未婚妻 其女儿 其儿子 其妻子 其丈夫 其父亲 其母亲 其弟弟 其哥哥 其姐姐 其妹妹 其女婿 其女友 "
                    "其侄子 其侄女 其外甥 其外甥女 其孙 其孙子 其孙女 其儿媳 其老伴 其爱人 其配偶 "
                    "其外孙 其外孙女 其舅 其舅舅 其姑 其姑姑 "
                    "外孙女 我爸 我妈 我爷爷 我奶奶 男朋友 女朋友 女友 男友 女婿 儿媳 舅舅 姑姑 本人 受试者"
                ),
                beside=names_of_kin,
            ),
            Cues(
                found=("骨科{张}医生查房", "医 师：{王燕}", "{王燕}护士", "申请医生{jiangtao} "),
                kept=("由于医生", "向医生咨询", "主治医师", "一周医生"),
                words="医生 医师 护士",
                beside=first_of(names_around, pinyin_login),
                header="name",
                padded=True,
            ),
            Cues(
                found=(
                    "心外{邝}护长",
                    "民警{邱}警官（",
                    "骨科{张}主任查房",
                    "{何建民}主任医师查房",
                    "{刘}先生您好",
                    "{孙}女士，46岁",
                    "，{卜}队长垫付",
                    "派出所{滕}民警送来",
                    "跟{储}师兄值班",
                ),
                kept=("请相关科室主任会诊", "高三老师", "校长签字", "由民警送来", "和师兄"),
                words=(
                    "主任 主任医师 副主任 副主任医师 主治医师 住院医师 大夫 教授 副教授 护士长 护师 院长 博士 先生 "
                    "女士 小姐 阿姨 大爷 大妈 奶奶 老师 师傅 护长 警官 科长 大叔 大姐 经理 会计 秘书 书记 "
                    "民警 校长 厂长 队长 站长 所长 处长 班长 村长 矿长 店长 律师 师兄 师姐 师弟 师妹 爹爹"
                ),
                beside=names_around,
                header="name",
            ),
            Cues(
                found=("我叫{吴晓菲}，", "俺爹叫{段福来}，", "我老婆叫{古丽米热}，"),
                kept=("我叫不出名字", "孩子叫什么名字", "孩子叫他，"),
                words=(
                    "我叫 名叫 俺叫 爹叫 娘叫 媳妇叫 闺女叫 ，叫 宝宝叫 孩子叫 儿子叫 女儿叫 老婆叫 老公叫 妻子叫 "
                    "丈夫叫 我爸叫 我妈叫"
                ),
                beside=called,
            ),
            Cues(
                found=("Dr. {Chen}, thank", "Mr. {Liu Guoqiang}, DOB", "Dr.{Li}给我开"),
                kept=("Dr. med.", "MRI Mr. 12"),
                words="Dr DR Mr Mrs Ms Prof",
                beside=latin_behind,
                next_characters=". ",
            ),
            Cues(
                found=("Dear {Hannah}, your", "Regards, {Anton}", "wife {Claire} 135", "father {Vladimir Kuznetsov}（"),
                kept=("Dear Colleague, thank", "Dear Dr. med.", "Regards, the team", "husband denies", "Mother: well"),
                words=(
                    "Dear Regards, Sincerely, wife husband daughter son mother father Wife Husband Daughter Mother "
                    "Father"
                ),
                beside=greeted,
                next_characters=" \n",
            ),
            Cues(
                found=("{Jean-Pierre Dubois}, 58 yo, ", "{Maria Silva}, 31 y/o "),
                kept=("Chest pain, 58 yo", "male, 31 y/o"),
                words="yo y/o",
                beside=name_before_age,
                before=r"[\d ]",
                after=r"(?![A-Za-z])",
            ),
            Cues(
                found=(
                    "Patient: {Maria Fernanda Silva}  ID",
                    "Signature: {M. F. Silva}  Date",
                    "Name：{ZHAO GUOQIANG} ",
                    "Insured: {Laura Schmidt} Policy",
                    "Radiologist: {Peter Lau} Date",
                ),
                kept=("Patient: denies pain", "Name: ", "Patient: Denies pain", "Insured: Policy", "Member: Age 12"),
                words=(
                    "Patient Name Physician Doctor Signature Attending Contact Interpreter Surgeon Nurse Insured "
                    "Member "
                    "Policyholder Beneficiary Claimant Guardian Payer Payee Consultant Radiologist Pathologist "
                    "Anesthetist Sonographer Caregiver Requester Referrer"
                ),
                beside=latin_field,
                next_characters=" :：",
            ),
            Cues(
                found=(
                    "督导员{金小坚}，",
                    "经办 {zhoumin}",
                    "经办：{章韵}/{安}\n",
                    "出险人{闾丘露}，",
                    "翻译{Maria Berg}陪同",
                    "制片{武当}，",
                    "巡回护士{和平},器械",
                    "借款人{计划}因病",
                    "麻醉医师{安静}。",
                    "司机签字{勇敢}。",
                    "司机{苏打}〔手机号〕",
                ),
                kept=(
                    "接收者签字",
                    "督导员每日到访",
                    "翻译陪同",
                    "麻醉医师查房，",
                    "巡回护士应邀，",
                    "手术医师全部，",
                    "借款人因病",
                    "经办 excel",
                    "经办业务",
                ),
                words=(
                    "经办 督导员 出险人 被保险人 投保人 收款人 缴款人 收费员 理赔专员 报案人 报警人 报告人 借片人 "
                    "陪送人 送医者 接收者 核对者 受血者 献血者 检验者 批准者 参加人员 参加者 参与者 签发人 "
                    "授权委托人 委托人 受托人 备案人 户主 村支书 校医 康复师 治疗师 技师 检查技师 麻醉医师 取材医师 "
                    "诊断医师 报告医师 审核医师 药师 审核药师 工程师 报修工程师 翻译 首例 司机 驾驶员 制片 送检 审核 "
                    "巡回 调配 发药 复核 录入 校对 住院总 值班医生 主管医生 谈话医生 医生助理 家属代表 村医 群主 "
                    "经手 转诊经手 随访护士 巡回护士 器械护士 置管护士 责任医师 操作者 照顾者 护工 护送人 目击者 "
                    "见证人 紧急联系人 单位领导 老板 客服 取药人 领药人 取件人 主刀医生 第一助手 职工 会诊专家 "
                    "采血者 执行者 PatientName 麻醉医生 手术医师 手术医生 主刀医师 第二助手 洗手护士 检查医师 借款人 "
                    "付款人 交款人 缴费人 代缴人 代办人 受益人 司机签字 医师签字 医生签字 护士签字 操作员签字 "
                    "经办人签字"
                ),
                beside=first_of(names_behind_role, pinyin_login),
            ),
            Cues(
                found=(
                    "{刘桂香} 女 77",
                    "{植小珠}，女，778120",
                    "{Anna Berg}，女",
                    "{Nguyễn Thị Hoa}，女，",
                    "孙女：{刘寄奴}，女，3岁",
                ),
                kept=("黄疸，男，3天", "发热咳嗽，男，30岁", "青年 女", "高血压，女，60岁"),
                words="男 女",
                beside=name_before_sex,
                before=r"[，,、\s（(]",
                after=r"[，,。；;、\s）)性\d]|$",
            ),
            Cues(
                found=("D77120;{苏打};男;5岁", "ZY213|{白雪}|女|46|"),
                kept=("20231104;黄疸;男;3天", "腹痛;黄疸;男;3天", "D77120;苏打;男;用药", "D77120;头痛;女;5岁"),
                words="男 女",
                beside=name_in_a_row,
                before=r"[;；|/｜]",
            ),
            Cues(
                found=("{宋桂兰}，65岁女性", "{孙丽}（化名），25岁"),
                kept=("腹泻，25岁", "黄疸，3岁"),
                words="岁",
                beside=name_before_age,
                before=r"\d",
            ),
            Cues(
                found=("{王某}，女，46岁", "{李某某}诉头痛"),
                kept=("患者于某医院就诊", "有某种疾病"),
                words="某",
                beside=anonymous_name,
            ),
            Cues(
                found=("签字为证:{元××};", "，{李○○}，女", "：{欧阳××}签"),
                kept=("患者于××医院", "3××5", "，于××医院", "××李××"),
                words="×× ○○",
                beside=masked_name,
            ),
            Cues(
                found=("某市第二医院 {丰收} 敬上", "呼吸科 {欧阳锋} 谨上", "，{王芳}敬启"),
                kept=("此致敬上", "全体医师敬上", "院长敬启者"),
                words="敬上 谨上 敬启 谨启 拜上 敬呈",
                beside=name_of_a_letter,
            ),
            Cues(
                found=(
                    "710061 {党参}收(姓党),〔手机号〕",
                    "2栋1704室，{古今}收 电话〔手机号〕",
                    "{王芳}收：〔手机号〕",
                ),
                kept=("本人收,〔手机号〕", "全部收，13天", "单位收,〔手机号〕", "，党参收敛"),
                words="收",
                next_characters=" （(，,：:1〔〓",
                beside=receiver,
            ),
            Cues(
                found=("请{安静}到3号窗口取药", "请{王小明}（128号）到2号诊室"),
                kept=("请您到3号窗口", "请患者到3号窗口", "请安静到3天", "请相关到3号窗口", "请家属到2号诊室"),
                words="到",
                next_characters="123456789",
                beside=called_up,
            ),
            Cues(
                found=("已为您转接{康健}医生", "谁有{和谐}医生微信", "@{平安}主任 "),
                kept=("请普通医生", "谢谢医生", "很高兴医生回复", "请门诊医生", "找严格医生"),
                words="医生 主任 护士 大夫 教授 医师",
                beside=word_before_title,
                before=rf"[{_HAN}]{{2}}",
            ),
            Cues(
                found=("{石}工,呼吸机自检不过", "找{易}工，", "@{黄}工：机器"),
                kept=("施工，", "职工，", "请护工，", "员工：", "全工，"),
                words="工",
                next_characters="，,：:。",
                beside=engineer,
            ),
            Cues(
                found=("用户{yangjie_sn} 打开", "user={huangyuting} ", "管床{zhaoyq} "),
                kept=("用户 admin", "用户hello123", "报修system", "用户zhang@", "user=python "),
                words="用户 用户名 登录名 login user 更正人 打印者 申请者 管床 报修",
                next_characters="：: =abcdefghijklmnopqrstuvwxyz",
                beside=pinyin_login,
            ),
            Cues(
                found=(
                    "{李姐}，明早要见主任",
                    "，{刘老汉}氧气管脱落",
                    "问{王姐}",
                    "{高妈妈}抱回病房",
                    "{马老汉}右眼",
                    "{俞老先生}，家属",
                    "，{桑老三}骑车",
                    "，{冉老幺}属鸡",
                    "，{况二哥}你要是再喝",
                    "；{曲叔}用三轮车",
                    "，{史大哥}口音重",
                ),
                kept=(
                    "小姐，",
                    "和妈妈说",
                    "表姐，",
                    "告诉妈妈",
                    "有老汉来",
                    "高血压姐妹",
                    "安老汉庄",
                    "，连妈妈都不认识",
                    "，应妈妈要求",
                    "，那妈妈的饮食呢",
                    "，周三叔叔来接",
                    "，表叔来了",
                    "，于老三说",
                ),
                words="老大 老二 老三 老四 老五 老六 老幺 老倌 老汉儿 大哥 大嫂 二哥 二姐 二爷 三哥 三姐 三爷 二叔 "
                "三叔 大伯 叔 老汉 姐 哥 妈妈 爸爸 老太太 老爷子 老先生 老师傅 老大爷 老大妈 老奶奶 老太 婶 嫂",
                beside=called_as_kin,
                before=rf"[{_HAN}]",
            ),
            Cues(
                found=("{朵朵奶奶}:今天不烧了", "我是{苗苗妈妈}，", "已告知{轩轩爸爸}", "请{糖糖外婆}来"),
                kept=(
                    "跟爷爷奶奶睡",
                    "宝宝爷爷感冒了",
                    "问问妈妈",
                    "要和和妈妈的关系",
                    "天天妈妈都来",
                    "，谢谢奶奶",
                    "的爸爸妈妈",
                    "星朵朵妈妈",
                ),
                words="妈妈 爸爸 奶奶 爷爷 外婆 外公 姥姥 姥爷",
                beside=doubled_before_kin,
                before=rf"[{_HAN}]{{2}}",
            ),
            Cues(
                found=("同事{小王}前几天", "{小李}一直在喝药", "一般跟{老魏}说", "@{小陈}\n", "今起{小张}轮转"),
                kept=("小孙，", "大小王，", "小程序", "老陈醋", "小梁切除", "小叶增生", "老王子", "小李子", "幼小何时"),
                words="小 老",
                next_characters=SHORT_SURNAMES,
                beside=small_or_old,
            ),
            Cues(
                found=("替{Malee}缴费", "代{Anna Berg}取药"),
                kept=("替Malee", "代CT检查", "替HBV治疗"),
                words="替 代 帮",
                next_characters="ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                beside=latin_for_whom,
            ),
            Cues(
                found=("{Zhou Q} 2:14 AM: pt desat", "\n{Kevin} 10:05 PM 来看"),
                kept=("at 2:14 AM", "Time 10:05 AM", "pH 7 AM"),
                words="AM PM",
                before=r"\d ",
                beside=chat_header,
            ),
            Cues(
                found=("家长{农民}先生手机", "家长{计划}（其父）", "班主任{安静}〔手机号〕"),
                kept=("家长：班主任说", "家长先生", "家长安静地", "班主任平时〔手机号〕"),
                words="家长 班主任 陪人 经办人 村干部 网格员 保姆 房东 邻居 同事 同学 朋友",
                beside=person_directly,
            ),
            Cues(
                found=("姓{苏}，请回电",),
                kept=("姓氏不明", "百姓高兴"),
                words="姓",
                beside=surname_alone,
            ),
        ),
    ),
)
"""Types that every profile treats. Where two numbers cover the same characters, the type listed first counts."""
