"""Parameters of a task on a user's own file. Nothing here imports torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from infra.stage import StageParams

Form = Literal["classify", "pairs", "tag", "rank"]
Markup = Literal["offsets", "bio", "brackets"]


class OwnTaskParams(StageParams):
    """What the columns of a user's file mean, and how its rows become train, dev and test."""

    form: Form = Field(
        description="classify: a text gets a label, or several; pairs: two texts get a label; tag: entities of a text; "
        "rank: candidates of a query are ordered"
    )
    text_fields: tuple[str, ...] = Field(
        min_length=1, max_length=2, description="column of the text; for pairs and rank the columns of both texts"
    )
    label_field: str = Field(
        default="label",
        description="column of the answer: a label, several with label_separator between them, entities or tags, or "
        "how relevant a candidate is (0 or 1, no or yes, or whole grades); not read for markup=brackets",
    )
    label_separator: str | None = Field(
        default=None,
        min_length=1,
        description="what stands between the labels of a row, such as ; in 发热;咳嗽; null: one label per row",
    )
    markup: Markup = Field(
        default="offsets",
        description='how entities are written. offsets: [{"start": 0, "end": 3, "type": "疾病"}] in label_field, end '
        "exclusive; bio: a tag per character in label_field, B-疾病 I-疾病 O; brackets: [高血压|疾病]病史 in the text",
    )
    group_field: str | None = Field(
        default=None,
        description="column whose equal values stay in one split, such as the patient; texts of one patient in train "
        "and test would make scores too good",
    )
    split_field: str | None = Field(
        default=None,
        description="column with train, dev or test (训练, 验证, 测试) for each row; else splits are drawn",
    )
    dev_share: float = Field(
        default=0.1, gt=0.0, lt=0.5, description="share of rows drawn for dev, if dev is not given"
    )
    test_share: float = Field(
        default=0.1, ge=0.0, lt=0.5, description="share of rows drawn for test, if neither dev nor test is given"
    )
    split_seed: int = Field(default=0, description="another seed draws other splits")
    metric: str | None = Field(
        default=None,
        description="score that chooses the best run: macro_f1 (each label counts alike) or micro_f1 (each row does) "
        "for classify and pairs; multi_label_f1 or macro_label_f1 for several labels; entity_f1 or macro_entity_f1 for "
        "tag; mrr or precision_at_1 for rank; pair_score or accuracy for grades",
    )
    strict: bool = Field(
        default=True,
        description="false: a label that occurs once, and a label of dev or test that train lacks, is a warning and no "
        "error",
    )

    @model_validator(mode="after")
    def _fits(self) -> OwnTaskParams:
        wanted = 2 if self.form in ("pairs", "rank") else 1
        if len(self.text_fields) != wanted:
            raise ValueError(f"{self.form} takes {wanted} column{'s' * (wanted > 1)} of texts")
        if self.label_separator is not None and self.form != "classify":
            raise ValueError("label_separator is for classify: rows of the other tasks have one answer")
        return self
