"""Types of identifiers that regulations name: papers, machines and accounts for every profile, dates for some.

The shape is that of `tasks/deidentify/identifier_types.py`: each way has texts in which it finds identifiers (in
braces), and similar ones that must stay.
"""

from __future__ import annotations

import re

from tasks.deidentify.forms.cues import (
    LOGIN_IN_THE_CLAUSE,
    NO_MEASURE,
    SEPARATOR,
    Values,
    first_of,
    named_account,
)
from tasks.deidentify.forms.dates import (
    ANY_DATE,
    BIRTH_DATE,
    RELATIVE_MONTH,
    VALUE,
    birth_fits,
    date_fits,
    english_date,
    minguo_birth,
    minguo_date,
    spelled_date,
    spelled_day,
)
from tasks.deidentify.forms.identifier import About, Cues, Digits, IdentifierType, Number
from tasks.deidentify.forms.institutions import (
    class_before,
    company_around,
    department,
    employer_behind,
    hospital_around,
    job,
    job_behind,
    people,
    people_behind,
    school_around,
    workplace_before,
)
from tasks.deidentify.forms.machine_numbers import batch_of_implant, coordinates_fit, ip_fits, plate_fits
from tasks.deidentify.forms.numbers import passport_fits
from tasks.deidentify.forms.places import PROVINCE_SIGNS

_HAN = "\u4e00-\u9fff"
_CODE = r"(?P<value>(?=[A-Z\-]{0,8}\d)[A-Za-z0-9][A-Za-z0-9\-./]{1,27}+)(?<![./-])"
"""Code of a device: letters, then digits, with hyphens between."""
_OF_A_PERSON = r"(?<![~～\-—–至到≥>＞<≤近约每])"
_CLERKS = "收款员 收款人 收银员 录入员 登记员 打印人 经办人 报告人"
_DATE_BEHIND = Values(re.compile(rf"[\"”']?[\s：:=]{{0,6}}+[\"“']?为?{VALUE}"))

REGULATED_TYPES = (
    IdentifierType(
        "birth_date",
        "〔出生日期〕",
        About(
            what="dates of birth",
            profiles=("hipaa", "gbt35273"),
            hipaa="C: dates directly related to an individual",
            gbt="生日",
        ),
        (
            Cues(
                found=(
                    "出生日期：{1972-03-08} ",
                    "DOB {12/05/1961}, with",
                    "出生年月：{1948年12月}",
                    "生于{1955年7月2日}",
                    '"出生日期": "{1930-05-06}"',
                    '"birthDate":"{1930-05-06}"',
                ),
                kept=("出生日期不详", "生于农村", "生日快乐", "出生时体重3.2kg"),
                words=(
                    "出生日期 出生年月 出生年月日 出生时间 出生于 生于 生日 DOB dob 出生日 BirthDate PatientBirthDate "
                    "birthDate birth_date birthday"
                ),
                beside=_DATE_BEHIND,
                header="number",
                padded=True,
            ),
            Cues(
                found=("{民国四十三年五月三日}生", "{民国二十年}生，"),
                kept=("民国时期", "民国43年5月3日入院", "民国二十年版"),
                words="民国",
                beside=minguo_birth,
                after="[0-9元一二三四五六七八九十百]",
            ),
            Digits(
                found=("男，{1949.10.1}生，", "{2019年5月30日}出生，", "出生 日期：{1949.10.1}生"),
                kept=(
                    "3生",
                    "血糖12.3生化",
                    "2019年生产",
                    "签名：李志强   2024.3.15\n出生于农村",
                    "入院日期 2024.3.15 出生于农村",
                    "2024.3.15 出生日期不详",
                ),
                pattern=BIRTH_DATE,
                fits=birth_fits,
                next_characters="年-/.月 ",
            ),
        ),
    ),
    IdentifierType(
        "date",
        "〔日期〕",
        About(
            what="dates of admission, treatment and death, with a month or a day",
            profiles=("hipaa",),
            hipaa="C: dates directly related to an individual",
            gbt="就诊时间 (an option)",
        ),
        (
            Digits(
                found=(
                    "于{2023年4月11日}入院",
                    "入院日期 {2022-06-01} 出院",
                    "{2023/8/30}复查",
                    "与{2022.11.03}片对比",
                    "{3月12日}出院",
                    "{08-12}入院",
                    "之前在{2018-11}、",
                    "术于{2019年国庆}前",
                    "{1957年腊月廿八}入院",
                    "52Y,{20230918},CHEST",
                    "于去年{5月}起",
                    "{24.3.11}入院",
                    "{20240318}出院",
                    "{4/2}出院",
                    "采样:{2024-06-11 07:12}",
                    "follow-up {2024/3/20}.",
                    "于{2024年端午节}前",
                ),
                kept=(
                    "3周后复查",
                    "于某日高热",
                    "术后3月，",
                    "2019年版指南",
                    "ROM 0-110°",
                    "血压120/80mmHg",
                    "2015-2019年",
                    "剂量1-2片",
                    "手术编码51.2300",
                    "I21.1、E11.9",
                    "c.743G>A",
                    "方案号CTR20212345",
                    "5月龄",
                    "随访6-12月",
                    "2000-10 IU/ml",
                    "肌力4/5，",
                    "54.13.2入院",
                    "1:2024-03-11",
                ),
                pattern=f"(?:{ANY_DATE}|{RELATIVE_MONTH})",
                next_characters="年-/.月 ,，|\t入出转",
                fits=date_fits,
            ),
            Cues(
                found=(
                    "日期{23.6.9}",
                    "签发日期：{20230612} ",
                    "LMP{2022.8.30}。",
                    "入院时间{三月十一}，",
                    '"入院日期": "{20240611}"',
                ),
                kept=("日期不详", "时间3小时", "检查时间20分钟", "时间三月余"),
                words=(
                    "日期 入院日期 出院日期 手术日期 检查日期 报告日期 送检日期 签发日期 采样日期 时间 入院时间 "
                    "出院时间 报告时间 检查时间 采样时间 死亡时间 随访时间 LMP 末次月经 预产期"
                ),
                beside=_DATE_BEHIND,
                header="number",
            ),
            Cues(
                found=("入院:{20240611} 出院", "采样：{6月11日}，"),
                kept=("手术：20分钟", "检查:2024年版"),
                words="入院 出院 采样 接收 审核 送检 报告 手术 检查 登记",
                next_characters="：:",
                beside=_DATE_BEHIND,
            ),
            Cues(
                found=("{民国43年5月3日}入院",),
                kept=("民国43年入院", "民国年间"),
                words="民国",
                beside=minguo_date,
                after="[0-9元一二三四五六七八九十百]",
            ),
            Cues(
                found=("{二〇二三年三月八日}", "{一九九〇年十二月}手术", "{一九五七年腊月初三}，"),
                kept=("二〇二三年版", "一九岁"),
                words="二〇 二○ 二零 一九",
                beside=spelled_date,
            ),
            Cues(
                found=("{三月十一日}入院", "于{十二月二日}复查，"),
                kept=("五月五日采", "三月十日龄", "三月桃花", "十二月", "第三月二日"),
                words="一月 二月 三月 四月 五月 六月 七月 八月 九月 十月 十一月 十二月",
                beside=spelled_day,
            ),
            Cues(
                found=(
                    "on {May 12, 1990}, he",
                    "{Dec. 3 2021} MRI",
                    "on {12 Mar 2024} he",
                    "{12th March 2024}",
                    "{12-Mar-2024}",
                ),
                kept=("May have", "Mark 12", "112 Mar 2024", "v2.12 Mar 2024"),
                words="Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
                beside=english_date,
            ),
        ),
    ),
    IdentifierType(
        "age",
        "〔高龄〕",
        About(what="ages over 89", profiles=("hipaa",), hipaa="C: ages over 89", gbt=""),
        (
            Digits(
                found=("男，{93岁}，", "{101 岁}，回族", "F {95Y}，", "A {94-year-old} man", "{94yo} F", "{94-yr-old}"),
                kept=("89岁", "90～95岁", "90岁以上", "随访93例", "SpO2 93%", "≥90岁者", "93分", "94-year survival"),
                pattern=rf"{_OF_A_PERSON}(?<![0-9.])(?:9\d|1[0-3]\d)\s?(?:周?岁(?!以|及|组|的?人群|者|老人|[~～\-至])"
                r"|Y(?![a-z])|y/o|[ \-]?(?:years?|yrs?)[ \-]old|\s?yo(?![a-z]))",
                next_characters="岁周 Yy-",
            ),
            Cues(
                found=("今年{九十五}了", "享年{一百零二岁}", "他今年{95}，"),
                kept=("今年八十五", "享年不详", "今年95%", "今年95例"),
                words="今年 享年 高龄 现年 已经",
                beside=Values(
                    re.compile(
                        r"(?P<value>(?:九十[一二三四五六七八九]?|一百(?:零[一二三四五六七八九])?)(?:多)?岁?|(?:9\d|1[0-3]\d)(?=[，,。了；;]))(?![分次例%天个公斤])"
                    )
                ),
            ),
            Cues(
                found=(
                    "男，{九十二岁}，",
                    "{一百岁}老红军",
                    "{九旬}老妇跌倒",
                    "年逾{九旬余}，",
                    "{九十有三}，神清",
                    "{九十高龄}仍",
                ),
                kept=("八十二岁", "九十岁以上", "一百岁的人群", "九旬以上", "八旬老人", "九十有余"),
                words=(
                    "九十岁 九十一岁 九十二岁 九十三岁 九十四岁 九十五岁 九十六岁 九十七岁 九十八岁 九十九岁 一百岁 "
                    "九旬 九十有一 九十有二 九十有三 九十有四 九十有五 九十有六 九十有七 九十有八 九十有九 "
                    "九十高龄 百岁高龄"
                ),
                beside=Values(re.compile("(?P<value>[余多]?)(?!以|及|组|的?人群)"), from_cue=True),
            ),
            Cues(
                found=(
                    "年龄：{92}，",
                    "年 龄 {97} 性别",
                    '"年龄": {94},',
                    '"age":"{94}"',
                    "Age: {94}, male",
                    "aged {94} years",
                    "年龄：{91Y}",
                    "年龄 {九十四}，",
                ),
                kept=(
                    "年龄：52，",
                    "年龄90～95",
                    "aged 90 or older",
                    "aged 90-95",
                    "aged 92%",
                    "image: 94",
                    "年龄 九十多例",
                ),
                words="年龄 age aged Age",
                beside=Values(
                    re.compile(
                        r"[\"”']?[\s：:]{1,4}+[\"“']?(?P<value>(?:9\d|1[0-3]\d)(?:岁|Y(?![A-Za-z]))?|九十[一二三四五六七八九](?![例分%次多]))"
                        r"(?![\d.~～\-月天%+]| or| and (?:over|above))"
                    )
                ),
                header="number",
                padded=True,
            ),
        ),
    ),
    IdentifierType(
        "postcode",
        "〔邮编〕",
        About(
            what="postcodes",
            profiles=("hipaa", "gbt35273"),
            hipaa="B: zip codes",
            gbt="住址",
        ),
        (
            Cues(
                found=("邮编：{230041}", "邮政编码{274700}，"),
                kept=("邮编不详", "邮编：23"),
                words="邮编 邮政编码 邮政 ZIP Zip zip",
                beside=Values(re.compile(rf"{SEPARATOR}(?P<value>\d{{6}})(?!\d)")),
                header="number",
                padded=True,
            ),
        ),
    ),
    IdentifierType(
        "plate",
        "〔车牌号〕",
        About(
            what="licence plates and chassis numbers",
            hipaa="L: vehicle identifiers",
            gbt="车辆信息",
        ),
        (
            Cues(
                found=(
                    "救护车{粤A0J2H5}",
                    "车号{渝D·T8821}。",
                    "我{京AD12345}停在",
                    "{鄂A·7K812}车祸",
                    "{川U·90120警}，",
                    "肇事车{皖KD 1528挂}。",
                    "出租车{甘AT·7752}扔下",
                ),
                kept=("京A", "川B超", "新CT12", "苏B族", "沪EGFR123", "新CT 2026年"),
                words=" ".join(PROVINCE_SIGNS),
                beside=Values(
                    re.compile(
                        r"(?P<value>[A-HJ-NP-Z]{2}(?: ?[·•] ?\d{4}|[ ]\d{4}(?=挂))挂?"
                        r"|[A-HJ-NP-Z]\s?[·•]?\s?(?=[A-HJ-NP-Z0-9]{0,4}\d)(?:[A-HJ-NP-Z0-9]{4,5}[挂学警港澳领]|[A-HJ-NP-Z0-9]{5,6}))(?![A-Za-z0-9./])"
                    ),
                    plate_fits,
                    from_cue=True,
                ),
                next_characters="ABCDEFGHJKLMNPQRSTUVWXYZ",
            ),
            Cues(
                found=("{WJ云0817B}停", "{WJ·沪21073}免费"),
                kept=("WJ综合征", "WJ云0817岁"),
                words="WJ",
                beside=Values(
                    re.compile(rf"(?P<value>[·•]?[{PROVINCE_SIGNS}][·•]?\d{{4}}[A-Z0-9])(?![A-Za-z0-9])"), from_cue=True
                ),
            ),
            Cues(
                found=("车{使014578}，", "车牌{使224·001}"),
                kept=("使014578人", "即使014578", "使用"),
                words="使",
                next_characters="0123456789",
                before="[车牌：: ]",
                beside=Values(re.compile(r"(?P<value>\d{3}[·•]?\d{3})(?![\d人例])"), from_cue=True),
            ),
            Cues(
                found=("车牌{宜昌D28871}）", "车架号：{LSVAA4182E2123456}", "车牌{蒙D·82K17挂}，"),
                kept=("车牌不详", "车牌3次"),
                words="车牌 车牌号 车牌号码 车号 车架号 发动机号 VIN",
                beside=Values(
                    re.compile(
                        rf"{SEPARATOR}(?P<value>[{_HAN}]{{0,2}}[A-Z]?[·•]?(?=[A-Z]{{0,8}}\d)[A-Z0-9]{{5,17}}[挂学警]?)(?![A-Za-z0-9])"
                    )
                ),
                header="number",
            ),
        ),
    ),
    IdentifierType(
        "device",
        "〔设备号〕",
        About(
            what="serial numbers of devices and implants",
            profiles=("hipaa",),
            hipaa="M: device identifiers and serial numbers",
            gbt="设备序列号 (of personal devices)",
        ),
        (
            Cues(
                found=("序列号{SN7781920034}。", "假体编号{ZS-FH-00871}。"),
                kept=("序列号NM_000546", "序列号不清"),
                words=(
                    "序列号 设备序列号 出厂编号 机身号 机号 设备编号 设备号 仪器编号 假体编号 假体序列号 起搏器编号 "
                    "植入物编号 器械编号 唯一标识 UDI"
                ),
                beside=Values(re.compile(rf"{SEPARATOR}{_CODE}(?![A-Za-z_×%％]){NO_MEASURE}")),
                header="number",
            ),
            Cues(
                found=("血压计SN: {BP2209-00817}，", "注射器SN {30071}，"),
                kept=("SN比", "HCSN 12345", "lncRNA SNHG3", "细胞SNU739"),
                words="SN S/N",
                beside=Values(re.compile(rf"(?:\s?[：:]\s?|\s){_CODE}(?![A-Za-z_×%％]){NO_MEASURE}")),
                header="number",
            ),
            Cues(
                found=("假体批号{LOT20220311B}，", "接种狂犬疫苗（批号{202302B17}）"),
                kept=("质控批号30421", "药品批号：20190312"),
                words="批号",
                before="(?<!审)",
                beside=Values(re.compile(rf"{SEPARATOR}{_CODE}(?![A-Za-z])"), batch_of_implant),
            ),
        ),
    ),
    IdentifierType(
        "licence",
        "〔证书号〕",
        About(
            what="licences and certificates of persons",
            hipaa="K: certificate and license numbers",
            gbt="驾驶证, 工作证",
        ),
        (
            Cues(
                found=(
                    "执业证书编号{110420500008123}，",
                    "从业资格证号：{440100123456}；",
                    "（证号{SHPG-00871}）",
                    "执业证书编码{110430000017826}，",
                    "医疗机构执业许可证{PDY00218836010519D1102}，",
                    "驾驶证号{420106198003174}，",
                    "医师资格证 {202033110330602198012124567}，",
                    "医师资格证书编码：{202033110330602198012124567}\n",
                ),
                kept=("执业证书已年检", "资格证3年"),
                words=(
                    "执业证 执业证书 执业证号 执业证书编号 执业证书号 医师执业证 资格证 资格证号 资格证书 "
                    "资格证书编号 从业资格证 从业资格证号 许可证号 驾驶证 驾驶证号 驾照 证号 证书编号 证书号 "
                    "执业许可证 执业许可证号 执业证书编码 资格证书编码 医师资格证 医师资格证号 医师资格证书 "
                    "医师资格证书编码 "
                    "统一社会信用代码"
                ),
                beside=Values(
                    re.compile(
                        rf"(?:编号)?{SEPARATOR}(?!(?:19|20)\d\d[）)〕\]])(?P<value>[A-Z]{{0,6}}-?\d[A-Z0-9\-]{{3,30}}+)(?![A-Za-z])"
                    )
                ),
                header="number",
            ),
            Number(
                found=("燕青（{142011000019872}）",),
                kept=("（142011000019872，", "（342011000019872）"),
                pattern=re.compile(r"(?<=[（(])[12]\d{14}(?=[)）])"),
                least=15,
                fits=lambda text, start, number: True,
            ),
        ),
    ),
    IdentifierType(
        "staff",
        "〔工号〕",
        About(
            what="staff numbers",
            hipaa="R: any other unique identifying number",
            gbt="工作证",
        ),
        (
            Cues(
                found=(
                    "工号{A0098} ",
                    "警号{083312}民警",
                    "核赔岗{HP077}，",
                    "收费员：{2033} ",
                    "客服{1027}：",
                    "麻醉者{20871}。",
                ),
                kept=("工号牌", "客服热线", "收费员3名"),
                words=(
                    "工号 职工号 员工号 员工编号 职工编号 工牌号 胸牌号 警号 坐席 坐席号 柜员号 操作员 客服 收费员 "
                    "核赔岗 调度员 麻醉者 手术者工号 护士工号 医师工号 值班长"
                ),
                beside=Values(
                    re.compile(rf"{SEPARATOR}(?P<value>[A-Z]{{0,4}}-?\d{{3,10}}号?)(?![\dA-Za-z.]){NO_MEASURE}")
                ),
                header="number",
            ),
            Cues(  # a colon may have a name behind it
                found=("收款员 {1037} ", "报告人{N0238} "),
                kept=("收款人 不详", "报告人120例", "经办人 2026年"),
                words=_CLERKS,
                next_characters=" 0123456789ABCDEFGHJKLMNPQRSTUVWXYZ",
                beside=Values(
                    re.compile(
                        rf" ?(?P<value>[A-Z]{{1,4}}-?\d{{3,8}}|(?!(?:19|20)\d\d)\d{{4,8}})(?![\dA-Za-z.]){NO_MEASURE}"
                    )
                ),
            ),
            Cues(  # the same with a colon, before digits alone
                found=("收款人：{0417}，", "打印人:{0417} "),
                kept=("报告人：2024年", "登记员：12人"),
                words=" ".join(f"{role}{colon}" for role in _CLERKS.split() for colon in "：:"),
                next_characters="0123456789",
                beside=Values(re.compile(r"(?P<value>\d{4,8})(?![\d.年])")),
            ),
            Cues(
                found=("Cashier: {0417}", "cashier no. {0417},"),
                kept=("cashier desk", "cashier 3"),
                words="cashier Cashier operator Operator",
                next_characters=" ：:",
                beside=Values(
                    re.compile(r" ?(?:no\.?|No\.?|ID|id)? ?[：:]? ?(?P<value>[A-Z]{0,3}\d{3,8})(?![\d.A-Za-z])")
                ),
            ),
            Cues(
                found=("医师（{D0098}）",),
                kept=("护士（3名）", "医师（CT12）"),
                words="医师 医生 护士 药师 技师",
                next_characters="（(",
                beside=Values(re.compile(r"[（(](?P<value>[A-Z]{1,2}\d{3,8})(?=[)）])")),
            ),
        ),
    ),
    IdentifierType(
        "ip",
        "〔IP地址〕",
        About(
            what="IP addresses",
            profiles=("hipaa", "gbt35273"),
            hipaa="O: internet protocol addresses",
            gbt="IP 地址",
        ),
        (
            Digits(
                found=("，IP {10.12.33.207}。", "主机{192.168.6.21}:104"),
                kept=("3.1.2.1 一般资料", "结果4.059.098.43", "IP 300.1.2.3", "1.2.840.113619.2.55.3"),
                pattern=r"(?<![0-9A-Za-z.])(?P<value>\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})(?![.\d])",
                fits=ip_fits,
                next_characters=".",
                after_cues=False,
            ),
        ),
    ),
    IdentifierType(
        "mac",
        "〔MAC地址〕",
        About(
            what="MAC addresses",
            profiles=("hipaa", "gbt35273"),
            hipaa="M: device identifiers",
            gbt="MAC 地址",
        ),
        (
            Digits(
                found=("网卡{00:1B:44:11:3A:B7}，",),
                kept=("时间00:12:30", "00:1B:44"),
                pattern=r"(?<![0-9A-Za-z:\-])[0-9A-Fa-f]{2}(?P<gap>[:-])(?:[0-9A-Fa-f]{2}(?P=gap)){4}[0-9A-Fa-f]{2}(?![0-9A-Za-z:\-])",
                next_characters=":-ABCDEFabcdef",
                after_cues=False,
            ),
            Cues(
                found=("MAC：{A4-5E-60-C1-22-0F}", "叫号屏mac{00:1B:44:11:3A:B7},地址"),
                kept=("MAC患者", "BigMAC 12", "stomac00:1B:44"),
                words="MAC mac Mac MAC地址 mac地址 物理地址",
                beside=Values(
                    re.compile(
                        rf"{SEPARATOR}(?P<value>[0-9A-Fa-f]{{2}}(?:[:-][0-9A-Fa-f]{{2}}){{5}}|[0-9A-F]{{12}})(?![0-9A-Za-z])"
                    )
                ),
            ),
        ),
    ),
    IdentifierType(
        "imei",
        "〔IMEI〕",
        About(
            what="numbers of mobile devices",
            profiles=("hipaa", "gbt35273"),
            hipaa="M: device identifiers",
            gbt="IMEI, 设备唯一标识",
        ),
        (
            Cues(
                found=("设备IMEI {867530041234561}。", "串号：{867530041234561}"),
                kept=("IMEI未知", "串号不清"),
                words="IMEI IMEI号 串号 MEID IDFA OpenUDID",
                beside=Values(re.compile(rf"{SEPARATOR}(?P<value>\d{{14,15}}|[0-9A-Fa-f\-]{{14,36}})(?![0-9A-Za-z])")),
                header="number",
            ),
        ),
    ),
    IdentifierType(
        "gps",
        "〔位置〕",
        About(
            what="coordinates",
            profiles=("hipaa", "gbt35273"),
            hipaa="B: places smaller than a state",
            gbt="行踪轨迹, 精准定位信息",
        ),
        (
            Digits(
                found=("定位：{30.5928,114.3055}，", "{114.30552，30.59281}附近", "回传{28.6842N,115.8579E},"),
                kept=("3.123,4.305", "K81.000，51.2300", "30.592,94", "130.5928,114.3055"),
                pattern=(
                    r"(?<![0-9A-Za-z.])(?P<first>\d{1,3}\.\d{3,8})°?[NSEW]?\s?[,，]\s?(?P<second>\d{1,3}\.\d{3,8})"
                    r"(?!\d)(?:°?[NSEW](?![A-Za-z]))?"
                ),
                fits=coordinates_fit,
                next_characters=".",
                after_cues=False,
            ),
            Cues(
                found=("北纬{30°35′34″}，东经{114.3055°}",),
                kept=("北纬高", "经度不详", "南北纬30度", "北纬30度之间"),
                words="北纬 东经 纬度 经度",
                beside=Values(
                    re.compile(
                        r"[\s：:]{0,3}+(?P<value>\d{1,3}(?:\.\d{2,8}°?|°\d{1,2}[′'](?:\d{1,2}(?:\.\d{1,3})?[″\"])?))"
                    )
                ),
            ),
        ),
    ),
    IdentifierType(
        "military",
        "〔军官证号〕",
        About(
            what="military and police certificates",
            hipaa="K: certificate and license numbers",
            gbt="军官证",
        ),
        (
            Cues(
                found=(
                    "军官证号{军字第0412287号}，",
                    "士兵证：{0412287}",
                    "士兵证{士字第20190044218号}，",
                    "退役证{赣退字2023-0477}，",
                    "残疾军人证号{川军J008264}，",
                ),
                kept=("军官证遗失", "军官证有效期10年", "退役证2023年"),
                words=(
                    "军官证 军官证号 军官证号码 士兵证 士兵证号 军人证 军人证号 文职证 警官证 警官证号 退役证 "
                    "退伍证 荣军证 优待证 残疾军人证 残疾军人证号 文职干部证 离休证 士官证"
                ),
                beside=Values(
                    re.compile(
                        rf"{SEPARATOR}(?P<value>(?:[{_HAN}]{{1,3}}?字)?第?\d{{5,14}}号?"
                        rf"|[{_HAN}]{{1,3}}(?:字第?(?:(?:19|20)\d\d-)?\d{{4,8}}号?|[A-Z]?\d{{6,12}}))(?!\d)"
                    )
                ),
                header="number",
            ),
            Cues(
                found=("持{南字第1120357号}证件", "，{军字第0773218号}，", "（{政字第1102387号}）"),
                kept=("军字第3号", "国字第0773218号", "空字第2019年"),
                words=(
                    "军字第 士字第 兵字第 政字第 文字第 南字第 北字第 空字第 海字第 沈字第 济字第 兰字第 成字第 广字第 "
                    "退字第 离字第 藏字第"
                ),
                beside=Values(re.compile(r"(?P<value>(?:(?:19|20)\d\d-)?\d{5,14}号?)(?!\d)"), from_cue=True),
            ),
        ),
    ),
    IdentifierType(
        "residence",
        "〔居住证号〕",
        About(
            what="residence permits",
            hipaa="K: certificate and license numbers",
            gbt="居住证",
        ),
        (
            Cues(
                found=(
                    "居住证号{830000199201012334}，",
                    "暂住证：{42010600123}",
                    "居留许可{B20331784}，",
                    "在留卡{UH48829017ER}，",
                ),
                kept=("居住证过期", "居住证3年"),
                words=(
                    "在留卡 在留卡号 居住证 居住证号 居住证号码 暂住证 暂住证号 永居证 永久居留证 居留许可 居留许可号 "
                    "居留证"
                ),
                beside=Values(
                    re.compile(rf"{SEPARATOR}(?P<value>[A-Z]{{0,3}}\d{{8,18}}(?:[Xx]|[A-Z]{{2}})?)(?![0-9A-Za-z])")
                ),
                header="number",
            ),
        ),
    ),
    IdentifierType(
        "travel",
        "〔通行证号〕",
        About(
            what="travel permits of Hong Kong, Macao and Taiwan",
            hipaa="K: certificate and license numbers",
            gbt="港澳台通行证",
        ),
        (
            Cues(
                found=(
                    "港澳居民来往内地通行证{H0981234501}。",
                    "大陆通行证号{05812367}，",
                    "回乡证：{M12345678}",
                    "回乡证，号码{H08214736}，",
                ),
                kept=("通行证过期", "通行证3次"),
                words="通行证 通行证号 通行证号码 回乡证 回乡证号 台胞证 台胞证号",
                beside=Values(
                    re.compile(rf"(?:[，,]号码)?{SEPARATOR}(?P<value>[A-Z]{{0,2}}\d{{7,11}})(?![0-9A-Za-z])")
                ),
                header="number",
            ),
            Number(
                found=("持{H0981234501}入院",),
                kept=("国药准字H0981234501", "批号H0981234501", "H09812345.01"),
                pattern=re.compile(r"(?<![0-9A-Za-z\-.])[HM]\d{10}(?![0-9A-Za-z\-.])"),
                least=10,
                fits=passport_fits,
            ),
        ),
    ),
    IdentifierType(
        "account",
        "〔账号〕",
        About(
            what="accounts of Alipay, DingTalk, Douyin, Weibo and other services, and passwords",
            hipaa="R: any other unique identifying number",
            gbt="个人信息主体账号, 昵称, 密码, 口令",
        ),
        (
            Cues(
                found=(
                    "抖音号{zhongyi_xiaobai}，",
                    "钉钉号{dtk9x02}，",
                    "APP账号{bs_1949}，",
                    "支付宝：{fangq8812}",
                    "支付宝直接搜{sunlp_yx@aliyun},",
                    "抖音你关注下:{majun_kangfu8},",
                    "闲鱼号{lzq_guahao}。",
                    "知乎{deer-in-fog-31},",
                ),
                kept=(
                    "抖音视频",
                    "支付宝转您",
                    "公众号文章",
                    "钉钉打卡",
                    "抖音上看PPT-12",
                    "知乎说的Hp-PCR检测",
                    "支付宝付款。hs_crp12",
                    "小红书推荐Omega-3鱼油",
                ),
                words=(
                    "支付宝 支付宝账号 支付宝号 抖音 抖音号 钉钉 钉钉号 微博 微博号 快手 快手号 小红书 小红书号 "
                    "视频号 公众号 B站 淘宝 淘宝账号 APP账号 App账号 用户名 登录名 账户名 飞书 企业微信 百度账号 "
                    "Skype Telegram WhatsApp 闲鱼 闲鱼号 知乎 知乎号 豆瓣 贴吧"
                ),
                beside=first_of(
                    Values(
                        re.compile(rf"{SEPARATOR}(?P<value>[A-Za-z0-9][A-Za-z0-9_\-]{{3,29}})(?![A-Za-z0-9@.%％])"),
                        named_account,
                    ),
                    Values(LOGIN_IN_THE_CLAUSE),
                ),
                header="number",
            ),
            Cues(
                found=("医保电子凭证号{4401 8827 0093 5516}，", "电子凭证：{4401882700935516}"),
                kept=("电子凭证已激活", "电子凭证3次"),
                words="电子凭证 医保电子凭证 电子凭证号",
                beside=Values(re.compile(rf"{SEPARATOR}(?P<value>\d{{4}}(?: ?\d{{4}}){{2,4}})(?! ?\d)")),
            ),
            Cues(  # APP before 账号 is the next cue: read with the value, each round would find one of a long row
                found=(
                    "账号{weiwy03}，",
                    "账号{kuangz@telemed}，",
                    "登录账号：{wang_xm} ",
                    "VPN账号{fengjiayi}，从",
                    "账号{hz-lingxi03}，",
                ),
                kept=("账号已注销", "账号admin", "账号A级", "账号guest登录", "账号HIS", "账号login失败"),
                words="账号 帐号 登录账号 工号账号",
                beside=Values(
                    re.compile(
                        r"\s?[：:]?\s?(?P<value>(?=[A-Za-z.\-]{0,20}[0-9_@]|(?!admin|guest|login|system|oracle|windows)[a-z]{5,20}(?![a-z.]))[A-Za-z][A-Za-z0-9_.\-]{2,24}+(?:@[A-Za-z0-9\-]{2,20})?)"
                        r"(?<!APP)(?<!App)(?![A-Za-z0-9@.%％])"
                    )
                ),
            ),
            Cues(
                found=("login: {yzhao88},", "username={yzhao88}&", "user id: {zhaoyq01}"),
                kept=("login failed", "login: admin", "username=none", "user identity01"),
                words="login username user_id userid user",
                next_characters=" ：:=",
                beside=Values(
                    re.compile(
                        r"(?: ?(?:id|ID|name))?\s?[：:=]\s?[\"“]?(?P<value>(?=[A-Za-z_.\-]{1,20}\d)[A-Za-z]"
                        r"[A-Za-z0-9_.\-]{3,24})(?![A-Za-z0-9@%％])"
                    )
                ),
            ),
            Cues(
                found=("密码 {Zyq@2024!}", "口令：{Abc12345}，", "password: {Zyq@2024!} ", "登录密码：{88886666}。"),
                kept=("密码错误", "密码重置为6位", "密码：8位", "密码不少于8位", "password reset", "密码子CAG"),
                words="密码 口令 password Password pwd",
                next_characters=" ：:=是为ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
                beside=Values(
                    re.compile(
                        r"[是为]?\s?[：:=]?\s?[\"“]?(?P<value>(?=[!-~]{0,20}\d)[A-Za-z0-9][!-+\--:<-~]{4,24}[0-9A-Za-z!@#$%*])(?![A-Za-z0-9])"
                    )
                ),
            ),
            Cues(
                found=(
                    "LIS登录{lab_qinyf} 忘",
                    "用户ID {wxu_8841207} 缴费",
                    "用户{pacs_zhou}，",
                    "账户{ybsz_shentu}登不上",
                ),
                kept=("登录V2.0", "登录his", "用户12名", "登录http_12", "登录SPSS26.0", "用户hello"),
                words="登录 登陆 账户 用户 用户ID",
                next_characters=" ：:abcdefghijklmnopqrstuvwxyz",
                beside=Values(
                    re.compile(
                        r"\s?[：:]?\s?(?P<value>(?!http|www|his)(?=[a-z.\-]{1,20}_)[a-z][A-Za-z0-9_\-]{4,24})(?![A-Za-z0-9@.%％])"
                    )
                ),
            ),
            Cues(
                found=("微博@{肝胆外科小刀医生} ", "昵称：{骆驼祥子}，", "微信名“{仁心仁术梁}”"),
                kept=("微博上说", "昵称不详", "微信名片"),
                next_characters=' ：:@“"',
                words="微博 昵称 网名 微信名 微信昵称 抖音名",
                beside=Values(
                    re.compile(
                        rf"\s?[：:@“\"]\s?(?P<value>(?!不详|无)[{_HAN}A-Za-z0-9_]{{2,20}})(?=[\s，,。；;”\"】」]|$)"
                    )
                ),
            ),
        ),
    ),
    IdentifierType(
        "employer",
        "〔单位〕",
        About(
            what="employers",
            profiles=("hipaa", "gbt35273"),
            hipaa="A: names, of employers too",
            gbt="工作单位",
        ),
        (
            Cues(
                found=("单位：{中铁四局集团第二工程有限公司}；", "工作单位 {合肥市第四十八中学}  "),
                kept=("单位：mmol/L", "工作单位：无；", "计量单位：国际单位"),
                words="单位 工作单位 用人单位 就职单位 工作单位及地址 任职于 就职于 供职于",
                beside=employer_behind,
                header="place",
                padded=True,
            ),
            Cues(
                found=("在{美的集团}做质检", "：{平安财险宜昌中心支公司}，"),
                kept=("保险公司", "给我国上市公司", "一般公司", "某公司职员", "医药公司提供"),
                words="公司 集团 财险 寿险",
                beside=company_around,
            ),
            Cues(
                found=("我在{招商银行}工作", "在{红星服装厂}上班"),
                kept=("在高温下工作", "在家工作", "在银行上班"),
                words="工作 上班 打工",
                beside=workplace_before,
            ),
        ),
    ),
    IdentifierType(
        "school",
        "〔学校〕",
        About(
            what="schools, universities and classes",
            profiles=("gbt35273",),
            hipaa="",
            gbt="教育经历",
        ),
        (
            Cues(
                found=("，{南宁市滨湖路小学}二年级", "（{中南民族大学}）", "在{实验小学}读书"),
                kept=(
                    "小学文化",
                    "结肠高中分化腺癌",
                    "建设教师发展学校",
                    "大学生",
                    "武汉大学附属医院",
                    "医科大学",
                    "初中毕业",
                    "某大学",
                ),
                words="大学 学院 中学 小学 幼儿园 附中 附小 高中 初中 职高 技校 学校 师范",
                beside=school_around,
            ),
            Cues(
                found=("{高二3班}集体呕吐", "{三年级4班}，"),
                kept=("3班护士", "夜班", "第3班"),
                words="班",
                before=r"[0-9)）]",
                beside=class_before,
            ),
        ),
    ),
    IdentifierType(
        "occupation",
        "〔职业〕",
        About(
            what="occupations",
            profiles=("gbt35273",),
            hipaa="",
            gbt="职业, 职位",
        ),
        (
            Cues(
                found=("职业：{电焊工}；", "职 业 {律师}，"),
                kept=("职业不详", "职业：无", "职业病"),
                words="职业",
                beside=job_behind,
                header="place",
                padded=True,
            ),
            Cues(
                found=("，{退休教师}，", "60岁，{渔民}，"),
                kept=("教师节，", "向律师咨询，", "农民较多，"),
                words=(
                    "退休教师 教师 英语教师 退休工人 退休干部 离休干部 建筑工人 工人 农民 渔民 律师 厨师 会计 "
                    "公务员 个体户 司机 出租车司机 货车司机 外卖骑手 快递员 电焊工 保安 职员 军人 退伍军人 老红军 "
                    "程序员 工程师 保洁员 牧民 矿工"
                ),
                before=r"[，,、\s]",
                next_characters="，,、。；; ",
                beside=job,
            ),
        ),
    ),
    IdentifierType(
        "ethnicity",
        "〔民族〕",
        About(
            what="ethnic groups",
            profiles=("gbt35273",),
            hipaa="",
            gbt="民族",
        ),
        (
            Cues(
                found=("，{汉族}，", "{维吾尔族}，现住"),
                kept=("藏族医药", "民族不详"),
                words=(
                    "汉族 蒙古族 回族 藏族 维吾尔族 苗族 彝族 壮族 布依族 朝鲜族 满族 侗族 瑶族 白族 土家族 哈尼族 "
                    "哈萨克族 傣族 黎族 傈僳族 佤族 畲族 高山族 拉祜族 东乡族 纳西族 景颇族 柯尔克孜族 土族 "
                    "达斡尔族 仫佬族 羌族 布朗族 撒拉族 毛南族 仡佬族 锡伯族 阿昌族 普米族 塔吉克族 怒族 乌孜别克族 "
                    "俄罗斯族 鄂温克族 德昂族 保安族 裕固族 京族 塔塔尔族 独龙族 鄂伦春族 赫哲族 门巴族 珞巴族 "
                    "基诺族"
                ),
                beside=people,
            ),
            Cues(
                found=("民族：{满}；", "民 族 {土家} "),
                kept=("民族团结", "民族：不详"),
                words="民族",
                beside=people_behind,
                header="place",
                padded=True,
            ),
        ),
    ),
    IdentifierType(
        "hospital",
        "〔医院〕",
        About(
            what="hospitals and clinics",
            profiles=(),
            hipaa="",
            gbt="就诊机构 (an option)",
        ),
        (
            Cues(
                found=(
                    "送检医院：{宜昌市第二人民医院} ",
                    "转{滨江街社区卫生服务中心}康复",
                    "在{广西医科大学一附院}就诊",
                ),
                kept=(
                    "当地医院",
                    "可以到医院检查",
                    "想找个医院",
                    "选择医院",
                    "我院",
                    "医院内感染",
                    "转上级医院",
                    "某三甲医院",
                ),
                words=(
                    "医院 卫生院 保健院 卫生服务中心 卫生所 卫生室 诊所 疗养院 门诊部 一附院 二附院 附一院 附二院 附院"
                ),
                beside=hospital_around,
            ),
        ),
    ),
    IdentifierType(
        "department",
        "〔科室〕",
        About(
            what="departments and wards",
            profiles=(),
            hipaa="",
            gbt="就诊科室 (an option)",
        ),
        (
            Cues(
                found=("科室:{心血管内科二病区} ", "到{心内科门诊}复诊", "转入{ICU}，", "（{骨科三病区}）"),
                kept=("外科手术", "妇产科学", "眼科检查"),
                words=(
                    "内科 外科 妇科 产科 妇产科 儿科 眼科 口腔科 皮肤科 急诊科 骨科 心内科 心血管内科 呼吸科 "
                    "呼吸内科 消化内科 消化科 神经内科 神经外科 肾内科 内分泌科 血液科 血液内科 肿瘤科 放疗科 "
                    "影像科 放射科 超声科 检验科 病理科 感染科 胃肠外科 肝胆外科 泌尿外科 胸外科 心外科 心胸外科 "
                    "甲乳外科 普外科 血管外科 整形外科 烧伤科 康复科 中医科 麻醉科 耳鼻喉科 精神科 风湿免疫科 "
                    "老年科 老年医学科 新生儿科 生殖中心 重症医学科 ICU CCU NICU PICU EICU 神经外科ICU"
                ),
                beside=department,
            ),
        ),
    ),
)
"""Types that some profiles treat, in the order of `tasks/deidentify/identifier_types.py`."""
