"""Runs that are interrupted in a terminal or killed: they end within seconds and leave no process behind.

Ctrl-C ends a run within 3 s, and what a killed run started is gone within 10 s. Here the bounds are longer, as tests
run on busy machines.
"""

from __future__ import annotations

import shutil
import signal
import socket
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import pytest

from flows.recipes.pretraining import load_preset
from flows.shared.documents import text_inputs
from flows.shared.pretraining import prepare
from tasks.phrases.autophrase import SEGMENT, TRAIN
from tasks.runner import stage_runner
from tests.support.processes.fake_program import fake
from tests.support.processes.terminal import CTRL_C, TerminalRun, files_below, wait_until_gone
from tests.support.text.synthetic_text import synthetic_texts, write_corpus

pytestmark = pytest.mark.server

SECONDS_TO_VANISH = 120.0

RESUME = "Interrupted. Finished work is kept in {home}: run the same command again to resume."
NO_CHECKPOINT = (
    "The training has no checkpoint yet, so it will begin again at step 0; the first is written after step 250 "
    "(training.checkpoint_every)."
)


SMALL = {
    "vocabulary.size": 2000,
    "segment.min_tokens": 8,
    "model.num_layers": 1,
    "encode.held_out_share": 0.2,
    "training.steps": 100_000,
    "training.batch_size": 8,
    "training.log_every": 1,
    "training.warmup_steps": 1,
}


class Corpora:
    """Texts that runs are given, made once for all tests of this file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def many(self) -> Path:
        """Texts that take a while to clean and cut: longer than a private Ray takes to start.

        Stages begin in the run's own process meanwhile, and a fast machine is done with 30 MB before Ray is ready.
        """
        return synthetic_texts(self._folder / "many", files=300)

    @cached_property
    def few(self) -> Path:
        """Texts that are soon ready to train on."""
        return write_corpus(self._folder / "few")

    @cached_property
    def encoded(self) -> Path:
        """A store in which a training on the few texts has its examples."""
        store = self._folder / "store"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("YIWEN_HOME", str(store))
            patch.setenv("YIWEN_WORKERS", "1")
            with stage_runner() as run:
                prepare(run, load_preset("ehealth-tiny", SMALL), text_inputs(str(self.few)))
        return store


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Corpora:
    return Corpora(tmp_path_factory.mktemp("corpora"))


class Started:
    """A run of a flow in a terminal, with a store of its own."""

    def __init__(self, folder: Path, name: str, parameters: Sequence[str], **environment: str) -> None:
        self.home = folder / "store"
        given = [part for parameter in parameters for part in ("--param", parameter)]
        own = {"YIWEN_HOME": str(self.home), "PREFECT_HOME": str(folder / "prefect"), **environment}
        self.run = TerminalRun(["-m", "flows", "run", name, *given], own)


AtWork = tuple[Started, Callable[[], object]]
"""A run, and what says that it has got to work."""

Begin = Callable[[Path, Corpora], AtWork]


def in_process(folder: Path, corpora: Corpora) -> AtWork:
    """At work in the run's own process."""
    started = Started(folder, "corpus/refresh", [f"corpus={corpora.many}"], YIWEN_WORKERS="1")
    return started, lambda: len(files_below(started.home, ".parquet")) > 3


def in_workers(folder: Path, corpora: Corpora) -> AtWork:
    """At work in two worker processes."""
    started = Started(folder, "corpus/refresh", [f"corpus={corpora.many}"], YIWEN_WORKERS="2")
    return started, lambda: workers(started.run, "infra.cluster.worker")


def on_private_ray(folder: Path, corpora: Corpora) -> AtWork:
    """At work in tasks of a private Ray."""
    started = Started(folder, "corpus/refresh", [f"corpus={corpora.many}"], YIWEN_WORKERS="2", YIWEN_EXECUTOR="ray")
    return started, lambda: workers(started.run, "ray::run_unit")


def training(folder: Path, corpora: Corpora, *parameters: str) -> AtWork:
    """Training in a child process, with its own private Ray."""
    shutil.copytree(corpora.encoded, folder / "store", dirs_exist_ok=True)
    given = [f"corpus={corpora.few}", *(f"{name}={value}" for name, value in SMALL.items()), *parameters]
    started = Started(folder, "pretrain/ehealth-tiny", given)
    return started, lambda: files_below(started.home, "metrics.jsonl")


def training_without_ray(folder: Path, corpora: Corpora) -> AtWork:
    """Training in the child process itself."""
    return training(folder, corpora, "cluster.workers=0")


def mining(folder: Path, corpora: Corpora) -> AtWork:
    """Waiting for the AutoPhrase program, of which a stand-in takes its time."""
    programs = folder / "programs"
    for name in (TRAIN, SEGMENT):
        fake(programs, "time.sleep(300)", name)
    given = [f"corpus={corpora.few}", "graphs={}", "segment.min_tokens=8"]
    started = Started(folder, "entities/mine", given, YIWEN_AUTOPHRASE=str(programs))
    return started, lambda: any(str(programs / TRAIN) in line for line in started.run.command_lines())


def workers(run: TerminalRun, command: str) -> bool:
    """Whether processes of this command have begun to work.

    Ingest is finished by then: on a slow machine "ingest: 9 of 47 parts" is shown before.
    """
    return sum(command in line for line in run.command_lines()) >= 1 and "ingest: 300 documents" in run.shown


WORK = [in_process, in_workers, on_private_ray, training, training_without_ray, mining]


@pytest.mark.parametrize("begin", WORK)
def test_ctrl_c_ends_a_run_at_work(begin: Begin, tmp_path: Path, corpora: Corpora) -> None:
    started, is_at_work = begin(tmp_path, corpora)
    with started.run as run:
        run.wait_until(is_at_work)
        children = run.processes()
        run.press(CTRL_C)
        run.wait_for_end()
        assert run.process.returncode == 130
        assert not wait_until_gone(children, SECONDS_TO_VANISH)
        *notes, last = after_ctrl_c(run)
        assert notes == ([NO_CHECKPOINT] if begin in (training, training_without_ray) else []), run.shown
        assert [last] == [RESUME.format(home=started.home)], run.shown


@pytest.mark.parametrize("begin", WORK)
def test_killed_run_leaves_no_process(begin: Begin, tmp_path: Path, corpora: Corpora) -> None:
    started, is_at_work = begin(tmp_path, corpora)
    with started.run as run:
        run.wait_until(is_at_work)
        children = run.processes()
        assert children
        run.process.kill()
        run.process.wait()
        assert not wait_until_gone(children, SECONDS_TO_VANISH)


def test_sigterm_ends_a_run_and_it_resumes(tmp_path: Path, corpora: Corpora) -> None:
    started, is_at_work = in_workers(tmp_path, corpora)
    with started.run as run:
        run.wait_until(is_at_work)
        run.process.send_signal(signal.SIGTERM)
        run.wait_for_end()
        assert run.process.returncode == 128 + signal.SIGTERM
        assert RESUME.format(home=started.home) in run.shown
    again, _ = in_workers(tmp_path, corpora)
    with again.run as run:
        run.wait_until(lambda: "ingest: reused" in run.shown)


def test_a_killed_training_says_where_it_resumes(tmp_path: Path, corpora: Corpora) -> None:
    given = "cluster.workers=0", "training.checkpoint_every=1"
    started, _ = training(tmp_path, corpora, *given)
    with started.run as run:
        run.wait_until(lambda: files_below(started.home, "checkpoint.json"))
        children = run.processes()
        run.process.kill()
        run.process.wait()
        assert not wait_until_gone(children, SECONDS_TO_VANISH)
        assert "resumes" not in run.shown
    again, _ = training(tmp_path, corpora, *given)
    with again.run as run:
        run.wait_until(lambda: "train: resumes from its checkpoint after step" in run.shown)


@pytest.mark.parametrize("seconds", [0.1, 0.4, 0.8, 1.4, 2.2])
def test_ctrl_c_while_it_starts(seconds: float, tmp_path: Path, corpora: Corpora) -> None:
    """Imports are interrupted in the middle, where they raise what they like."""
    started = Started(tmp_path, "pretrain/ehealth-tiny", [f"corpus={corpora.many}"])
    with started.run as run:
        run.wait_until(lambda: run_is_guarded(run.process.pid))
        time.sleep(seconds)
        run.press(CTRL_C)
        run.wait_for_end()
        assert run.process.returncode == 130
        assert after_ctrl_c(run) == [RESUME.format(home=started.home)], run.shown


def test_ctrl_c_ends_a_run_whose_server_is_gone(tmp_path: Path, corpora: Corpora) -> None:
    """Prefect by itself waits minutes for a server that does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/api"
        started = Started(tmp_path, "corpus/refresh", [f"corpus={corpora.many}"], PREFECT_API_URL=address)
        with started.run as run:
            run.wait_until(lambda: run_is_guarded(run.process.pid))
            silent.settimeout(120)
            silent.accept()  # it asks the server, and waits for an answer
            run.press(CTRL_C)
            run.wait_for_end()
            assert run.process.returncode == 130
            assert run.lines()[-1] == RESUME.format(home=started.home), run.shown


def run_is_guarded(pid: int) -> bool:
    """Whether a run has got so far that it handles signals."""
    handled = next(
        line.split()[1] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt:")
    )
    return bool(int(handled, 16) & 1 << (signal.SIGTERM - 1))


def after_ctrl_c(run: TerminalRun) -> list[str]:
    """The lines that a terminal showed after Ctrl-C was pressed."""
    return [line for line in run.shown.rpartition("^C")[2].replace("\r\n", "\n").splitlines() if line.strip()]
