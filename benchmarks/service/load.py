"""Requests per second of the service and their latency, beside one call after the other in Python.

    python -m benchmarks.service.load --deidentify [--normaliser DIR] [--model NAME=DIR] [--linker DIR]
        [--together] [--seconds 10] [--output FILE.md]

Starts `yiwen serve` on loopback and asks every endpoint from 1, 16 and 64 clients, each on a connection of its own that
it keeps, one text a request, a new request when the answer is there. The clients share a process, which takes its part
of the machine. The same texts are answered before that by the Python class in this process, one call after the other,
and every answer of the service is compared with the answer it gave to that text alone. Diagnoses and notes are those of
the tests, in a drawn order; models of pairs are left out."""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.pages import cpu_name, publish, table
from flows.service.engines import DEIDENTIFY, LINK, NORMALISE, PREDICT, EngineSpec, open_engine

SUPPORT = Path(__file__).parents[2] / "tests" / "support"
CLIENTS = (1, 16, 64)
TEXTS = 400
"""Different texts that are asked in turn."""
MOST_ALONE = 300
"""Calls of the Python class, at most."""


def main() -> None:
    """Measure, and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--normaliser", type=Path)
    parser.add_argument("--model", action="append", default=[], metavar="NAME=DIR")
    parser.add_argument("--linker", type=Path)
    parser.add_argument("--deidentify", action="store_true")
    parser.add_argument("--together", action="store_true", help="serve with --together, too")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each endpoint and number of clients")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    specs = [
        EngineSpec(PREDICT, f"{PREDICT}/{one.partition('=')[0]}", Path(one.partition("=")[2])) for one in options.model
    ]
    specs += [EngineSpec(NORMALISE, NORMALISE, options.normaliser)] if options.normaliser else []
    specs += [EngineSpec(LINK, LINK, options.linker)] if options.linker else []
    specs += [EngineSpec(DEIDENTIFY, DEIDENTIFY)] if options.deidentify else []
    rows = []
    for spec in specs:
        texts = diagnoses() if spec.kind == NORMALISE else notes()
        rows.append(
            [f"/{spec.name}", "Python, one call after the other", *figures(*alone(spec, texts, options.seconds)), ""]
        )
        for together in (False, True) if options.together and spec.kind == PREDICT else (False,):
            with served(spec, together) as port:
                wanted = asyncio.run(each_once(port, spec, texts))
                for clients in CLIENTS:
                    seconds, times, wrong = asyncio.run(load(port, spec, texts, wanted, clients, options.seconds))
                    asked_by = f"{clients} clients{', --together' * together}"
                    rows.append([f"/{spec.name}", asked_by, *figures(seconds, times), f"{wrong:,}"])
    load_of_machine, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    busy = "Other work took most of the machine: compare the rows with each other only."
    page = [
        "# Load on the service",
        "",
        f"{date.today()}, {cpu_name()}, {cores} cores, clients and service on the same machine; "
        f"{options.seconds:g} s a row, one text a request; the load of the machine was {load_of_machine:.0f}. "
        "`python -m benchmarks.service.load`",
        "",
        *([busy, ""] if load_of_machine > 2 * cores + 2 else []),
        *table(["endpoint", "asked by", "requests/s", "p50, ms", "p95, ms", "answers unlike the text's alone"], rows),
        "",
    ]
    publish(page, options.output)


def diagnoses() -> list[str]:
    """Return different diagnoses in a drawn order."""
    rows = csv.DictReader((SUPPORT / "terms" / "diagnoses_tuning.csv").read_text(encoding="utf-8").splitlines())
    return _drawn([row["query"] for row in rows])


def notes() -> list[str]:
    """Return different lines of notes in a drawn order."""
    lines = (SUPPORT / "text" / "deidentify_labelled.jsonl").read_text(encoding="utf-8").splitlines()
    # {name:贺晓云} is an identifier as the tests mark it
    marked = [row["marked"] for row in map(json.loads, lines) if "marked" in row]
    return _drawn([re.sub(r"\{\w+:([^{}]*)\}", r"\1", one) for one in marked])


def _drawn(texts: list[str]) -> list[str]:
    own = list(dict.fromkeys(texts))
    random.Random(0).shuffle(own)
    return own[:TEXTS]


def _item(spec: EngineSpec, text: str) -> Any:
    return (text, 10) if spec.kind == NORMALISE else (text, False) if spec.kind == DEIDENTIFY else text


def alone(spec: EngineSpec, texts: list[str], seconds: float) -> tuple[float, list[float]]:
    """Return the seconds that calls of the Python class took in all, and each of them."""
    engine = open_engine(spec)
    times: list[float] = []
    began = time.perf_counter()
    for number in range(MOST_ALONE):
        if time.perf_counter() - began > seconds:
            break
        start = time.perf_counter()
        list(engine.answers([_item(spec, texts[number % len(texts)])]))
        times.append(time.perf_counter() - start)
    return time.perf_counter() - began, times


@contextmanager
def served(spec: EngineSpec, together: bool = False) -> Iterator[int]:
    """Serve one engine; yields the port."""
    own = {
        NORMALISE: ["--normaliser", str(spec.folder)],
        LINK: ["--linker", str(spec.folder)],
        DEIDENTIFY: ["--deidentify"],
    }
    arguments = own.get(spec.kind, ["--model", f"{spec.name.partition('/')[2]}={spec.folder}"])
    command = [sys.executable, "-m", "flows", "serve", "--port", "0", *arguments, *["--together"] * together]
    environment = {name: value for name, value in os.environ.items() if name != "YIWEN_API_KEY"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if found := re.search(r"http://127\.0\.0\.1:(\d+)/ is ready", line):
                    yield int(found[1])
                    break
            else:
                sys.exit("The service did not start.")
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()


class Connection:
    """A connection that is kept."""

    def __init__(self, port: int, spec: EngineSpec) -> None:
        self._port, self._path = port, spec.name

    async def open(self) -> Connection:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def ask(self, text: str) -> bytes:
        """Return the answer to one text."""
        body = json.dumps({"texts": [text]}).encode()
        head = f"POST /{self._path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answered = await self._reader.readuntil(b"\r\n\r\n")
        (length,) = re.findall(rb"content-length: (\d+)", answered.lower())
        content = await self._reader.readexactly(int(length))
        assert answered.startswith(b"HTTP/1.1 200"), content
        return content

    def close(self) -> None:
        self._writer.close()


async def each_once(port: int, spec: EngineSpec, texts: list[str]) -> dict[str, bytes]:
    """Return the answer to each text when nobody else asks."""
    connection = await Connection(port, spec).open()
    found = {text: await connection.ask(text) for text in texts}
    connection.close()
    return found


async def load(
    port: int, spec: EngineSpec, texts: list[str], wanted: dict[str, bytes], clients: int, seconds: float
) -> tuple[float, list[float], int]:
    """Return the seconds in all, those of each request, and the number of answers that were other than alone."""
    times: list[float] = []
    wrong = 0
    began = time.perf_counter()

    async def client(number: int) -> None:
        nonlocal wrong
        connection = await Connection(port, spec).open()
        place = number * len(texts) // clients
        while time.perf_counter() - began < seconds:
            text = texts[place % len(texts)]
            place += 1
            start = time.perf_counter()
            answer = await connection.ask(text)
            times.append(time.perf_counter() - start)
            wrong += answer != wanted[text]
        connection.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    return time.perf_counter() - began, times, wrong


def figures(seconds: float, times: list[float]) -> list[str]:
    """Return requests per second, and the latency of half and of 95 in 100 of them."""
    ordered = sorted(times)
    p95 = ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)]
    return [f"{len(times) / seconds:,.1f}", f"{1000 * statistics.median(ordered):,.1f}", f"{1000 * p95:,.1f}"]


if __name__ == "__main__":
    main()
