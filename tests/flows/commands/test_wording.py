"""Figures and tables in plain text."""

from __future__ import annotations

import pytest

from flows.catalogue import find
from flows.cli.wording.ending import next_command
from flows.cli.wording.figures import duration, megabytes
from flows.cli.wording.text_table import text_table, width
from infra.runs import Recorder


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (3599.7, "1 h"),
        (7500, "2 h 5 min"),
    ],
)
def test_duration_has_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (312, "312 B"), (4200, "4.2 kB"), (999_600, "1.0 MB"), (123e6, "123 MB"), (2e12, "2.0 TB")],
)
def test_sizes_have_a_unit_that_fits(size: float, text: str) -> None:
    assert megabytes(size) == text


def test_columns_stay_aligned_with_wide_characters() -> None:
    lines = text_table([{"name": "医学文本", "rows": "1,200"}, {"name": "emr", "rows": "7"}])
    assert lines == ["name      rows", "医学文本  1,200", "emr           7"]
    assert len({width(line) for line in lines[1:]}) == 1
    assert text_table([]) == []


def test_next_command_reads_and_treats_the_text_as_the_run_did() -> None:
    given = ["corpus=my texts", "ingest.source=emr", "benchmarks=tests", "training.steps=5"]
    command = next_command(find("corpus/refresh"), Recorder("corpus/refresh", given), "store/segment/1")
    assert command.endswith(
        "run pretrain/ehealth-tiny --param 'corpus=my texts' --param ingest.source=emr --param benchmarks=tests"
    )
    given = ["corpus=texts", "dictionary=old.txt", "graphs={}", 'deidentify.sources=["article"]']
    treated = "--param 'deidentify.sources=[\"article\"]'"
    fused = next_command(find("knowledge/fuse"), Recorder("knowledge/fuse", given), "store/fuse_graphs/1")
    assert f"--param corpus=texts --param dictionary=old.txt {treated} --param 'graphs={{}}'" in fused
    mined = next_command(find("entities/mine"), Recorder("entities/mine", given), "store/entities/1")
    assert mined.endswith(f"--param dictionary=store/entities/1/dictionary.txt --param corpus=texts {treated}")
    assert next_command(find("normalise/map"), Recorder("normalise/map", []), "store/term_mapping/1") == ""
    trained = next_command(find("normalise/encoder"), Recorder("normalise/encoder", []), "store/name_encoder/1")
    assert trained.endswith(" run normalise/index --param encoder=store/name_encoder/1")
