"""What stays although the recogniser took it for a name, a number or an address, and names that look like it."""

from __future__ import annotations

import pytest

from tasks.deidentify.recogniser.vetoes import stays


def span_of(marked: str) -> tuple[str, int, int]:
    """Return the text of `患者{王伟}诉` with the first character and the end of what is in braces."""
    return marked.replace("{", "").replace("}", ""), marked.index("{"), marked.index("}") - 1


@pytest.mark.parametrize(
    "marked",
    [
        "{PT NAME}: ZHANG WEI",
        "查{BALF mNGS}检出曲霉",
        "{ECG ST}段抬高",
        "出 院 证 {明 书}\n",
        "{职  业}：农民",
        "{乌司}奴单抗首剂",
        "甘露醇后{陈}-施呼吸",
        "痰培养：{鲍曼}不动杆菌",
        "阿尔茨{海默病}",
        "跌倒评估：{低危}。",
        "护工{费}收据",
        "国籍：{马来西亚}",
        "GJB2 {纯合}，",
        "诊断肝门部胆管癌({Bismuth IIIa})",
        "闭合复位失败，{Tonnis} III度",
        "恢复{窦律}，",
        "{腺样体}/鼻咽比 0.78",
        "凭空{闻人语}1年",
        "{Holter}：总心搏118763次",
        "{Braden}评分 12",
        "{平车}推入病房",
        "12393又{占线}",
        "请放心，{祝您}早日康复",
        "{祝}你健康",
        "于1{周前}无诱因",
        "3月{余前}入院",
        "转移。12,{周前}复查",
        "近年{植发}手术，",
        "户名与{银行卡}不符",
        "去一家{权威}医院",
        "祛邪{扶正}的功效",
        "140毫{米汞柱}，",
        "辣椒、葱、{姜}、烧烤",
        "加蒜,{姜},豆豉,",
        "口服替{吉奥}胶囊",
        "{索拉}非尼治疗",
        "{史蒂文斯}-约翰逊综合征史禁用",
        "疑{吉兰}-巴雷综合征",
        "在门诊{楼四楼}，",
        "患儿{由爷爷}陪同",
        "{岳母}代签字",
        "与{月嫂}谈话",
        "{让}主任去拿药",
        "查{高敏}C反应蛋白3.2",
        "{陈}旧性心梗",
        "{国卫}办医发〔2023〕12号",
        "{云卫}医函[2024]3号",
        "国家{卫健}委令第10号",
    ],
)
def test_a_word_that_looks_like_a_name_stays(marked: str) -> None:
    assert stays(*span_of(marked), "name")


@pytest.mark.parametrize(
    "marked",
    [
        "{WANG XH}, Department",
        "{NG WAI MING} 男",
        "{LV YAN} 女",
        "患者{张  芳}来院",
        "王 {李 芳}",
        "{费}医生查房",
        "患者{乌兰}使用单抗",
        "{李强}服他汀后肌痛",
        "{李强}感染病毒",
        "{李强}-王伟病房",
        "找{祝}医生",
        "患者{周前}，男",
        "喊{权威}来换药",
        "值班：{姜}、王",
        "{祝晓燕}，女",
        "{李强}，约翰逊综合征",
        "姓 名 {王 芳}",
        "{Anna Berg} III床",
        "{闻人语嫣}，女",
        "{Glasgowski}：明天出院",
        "{Hunter}：明天出院",
        "由{孙子涵}签字",
        "陪同者{高敏}，女",
        "找{向}医生复诊",
        "{向岳峰}代签字",
    ],
)
def test_a_name_that_looks_like_a_word_does_not(marked: str) -> None:
    assert not stays(*span_of(marked), "name")


def test_rooms_of_a_house_and_countries_are_no_addresses() -> None:
    assert stays(*span_of("地点{六楼示教室}，"), "address")
    assert stays(*span_of("{乌克兰}籍"), "address")
    assert stays(*span_of("{安徽}人"), "address")
    assert not stays(*span_of("家住{安徽阜阳}，"), "address")
    assert stays(*span_of("钥匙在{更衣室23号柜}，"), "address")
    assert stays(*span_of("转账银行：{中国建设银行} "), "address")
    assert not stays(*span_of("{中国建设银行南湖支行} "), "address")
    assert stays(*span_of("在{长江轮}上烧锅炉"), "address")
    assert not stays(*span_of("住{长江轮渡村}，"), "address")
    assert stays(*span_of("{47远中龋}，"), "address")
    assert stays(*span_of("{保温箱6号}，"), "address")
    assert stays(*span_of("请到{门诊楼四楼}，"), "address")
    assert not stays(*span_of("住{47号院}，"), "address")
    assert not stays(*span_of("住{锦绣楼四楼}，"), "address")
    assert not stays(*span_of("住{玉泉路23号柜}，"), "address")
    assert not stays(*span_of("住{玉泉路六楼}，"), "address")


@pytest.mark.parametrize(
    "marked",
    [
        "在{东门}等",
        "车停{北门口}，",
        "我在{中药房门口}，",
        "绕到{急诊楼后面}抽烟",
        "摔在{河沟里}，",
        "{华南地区}多见",
        "进{山区}采药",
        "预约{门诊楼四楼B区}",
    ],
)
def test_gates_corners_and_regions_are_no_addresses(marked: str) -> None:
    assert stays(*span_of(marked), "address")


@pytest.mark.parametrize(
    "marked", ["住{幸福里}，", "家住{玉泉路中药房门口}，", "{苏州地区}人", "住{东门街}，", "到{杨柳青}"]
)
def test_places_with_a_name_are_addresses(marked: str) -> None:
    assert not stays(*span_of(marked), "address")


@pytest.mark.parametrize(
    "marked",
    ["{S-100}弥漫+", "部位{T-04000}，", "{铱-192}源强", "可接受{GLI-2012}。", "{MDA-MB-231}穿膜", "亮蓝{G-250}显色"],
)
def test_stains_isotopes_and_cells_stay(marked: str) -> None:
    assert stays(*span_of(marked), "record")


@pytest.mark.parametrize("marked", ["受试者{S-0119}，", "{SH-2024091}号袋", "{ZYMR-20240}，", "与{X-43280}比"])
def test_codes_of_papers_are_no_stains(marked: str) -> None:
    assert not stays(*span_of(marked), "record")


@pytest.mark.parametrize("marked", ["{3}、8、12抽血", "{5}可进流质", "从16换到{18}，", "{12}备皮已做"])
def test_a_bare_bed_counts_where_the_encoder_is_sure(marked: str) -> None:
    assert stays(*span_of(marked), "record")
    assert not stays(*span_of(marked), "record", is_sure=True)


@pytest.mark.parametrize(
    "marked", ["推到{3}号手术间", "在{2}楼", "{12}床位", "改{5}级护理", "共{3}人", "{8}次", "{加瘤}床电子线"]
)
def test_one_or_two_digits_of_something_else_stay_however_sure_it_is(marked: str) -> None:
    assert stays(*span_of(marked), "record", is_sure=True)


@pytest.mark.parametrize(
    "marked", ["静脉置管 {330100014} 1次", "耗材{C02030207200006061890000006}，", "骨密度{230600001}"]
)
def test_codes_of_the_national_catalogues_stay(marked: str) -> None:
    assert stays(*span_of(marked), "record")


def test_a_count_in_a_table_is_no_number_of_a_paper() -> None:
    assert stays(*span_of("I\t{112}\t未达到"), "record")
    assert not stays(*span_of("王芳\t{112}-7\t女"), "record")
    assert not stays(*span_of("住院号 {112338}\t女"), "record")


@pytest.mark.parametrize(
    "marked",
    [
        "chr7:{55242465-55242479}缺失",
        "chr17:{7674220-7674230}",
        "2020, 60(12): {1011-1015}",
        "2018;379:{1443-1452}",
        "请拨{12320}。",
        "叫我{打12393}，",
        "拨打{95519}报案",
        "肺癌{T2N0M0}，",
        "术后{pT1cN0}期",
    ],
)
def test_a_hotline_a_stage_a_locus_and_pages_stay(marked: str) -> None:
    assert stays(*span_of(marked), "record")


@pytest.mark.parametrize(
    "marked",
    [
        "孕妇 {HCG286.4} 孕酮",
        "训练后 {CK8600}，",
        "罗音，{HR130}，",
        "爸{CA199312}，",
        "促红素{10000IU} tiw",
        "({18929329}_21108367)×1",
        "{miR-4746-5}p表达",
        "敲低{LINC00675}后",
        "{MGC-803} 细胞",
        "{FK506}早晚8点",
        "(18929329_{21108367})×1",
    ],
)
def test_a_value_that_is_written_to_its_name_stays(marked: str) -> None:
    assert stays(*span_of(marked), "record")


@pytest.mark.parametrize(
    "marked", ["透析号{HD0388} ", "{CK20190871}，", "{HCG0045571}，", "{HT20190871}，", "编号{AC20190871}，"]
)
def test_a_code_with_letters_of_a_test_goes(marked: str) -> None:
    assert not stays(*span_of(marked), "record")


@pytest.mark.parametrize("marked", ["病历{12300}，", "编号{9551}，", "病案{123201}，"])
def test_other_short_numbers_go(marked: str) -> None:
    assert not stays(*span_of(marked), "record")


@pytest.mark.parametrize(
    "marked",
    [
        "耳鸣半年，{幸福}，左归丸",
        "介绍信：{毕节}同志",
        "白班{沈小燕}说180ml已倒",
        "留给{姥姥}的",
        "家长{满月}红",
        "给{费}送去",
    ],
)
def test_words_that_people_are_called_by_stay_unless_a_sentence_is_sure(marked: str) -> None:
    assert stays(*span_of(marked), "name")
    assert not stays(*span_of(marked), "name", is_sure=True)


@pytest.mark.parametrize(
    "marked",
    [
        "{惠普尔}术后第3天",
        "{柯雷}骨折",
        "{格费}征（+）",
        "培养出{鲍曼}不动杆菌",
        "{史蒂文斯}-约翰逊综合征",
        "请{〔姓名〕}来",
        "{胸腺}（",
        "{CRRT-CVVHDF}",
    ],
)
def test_words_of_medicine_stay_however_sure_a_sentence_is(marked: str) -> None:
    assert stays(*span_of(marked), "name", is_sure=True)


def test_numbers_and_places_stay_however_sure_a_sentence_is() -> None:
    assert stays(*span_of("拨打{12320}，"), "record", is_sure=True)
    assert stays(*span_of("{乌克兰}籍"), "address", is_sure=True)
