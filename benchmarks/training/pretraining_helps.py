"""Effect of pre-training, and of CSP and MTS: the same small network from three starts, fine-tuned on real tasks.

    python benchmarks/training/pretraining_helps.py --data ../shared/data --work /somewhere --steps 1500

*Random* starts from fresh weights, *ELECTRA* from MLM and RTD alone (no CSP, no MTS), *eHealth* from all four losses,
for the same number of steps on the same batches of real dialogues and articles. Text that shares 13 characters with the
tasks' dev and test sets is cut out first. Each start is fine-tuned with three seeds and one setting on each task, with
the best epoch by dev; the table shows the test scores. There is one pre-training per start, so the noise of its seed is
not in the spread.

Everything is stored below --work and reused: a second run, or one after a kill, resumes from there.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.pages import cpu_name, publish, table

TASKS = {
    "cmedqq": ("cMedQQ", ("text_a", "text_b")),
    "cmedtc": ("cMedTC", ("text",)),
    "cmedqaner": ("cMedQANER", ("text",)),
}
"""By the task's name: its file, and its columns of text."""

RECORDS = {"cehrner": "cEHRNER"}
"""Medical records; the corpus holds none, so nothing is cut out for them."""

STARTS: Mapping[str, Mapping[str, Any]] = {
    "eHealth": {},
    "ELECTRA (w/o CSP, MTS)": {"model.csp_weight": 0.0, "model.mts_weight": 0.0},
}
RANDOM = "random"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the real data")
    parser.add_argument("--work", type=Path, required=True, help="artifacts and text lie here; reused")
    parser.add_argument("--preset", default="ehealth-tiny")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="of the preset, as JSON")
    parser.add_argument("--steps", type=int, default=1_500, help="of pre-training, of each start")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32, help="of fine-tuning")
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="of fine-tuning")
    parser.add_argument("--limit", type=int, help="the most records of each split of a task")
    parser.add_argument("--task", action="append", choices=(*TASKS, *RECORDS), help="several times; by default all")
    parser.add_argument(
        "--start", action="append", choices=tuple(STARTS), help="beside random weights; several times, by default all"
    )
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    os.environ["YIWEN_HOME"] = str(options.work / "artifacts")
    given = dict(item.split("=", 1) for item in options.override)
    shared = {key: json.loads(value) for key, value in given.items()}
    shared |= {"training.steps": options.steps, "cluster.workers": 0}
    write_texts(options.data, options.work)
    starts = {name: own for name, own in STARTS.items() if name in (options.start or STARTS)}
    models = {name: pretrained(options.work, options.preset, shared | own) for name, own in starts.items()}
    tasks = options.task or (*TASKS, *RECORDS)
    scores = {
        name: {task: finetuned(task, folder, options, random=False) for task in tasks}
        for name, folder in models.items()
    }
    # The architecture and the vocabulary are those of every start.
    any_model = next(iter(models.values()))
    scores[RANDOM] = {task: finetuned(task, any_model, options, random=True) for task in tasks}
    publish(list(page(options, given, models, scores)), options.output)


def write_texts(data: Path, work: Path) -> None:
    """The corpus, and the test sets that are cut out of it, as JSON lines."""
    for folder in ("corpus", "benchmarks"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    for name, texts in corpus(data):
        _write(work / "corpus" / f"{name}.jsonl", texts)
    for name, columns in TASKS.values():
        held_out = pl.read_parquet(data / "chineseblue" / f"{name}.parquet").filter(pl.col("orig_split") != "train")
        _write(work / "benchmarks" / f"{name}.jsonl", (text for row in held_out.select(columns).rows() for text in row))


def corpus(data: Path) -> Iterator[tuple[str, Iterator[str]]]:
    """Real dialogues and questions with answers, and articles that a language model wrote (called so in SOURCE.md)."""
    sources = {
        "toyhom": ("toyhom_dialogue/im_sample.parquet", ("title", "ask", "answer")),
        "huatuo26m": ("zhongjing_eval/huatuo26m_qa6000.parquet", ("question", "answer")),
        "cmtmedqa": ("zhongjing_eval/cmtmedqa_multi_turn.parquet", ("instruction", "output")),
        "cmedqa": ("chineseblue/cMedQA.parquet", ("text_a", "text_b")),
        "huatuo_llama_synthetic": ("huatuo_llama/llama_data.parquet", ("instruction", "input", "output")),
        "liver_cancer_synthetic": ("huatuo_llama/liver_cancer.parquet", ("instruction", "input", "output")),
    }
    for name, (file, columns) in sources.items():
        rows = pl.read_parquet(data / file).select(columns).rows()
        yield name, ("\n".join(text for text in row if text) for row in rows)


def pretrained(work: Path, preset: str, overrides: Mapping[str, Any]) -> str:
    """Folder of the exported model."""
    from flows.pretrain import pretrain

    text = {"corpus": str(work / "corpus"), "benchmarks": str(work / "benchmarks")}
    return pretrain.fn(preset=preset, overrides=dict(overrides), **text)


def finetuned(task: str, model: str, options: argparse.Namespace, *, random: bool) -> list[float]:
    """Test scores of three seeds, in the task's own metric."""
    from flows.finetune import finetune
    from infra.artifacts import ArtifactStore

    overrides = {
        "finetune.epochs": [options.epochs],
        "finetune.batch_sizes": [options.batch_size],
        "finetune.learning_rates": [options.learning_rate],
        "finetune.limit": options.limit,
        "finetune.precision": options.precision,
        "finetune.random_weights": random,
        "finetune.resources": {"trials_at_once": 1},
    }
    folder = finetune.fn(tasks=task, model=model, data=str(options.data / "chineseblue"), overrides=overrides)
    fingerprint = Path(folder).parent.name
    artifact = ArtifactStore(os.environ["YIWEN_HOME"]).get("finetune", fingerprint)
    assert artifact is not None, folder
    rows = artifact.scan("scores").filter((pl.col("split") == "test") & (pl.col("of") == "trial") & pl.col("main"))
    return rows.sort("seed").collect()["value"].to_list()


def page(
    options: argparse.Namespace,
    given: Mapping[str, str],
    models: Mapping[str, str],
    scores: Mapping[str, Mapping[str, list[float]]],
) -> Iterator[str]:
    """Lines of the page."""
    today = datetime.date.today().isoformat()
    changed = "".join(f", {key} = {value}" for key, value in given.items())
    yield f"# Does pre-training help? {today}"
    yield ""
    yield (
        f"Preset {options.preset}{changed}, {options.steps:,} steps of pre-training; {cpu_name()}. Fine-tuning: "
        f"{options.epochs} epochs, batch {options.batch_size}, rate {options.learning_rate:g}, {options.precision}, "
        f"best epoch by dev"
        f"{f', at most {options.limit:,} records a split' if options.limit else ''}. Test scores in per cent: mean and "
        "standard deviation of three seeds."
    )
    yield ""
    titles = {task: name for task, (name, _) in TASKS.items()} | RECORDS
    head = ["start", *(titles[task] for task in scores[RANDOM])]
    order = [RANDOM, *(name for name in scores if name != RANDOM)]
    yield from table(head, [[name, *map(_cell, scores[name].values())] for name in order])
    yield ""
    yield "On held-out text at the end of pre-training:"
    yield ""
    figures = {name: _held_out(folder) for name, folder in models.items()}
    names = sorted(set().union(*figures.values()))
    rows = [[name, *(f"{own[name]:.3f}" if name in own else "–" for own in figures.values())] for name in names]
    yield from table(["figure", *figures], rows)


def _held_out(model: str) -> dict[str, float]:
    """The last held-out figures of the run that made a model."""
    from infra.artifacts import ArtifactStore

    store = ArtifactStore(os.environ["YIWEN_HOME"])
    exported = store.get("export", Path(model).name)
    assert exported is not None, model
    run = store.get("train", exported.manifest.inputs["checkpoint"].fingerprint)
    assert run is not None, model
    rows = run.scan("metrics").filter(pl.col("split") == "held_out").collect()
    return dict(rows.filter(pl.col("step") == rows["step"].max()).select("name", "value").rows())


def _cell(values: list[float]) -> str:
    return f"{100 * statistics.mean(values):.2f} ± {100 * statistics.stdev(values):.2f}"


def _write(path: Path, texts: Iterable[str]) -> None:
    if not path.exists():
        lines = [json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts]
        path.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
