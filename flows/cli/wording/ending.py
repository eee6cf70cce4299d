"""What a person wants to know when a run is over: the main table, the pages, and what to type next."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.catalogue import Entry
from flows.cli.wording.text_table import text_table
from infra.artifacts import Artifact, ArtifactStore
from infra.program import program
from infra.runs import Recorder

PAGE, TABLE = "report.html", "table.json"
MOST_ROWS = 12
"""Rows of the main table that are shown; the page has all."""

TELLING = frozenset(("ablate", "embed", "sweep"))
"""Flows that print their own table."""

NEXT: Mapping[str, str] = {
    "corpus": "run pretrain/ehealth-tiny {corpus}",
    "vocabulary": "run pretrain/ehealth-tiny --param vocabulary_file={result}/vocab.txt {corpus}",
    "knowledge": "run pretrain/smedbert-tiny --param mentions=true {corpus} {graphs}",
    "entities": "run corpus/refresh --param dictionary={result}/dictionary.txt {corpus}",
    "pretrain": "run finetune/classify --param model={result} --param data=FILE",
    "finetune": "predict --model {result} --input FILE",
    "normalise": "normalise --model {result} --input FILE --output FILE",
}
"""By flow, the command that usually follows; `{corpus}` and `{graphs}` are the parameters that the run had."""


def ending(entry: Entry, recorder: Recorder, result: str) -> tuple[str, list[str]]:
    """Return the main page of a finished run, and the lines to show."""
    if recorder.store is None:
        return "", []
    flow = entry.name.partition("/")[0]
    addresses = dict.fromkeys((one.stage, one.fingerprint) for one in recorder.stages if not one.within)
    made = [artifact for stage, fingerprint in addresses if (artifact := recorder.store.get(stage, fingerprint))]
    pages = [one for one in made if _has(one, PAGE)]
    mappings = [one for one in made if one.stage == "term_mapping"]
    shown_by = pages or mappings
    lines = [] if flow in TELLING or not shown_by else main_table(shown_by[-1])
    lines += [line for one in mappings for line in _files_of_mapping(one)]
    shown = [f"{one.path}/{PAGE}" for one in pages[-3:]]
    if recorder.page:
        shown[-1:] = [recorder.page]
    lines += [f"Page: {one}" for one in shown]
    following = next_command(entry, recorder, result)
    lines += [f"Next: {following}"] if following else []
    return shown[-1] if shown else "", lines


def _files_of_mapping(artifact: Artifact) -> list[str]:
    """Return lines with the files of a mapping of terms, which has no page."""
    lines = [f"Mapping: {artifact.path}/mapping.xlsx"]
    if artifact.manifest.counters["to_review"]:
        review = f"{artifact.path}/review.xlsx"
        lines.append(f"To review: {review}. Fill in its column choice, and give it back with --param names=FILE.")
    return lines


def main_table(artifact: Artifact) -> list[str]:
    """Return the main table of a page as lines; of a training the last figures of each split."""
    if _has(artifact, TABLE):
        rows = json.loads(artifact.read_file(TABLE))
    elif "metrics" in artifact.manifest.tables:
        rows = _last_figures(artifact)
    else:
        return []
    more = len(rows) - MOST_ROWS
    lines = text_table([{name: _shown(value) for name, value in row.items()} for row in rows[:MOST_ROWS]])
    return lines + ([f"… and {more:,} more rows on the page"] if more > 0 else [])


OF_THE_CORPUS = ("ingest.", "clean.", "deidentify.", "deduplicate.", "decontaminate.", "segment.")
"""Sections of parameters that say how a corpus is read and treated."""


def next_command(entry: Entry, recorder: Recorder, result: str) -> str:
    """Return the command that usually follows a run; "" where there is none."""
    flow, _, deployment = entry.name.partition("/")
    template = NEXT.get(flow)
    # A table of several tasks, a mapping or a benchmark is no model to use.
    if entry.name == "normalise/encoder":
        return f"{program()} run normalise/index --param encoder={shlex.quote(result)}"
    if template is None or (flow in ("finetune", "normalise") and not _is_usable(result, deployment)):
        return ""
    # Without these the text would be read and treated otherwise: records would no longer be de-identified.
    of_the_corpus = ["corpus=", "benchmarks=", "dictionary=", *OF_THE_CORPUS]
    if flow == "entities":
        of_the_corpus.remove("dictionary=")  # the command names the one that was made
    kept = {
        "corpus": _repeated(recorder.given, *of_the_corpus),
        "graphs": _repeated(recorder.given, "graphs="),
    }
    words = template.format(result=shlex.quote(result), **kept).split(" ")
    return " ".join([program(), *(word for word in words if word)])


def _repeated(given: Sequence[str], *beginnings: str) -> str:
    """Return the parameters that begin so, as words of a command."""
    return " ".join(f"--param {shlex.quote(item)}" for item in given if item.startswith(beginnings))


def resumption(entry: Entry, given: Sequence[str], recorder: Recorder, is_users: bool) -> str:
    """Return what failed, where its log is, and the command that resumes a run that failed; "" if no work was done.

    Args:
        is_users: the user has to change something first, perhaps this command.
    """
    lines = []
    log = ""
    if recorder.failed_stage is not None and recorder.store is not None:
        stage, fingerprint = recorder.failed_stage
        log = _log(recorder.store, stage, fingerprint)
        lines.append(f"The stage {stage} failed.")
        lines += [f"Its log: {log}"] if log else []
    if is_users and not recorder.stages and not log:
        return ""  # a column that the file lacks: nothing is to be resumed, and the same command would fail again
    words = ["run", entry.name, *(part for one in given for part in ("--param", one))]
    when = "Correct what is wrong, then run again" if is_users else "To resume"
    lines.append(f"What was finished is kept. {when}: {program()} {shlex.join(words)}")
    return "\n".join(lines)


def _is_usable(result: str, deployment: str) -> bool:
    if deployment in ("map", "open-benchmark"):
        return False
    return Path(result).name == "model" or deployment in ("chip-cdn", "index")


def _has(artifact: Artifact, name: str) -> bool:
    return any(file.path == name for file in artifact.manifest.files)


def _last_figures(artifact: Artifact) -> list[dict[str, Any]]:
    """Return the figures of a training's last evaluation, one row for each."""
    import polars as pl

    rows = artifact.scan("metrics").filter(pl.col("split") != "step").collect()
    last = rows.group_by("split").agg(pl.col("step").max())
    found = rows.join(last, on=["split", "step"]).sort("split", "name")
    return [
        {"split": row["split"], "figure": row["name"], "step": row["step"], "value": row["value"]}
        for row in found.to_dicts()
    ]


def _shown(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _log(store: ArtifactStore, stage: str, fingerprint: str) -> str:
    """Return the newest log file of an unfinished build; "" for none."""
    if not store.is_local:
        return ""
    folder = Path(store.absolute(f"{stage}/.{fingerprint}.partial"))
    logs = sorted(folder.rglob("*.log"), key=lambda file: file.stat().st_mtime)
    return str(logs[-1]) if logs else ""
