"""Running the program: its lines are passed on, every failure is reported, and it never outlives us."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra.errors import UserError
from infra.settings import REPOSITORY
from tasks.phrases.autophrase import (
    LAST_LINES,
    SETTING,
    TRAIN,
    clear_working_folders,
    locate,
    run_program,
    working_folder,
)
from tests.support.processes.fake_program import fake


def test_lines_are_logged_and_passed_on_and_arguments_arrive(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    code = "print(sys.argv[1:], file=sys.stderr)\nprint('Done.')\nopen('out file', 'w').close()"
    heard: list[str] = []
    with caplog.at_level(logging.INFO):
        run_program(
            fake(tmp_path / "a folder", code),
            ["--tmp", "a b; $(touch x)"],
            tmp_path,
            outputs=["out file"],
            on_line=heard.append,
        )
    assert heard == ["['--tmp', 'a b; $(touch x)']", "Done."]
    assert f"{TRAIN}: Done." in caplog.messages
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("print('bad input')\nsys.exit(3)", r"ended with exit code 3\..*bad input"),
        ("print('here')\nos.kill(os.getpid(), signal.SIGSEGV)", r"crashed \(SIGSEGV\)\..*here"),
        ("os.abort()", r"crashed \(SIGABRT\)\..*nothing"),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            r"was killed \(SIGKILL\)\. It was killed by somebody or ran out of memory",
        ),
        ("print('Done.')", r"ended without writing out\.txt.*Done\."),
    ],
)
def test_failures_are_reported_with_the_last_lines(tmp_path: Path, code: str, problem: str) -> None:
    with pytest.raises(UserError, match=f"(?s){problem}"):
        run_program(fake(tmp_path, code), [], tmp_path, outputs=["out.txt"])


def test_only_the_last_lines_are_shown(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        run_program(fake(tmp_path, "for n in range(99): print('line', n)\nsys.exit(1)"), [], tmp_path, outputs=[])
    shown = [line.strip() for line in str(caught.value).splitlines()[1:]]
    assert shown == [f"line {n}" for n in range(99 - LAST_LINES, 99)]


def test_timeout_stops_the_program(tmp_path: Path) -> None:
    program = fake(tmp_path, "print(os.getpid(), flush=True)\ntime.sleep(60)")
    heard: list[str] = []
    with pytest.raises(UserError, match=r"ran longer than 0\.5 s and was stopped\. Raise the timeout"):
        run_program(program, [], tmp_path, outputs=[], timeout=0.5, on_line=heard.append)
    assert not heard or not psutil.pid_exists(int(heard[0]))


def test_listener_that_raises_stops_the_program(tmp_path: Path) -> None:
    pids: list[int] = []

    def refuse(line: str) -> None:
        pids.append(int(line))
        raise UserError("enough")

    with pytest.raises(UserError, match="enough"):
        run_program(fake(tmp_path, "print(os.getpid())\ntime.sleep(60)"), [], tmp_path, outputs=[], on_line=refuse)
    assert not psutil.pid_exists(pids[0])


def test_program_for_another_processor_is_reported(tmp_path: Path) -> None:
    program = tmp_path / TRAIN
    # Header of a 64-bit ELF executable for a machine that nobody has (EM_VAX).
    program.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\x4b\x00\x01\x00\x00\x00" + bytes(40))
    program.chmod(0o755)
    with pytest.raises(UserError, match="was built for another system or processor"):
        run_program(program, [], tmp_path, outputs=[])


def test_missing_interpreter_is_reported(tmp_path: Path) -> None:
    program = tmp_path / TRAIN
    program.write_text("#!/nowhere/at/all\n")
    program.chmod(0o755)
    with pytest.raises(UserError, match=r"cannot be executed \(No such file or directory\)"):
        run_program(program, [], tmp_path, outputs=[])


def test_setting_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = fake(tmp_path / "build", "")
    monkeypatch.setenv(SETTING, str(tmp_path / "build"))
    assert locate(TRAIN) == program
    with pytest.raises(
        UserError, match=r"segphrase_segment of AutoPhrase was not found in .*build \(YIWEN_AUTOPHRASE\)"
    ):
        locate("segphrase_segment")
    program.chmod(0o644)
    with pytest.raises(UserError, match=r"is not executable. Allow it with: chmod \+x .*segphrase_train"):
        locate(TRAIN)


def test_working_folders_are_private_and_deleted(tmp_path: Path) -> None:
    with working_folder(str(tmp_path)) as one, working_folder(str(tmp_path)) as other:
        assert one != other and tmp_path in one.parents
        (one / "text.txt").write_text("private")
        assert one.stat().st_mode & 0o077 == 0
    assert not one.exists() and not other.exists()
    (tmp_path / "autophrase" / "run-left").mkdir(parents=True)
    clear_working_folders(str(tmp_path))
    assert not list(tmp_path.iterdir())
    with working_folder("memory://somewhere/scratch") as folder:
        assert folder.is_dir()


PARENT = """
import sys
from pathlib import Path
from tasks.phrases.autophrase import run_program
run_program(Path(sys.argv[1]), [], Path(sys.argv[2]), outputs=[], on_line=lambda line: print(line, flush=True))
"""


@contextlib.contextmanager
def parent_of(program: Path, folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process of ours that runs the program, and the program's id."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-c", PARENT, str(program), str(folder)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        try:
            yield parent, int(parent.stdout.readline())
        finally:
            parent.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_program_ends_with_a_killed_parent(tmp_path: Path) -> None:
    program = fake(tmp_path, "print(os.getpid())\ntime.sleep(100)")
    with parent_of(program, tmp_path) as (parent, child):
        assert psutil.pid_exists(child)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        for _ in range(100):
            if not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE:
                return
            time.sleep(0.05)
    pytest.fail("the program still runs five seconds after its parent was killed")
