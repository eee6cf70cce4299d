"""Copied logs of other processes: complete lines, bounded files, no noise."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.cluster.copied_log import NOISE, CopiedLog


def test_log_is_copied_line_by_line_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.cluster.copied_log.LOG_BYTES", 2_000)
    log = CopiedLog(tmp_path / "job.log")
    for number in range(1_000):
        log.write(f"line {number}\nli")
        log.write("ne without an end\n" if number % 2 else "ne\n")
    log.write(f"{NOISE[0]}. Again.\nopen")
    log.close()
    assert log.last_lines()[-2:] == ["line without an end", "open"]
    assert len(log.last_lines()) == 31
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 2 * 2_000
    assert (tmp_path / "job.log").read_text().endswith("line without an end\n")
