"""Signals end a process within seconds, whatever it is doing, and take along what it has started.

The guard's times add up to 3 s. Tests run on busy machines and wait longer, but not as long as the work would take.
"""

from __future__ import annotations

import signal
import textwrap
import time

import pytest

from infra.console import interruption
from tests.support.processes.terminal import CTRL_C, SECONDS_TO_END, TerminalRun, wait_until_gone

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


def started(body: str, **seconds: float) -> TerminalRun:
    """Start work under a guard, some of whose times, constants of its module, are others."""
    script = f"""
import atexit, os, subprocess, sys, threading, time
from infra.console import interruption
from infra.console.interruption import run_interruptibly
vars(interruption).update({seconds})
def action():
 {body}
run_interruptibly(action, {FAREWELL!r})
"""
    run = TerminalRun(["-c", textwrap.dedent(script)], {})
    run.wait_until(lambda: "ready" in run.shown)
    return run


def test_a_run_ends_within_three_seconds() -> None:
    assert interruption.SECONDS_TO_UNWIND + interruption.SECONDS_TO_LEAVE < 3


@pytest.mark.parametrize("work", WORK)
def test_ctrl_c_ends_any_work_with_one_line(work: str) -> None:
    must_be_killed = work in ("compiled", "slow_to_die")
    # A busy machine may not let a process leave in the time that the guard gives it.
    with started(WORK[work], SECONDS_TO_LEAVE=0.4 if must_be_killed else SECONDS_TO_END) as run:
        run.press(CTRL_C)
        run.wait_for_end()
        assert run.process.returncode == (-signal.SIGKILL if must_be_killed else 130)
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
        run.wait_for_end()
        assert run.process.returncode == 128 + number


@pytest.mark.parametrize("work", ["swallowing", "slow_to_unwind"])
def test_second_ctrl_c_ends_it_at_once(work: str) -> None:
    body = WORK[work].replace("time.sleep(60)", "[time.sleep(0.1) for _ in range(600)]")
    with started(body, SECONDS_TO_UNWIND=600.0, SECONDS_TO_LEAVE=600.0) as run:
        run.press(CTRL_C)
        time.sleep(0.3)
        run.press(CTRL_C)
        run.wait_for_end()
        assert run.process.returncode == 130


def test_ctrl_c_at_the_end_is_answered_too() -> None:
    with started("atexit.register(time.sleep, 60); print('ready', flush=True); return 0") as run:
        time.sleep(1)  # the action has returned
        run.press(CTRL_C)
        run.wait_for_end()
        assert run.process.returncode == 130


DEAF = "import signal, time; signal.signal(2, signal.SIG_IGN); time.sleep(600)"
CHILD = f"subprocess.Popen([sys.executable, '-c', {DEAF!r}])"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_children_do_not_outlive_it(number: signal.Signals) -> None:
    with started(f"{CHILD}; {CHILD[:-1]}, start_new_session=True); time.sleep(1); {WORK['sleeping']}") as run:
        children = [process for process in run.processes() if process.cmdline()[-1] == DEAF]
        assert len(children) == 2
        run.process.send_signal(number)
        run.wait_for_end()
        assert not wait_until_gone(children, SECONDS_TO_END)


def test_ignored_signal_stays_ignored() -> None:
    """As under nohup: the terminal may close, and the run goes on."""
    script = "import signal; signal.signal(1, signal.SIG_IGN)\n" + (
        "import os, time\nfrom infra.console.interruption import run_interruptibly\n"
        "def action():\n os.kill(os.getpid(), 1)\n time.sleep(1)\n return 7\nrun_interruptibly(action, 'no')\n"
    )
    with TerminalRun(["-c", script], {}) as run:
        run.wait_for_end()
        assert run.process.returncode == 7
        assert "no" not in run.shown
