"""Statistics of personal names, from which names are drawn for training: surnames by frequency, given names by decade.

The tables are estimates from general knowledge, in order of frequency. They name nobody.
"""

from __future__ import annotations

from tasks.deidentify.forms.names import COMPOUND_SURNAMES, GIVEN, SURNAMES
from tasks.deidentify.forms.places import words

FREQUENT_SURNAMES = (
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何林高罗郑梁谢宋唐许邓韩冯曹彭曾肖田董潘袁蔡蒋余于杜叶程魏苏吕丁任卢姚沈钟姜崔谭"
    "陆范汪廖石金韦贾夏付方邹熊白孟秦邱侯江尹薛闫段雷龙黎史陶贺毛郝顾龚邵万覃武钱戴严莫孔向常汤康易乔赖文"
)
"""The hundred surnames that most people bear, most frequent first."""

OTHER_SURNAMES = "".join(sorted(SURNAMES - set(FREQUENT_SURNAMES)))
"""All other surnames of one character."""

SURNAMES_THAT_ARE_WORDS = (
    "水和经滑牧山蓬仰秋从咸籍能苍扶堵通充步都国广禄东沃越融空养须巢后红益怀别家双终习闪撒宝仓粘种库才旦玄过右鱼蚁皇岱线青"
    "法伯年爱墨来藏巨候但虎豹狐鹿象令理岩承朵律恩杞松桑森江河湖海泉洛浪涵渊火炎灵珠琴瑟瑞甫眼硕祈粱糜紫繁老肖脱良色艾芳茶"
    "药莱萨葱蓝蒿虫行西言计让诗语资赤起达运造遇酒采钊铁银锁镇长间问陀陶雀雅零霜静革音顶项香骑鬼鸟默鼓"
)
"""Characters that few people bear as a surname and that are nearly always words: context has to count."""

COMPOUNDS = tuple(sorted(COMPOUND_SURNAMES))

GIVEN_BY_PERIOD = {
    "old men": (
        "国建德志文明永福林祥荣华生金玉春成学振光洪兴宝贵忠云海长庆清根山东平水发有义才良仁安喜炳树松正守维世传"
        "义昌胜富兆连增全财寿先田土木柱栓锁顺和新民军武勤俭耀祖绍宗鸿恒启万克景凤占延继"
    ),
    "old women": (
        "秀玉桂英兰珍芳凤淑春美素金翠莲香花云荣梅华霞琴菊娥玲琼仙芝红月爱惠彩银珠蓉贞巧杏茹娟瑞莉芬萍慧雪娣招弟妹姣腊冬"
        "秋菱凡焕喜"
    ),
    "men": (
        "伟强军勇杰涛磊斌鹏辉波超刚健明建峰俊飞凯龙宇浩亮志国海文平东林宁华毅锋洋鑫晓庆旭永春立新红卫兵雄彬博威剑晨坤阳"
        "江雷昊震栋楠维力翔胜程彦松涵瑞世少振光成嘉"
    ),
    "women": (
        "芳娜丽敏静艳娟霞燕玲萍莉红晓雪婷倩颖慧洁莹丹佳琳蕾薇璐琪媛妍欣梦洋瑶云海小文春秀美金玉雅惠淑琴婕露菲蓉茜晶怡娇"
        "珊蓓冰彤悦嘉思雨亚利平华英梅"
    ),
    "children": (
        "子梓浩宇轩涵欣怡雨泽诗语一诺梦琪可馨若汐沐辰俊熙晨曦睿思嘉奕铭皓博文宸佳依伊晗彤艺萱妍昕然航瑞天佑骏逸豪悦雅"
        "婉清安宁心妙恩承锦程书瑶翊芮淇乐筱柠桐初景珩砚屿知言慕苒杺玥璟"
    ),
}
"""Characters of given names by period and sex, most frequent first."""

RARE_GIVEN = "".join(sorted(GIVEN))
"""Every other character that given names hold."""

ODD_GIVEN = (
    "热冷苦甜酸软硬黑瘦胖远近高低重轻快慢左右前后里外吃喝走跑睡笑哭药病痛血骨肉脚头脑眼耳口鼻车船桥门窗灯火烟酒茶饭米面菜"
    "瓜果豆葱蒜姜盐糖油香臭猫狗猪鸡鸭鱼虾鸟虫蛇龟鼠纸笔墨砚针线布衣鞋帽钟表镜伞刀枪剑棍锤钉床桌椅柜箱瓶碗盘勺筷数字句章"
    "弃渊愈痊浪仞稷咏愚拙默痴癫狂醉醒梦幻空寂蒿芥芷芩芪苓术荟荆荠莪莞菖葛葶蒲蓼薄薤藿参茸膏丸散汤饮剂芎"
)
"""Characters that are rare in names; some of the drawn names hold them, so that context counts too."""

WORDS_AS_NAMES = words(
    "高兴 安静 平安 康复 白果 黄连 石膏 马兰 牛膝 田七 金银 白术 白薇 方正 方圆 米粒 杨梅 石榴 高峰 高山 "
    "高原 江河 江山 河流 黄河 黄山 泰山 云海 水仙 雷雨 温和 温暖 严肃 严格 严谨 毛笔 毛线 易拉 万里 万岁 "
    "成果 成就 成长 任务 任意 时光 时代 时间 关心 关键 张扬 张望 伍拾 陆地 项目 包容 包涵 常青 常乐 常规 "
    "向往 向日 向前 全胜 全能 宁夏 古筝 古典 古月 沙漠 沙枣 郎中 路人 路遥 车前 花朵 花开 花生 苗条 苗木 "
    "辛夷 辛勤 党参 柴胡 胡杨 胡同 麦冬 麦芽 杜鹃 苏木 苏打 苏叶 贝母 巴豆 桑叶 桑枝 柏子 柳絮 梅雨 梅子 "
    "桃李 荣耀 荣誉 智慧 富强 富裕 盛开 盛夏 终点 解放 解忧 甘甜 甘草 甘心 伏笔 空青 艾叶 艾草 鱼腥 乐器 "
    "乐园 乐意 双喜 东风 西风 南风 北辰 秋实 秋霜 夏天 夏至 冬至 春分 元旦 国庆 党性 卫士 卫生 闻名 闻香 "
    "明亮 明白 明确 明星 白雪 白杨 白云 黄昏 黄金 蓝天 蓝图 红花 朱砂 朱红 丹参 丹桂 青黛 青天 单数 单纯 "
    "计算 计划 计谋 谈笑 谈判 谢意 谢幕 施展 施舍 应用 应该 曾经 曾几 于是 何必 何时 何处 何故 和平 和谐 "
    "和气 平和 平地 平静 余音 余地 余年 余生 余庆 雷达 雷厉 强硬 强劲 强化 原野 原来 居易 居士 连接 连续 "
    "连心 简历 简洁 简约 满江 满意 满月 凤凰 龙井 龙眼 龙胆 虎牙 熊胆 熊猫 狄青 师傅 司机 司令 司仪 冷静 "
    "冷暖 冷杉 燕窝 燕麦 燕子 薄荷 薄冰 茅根 芦根 蒲黄 蒲公 葛根 葛花 姜黄 姜汁 姜末 木香 木瓜 木耳 天麻 "
    "天冬 地黄 川贝 川芎 远志 知母 百合 百灵 百里 千里 万年 桂花 桂圆 桂枝 海燕 海星 海蓝 安康 安心 安神 "
    "康宁 康乐 宁静 祝福 祝寿 祝愿 喜悦 欣慰 欣喜 乔木 乔迁 景色 景天 景气 华丽 华山 岳母 岳阳 洪水 洪亮 "
    "洪福 汤圆 汤药 水井 水平 水流 水痘 危险 危机 符合 符号 商量 商路 商陆 习惯 习题 巫山 竹叶 竹青 柯达 "
    "查理 查找 管理 管道 盛满 池塘 池水 涂鸦 冉冉 井然 井水 段落 侯门 邵武 车站 车祸"
)
"""Words that people are also called; in real text they are nearly always words."""

CALLED_BY_WORDS = words(
    "立春 雨水 惊蛰 春分 清明 谷雨 立夏 小满 芒种 夏至 小暑 大暑 立秋 处暑 白露 秋分 寒露 霜降 立冬 小雪 "
    "大雪 冬至 小寒 阳光 果冻 布丁 奶茶 欢喜 温柔 严格 奇迹 希望 幸运 幸福 快乐 和平 和气 和谐 公正 公平 "
    "平等 自由 自然 季节 年华 时间 岁月 星星 月亮 太阳 木星 金星 土星 海鸥 海浪 浪花 火焰 流星 彩虹 晚霞 "
    "朝阳 春天 秋天 冬天 樱桃 柠檬 苹果 核桃 栗子 可乐 咖啡 豆浆 馒头 饺子 包子 面条 米饭 小麦 玉米 高粱 "
    "红豆 绿豆 当归 石斛 杜仲 半夏 紫苏 忍冬 合欢 沉香 茯苓 佩兰 安全 稳定 坚强 坚定 勇敢 勤劳 朴素 诚实 "
    "善良 明朗 清楚 清醒 认真 细致 从容 镇定 潇洒 洒脱 欢笑 微笑 沉默 思念 回忆 青春 少年 先锋 前进 建设 "
    "革命 胜利 解放 援朝 跃进 卫国 建国 国庆 五一 七夕 十一 中秋 端午 重阳 元宵 大雁 小鹿 骆驼 孔雀 白鸽 "
    "雪莲 百合 玫瑰 牡丹 芙蓉 月季 翠竹 青松 钢铁 石头 泉水 山峰 草原 森林 田园 农夫 牧童 渔夫 船长 画家 "
    "鲁班 主角 权威 领袖 专家 司令 将军 元帅 公主 王子 皇后 天使 精灵 神仙 罗汉 观音 如来 菩萨 "
)
"""Words of any kind that people are called, beginning with a surname or not."""

HONORIFICS = {
    "kin": words("叔 婶 伯 姨 爷 奶奶 大爷 大妈 阿姨 大叔 大婶 大娘 爷爷 婆婆 老太 老爷子 老太太 哥 姐 嫂 妹 弟"),
    "work": words("总 工 队 处 局 导 书记 经理 科长 所长 校长 站长 主任 师傅 警官 律师 会计 秘书 老板 教练 队长"),
    "clinic": words(
        "医生 医师 大夫 主任 主任医师 副主任 副主任医师 主治医师 教授 副教授 护士 护士长 护师 主管护师 药师 技师 "
        "院长 博士"
    ),
    "polite": words("先生 女士 小姐 老师 同学 小朋友 同志 老人 某 某某 氏"),
}
"""What follows a surname or a name, by who is meant."""

NICKNAMES = words(
    "浩浩 豆豆 乐乐 果果 可可 萌萌 妞妞 欢欢 佳佳 婷婷 丽丽 芳芳 强强 亮亮 明明 毛毛 童童 贝贝 糖糖 甜甜 "
    "小宝 大宝 二宝 点点 牛牛 虎子 柱子 铁蛋 石头 二丫 大壮 团子 米粒 嘟嘟 朵朵 跳跳 安安 圆圆 晨晨 轩轩 "
    "涵涵 阳阳 洋洋 晶晶 莹莹 冰冰 露露 娜娜 苗苗 珍珍 燕子 霞妹 强子 军子 大勇 大刚 阿强 阿珍 阿芳 阿明 "
    "阿华 阿英 阿伟 阿福 阿宝 阿发 阿梅 阿兰 阿龙 阿荣 小雨 小雪 小美 小虎 小龙 小花 小柯 小薇 小鱼 小米 "
    "小七 小满 小月 小天 小新 小丸 小凯 小倩 小红 小芳 小军 小燕"
)

UYGHUR = words(
    "买买提 艾力 阿不都 阿卜杜拉 吐尔逊 古丽 阿依古丽 热合曼 艾合买提 玉素甫 阿迪力 帕提古丽 努尔 阿里木 "
    "依明 木拉提 艾尼瓦尔 迪丽努尔 阿依努尔 热依汗 麦麦提 图尔荪 阿布力孜 库尔班 沙塔尔 肉孜 米吉提 艾孜孜 "
    "阿曼古丽 祖丽菲娅 布海丽且姆 塔依尔 艾尔肯 古丽娜尔 茹仙古丽 阿孜古丽 热孜万古丽 帕尔哈提 伊力亚斯 "
    "库尔班江 艾合买提江 吐逊江 吐尔洪 热依罕 热依拉 马依拉 塔吉古丽 古丽米拉 阿布都热依木 阿不力克木 卡德尔 热孜亚 "
    "图尔荪 阿卜杜外力 麦麦提明 阿布都克力木 吾买尔江 艾麦提 帕孜力亚 祖力皮亚 凯丽比努尔 阿瓦古丽 努尔曼古丽 艾比布拉 "
    "卡米力 吾守尔 赛买提 再娜甫 阿米娜 阿不力米提 哈力克 买尔旦 努尔比亚 迪里夏提 亚森 约麦尔 海热提 "
    "阿卜力克木 巴哈尔古丽 麦合木提 哈斯木 司马义 达吾提"
)
KAZAKH = words(
    "叶尔肯 巴合提 努尔兰 赛力克 阿依波力 古丽扎提 加孜拉 哈那提 木拉提别克 叶斯哈提 阿曼太 波拉提 托合塔尔 "
    "沙吾列 加依娜 叶尔兰 胡安德克 巴合提古丽 努尔巴合提 阿扎提 塔斯肯"
)
MONGOL = words(
    "巴特尔 乌兰 其其格 斯琴高娃 格日勒 那顺 宝音 苏日娜 娜仁花 乌云其木格 阿拉坦 额尔德尼 朝鲁 哈斯 图雅 "
    "萨仁 乌日娜 布和 特木尔 白音 牧仁 查干 敖登 青格乐 呼和 苏和 都兰 阿茹娜 吉日嘎拉 巴图 道尔吉 萨如拉 "
    "满都拉 布仁 通拉嘎 孟和 恩和 锡林 乌日图 查苏娜 那仁 敖特根 乌仁图雅 巴雅尔 阿木尔 朝克图 斯日古楞 其木格 高娃 "
    "莫日根 呼格吉勒 萨日娜 乌尼尔 吉木斯"
)
TIBETAN = words(
    "扎西 卓玛 次仁 旺堆 拉姆 央金 多吉 平措 顿珠 白玛 格桑 索朗 丹增 洛桑 尼玛 达娃 仁青 德吉 普布 边巴 "
    "巴桑 曲珍 措姆 晋美 强巴 加措 才让 仁增 桑吉 罗布 旦增 嘎玛 阿旺 土登 班觉 卓嘎 拉巴 米玛 贡布 才旦 "
    "更登 多杰 才仁 拉毛 周措 吉太 次旦 欧珠 其美 旺姆 德庆 贡桑 洛追 四郎 泽仁 泽郎 尼珍 曲扎 公保 仁钦 华旦 完么 "
    "索南 卓尕 措吉 玉珠 白吉 降央 呷绒 拉泽"
)
YI = words(
    "吉克 阿木 沙马 阿尔 木呷 伍各 曲比 拉火 依火 尔古 乌果 友子 日格 子布 阿呷 石布 尔布 史古 莫色 拉铁 金古 阿依 沙依"
)
KOREAN_GIVEN = words(
    "英子 哲浩 顺姬 美兰 成日 东哲 春姬 明淑 龙吉 贞爱 正浩 京姬 昌日 善女 今女 虎男 哲洙 润姬 在勋 智贤"
)

TRANSLITERATED = words(
    "约翰 玛丽 大卫 迈克尔 安娜 史密斯 布朗 琼斯 威廉姆斯 约翰逊 伊万诺夫 彼得罗夫 娜塔莎 安德烈 卡洛斯 "
    "罗德里格斯 费尔南多 穆罕默德 阿里 侯赛因 法蒂玛 田中 佐藤 铃木 高桥 渡边 山本 太郎 一郎 美智子 惠子 "
    "健太 金正秀 朴智星 李英爱 查理 露西 汤姆 杰克 艾米丽 索菲亚 亚历山大 维克多 尼古拉斯 克里斯蒂娜 "
    "伊丽莎白 凯瑟琳 让 皮埃尔 弗朗索瓦 汉斯 穆勒 施耐德 拉杰 库马尔 辛格 阮文 阮氏 托马斯 詹姆斯 罗伯特 "
    "马丁 保罗 西蒙 本杰明 丹尼尔 安东尼 乔治 爱德华 安妮 珍妮弗 朱莉娅 劳拉 萨拉 瑞秋 丽贝卡 奥尔加 谢尔盖 "
    "德米特里"
)

LATIN_FIRST = words(
    "John Mary David Michael Anna Peter Maria James Robert Linda Susan Karen Thomas Daniel Sarah Emily Lily "
    "Lucy Tony Kevin Jason Eric Jack Tom Amy Alice Grace Helen Ivan Olga Sergey Natasha Carlos Jose Juan "
    "Fatima Ahmed Mohammed Ali Hassan Raj Priya Yuki Hiroshi Kenji Min-jun Ji-woo Pierre Marie Hans Greta "
    "Luca Giulia Emma Oliver Noah Sophia Jennifer Ruth Vivian Cindy Mandy Coco Leo Vincent Jessica Andrew "
    "Nicole Monica Henry Frank Victor Simon Rachel Wendy Angela Sonam Tashi Pema Dolma Tenzin Aisha Omar "
    "Ibrahim Elena Dmitri Jean-Pierre Soo-jin Hye-jin Siobhan Hannah Claire Anton Bill Paul George Brian Diana "
    "Marina Vladimir Sergio Takeshi Haruka Noor Khadija Yusuf Rosa Pedro Lars Ingrid Chloe Mia Ethan"
)
LATIN_LAST = words(
    "Smith Brown Jones Johnson Williams Miller Davis Garcia Gonzalez Martinez Lopez Silva Santos Kim Park "
    "Lee Choi Tanaka Suzuki Sato Nguyen Tran Singh Kumar Patel Khan Hussain Ivanov Petrov Müller Schmidt "
    "Schneider Rossi Dubois Moreau Andersson Berg O'Neil O'Brien Wilson Taylor Anderson Thomas Jackson White "
    "Al-Harbi Al-Rashid Petrenko Kuznetsov Morozova Kowalski Nowak Nakamura Yamamoto Watanabe Almeida Fernandes "
    "Harris Clark Lewis Walker Hall Young King Wright Scott Green Baker Adams Nelson Carter"
)

PINYIN_SURNAMES = words(
    "Wang Li Zhang Liu Chen Yang Huang Zhao Wu Zhou Xu Sun Ma Zhu Hu Guo He Lin Gao Luo Zheng Liang Xie Song "
    "Tang Deng Han Feng Cao Peng Zeng Xiao Tian Dong Pan Yuan Cai Jiang Yu Du Ye Cheng Wei Su Lv Ding Ren "
    "Shen Yao Lu Cui Tan Fan Liao Shi Jin Jia Xia Fu Ouyang Situ Chan Wong Cheung Leung Lau Ng Kwok Chow Ho "
    "Lam Tsang"
)
PINYIN_SYLLABLES = words(
    "xiao ming wei hua jun ping yan fang li na jing lei tao jie hong mei ying xin yu chen hao ran zi han yi "
    "tong bo wen qing feng lin hai yun long fei peng chao gang jian guo qiang zhi yong bin kai rui jia qi "
    "meng shan xue ting dan lan juan ling min hui"
)
VIETNAMESE_FIRST = words(
    "Nguyễn Trần Lê Phạm Hoàng Huỳnh Phan Vũ Võ Đặng Bùi Đỗ Hồ Ngô Dương Lý Nguyen Tran Pham Hoang"
)
VIETNAMESE_REST = tuple(
    f"{middle} {last}"
    for middle in words("Thị Văn Thi Van Minh Ngọc Đức Thanh")
    for last in words("Hoa Lan Hương Mai Hùng Nam Dũng Tuấn Linh Thảo Anh Bình Huong Hung Tuan Thao")
)
