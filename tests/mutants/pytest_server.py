"""An interpreter that forks a process for each run of pytest, after it has imported what the tests need from elsewhere.

It reads one JSON object a line and answers with another: `{"import": [names]}`, or the arguments of `run`. Modules of
the folder at hand are never imported here, so that every forked process reads them as they are then.
"""

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import sysconfig
import time
from typing import Any

ALONE = ("prefect", "ray", "matplotlib", "anyio", "langsmith", "_pytest", "hypothesis.extra")
"""Packages that a run imports itself: they start threads or read folders that the tests set."""


def run(arguments: list[str], log: str, cpu: float | None, wall: float | None) -> dict[str, Any]:
    """Run pytest in a forked process; what it prints goes to the log, the names of imported packages beside it.

    Args:
        arguments: of pytest.
        log: file that is written anew.
        cpu: seconds of processor time after which the process is ended.
        wall: seconds after which it is ended, whatever it did: it may wait for something that never comes.

    Returns:
        Its exit status, negative for a signal; whether it ended by a limit; its CPU seconds, children included.
    """
    started = time.monotonic()
    pid = os.fork()
    if not pid:
        _work(arguments, log, cpu)

    def stop(*_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        sys.exit(143)

    signal.signal(signal.SIGTERM, stop)
    late = False
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            break
        if wall is not None and time.monotonic() - started > wall and not late:
            late = True
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # what it started and left
    code = os.waitstatus_to_exitcode(status)
    return {
        "status": code,
        "late": late or code == -signal.SIGXCPU,
        "cpu": usage.ru_utime + usage.ru_stime,
        "wall": time.monotonic() - started,
    }


def _work(arguments: list[str], log: str, cpu: float | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()
    for number, name in enumerate((os.devnull, log, log)):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | (0 if number != 1 else os.O_TRUNC), 0o600), number)
    status = 70
    try:
        if cpu is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (round(cpu), round(cpu) + 10))
        import pytest

        status = int(pytest.main(arguments))
        with open(f"{log}.imported", "w") as file:
            json.dump(_packages(), file)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _packages() -> list[str]:
    """Return names of the imported modules that are neither of the standard library nor of the folder at hand."""
    place = sysconfig.get_paths()["purelib"]
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if file.startswith(place) and getattr(module, "__name__", "") == name:
            found.append(name)
    return [name for name in found if not any(name == one or name.startswith(f"{one}.") for one in ALONE)]


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "import" in asked:
            for name in asked["import"]:
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
            answer = {}
        else:
            answer = run(**asked)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
