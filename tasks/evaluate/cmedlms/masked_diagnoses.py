"""Stage `masked_diagnoses`: prediction of ICD-10 chapters from records whose diagnoses are masked.

The records are those of a tagging task (cEHRNER or CCKS 2019), with its splits. Each diagnosis becomes 某病, so that
only the rest of the record tells what the patient has. A diagnosis has the chapter of the longest coded name of CMeKG
in it: 直肠癌术后 has that of 直肠癌. Records without a diagnosis that has a chapter are left out and counted.

Time and memory grow with the records and the names of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from infra.errors import UserError
from infra.stage import Output, stage
from kg.codes import codes_in
from kg.linking import EntityLinker
from kg.sources import cmekg
from tasks.downstream.catalogue import task
from tasks.downstream.records import Entity, Record
from tasks.downstream.task_data import load_task_data
from tasks.evaluate.cmedlms.params import MaskedDiagnosesParams
from tasks.evaluate.cmedlms.split_files import Made, json_lines

MASK = "某病"
CODE, ALIASES = "ICD10", ("别称", "又称", "同义词")
CHAPTERS = (
    ("A00", "I"), ("C00", "II"), ("D50", "III"), ("E00", "IV"), ("F00", "V"), ("G00", "VI"), ("H00", "VII"),
    ("H60", "VIII"), ("I00", "IX"), ("J00", "X"), ("K00", "XI"), ("L00", "XII"), ("M00", "XIII"), ("N00", "XIV"),
    ("O00", "XV"), ("P00", "XVI"), ("Q00", "XVII"), ("R00", "XVIII"), ("S00", "XIX"), ("V01", "XX"),
    ("Z00", "XXI"),
)  # fmt: skip
"""First code and number of each chapter of ICD-10, in the order of the codes; codes with U are chapter XXII."""


@stage(name="masked_diagnoses", version=1, params=MaskedDiagnosesParams)
def masked_diagnoses(inputs: Mapping[str, Any], params: MaskedDiagnosesParams, out: Output) -> None:
    """Make multi-label records from `inputs["data"]` (`TaskFiles`) and CMeKG's pickle, `inputs["kg"]`.

    Raises:
        UserError: no diagnosis of the records has a chapter.
    """
    chapters = Chapters(cmekg.load(inputs["kg"].path))
    data = load_task_data(task(params.task), inputs["data"].path, params.limit)
    for split, records in (("train", data.train), ("dev", data.dev), ("test", data.test)):
        made = [one for record in records if (one := _masked(record, chapters, params.types)) is not None]
        if split == "train" and not made:
            raise UserError(
                f"No entity of the types {', '.join(params.types)} in the training records of {params.task} has a "
                "chapter of ICD-10. Name the types of diagnoses in masked_diagnoses.types."
            )
        out.add_bytes(f"{split}.jsonl", json_lines(made))
        out.count(f"records_{split}", len(made))
        out.count("records_without_chapter", len(records) - len(made))


class Chapters:
    """Chapters of ICD-10 by names of diseases."""

    def __init__(self, subjects: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
        coded = [(name, relations) for name, relations in subjects.items() if relations.get(CODE)]
        codes = codes_in(pl.Series([relations[CODE][0] for _, relations in coded], dtype=pl.String)).to_list()
        names: dict[str, str] = {}
        for (name, relations), found in zip(coded, codes, strict=True):
            own = chapter_of(found[0]) if found else ""
            for one in (name, *(alias for relation in ALIASES for alias in relations.get(relation, ()))):
                if own:
                    names.setdefault(one, own)
        self._linker = EntityLinker(names)

    def of(self, diagnosis: str) -> str:
        """Return the chapter of the longest known name in a diagnosis, of equals the last; empty if there is none."""
        found = self._linker.link(diagnosis)
        return max(found, key=lambda mention: (mention[1] - mention[0], mention[0]))[2] if found else ""


def chapter_of(code: str) -> str:
    """Return the number of a code's chapter: II for D12, III for D56.1; empty for what is no code of ICD-10."""
    stem = code[:3].upper()
    if not (len(stem) == 3 and stem[0].isascii() and stem[0].isalpha() and stem[1:].isdigit()):
        return ""
    if stem[0] == "U":
        return "XXII"
    return next((number for first, number in reversed(CHAPTERS) if stem >= first), "")


def _masked(record: Record, chapters: Chapters, types: Sequence[str]) -> Made | None:
    """Return the record without its diagnoses and with their chapters; None if it has none."""
    assert isinstance(record.answer, tuple)
    diagnoses = sorted(one for one in record.answer if isinstance(one, Entity) and one.type in types)
    text = record.texts[0]
    labels = sorted({found for one in diagnoses if (found := chapters.of(text[one.start : one.end]))})
    if not labels:
        return None
    parts, place = [], 0
    for one in diagnoses:
        if one.start >= place:  # one inside another is masked with it
            parts += [text[place : one.start], MASK]
            place = one.end
    return Made(record.record_id, labels, "".join([*parts, text[place:]]))
