"""Compiled functions behave like their source, with a cache and without."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core.caching import FunctionCache

from infra.arrays.code_points import code_points
from infra.arrays.compiled import compiled
from infra.disk.locks import close_lock, is_locked, open_lock
from infra.settings import REPOSITORY


def summed(values: np.ndarray) -> int:
    total = 0
    for value in values:
        total += value
    return total


def test_compiled_function_equals_its_source() -> None:
    assert compiled(summed)(np.arange(5)) == summed(np.arange(5)) == 10


def test_function_compiles_without_a_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(function: object) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr("infra.arrays.compiled.CacheByMeaning", refusing)
    assert compiled(summed)(np.arange(5)) == 10


CALLER = """
from infra.arrays.compiled import compiled
from {package}.callee import doubled
from {package}.table import LIMITS

@compiled
def answer(value):
    return doubled(value) + LIMITS[1]

print(answer(20), sum(answer.stats.cache_hits.values()))
"""
CALLEE = """
from infra.arrays.compiled import compiled

@compiled
def doubled(value):
    return {factor} * value
"""


def test_a_changed_callee_or_constant_of_another_file_is_noticed(tmp_path: Path) -> None:
    """Numba's own cache looks only at the file of the function that is called first."""
    package = tmp_path / "rooms"
    package.mkdir()
    (package / "caller.py").write_text(CALLER.format(package="rooms"), encoding="utf-8")

    def printed(factor: int, limit: int) -> list[str]:
        (package / "callee.py").write_text(CALLEE.format(factor=factor), encoding="utf-8")
        table = f"import numpy as np\nLIMITS = np.array([0, {limit}])\n"
        (package / "table.py").write_text(table, encoding="utf-8")
        # Python's own cache tells files apart by time in seconds and size: both may be equal here.
        env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{REPOSITORY}", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", "import rooms.caller"]
        return subprocess.run(command, env=env, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split()

    assert printed(2, 1) == ["41", "0"]
    assert printed(2, 1) == ["41", "1"]  # the code of the first process
    assert printed(3, 1) == ["61", "0"]
    assert printed(3, 5) == ["65", "0"]


TOGETHER = """
import sys, time
from pathlib import Path
from infra.arrays.compiled import compiled

@compiled
def grown(value):
    for _ in range(3):
        value += value
    return value

if __name__ == "__main__":
    number, others = int(sys.argv[1]), int(sys.argv[2])
    Path(f"{number}.ready").touch()
    while len(list(Path().glob("*.ready"))) < others:
        time.sleep(0.001)
    print(*[grown(value) for value in ((1, 0.5) if number % 2 else (0.5, 1))])
    print(sum(grown.stats.cache_misses.values()), sum(grown.stats.cache_hits.values()))
"""


def test_processes_compile_a_function_once(tmp_path: Path) -> None:
    """Four processes that need a function for two types at the same moment: each is compiled once in all."""
    (tmp_path / "together.py").write_text(TOGETHER, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    started = [
        subprocess.Popen(
            [sys.executable, "together.py", str(number), "4"], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True
        )
        for number in range(4)
    ]
    printed = [process.communicate(timeout=120)[0].split() for process in started]
    assert [words[:2] for words in printed] == [["4.0", "8"], ["8", "4.0"]] * 2
    misses, hits = (sum(int(words[place]) for words in printed) for place in (2, 3))
    assert (misses, hits) == (2, 6)


def test_a_process_compiles_for_itself_if_another_keeps_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.arrays.compiled.SECONDS_OF_WAITING", 0.1)
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    doubled = compiled(summed)
    lock = Path(doubled._cache._lock_path)  # type: ignore[attr-defined]
    assert tmp_path in lock.parents
    held = open_lock(str(lock))
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert doubled(np.arange(5)) == 10
    finally:
        close_lock(held)
    assert not is_locked(str(lock))


def test_the_turn_is_given_away_where_another_process_was_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    compiled(summed)(np.arange(5))
    load, looks = FunctionCache.load_overload, []

    def late(cache: FunctionCache, *given: object) -> object:
        looks.append(cache)
        return load(cache, *given) if len(looks) > 1 else None  # what the other process has saved in between

    monkeypatch.setattr(FunctionCache, "load_overload", late)
    second = compiled(summed)
    assert second(np.arange(5)) == 10
    assert sum(second.stats.cache_hits.values()) == 1  # type: ignore[attr-defined]
    assert not is_locked(second._cache._lock_path)  # type: ignore[attr-defined]


def test_code_points_of_texts_are_end_to_end() -> None:
    points, borders = code_points(["病a", "", "𠮷\ud800"])
    assert points.tolist() == [ord("病"), ord("a"), 0x20BB7, 0xD800]
    assert borders.tolist() == [0, 2, 2, 4]
    empty, only_border = code_points([])
    assert not len(empty) and only_border.tolist() == [0]
