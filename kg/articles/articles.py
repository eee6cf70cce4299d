"""Renders one subject of CMeKG as an encyclopedia article.

The facts are CMeKG's, the sentences ours: templates that vary by relation, chosen by a hash of subject and relation, so
that neither the place nor the wording of a fact can be predicted from the one before it. Noise inside the values
(no-break spaces, private-use characters) is left for the cleaning stage.

Time and memory grow with the length of the article.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from kg.articles.article_phrases import (
    CLAUSES,
    CONTINUATIONS,
    GENERIC,
    GENERIC_SECTIONS,
    GENERIC_UNDER,
    NAMES,
    PHRASES,
    TAXONOMY,
    TAXONOMY_RELATION,
    WHOLE_ANSWERS,
    Phrases,
    Section,
)

MAX_SENTENCE = 72
"""Maximum characters of values in one sentence; a longer list continues in the next."""

MIN_LISTED, MAX_LISTED = 5, 12
"""Bounds on the number of values in one sentence of a long list; the number varies between them."""

PRONOUNS = {
    "drug": ("该药", "本品", "这种药"),
    "herb": ("该药材", "本品", "这味药"),
    "examination": ("该检查", "这项检查", "此项检查"),
    "disease": ("本病", "该病", "这种疾病"),
}

MARKS = {
    "herb": frozenset({*TAXONOMY, "入药部位", "性味"}),
    "drug": frozenset({"成份", "OTC类型", "药品监管分级", "贮藏", "规格", "分类", "用途分类"}),
    "examination": frozenset({"所属分类", "相关疾病", "相关症状"}),
}
"""Relations that show the kind of a subject, the most reliable first; a subject without any is a disease."""

_NO_DISEASE = frozenset({"常见症状", "常见病因", "就诊科室", "ICD10", "病因"})


def render_article(subject: str, attributes: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Return (title, text) of the article about `subject`.

    The text has one paragraph per section, separated by \\n, and every sentence ends with 。. It is empty if no
    attribute has a readable value. Equal arguments give equal text.
    """
    sections: dict[Section, list[tuple[str, list[str]]]] = defaultdict(list)
    for relation, values in _gather(attributes).items():
        sections[_section_of(relation)].append((relation, values))
    pronouns = PRONOUNS[kind_of(attributes)]
    paragraphs = [_paragraph(subject, pronouns, sections[section]) for section in sorted(sections)]
    return subject.strip(), "\n".join(paragraphs)


def kind_of(attributes: Mapping[str, Sequence[str]]) -> str:
    """Return drug, herb, examination or disease, judged by the relations alone."""
    relations = attributes.keys()
    if relations & _NO_DISEASE:
        return "disease"
    return next((kind for kind, marks in MARKS.items() if relations & marks), "disease")


def _gather(attributes: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the readable values by relation, with the ranks of the taxonomy merged into one relation."""
    gathered: dict[str, list[str]] = {}
    for relation, values in attributes.items():
        readable = [stripped for value in values if (stripped := value.strip(" \u3000\t\r\n。；;，,、"))]
        if readable:
            gathered[relation] = readable
    ranks = [gathered.pop(rank) for rank in TAXONOMY if rank in gathered]
    if ranks:
        ranked = NAMES.join("或".join(rank) for rank in ranks)
        gathered[TAXONOMY_RELATION] = [ranked, *gathered.get(TAXONOMY_RELATION, ())]
    return gathered


def _section_of(relation: str) -> Section:
    if relation in PHRASES:
        return PHRASES[relation].section
    return GENERIC_SECTIONS.get(relation.partition("_")[0], Section.OTHER)


def _paragraph(subject: str, pronouns: Sequence[str], attributes: list[tuple[str, list[str]]]) -> str:
    """Return the sentences of one section: the first names the subject, later ones mostly use a pronoun."""
    sentences: list[str] = []
    # In the order of the graph, the same relations would always follow each other.
    for relation, values in sorted(attributes, key=lambda item: (_draw(subject, item[0], "order"), item[0])):
        name = subject.strip()
        if sentences:
            choices = (*pronouns, name)
            name = choices[_draw(subject, relation, "name") % len(choices)]
        sentences.extend(_sentences(subject, name, relation, values))
    return "".join(sentences)


def _sentences(subject: str, name: str, relation: str, values: list[str]) -> Iterator[str]:
    phrases, heading, item = _phrases_of(relation)
    answer = WHOLE_ANSWERS.get((relation, values[0])) if len(values) == 1 else None
    templates = answer or phrases.sentences
    draw = _draw(subject, relation, "sentence")
    for number, listed in enumerate(_chunks(values, phrases.separator, draw)):
        if number:
            templates = CONTINUATIONS
        template = templates[(draw + number) % len(templates)]
        yield template.format(s=name, v=phrases.separator.join(listed), t=heading, r=item)


def _phrases_of(relation: str) -> tuple[Phrases, str, str]:
    """Return the wording of a relation, its heading (if it has one) and its own name."""
    if relation in PHRASES:
        return PHRASES[relation], "", relation
    heading, _, item = relation.partition("_")
    section = _section_of(relation)
    if item:
        return Phrases(section, CLAUSES, GENERIC_UNDER), heading, item.replace("_", "的")
    return Phrases(section, NAMES, GENERIC), "", relation


def _chunks(values: list[str], separator: str, draw: int) -> Iterator[list[str]]:
    """Split a long list into one chunk per sentence; where it is split varies with `draw`."""
    chunk: list[str] = []
    limit = MIN_LISTED + draw % (MAX_LISTED - MIN_LISTED + 1)
    for value in values:
        length = sum(map(len, chunk)) + len(chunk) * len(separator)
        if chunk and (len(chunk) >= limit or length + len(value) > MAX_SENTENCE):
            yield chunk
            chunk = []
            draw = zlib.crc32(draw.to_bytes(4, "little"))
            limit = MIN_LISTED + draw % (MAX_LISTED - MIN_LISTED + 1)
        chunk.append(value)
    yield chunk


def _draw(subject: str, relation: str, purpose: str) -> int:
    """Return a 32-bit number that depends only on the arguments, on any machine."""
    return zlib.crc32(f"{subject}\0{relation}\0{purpose}".encode("utf-8", "surrogatepass"))
