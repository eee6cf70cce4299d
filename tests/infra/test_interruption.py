"""Signals end a process within seconds, whatever it is doing, and take along what it has started.

Bounds are twice those of the product (3 s from Ctrl-C to the end), as tests run on busy machines.
"""

from __future__ import annotations

import signal
import textwrap
import time

import pytest

from tests.support.processes.terminal import CTRL_C, TerminalRun, wait_until_gone

FAREWELL = "Interrupted. Run it again."

WORK = {
    "sleeping": "print('ready', flush=True); time.sleep(60); return 0",
    "swallowing": "print('ready', flush=True)\n while True:\n  try: time.sleep(60)\n  except BaseException: pass",
    # One call that holds Python's lock and looks at no signals.
    "compiled": "print('ready', flush=True); sum(range(10**11)); return 0",
    "locked": "print('ready', flush=True); lock = threading.Lock(); lock.acquire(); lock.acquire(); return 0",
    "slow_to_unwind": "print('ready', flush=True)\n try: time.sleep(60)\n finally: time.sleep(60)",
    "breaking": "print('ready', flush=True)\n try: time.sleep(60)\n finally: raise ImportError('half an import')",
    # Freeing much memory on a busy machine takes time too, and the guard does not wait for it.
    "slow_to_die": "os._exit = lambda status: time.sleep(60)\n print('ready', flush=True); time.sleep(60)",
    "slow_to_exit": "atexit.register(time.sleep, 60)\n try: print('ready', flush=True); time.sleep(60)\n"
    " except KeyboardInterrupt: return 0",
}


def started(body: str) -> TerminalRun:
    script = f"""
import atexit, os, subprocess, sys, threading, time
from infra.interruption import run_interruptibly
def action():
 {body}
run_interruptibly(action, {FAREWELL!r})
"""
    run = TerminalRun(["-c", textwrap.dedent(script)], {})
    run.wait_until(lambda: "ready" in run.shown)
    return run


@pytest.mark.parametrize("work", WORK)
def test_ctrl_c_ends_any_work_with_one_line(work: str) -> None:
    with started(WORK[work]) as run:
        run.press(CTRL_C)
        assert run.seconds_to_end() < 6
        assert run.process.returncode in (130, -signal.SIGKILL)
        assert (run.process.returncode == 130) == (work not in ("compiled", "slow_to_die"))
        assert [line for line in run.lines() if line not in ("ready", "^C", "ready^C", "")] == [FAREWELL]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_end_it_as_well(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)  # under nohup SIGHUP is ignored, by children too, as it should be
    try:
        run_started = started(WORK["slow_to_unwind"])
    finally:
        signal.signal(number, before)
    with run_started as run:
        run.process.send_signal(number)
        assert run.seconds_to_end() < 6
        assert run.process.returncode == 128 + number


@pytest.mark.parametrize("work", ["swallowing", "slow_to_unwind"])
def test_second_ctrl_c_ends_it_at_once(work: str) -> None:
    with started(WORK[work].replace("time.sleep(60)", "[time.sleep(0.1) for _ in range(600)]")) as run:
        run.press(CTRL_C)
        time.sleep(0.3)
        run.press(CTRL_C)
        assert run.seconds_to_end() < 1.5
        assert run.process.returncode == 130


def test_ctrl_c_at_the_end_is_answered_too() -> None:
    with started("atexit.register(time.sleep, 60); print('ready', flush=True); return 0") as run:
        time.sleep(1)  # the action has returned
        run.press(CTRL_C)
        assert run.seconds_to_end() < 6
        assert run.process.returncode == 130


DEAF = "import signal, time; signal.signal(2, signal.SIG_IGN); time.sleep(600)"
CHILD = f"subprocess.Popen([sys.executable, '-c', {DEAF!r}])"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_children_do_not_outlive_it(number: signal.Signals) -> None:
    with started(f"{CHILD}; {CHILD[:-1]}, start_new_session=True); time.sleep(1); {WORK['sleeping']}") as run:
        children = [process for process in run.processes() if process.cmdline()[-1] == DEAF]
        assert len(children) == 2
        run.process.send_signal(number)
        run.seconds_to_end()
        assert not wait_until_gone(children, 10)


def test_ignored_signal_stays_ignored() -> None:
    """As under nohup: the terminal may close, and the run goes on."""
    script = "import signal; signal.signal(1, signal.SIG_IGN)\n" + (
        "import os, time\nfrom infra.interruption import run_interruptibly\n"
        "def action():\n os.kill(os.getpid(), 1)\n time.sleep(1)\n return 7\nrun_interruptibly(action, 'no')\n"
    )
    with TerminalRun(["-c", script], {}) as run:
        run.seconds_to_end()
        assert run.process.returncode == 7
        assert "no" not in run.shown
