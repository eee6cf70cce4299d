"""Stages `section_texts` and `symptom_departments`: classification made from the facts of CMeKG.

The facts are CMeKG's, their order and punctuation ours, so the texts are templated and much more regular than those of
an encyclopedia. Time and memory grow with the graph, which is read once (1 s, 0.3 GB).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from infra.errors import UserError
from infra.stage import Output, stage
from kg.sources import cmekg
from tasks.documents import share_of
from tasks.evaluate.cmedlms.params import GraphTextsParams
from tasks.evaluate.cmedlms.split_files import Made, write_tsv
from tasks.files.raw_input import RawInput

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "cause": ("常见病因", "病因", "主要病因", "高危因素"),
    "description": ("上位关系", "下位关系", "病理分型", "多发群体", "常见发病部位", "发病部位", "传播途径"),
    "diagnosis": ("检查", "辅助检查", "实验室检查", "影像学检查", "组织学检查", "内窥镜检查", "筛查", "鉴别诊断"),
    "prevention": ("预防",),
    "symptom": ("常见症状", "临床症状及体征", "主要症状"),
    "treatment": ("治疗", "药物治疗", "手术治疗", "辅助治疗", "治疗方案"),
}
"""Relations of each section of an encyclopedia (CMedLMs, Table 2)."""
SYMPTOMS, DEPARTMENTS = SECTIONS["symptom"], ("就诊科室",)
_BLANKS = " \u3000\t\r\n。；;，,、"


@stage(name="section_texts", version=1, params=GraphTextsParams)
def section_texts(inputs: Mapping[str, RawInput], params: GraphTextsParams, out: Output) -> None:
    """Make the six-section classification from the pickle of CMeKG, `inputs["kg"]`.

    A text is the disease and the values of one section, without the names of the relations, which would give the
    section away. `prevention` has a few hundred records, the other classes `most`.

    Raises:
        UserError: the graph lacks a section.
    """
    found: dict[str, list[Made]] = {section: [] for section in SECTIONS}
    for disease, relations in _diseases(inputs["kg"]):
        for section, names in SECTIONS.items():
            values = _values(relations, names)
            if values:
                found[section].append(Made(disease, section, f"{disease}：{values}"[: params.characters]))
    empty = [section for section, records in found.items() if not records]
    if empty:
        raise UserError(f"The graph has no texts for {', '.join(empty)}. Give the cmekg.pkl of PyCMeKG.")
    kept = [record for records in found.values() for record in _drawn(records, params)]
    write_tsv(out, kept, "sections", params.seed)


@stage(name="symptom_departments", version=1, params=GraphTextsParams)
def symptom_departments(inputs: Mapping[str, RawInput], params: GraphTextsParams, out: Output) -> None:
    """Make the prediction of a department from symptoms, from the pickle of CMeKG, `inputs["kg"]`.

    A text is the symptoms of a disease without its name. A disease of several departments belongs to the first.

    Raises:
        UserError: fewer than two departments have enough diseases.
    """
    made = []
    for disease, relations in _diseases(inputs["kg"]):
        text, departments = _values(relations, SYMPTOMS), _listed(relations, DEPARTMENTS)
        if text and departments:
            made.append(Made(disease, departments[0], text[: params.characters]))
    sizes = Counter(record.label for record in made)
    kept = [record for record in made if sizes[record.label] >= params.fewest]
    if len({record.label for record in kept}) < 2:
        raise UserError(
            f"Fewer than two departments have {params.fewest} diseases with symptoms. Lower fewest, or give the "
            "cmekg.pkl of PyCMeKG."
        )
    out.count("dropped_rare_departments", len(made) - len(kept))
    by_label = [[record for record in kept if record.label == label] for label in sizes]
    write_tsv(out, [one for records in by_label for one in _drawn(records, params)], "departments", params.seed)


def _diseases(graph: RawInput) -> Iterator[tuple[str, Mapping[str, Sequence[str]]]]:
    """Yield what has a symptom, a cause or a department, in the order of the names."""
    marks = {*SYMPTOMS, *SECTIONS["cause"], *DEPARTMENTS}
    for subject, relations in sorted(cmekg.load(graph.path).items()):
        if marks & relations.keys():
            yield _plain(subject), relations


def _values(relations: Mapping[str, Sequence[str]], names: Sequence[str]) -> str:
    return "、".join(_listed(relations, names))


def _listed(relations: Mapping[str, Sequence[str]], names: Sequence[str]) -> list[str]:
    values = (_plain(value) for name in names for value in relations.get(name, ()))
    return list(dict.fromkeys(value for value in values if value))


def _plain(text: str) -> str:
    """Return a text that fits in a cell of a TSV file."""
    return " ".join(text.strip(_BLANKS).split())


def _drawn(records: Sequence[Made], params: GraphTextsParams) -> list[Made]:
    order = sorted(records, key=lambda one: share_of(one.about, "drawn", params.seed))
    return sorted(order[: params.most])
