"""Cost of de-identification on real text: rules alone and with the recogniser, and of the stage beside `ingest`.

    python benchmarks/text/deidentify_plain.py --data FOLDER --output benchmarks/results/text/NAME.md

FOLDER holds the public sources as Parquet files. Texts of a source are joined by twelve into documents, each of which
is searched as one that was not seen before. Then the stages `ingest` and `deidentify` run over the same documents in
a fresh store, in one process. MB are 10^6 bytes of UTF-8; seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.pages import cpu_name, publish, table
from infra.artifacts import ArtifactStore
from infra.stage import run
from tasks.deidentify import deidentify
from tasks.deidentify.plan import Plan
from tasks.deidentify.recogniser import shipped_recogniser
from tasks.deidentify.recogniser.tagging import Model
from tasks.deidentify.stage import DeidentifyParams, deidentify_documents
from tasks.files.raw_input import RawInput
from tasks.ingest.stage import IngestParams, ingest

SOURCES = {
    "dialogues": ("toyhom_dialogue/im_sample", ("ask", "answer")),
    "questions": ("chineseblue/cMedQQ", ("text_a", "text_b")),
    "abstracts": ("csl_scientific/kg", ("text",)),
    "old books": ("tcm_ancient_books/sections", ("text",)),
}
"""File and columns by kind of text."""
TEXTS_PER_DOCUMENT = 12
PLANS = {"rules alone": Plan(recogniser=False), "with the recogniser": Plan(), "and the encoder": Plan(encoder=True)}


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--megabytes", type=float, default=2.0, help="text of each source, at most")
    parser.add_argument("--note", default="", help="a sentence for the page: what else the machine did, for example")
    parser.add_argument("--output", type=Path, help="write the page here too")
    options = parser.parse_args()
    documents = {name: read(options.data, *at, size=int(options.megabytes * 1e6)) for name, at in SOURCES.items()}
    rows = []
    for name, texts in documents.items():
        speeds = [f"{speed(texts, plan):.3g}" for plan in PLANS.values()]
        rows.append((name, f"{megabytes(texts):.1f}", *speeds))
    publish(
        [
            "# Cost of de-identification on real text",
            "",
            f"{datetime.date.today()}, stage `deidentify` version {deidentify_documents.version}, "
            f"Python {platform.python_version()}, {cpu_name()}, one process.",
            *([options.note] if options.note else []),
            "",
            "MB a CPU second of `deidentify`, profile minimal, twelve texts to a document:",
            "",
            *table(("text", "MB", *PLANS), rows),
            "",
            "CPU seconds of the stages over the same documents, all of them treated:",
            "",
            *table(("stage", "CPU s", "MB a CPU s"), stages([text for texts in documents.values() for text in texts])),
            "",
        ],
        options.output,
    )


def read(data: Path, file: str, columns: Sequence[str], size: int) -> list[str]:
    """Return documents of a source up to a size in bytes."""
    held = pq.read_table(data / f"{file}.parquet", columns=list(columns)).to_pylist()
    texts = [text for row in held for text in row.values() if text]
    documents = ["\n".join(texts[at : at + TEXTS_PER_DOCUMENT]) for at in range(0, len(texts), TEXTS_PER_DOCUMENT)]
    kept: list[str] = []
    for document in documents:
        size -= len(document.encode())
        if kept and size < 0:
            break
        kept.append(document)
    return kept


def megabytes(texts: Sequence[str]) -> float:
    """Size of some texts."""
    return sum(len(text.encode()) for text in texts) / 1e6


def speed(texts: Sequence[str], plan: Plan) -> float:
    """MB a CPU second, each text searched once."""
    deidentify(texts[0], plan)  # loads dictionary, weights and machine code
    recogniser = shipped_recogniser(plan.encoder)
    if isinstance(recogniser, Model):
        recogniser.forget()
    begin = time.process_time()
    for text in texts:
        deidentify(text, plan)
    return megabytes(texts) / (time.process_time() - begin)


def stages(texts: Sequence[str]) -> list[tuple[str, str, str]]:
    """Rows for `ingest` and for `deidentify` in both plans, run over the texts as records."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus", "emr", "a.jsonl")
        corpus.parent.mkdir(parents=True)
        corpus.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts), "utf-8")
        store = ArtifactStore(Path(folder, "store"))
        ingested = run(ingest, store, IngestParams(), {"corpus": RawInput(str(corpus.parents[1]))})
        runs = {"ingest": ingested}
        for name, plan in PLANS.items():
            params = DeidentifyParams(recogniser=plan.recogniser, encoder=plan.encoder)
            runs[f"deidentify, {name}"] = run(deidentify_documents, store, params, {"documents": ingested.artifact})
        seconds = {name: one.artifact.manifest.cpu_seconds for name, one in runs.items()}
    return [(name, f"{spent:.2f}", f"{megabytes(texts) / spent:.3g}") for name, spent in seconds.items()]


if __name__ == "__main__":
    main()
