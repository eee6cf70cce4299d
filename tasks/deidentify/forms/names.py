"""Names of persons in Chinese clinical text: the end of one behind a cue, the start of one before a title.

A name is a surname followed by one or two characters. Half of the surnames are words too (高 high, 于 at, 何 how).
So a name counts only beside a cue, if its characters are used in names, and if jieba's dictionary does not see other
words there. Each function looks at some twenty characters at most.
"""

from __future__ import annotations

import re

import rjieba

SURNAMES = frozenset(
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林罗郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘于蒋蔡余杜叶程苏魏吕丁任沈姚卢姜"
    "崔钟谭陆汪范金石廖贾夏韦付方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚邵万钱严覃武戴莫孔向汤温康施文牛樊葛"
    "邢安齐易乔伍庞颜倪庄聂章鲁岳翟殷詹申欧耿关兰焦俞左柳甘祝包宁尚符舒阮柯纪梅童凌毕单季裴霍涂成苗谷盛曲翁冉骆蓝"
    "路游辛靳管柴蒙鲍华喻祁蒲房滕屈饶解牟艾尤阳时穆农司卓古吉缪简车项连芦麦褚娄窦戚岑景党宫费卜冷晏席卫米柏宗瞿"
    "桂全佟应臧闵苟邬边卞姬师仇栾隋商刁沙荣巫寇桑郎甄丛仲虞敖巩明佘池查麻苑迟邝官封谈匡鞠惠荆乐冀郁胥南班储原"
    "栗燕楚鄢劳谌奚皮粟冼蔺楼盘满闻位厉伊仝区郜海阚花权强帅屠豆朴盖练廉禹井祖漆巴丰支卿狄平计索宣晋相初门云容"
    "敬扈晁芮普阙浦戈伏鹿薄邸雍辜羊阿乌母裘亓修邰赫杭况那宿鲜印逯隆茹诺战慕危玉银亢嵇公哈湛宾戎勾茅利於呼"
    "居揭干尉冶斯元束檀衣信展阴昝智幸奉植衡富尧闭"
    "傅丘洪赖常贝寿暴糜雒濮占凤慎昌暨弘庾宦厍呙殳毋璩禤羿莘蓟蔚贲邴郄鄂韶"
    "汲夔佴苴茆禚眭郤郐郯鄞麴邗芈郰揣贡撖呙隽"
    "萧阎钮逄谯闾荀郗郇隗竺蒯仉庹恽宓訾郦酆钭缑笪菅郏嵇乜桓"
)
"""Surnames of one character, frequent ones first."""

_COMPOUND_SURNAMES = (
    "欧阳 上官 司马 诸葛 皇甫 尉迟 司徒 令狐 慕容 端木 公孙 东方 夏侯 司空 长孙 宇文 轩辕 闻人 澹台 公冶 太史 申屠 "
    "呼延 独孤 南宫 西门 东郭 百里 第五 钟离 鲜于 拓跋 完颜 赫连 纳兰 叶赫 濮阳 淳于 单于 "
    "闾丘 南门 梁丘 左丘 东门 乐正 漆雕 公西 谷梁 巫马 公良 夹谷 仲孙 子车 亓官 司寇 段干 "
    "万俟 宗政 太叔 仉督 颛孙 壤驷 宰父 归海 羊舌 厍狄 贺兰 乞伏 库狄 富察 哥舒 范姜 欧侯 爱新 赫舍 瓜尔 佟佳"
)
COMPOUND_SURNAMES = frozenset(_COMPOUND_SURNAMES.split())
_COMPOUND_STARTS = frozenset(name[0] for name in COMPOUND_SURNAMES)
SURNAMES_BESIDE_DATA = frozenset("和勇")
"""Surnames that elsewhere are words of a sentence: they count where only a name can stand, as before a telephone."""
_MAY_BEGIN_NAMES = SURNAMES | _COMPOUND_STARTS | SURNAMES_BESIDE_DATA

_WORDLIKE = frozenset(
    "于何高向时应任方全常曾安平白黄金水石康严温单包连关路余明成万左项施容易解查管华文江强相从可位原计初"
    "公寿慎昌占通暴干门云利信那南母师元支官司农车商边皮海花满盖强班闭印展幸况宿房马毛牛羊区费党权智富"
)
"""Surnames that are so often words that one alone, or masked, counts only in a clear context."""

_NEVER_ALONE = frozenset("向应时全连位那从相南母师单查经可公区初原农满盖皮强印班官祝")
"""Surnames that before a title are nearly always a word: 向医生咨询, 原主任, 母女士."""

GIVEN = frozenset(
    "伟芳娜秀英敏静丽强磊军洋勇艳杰娟涛明超兰霞平刚桂建国华文玉志红云林海波峰宁辉龙飞鹏宇浩然子轩梓涵欣怡佳琪雨晨思"
    "雪梅琳玲莉萍燕凤春秋冬夏生根土木水金银铜宝财富贵荣昌盛兴旺发达福禄寿喜庆祥瑞吉安康健仁义礼智信忠孝廉耻勤俭德才"
    "学诗书画琴棋成功业立民众家庭邦邻栋梁材俊彦豪雄毅坚柔和利凯胜捷斌武威虎豹彪猛力山川江河湖泉溪源清澈洁净晶莹珍珠"
    "玛瑙翠碧青紫蓝绿丹彤朱赤白黑雅淑慧贤惠美妍娇媚婷婉娴娥姣妮妹姐嫂婆婶花草芝菊荷莲蓉芬芸苗萌蕾薇蓓蕊茹茜莎菲芙萱"
    "芷若依倩情心爱恋恩慈善良诚真纯朴实正直公均匀匡东西南北元亨贞乾坤天地日月星辰光阳晖晔昊旭曦晓暖晴朗霖雷电风霜露"
    "霏雯霄震虹岚岩石磐岭峻崇嵘岳峥远长永久恒世传承继先祖宗祁耀煌煜炜烨焕炎灿炳烈燃煊熙照熠锋钢铁锐钧铭锦钰鑫铮鉴镇"
    "锡钊铎淼瀚洪澜润泽淳深渊滨渝沛沁汝汉泓泳洲济津浦淇湘溢滔潇澄濂仪伊伦伯仲叔季佑佐佩侠保修偉傲儒允兆克全兵典兹冠"
    "冰凌凡劲励劳勉勋千升卉卓博卫印厚原友双史叶向君启吟周呈咏品哲唐啸嘉图圣城培基堂士壮夕大太奇奎奕好如妙姗姝娅娣婧"
    "媛嫣嬌孔孜孟守宏官宜宣宪宸容宽宾寒小少尚尔尧岐岗嵩州帅希帆帝常年广庚廷开弘彩彬彭征律徐徽忆念怀恬恺悦意愉愿慕战"
    "扬拓拴振挺掖撼支攀敦斐新方旋旗旦昂昆易昭映显晋晟普景暄曙曼朋望朝权杉李杏村松果枝柏柱柳树栓桐桃桥桦梧森楠楚榕槐"
    "樱欢毓池沙沐泰涌添游湛满漪炯烁熊牧王珂珊珏珺玺玮环玥玫琛琦琨琬琰瑶瑜瑛瑾璇璐璟璨甜田甲留畅益盈盼眉睿知硕社祎祺"
    "禹秉科秦程穆竞童竹笑筠策简粤纪纲纳纹织绍绮维缨羽群翔翰翼耕耘聪聆育胤臣舒航艺芊芮芯苑苏茂茵荃荔莺菁菀菱萧葆葵蒙"
    "蓬蔚薪藏蜜融衍裕观觉言训许语诺谊谋谦贝赐赞越跃路轶迁迎运进连迪逸道遥郁郎采野钗铃锁门闯闻阁陆陵隆雁集霁靖鞍韬韵"
    "音顶项颂颖飒飘馨香驰骁骄骏高魁鲁鲜鸣鸿鹃鹤鹰麒麟麦黎默齐龄冉亚亘亭亮亲仕仙令伶佟佶佺侃俐俞俏倍伽丁万丰乐乔予京"
    "仓农冀勖卿厅娃孩宥峦崎巍巧幸幼弟彰彼徵怜恕惟慷懿憬拉敖旻昀昕晏晗晞杨栩欧歆殷汐沈洛浠浔淏溥滢漫灏焱珑珩琼琅瑄瑗"
    "璋瓒皓硝祯禧竣筱翊翎肖腾舜苒苓荟菡蓁蔓薛蘅贻轲邵灵政梦革命鄂钦锴锟阿阅雍霓韦韩颜飏骞骥鹭黛胡妤妞娓婕嫚嫦嬿宛屏"
    "弦弥彧悠惜戈晚朔杭枫柯栎梵榆樊殿汶沂沅泠涓渺溶滟勒桢梨棠槿芹荏莘菏葳苇苹萃蕙蕴薏藜虞蝶裴谷豆贡赛骐鲍炫垒垚墨壹"
    "夷妃妲姬姮璞瑭祈穗箫纬绪绣缇罡翁三四五六七八九"
)
"""Characters of given names, without those that mostly continue a sentence."""

_STOP = (
    "高一 高二 高三 "
    "高血 高热 高龄 高烧 高危 高度 高渗 高脂 高压 高通 高位 高等 黄疸 黄染 黄体 黄芪 黄连 黄芩 黄斑 白细胞 白蛋白 "
    "白带 白内障 白天 白班 左侧 左右 左肺 左心 左下 左上 左眼 左肾 左手 左腿 右 张口 张力 康复 康健 严重 严格 苗条 "
    "单侧 单纯 单发 单核 汤药 石膏 石英 水肿 水痘 水样 温度 温和 温热 项目 项背 安全 安静 安返 安定 安慰 安排 安宁 "
    "常规 常年 常见 关节 关于 关心 关注 明显 明确 明日 明天 明白 连续 连日 施行 容易 路途 路易 平时 平素 平卧 平稳 "
    "平均 平静 平安 包块 包括 包皮 全身 全程 全部 全天 全麻 程度 贺尔 金属 金黄 时有 时常 时而 应用 应当 应该 任何 "
    "任意 何时 何种 何处 方可 方能 方面 方案 方便 方法 曾有 曾于 曾在 余无 余未 余可 余留 余下 龙胆 毛发 毛细 解黑 "
    "解便 房颤 房性 房间 雷诺 雷贝 华法林 华西 江浙 江苏 成年 成人 成分 成功 文化 文献 文字 谷丙 谷草 谷氨 甘油 "
    "甘露 柴胡 古稀 易怒 易感 易激 向右 向左 向心 向家 于是 马上 马方 马尾 牛奶 牛黄 海马 海洋 国家 国产 国内 农民 "
    "农村 公司 公共 门诊 门静 门脉 支气管 支架 支持 计划 师生 相关 相对 相应 都有 都是 和平 和谐 乐观 计算 商业 "
    "满月 满意 盛行 尤其 尤以 阳性 阳光 阴性 阴道 阴囊 景况 边缘 麻木 麻醉 麻疹 麦粒 花粉 花斑 车祸 党员 司机 司法 "
    "简单 简易 简要 皮肤 皮疹 皮下 宫颈 宫腔 宫缩 宫内 干预 干燥 干咳 元素 强烈 强直 胡言 胡须 史密斯 段落 段性 "
    "万一 万古 万艾 万分 伏案 伏立 祖母 祖父 母亲 母乳 母女 母子 母婴 纪录 符合 尚可 尚未 尚有 辛苦 辛伐 游离 游走 "
    "盘曲 左甲 杜冷 罗红 罗哌 利多 利尿 利福 利巴 利于 利用 阿司 阿莫 阿奇 阿托 阿尔 阿是 阿替 易蒙 来自 来源 来院 "
    "来我 权益 信息 云南 云克 海南 河南 初步 初诊 初次 初治 原发 原位 原因 原有 原籍 由于 由家 居家 居住 居民 盐酸 "
    "温州 温水 梅毒 梅花 苏醒 苏打 林可 林县 吴茱 吴江 谢谢 钱币 董事 武汉 武警 孔径 孔源 孟鲁 唐氏 唐山 夏天 "
    "夏季 夏枯 冷汗 冷敷 冷热 宁波 宁夏 齐全 管理 管路 管床 卫生 席汉 费用 车间 秦皇 田间 姜黄 姜片 杨梅 杨树 "
    "石家庄 查明 查体 查房 查血 查看 查出 查找 广东 沙眼 沙丁 沙美 沙库 桂枝 桂林 华南 华北 华东 华中 南京 南方 "
    "南昌 成都 长沙 兰州 郑州 徐州 杭州 伊马 伊班 伊犁 吉林 吉非 齐拉 乌鲁 乌头 乌拉 普通 普外 普及 周身 周围 周边 "
    "周期 周日 周一 周二 周三 周四 周五 周六 周末 朱砂 丁卡 丁丙 顾虑 顾及 顾客 盼望 季节 支原 井穴 于某 何某地 "
    "劳力 劳动 初发 初产 初潮 单克 屈光 宫寒 罗音 白发 窦道 胡桃 迟发 银杏 闭孔 阳明 阴挺 阴雨 高原 麻风 丛集 伏梁 "
    "舒普 甘利 沙菀 沙苑 巴旦 蒲地 罗欣 陈京墨 "
    "房早 丘疹 丘脑 赖氨 赖脯 赖诺 常用 常伴 常在 常有 常因 常态 常压 常染 常温 常居 常发 贝伐 贝那 贝特 贝尔 贝母 "
    "寿命 寿胎 暴露 暴力 暴发 暴饮 暴盲 暴聋 糜烂 占位 占比 占据 占全 凤仙 凤尾 慎用 慎重 洪脉 蔚蓝 昌平 鄂尔 "
    "费收 费单 费清 费发 费票 霍奇 何杰 惠普 舒尔 韦伯 毛根 马拉 麦克 阿根 艾迪 夏伊 利德 "
    "钟爱 尤宜 包饺 查肌 查酶 修表 霍纳 林奇 植发 石锁 蒙哥"
)
_STOPS_BY_SURNAME = {
    char: tuple(word for word in _STOP.split() if word[0] == char) for char in sorted(set(_STOP) - {" "})
}
"""Words by their first character that begin like a name behind 患者 and other cues, and are not names."""

_NOBODY = (
    "不详 为空 主任 住址 住院号 你好 保密 出生 医师 医生 匿名 单位 同上 同前 地址 夫妻 女性 如下 姓名 婚姻 家属 "
    "工作 年 年龄 年龄组 床号 必填 性别 患者 您好 手机 护士 拒签 拼音 无 无名 无名氏 日 日期 时间 月 未知 未详 "
    "本人 母亲 母子 民族 父亲 父子 电话 电话号 男性 病人 病历 科别 科室 签名 签字 籍贯 编码 缩写 职业 职务 职称 "
    "联系人 联系电话 自动 见病历 见附页 身份证 配偶 门诊号 首字母"
)
_NO_NAMES = frozenset(_NOBODY.split())
"""Words in fields of names that are not names."""

_SINGLE = "".join(sorted(SURNAMES))
_COMPOUND = "|".join(sorted(COMPOUND_SURNAMES))
_NO_PERSON = "医院|院|地|天|日|年|月|种|些|个|人|项|一|次|处|省|市|县|单|大学|公司|时|例|期|病|药|厂|村|镇|乡|科|校"
# matches: "王某", "李某某", "王**", "欧阳××"
# not: "于某医院", "崔x线"
_MASKED = re.compile(
    rf"(?:{_COMPOUND}|[{_SINGLE}])(?:某[某甲乙丙]?(?!{_NO_PERSON})|[*＊○×]{{1,3}}|[xXＸ]{{1,2}}(?![A-Za-z0-9\-线光片]))"
)
# matches: "先生", "医师"
# not: "头痛"
_TITLE = re.compile("先生|女士|小姐|阿姨|大爷|大妈|奶奶|医[生师]|主任|大夫|教授|护士|院长|博士|老师")
# matches: "某医院", "某某公司", "某日"
# not: "某因头痛"
_SOME_THING = re.compile(rf"某[某甲乙丙]?(?:{_NO_PERSON})")
# matches: "王小明 ", "古丽娜尔·买买提", "王小明男", "李强："
# not: "王", "Wang"
_FIELD = re.compile(
    r"[\u4e00-\u9fff]{2,4}+(?:[·•・．][\u4e00-\u9fff]{1,8}+)*+(?=$|[\s，,。；;、（()）/／：:0-9]|〔)"
    r"|[\u4e00-\u9fff]{1,8}+(?:[·•・．][\u4e00-\u9fff]{1,8}+)++"
    r"|[\u4e00-\u9fff]{2,4}?(?=性别|年龄|男|女|民族|职业|出生|身份|住址|电话|住院|科别|科室|床号|先生|女士)"
)
# matches: "王 芳 ", "欧阳 锋，", "刁 婵性别"
# not: "王芳", "王 性别："
_PADDED = re.compile(
    rf"(?:{_COMPOUND}|[{_SINGLE}])[^\S\n]{{1,4}}(?P<given>[\u4e00-\u9fff]{{1,2}}?)(?=$|[\s，,。；;、（()）/／0-9]|〔|性别)"
)
"""A short name that a form pads to the width of three characters."""
# matches: "，男", " 58岁", "（"
# not: "因"
_PERSON_DATA = re.compile(r"[，,、\s（(]{0,3}(?:男|女|\d{1,3}岁|[性孕])|[（(]")
# matches: "阿依古丽，女，", "买买提·吐尔逊，男"
# not: "男，58岁", "王囧女性"
_BEFORE_SEX = re.compile(
    r"[\u4e00-\u9fff]{2,8}(?:·[\u4e00-\u9fff]{1,8}){0,3}(?=[，,、\s（(]{1,3}[男女](?:[，,。；;、\s）)性\d]|$))"
)
_NO_PART_OF_NAMES = frozenset("因为于在的了是有无不又曾现系男女岁者年月日天次某与和及一两个")
"""Characters that no name holds, however rare its characters are."""
_ENDS = frozenset(
    "之，,。；;、：:（）() \n\t\u3000！!？?“”\"'/〔·-"
    "因于在诉男女入今自系现为曾的已到来说打拒行就经由患既突无未神有要给向与和及代查主术后晨昨血体意住接同签陪你您"
    "先"
)
"""Characters that may follow a name: marks, and first characters of what a person does (诉, 入院, 因)."""
MAX_NAME = 12
"""Characters of the longest name that counts without a cue beside it."""

# matches: "，", " ", ""
# not: "族"
_ITEM_END = re.compile(r"[，,、；;。/／\s（(）)]|$")
# matches: "病"
# not: "，"
_HAN = re.compile(r"[\u4e00-\u9fff]")
# matches: "李峤"
# not: "陈新:"
_HAN_ONLY = re.compile(r"[\u4e00-\u9fff]+$")
# matches: "之，", "之", "来。"
# not: "之女", "来院"
_LAST_OF_A_NAME = re.compile(r"[之来](?=$|[\s，,。；;、（()）/／：:])")
"""The last character of 王牧之 and 段福来, which elsewhere is a particle or a verb."""
# matches: "医", "*"
# not: "，"
_WORD_CONTINUES = re.compile(r"[\u4e00-\u9fff*]")


def is_stop(text: str) -> bool:
    """Return True for a text that begins with a word that looks like the beginning of a name: 高热, 白细胞."""
    return text.startswith(_STOPS_BY_SURNAME.get(text[:1], ()))


def is_nobody(text: str) -> bool:
    """Return True for a word that fills fields of names and names nobody: 不详, 家属."""
    return text in _NO_NAMES


def is_wordlike(surname: str) -> bool:
    """Return True for a surname that is so often a word that it needs a clear context."""
    return surname in _WORDLIKE


def surname_length(text: str, at: int) -> int:
    """Return the number of characters of the surname that begins at a position: 2, 1, or 0 where there is none."""
    first = text[at : at + 1]
    if first in _COMPOUND_STARTS and text[at : at + 2] in COMPOUND_SURNAMES:
        return 2
    return 1 if first in SURNAMES else 0


def name_end(text: str, start: int) -> int | None:
    """Return the end of the name that begins at `start` behind a cue such as 患者; None where there is no name."""
    surname = surname_length(text, start)
    certain = _end_before_sex(text, start, surname)
    if certain is not None or not surname:
        return certain
    masked = _MASKED.match(text, start)
    if masked:
        certain = text[start] not in _WORDLIKE or not _WORD_CONTINUES.match(text, masked.end())
        return masked.end() if certain else None  # 患者于***医院
    if _TITLE.match(text, start + surname):  # 患者赵先生
        return start + surname
    if is_stop(text[start : start + 4]):
        return None
    for length in (2, 1):
        end = start + surname + length
        if end <= len(text) and GIVEN.issuperset(text[start + surname : end]) and _believed(text, start, surname, end):
            return end + 1 if length == 1 and _LAST_OF_A_NAME.match(text, end) else end
    return None


def may_begin_person(text: str, start: int) -> bool:
    """Return False for characters such as 能吃, at which no name begins behind a patient or a relation.

    They begin with a Chinese character of no surname, and nobody's sex is behind them.
    """
    first = text[start : start + 1]
    return not _HAN.match(first) or first in _MAY_BEGIN_NAMES or _BEFORE_SEX.match(text, start) is not None


def _end_before_sex(text: str, start: int, surname: int) -> int | None:
    """Return the end of a name before 男 or 女, which may have rare characters or no Chinese surname: 阿依古丽，女.

    It is a surname with one or two characters, or a run of characters that is not a chain of words.
    """
    found = _BEFORE_SEX.match(text, start)
    if found is None or not _NO_PART_OF_NAMES.isdisjoint(found[0]):
        return None
    if "·" in found[0]:
        return found.end()
    words: list[str] = rjieba.cut(found[0], False)
    if len(words) == 1:
        return found.end() if _is_person(words[0]) or not rjieba.has_word(words[0]) else None
    # Words of one character are what jieba leaves of a name that it does not know: 古/丽/娜/尔
    alone = sum(len(word) == 1 for word in words)
    return found.end() if alone >= 2 or (surname and len(found[0]) - surname <= 2 and alone) else None


def _believed(text: str, start: int, surname: int, end: int) -> bool:
    """Return True if the text from `start` to `end` is more likely a name than words of the sentence."""
    if _PERSON_DATA.match(text, end):
        return True
    words: list[str] = rjieba.cut(text[start : start + surname + 6], False)
    name = text[start:end]
    if surname == 1 and len(words[0]) > 1:  # the dictionary holds a word that begins here: 高明, 于是
        return (words[0] == name and _is_person(name)) or (
            len(words[0]) < len(name) and text[end : end + 1] in _ENDS and words[1] == name[len(words[0]) :]
        )
    ends = {0}
    for word in words:
        ends.add(max(ends) + len(word))
    # The name must end where a word ends; with a surname that is also a word, a mark or verb must follow too.
    followed = end == len(text) or text[end] in _ENDS
    if len(name) - surname == 2 and text[start] not in _WORDLIKE:
        return followed or len(name) in ends
    return followed and len(name) in ends


def _is_person(word: str) -> bool:
    """Return True for a word that jieba's dictionary holds as the name of a person.

    Its tag is `nr`, or `nrfg` for well-known persons (李强). 张家 has it too, but is a family.
    """
    return rjieba.tag(word, False)[0][1] in ("nr", "nrfg") and not word.endswith("家")


def field_name_end(text: str, start: int, anybody: bool) -> int | None:
    """Return the end of the name that fills a field (签名：…), or None; `anybody` takes names without a surname too."""
    masked = _MASKED.match(text, start)
    if masked:
        return masked.end()
    padded = _PADDED.match(text, start)
    if padded and (GIVEN.issuperset(padded["given"]) or (anybody and re.fullmatch("[^男女]", padded["given"]))):
        return padded.end()
    filled = _FIELD.match(text, start)
    if filled is None or filled[0] in _NO_NAMES or filled[0][:2] in _NO_NAMES:
        return name_end(text, start)
    if anybody or "·" in filled[0]:
        return filled.end()
    surname = surname_length(text, start)
    if not surname or not 1 <= len(filled[0]) - surname <= 2:
        return name_end(text, start)
    word = filled[0]
    if is_stop(word) or (rjieba.has_word(word) and not _is_person(word)):
        return None
    return filled.end()


# matches: "但愿，", "银川：", "勾践"
# not: "阳光照在身上", "钱"
_WHOLE = re.compile(r"[\u4e00-\u9fff]{2,4}+(?=$|[，,。；;、（(）)\s/／：:0-9A-Za-z\[<]|〔)")
# matches: "诉气促", "因腹痛", "之子", "查房", "签字"
# not: "芝诉"
_GOES_ON = re.compile(r"[之的于在因诉自与和同亲述称为是已未有将曾]|查房|签[字名]|本人|主任|副主任|医[生师]|护士|等")
_NAMING = frozenset(("nr", "nrfg", "ns", "nz", "n", "x"))
"""Tags of jieba's words that may fill the place of a name: 华山, 银川, but not 解决 or 那里."""
LATIN_WORD = r"(?:[A-Z]['’])?[A-ZÀ-ÞĐ][a-zà-ÿăđĩũơưạ-ỹ]{1,14}(?:-[A-Za-z][a-z]{1,14})?"
"""Pattern of one word of a Latin name: Maria, Thị, O'Neil, Soo-jin, Al-Rashid."""
_LATIN = rf"{LATIN_WORD}(?:[ ^·]{{1,2}}{LATIN_WORD}){{0,3}}(?![A-Za-z0-9])|[A-Z]{{2,15}}\^[A-Z]{{2,15}}"
# matches: "Maria Gonzalez", "David", "ZHANG^XIAOMING", "Kim Soo-jin"
# not: "CT", "β-HCG"
_LATIN_NAME = re.compile(_LATIN)


def latin_end(text: str, start: int) -> int | None:
    """Return the end of the Latin name that begins at `start`, or None."""
    latin = _LATIN_NAME.match(text, start)
    return latin.end() if latin else None


def role_name_end(text: str, start: int) -> int | None:
    """Return the end of the name behind a role that only a person has (督导员, 出险人), or None.

    What fills the place up to the next mark may be a word too (银川, 但愿), since no sign or drug follows such a role.
    """
    end = name_end(text, start)
    if end is not None:
        return end
    surname = surname_length(text, start)
    if not surname:
        return latin_end(text, start)
    if text[start] in "左右" and text[start - 1 : start] in ("（", "("):
        return None  # 送检（左颧弓）
    if is_stop(text[start : start + 4]) or text[start : start + 2] in _NO_NAMES or text[start : start + 3] in _NO_NAMES:
        return None
    whole = _WHOLE.match(text, start)
    if whole and 1 <= len(whole[0]) - surname <= 2 and whole[0][-1] not in _NO_PART_OF_NAMES:
        words = rjieba.tag(whole[0], False)
        if len(words) == 1 or len(words[0][0]) <= surname or _is_person(words[0][0]):
            named = words[0][1] in _NAMING or len(words) > surname
            return whole.end() if named and (not is_wordlike(text[start]) or len(whole[0]) > 2) else None
    return likely_end(text, start)


def likely_end(text: str, start: int) -> int | None:
    """Return the end of a surname and characters of names that are no words, before a word or a mark; or None.

    In 闵慧本人 and 骆宾诉气促 jieba leaves the name as single characters; in 黄疸消退 it does not.
    """
    surname = surname_length(text, start)
    if not surname or is_stop(text[start : start + 4]) or (surname == 1 and is_wordlike(text[start])):
        return None
    words: list[str] = rjieba.cut(text[start : start + surname + 6], False)
    if len(words[0]) != surname:
        return None
    alone = 1
    while alone < len(words) and len(words[alone]) == 1 and words[alone] in GIVEN and alone < 3:
        alone += 1
    for length in range(alone - 1, 0, -1):
        end = start + surname + length
        if _GOES_ON.match(text, end) or not _HAN.match(text[end : end + 1]):
            return end
    end = start + surname + alone - 1
    return end if alone > 1 and alone < len(words) and len(words[alone]) > 1 else None


def listed_name_end(text: str, start: int) -> int | None:
    """Return the end of a name behind another and a comma, or None. It must not begin like a word (汉族, 安徽人)."""
    end = name_end(text, start) if surname_length(text, start) else None
    if end is None or not _ITEM_END.match(text, end):
        return None
    return None if _begins_as_word(text[start:end]) else end


def is_name(text: str) -> bool:
    """Return True for a text that is by itself a person's name. It must not begin like a word (高血压, 危害一)."""
    return len(text) <= MAX_NAME and field_name_end(text, 0, anybody=False) == len(text) and not _begins_as_word(text)


def _begins_as_word(name: str) -> bool:
    return bool(rjieba.has_word(name[:2])) and not _is_person(name[:2])


def name_start(text: str, end: int) -> int | None:
    """Return the start of the name that ends at `end`, before a title such as 医生; None where there is none."""
    for length in (4, 3, 2):
        start = end - length
        surname = surname_length(text, start) if start >= 0 else 0
        if (
            not surname
            or not 1 <= length - surname <= 2
            or text[end - 1] == "向"  # 张明向医生咨询
            or not (GIVEN.issuperset(text[start + surname : end]) or _is_set_off(text, start, end))
        ):
            continue
        name = text[start:end]
        if is_stop(name) or (rjieba.has_word(name) and not _is_person(name)):
            continue
        if start == 0 or not _HAN.match(text[start - 1]) or _cut_at(text, start, end):
            return start
    return _surname_start(text, end)


def _is_set_off(text: str, start: int, end: int) -> bool:
    """Return True for characters behind a mark that are no words, such as 李峤 in 、李峤护士长."""
    behind_mark = start == 0 or text[start - 1] in "，,、；;：: 。\n"
    plain = bool(_HAN_ONLY.match(text[start:end]))
    return (
        behind_mark
        and plain
        and len(rjieba.cut(text[start:end], False)) == end - start
        and not is_wordlike(text[start])
    )


def _surname_start(text: str, end: int) -> int | None:
    """Return the start of a surname alone before a title (张医生), or None."""
    if text[max(0, end - 2) : end] in COMPOUND_SURNAMES:
        return end - 2
    start = end - 1
    if start < 0 or text[start] not in SURNAMES or text[start] in _NEVER_ALONE:
        return None
    before = text[start - 1] if start else "。"
    if text[start] == "周" and (before.isdigit() or before in "几数两每一二三四五六"):
        return None  # 两周医生
    if not _HAN.match(before):
        return start
    if text[start] in _WORDLIKE and before not in "科院室请谢找的是和与让给有由经问被跟":
        return None
    return start if _cut_at(text, start, end) else None


def _cut_at(text: str, start: int, end: int) -> bool:
    """Return True if jieba cuts the words before `end` at `start`: in 骨科/张, not in 责任."""
    window = text[max(0, start - 5) : end]
    position = len(window) - (end - start)
    for word in rjieba.cut(window, False):
        if position <= 0:
            break
        position -= len(word)
    return position == 0


def anonymous_start(text: str, end: int) -> int | None:
    """Return the start of the surname before a 某 that begins at `end` (王某), or None."""
    if _SOME_THING.match(text, end):
        return None
    if end and text[end - 1] in "于何任时应从相" and text[end : end + 2] != "某某":
        return None  # 于某处, but 于某某
    return _surname_start(text, end)
