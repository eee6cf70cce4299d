"""Pieces of code that each run in a process of their own, forked from one interpreter with what they all import.

To import a flow takes two seconds of processor time, to fork a process that has imported it a hundredth of one.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from infra.settings import REPOSITORY

_PROGRAM = """
import importlib, json, os, sys, traceback
for name in sys.argv[1:]:
    importlib.import_module(name)

def work(given):
    os.environ.clear()
    os.environ.update(given["environment"])
    for number, name in enumerate((os.devnull, given["stdout"], given["stderr"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), number)
    sys.argv[1:] = given["arguments"]
    status = 0
    try:
        exec(given["code"], {"__name__": "__main__"})
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)

for line in sys.stdin:
    given = json.loads(line)
    if "code" in given:
        answer = os.fork()
        if not answer:
            work(given)
    else:
        pid, found = os.waitpid(given["pid"], os.WNOHANG * (not given["wait"]))
        answer = os.waitstatus_to_exitcode(found) if pid else None
    print(json.dumps(answer), flush=True)
"""


class Forked:
    """A process that was forked; like a `Popen` as far as tests need it."""

    def __init__(self, interpreter: Interpreter, pid: int, folder: Path) -> None:
        self._interpreter = interpreter
        self._folder = folder
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return its exit status; None while it runs."""
        return self._status(wait=False)

    def wait(self) -> int:
        """Wait until it has ended; returns its exit status."""
        status = self._status(wait=True)
        assert status is not None
        return status

    def kill(self) -> None:
        """Kill it at once, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    @property
    def stdout(self) -> str:
        return (self._folder / "stdout").read_text(encoding="utf-8")

    @property
    def stderr(self) -> str:
        return (self._folder / "stderr").read_text(encoding="utf-8")

    def _status(self, wait: bool) -> int | None:
        if self.returncode is None:
            self.returncode = self._interpreter.ask({"pid": self.pid, "wait": wait})
        return self.returncode


class Interpreter:
    """An interpreter that has imported some modules and runs code in processes that it forks; ends with the block.

    The modules must start no thread.
    """

    def __init__(self, folder: Path, *modules: str, **environment: str) -> None:
        self._folder = folder
        self._count = 0
        self._program = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *modules],
            cwd=REPOSITORY,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)} | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Interpreter:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._program.pid, signal.SIGKILL)
        self._program.communicate()

    def start(self, code: str, arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> Forked:
        """Start a process that runs the code, with `sys.argv[1:]` and the whole environment, by default this one's."""
        self._count += 1
        folder = self._folder / f"forked-{self._count}"
        folder.mkdir()
        own = dict(os.environ if environment is None else environment) | {"PYTHONPATH": str(REPOSITORY)}
        places = {name: str(folder / name) for name in ("stdout", "stderr")}
        pid = self.ask({"code": code, "arguments": list(arguments), "environment": own, **places})
        return Forked(self, pid, folder)

    def run(self, code: str, arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> Forked:
        """Run the code to its end."""
        forked = self.start(code, arguments, environment)
        forked.wait()
        return forked

    def ask(self, question: Mapping[str, Any]) -> Any:
        """Send a question to the interpreter; returns its answer."""
        assert self._program.stdin is not None and self._program.stdout is not None
        self._program.stdin.write(json.dumps(question) + "\n")
        self._program.stdin.flush()
        return json.loads(self._program.stdout.readline())
