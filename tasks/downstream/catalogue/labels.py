"""Label sets that the benchmarks fix."""

from __future__ import annotations

CMEEE_TYPES = ("dis", "sym", "dru", "equ", "pro", "bod", "ite", "mic", "dep")

CMEIE_PREDICATES = tuple(
    """
    预防 阶段 就诊科室 同义词 辅助治疗 化疗 放射治疗 手术治疗 实验室检查 影像学检查 辅助检查 组织学检查
    内窥镜检查 筛查 多发群体 发病率 发病年龄 多发地区 发病性别倾向 死亡率 多发季节 传播途径 并发症 病理分型
    相关（导致） 鉴别诊断 相关（转化） 相关（症状） 临床表现 治疗后症状 侵及周围组织转移的症状 病因 高危因素
    风险评估因素 病史 遗传因素 发病机制 病理生理 药物治疗 发病部位 转移部位 外侵部位 预后状况 预后生存率
    """.split()  # noqa: SIM905
)

CTC_LABELS = (
    "Addictive Behavior", "Address", "Age", "Alcohol Consumer", "Allergy Intolerance", "Bedtime", "Blood Donation",
    "Capacity", "Compliance with Protocol", "Consent", "Data Accessible", "Device", "Diagnostic", "Diet",
    "Disabilities", "Disease", "Education", "Encounter", "Enrollment in other studies", "Ethical Audit", "Ethnicity",
    "Exercise", "Gender", "Healthy", "Laboratory Examinations", "Life Expectancy", "Literacy", "Multiple",
    "Neoplasm Status", "Non-Neoplasm Disease Stage", "Nursing", "Oral related", "Organ or Tissue Status",
    "Pharmaceutical Substance or Drug", "Pregnancy-related Activity", "Receptor Status", "Researcher Decision",
    "Risk Assessment", "Sexual related", "Sign", "Smoking Status", "Special Patient Characteristic", "Symptom",
    "Therapy or Surgery",
)  # fmt: skip

QIC_LABELS = tuple(
    "病情诊断 病因分析 治疗方案 就医建议 指标解读 疾病表述 后果表述 注意事项 功效作用 医疗费用 其他".split()  # noqa: SIM905
)

YES_NO = ("0", "1")
