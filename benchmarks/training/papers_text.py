"""Text of the comparison of papers, from the real data: a corpus, and the tasks' dev and test texts to cut out of it.

    python benchmarks/training/papers_text.py --data ../shared/data --output /somewhere/text
    python -m flows run compare/papers --param data=../shared/data/chineseblue --param corpus=/somewhere/text/corpus
        --param benchmarks=/somewhere/text/benchmarks --param seconds=1200 --param more_seconds=300

Writes `corpus/*.jsonl` and `benchmarks/*.jsonl`, a text per line. The corpus is modern: consultations, questions with
answers, abstracts, and three sets of texts that language models wrote (their names say so, after SOURCE.md). Classical
books are left out, since no task is about them. Files that are there are written again, with the same content.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

CORPUS = {
    "toyhom": ("toyhom_dialogue/im_sample", ("title", "ask", "answer")),
    "huatuo26m": ("zhongjing_eval/huatuo26m_qa6000", ("question", "answer")),
    "cmtmedqa": ("zhongjing_eval/cmtmedqa_multi_turn", ("instruction", "output")),
    "cmedqa": ("chineseblue/cMedQA", ("text_a", "text_b")),
    "huatuo_llama_synthetic": ("huatuo_llama/llama_data", ("instruction", "output")),
    "liver_cancer_synthetic": ("huatuo_llama/liver_cancer", ("instruction", "output")),
    "csl_keywords": ("csl_scientific/kg", ("text",)),
    "csl_titles": ("csl_scientific/ts", ("title", "text")),
}
"""By the name of the file written: the file read, and its columns of text."""
DIALOGUES = {
    "smilechat_synthetic": ("smilechat_sample/dialogues", "content"),
    "cmdd": ("chineseblue/CMDD", "sentence"),
}
"""By the name of the file written: the file read, and the field of a turn's text."""
TASKS = {
    "cMedQQ": ("text_a", "text_b"),
    "cMedTC": ("text",),
    "cMedQANER": ("text",),
    "cEHRNER": ("text",),
    "cMedIC": ("text",),
}
"""By the name of a task's file: its columns of text."""


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the real data")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    for name, texts in corpus(options.data):
        _write(options.output / "corpus" / f"{name}.jsonl", texts)
    for name, columns in TASKS.items():
        rows = pl.read_parquet(options.data / "chineseblue" / f"{name}.parquet").filter(pl.col("orig_split") != "train")
        texts = (text for row in rows.select(columns).rows() for text in row)
        _write(options.output / "benchmarks" / f"{name}.jsonl", texts)


def corpus(data: Path) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield the name of each source and its texts."""
    for name, (file, columns) in CORPUS.items():
        rows = pl.read_parquet(data / f"{file}.parquet").select(columns).rows()
        yield name, ("\n".join(text for text in row if text) for row in rows)
    for name, (file, field) in DIALOGUES.items():
        dialogues = pl.read_parquet(data / f"{file}.parquet")["turns"].to_list()
        yield name, ("\n".join(turn[field] for turn in turns if turn[field]) for turns in dialogues)


def _write(path: Path, texts: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts]
    path.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
