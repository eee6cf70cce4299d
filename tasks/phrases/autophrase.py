"""The AutoPhrase program (Shang et al., TKDE 2018): locating it, running it, and reporting its failures.

`segphrase_train` mines phrases, `segphrase_segment` marks them in text. The package `autophrase` builds both; it is
located on disk and never imported, because its Python interface downloads files. `YIWEN_AUTOPHRASE` names the folder of
another build. The program runs in a folder of its own and gets file names relative to that folder, because it cuts
paths at blanks.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import logging
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from infra.errors import UserError
from tasks.files.raw_input import RawInput

logger = logging.getLogger(__name__)

TRAIN = "segphrase_train"
SEGMENT = "segphrase_segment"

SETTING = "YIWEN_AUTOPHRASE"
"""Environment variable with the folder of the two programs."""

LAST_LINES = 12
"""Number of lines of the program's output in an error."""

_WORK = "autophrase"

_INSTALL = (
    "Install it with: pip install autophrase==1.7 (it is built with g++ and make), name the folder of another build "
    f"by {SETTING}, or choose the engine embedded."
)

# The program must end with its parent, even if that is killed. A small process sets this up and then becomes the
# program, because code between fork and exec may hang if the parent has threads.
_LAUNCH = """
import os, signal, sys
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        os._exit(1)
try:
    os.execv(sys.argv[2], sys.argv[2:])
except OSError as error:
    print(f"{error.errno}", flush=True)
    os._exit(126)
"""


def locate(name: str) -> Path:
    """Return the executable `name`, from the folder in the setting or as the package installed it.

    Raises:
        UserError: it is not found, or may not be executed; the message says where it was searched for.
    """
    given = os.environ.get(SETTING)
    folders = [Path(given).expanduser().resolve()] if given else [*_package_folders("bin"), *_data_folders()]
    for folder in folders:
        program = folder / name
        if program.is_file():
            if not os.access(program, os.X_OK):
                raise UserError(f"{program} is not executable. Allow it with: chmod +x {program}")
            return program
    where = f"in {given} ({SETTING})" if given else "in the package autophrase, which may not be installed"
    raise UserError(f"The program {name} of AutoPhrase was not found {where}. {_INSTALL}")


def wiki_lists() -> RawInput | None:
    """Return the package's Chinese lists (names from Wikipedia, stop words), or None if it is not installed."""
    for folder in _package_folders("data/CN"):
        names = ("wiki_quality.txt", "wiki_all.txt", "stopwords.txt")
        if all((folder / name).is_file() for name in names):
            return RawInput([folder / name for name in names])
    return None


def _package_folders(below: str) -> list[Path]:
    spec = importlib.util.find_spec("autophrase")
    return [Path(folder, below) for folder in (spec and spec.submodule_search_locations) or ()]


def _data_folders() -> list[Path]:
    return [Path(sysconfig.get_path("data"), "autophrase", "bin")]


@contextlib.contextmanager
def working_folder(scratch: str) -> Iterator[Path]:
    """Yield a private folder below a build's scratch folder (below TMPDIR if that is a URI); deleted at the end."""
    local = "://" not in scratch
    parent = Path(scratch, _WORK) if local else None
    if parent is not None:
        parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="run-", dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def clear_working_folders(scratch: str) -> None:
    """Delete the working folders of killed runs in a build's scratch folder."""
    if "://" not in scratch:
        shutil.rmtree(Path(scratch, _WORK), ignore_errors=True)


def run_program(
    program: Path,
    arguments: Sequence[str],
    folder: Path,
    *,
    outputs: Sequence[str],
    timeout: float | None = None,
    on_line: Callable[[str], None] = lambda line: None,
) -> None:
    """Run one of the programs in `folder` and wait for it; its lines go to the log and to `on_line`.

    Args:
        arguments: flags of the program; files by names relative to `folder`.
        outputs: files in `folder` that it must write.
        timeout: seconds after which it is stopped; None: never.

    Raises:
        UserError: it cannot be executed, fails, crashes, takes too long, or does not write an output. The message has
            its last lines.
    """
    last: deque[str] = deque(maxlen=LAST_LINES)
    command = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), str(program), *arguments]
    with (
        # MALLOC_PERTURB_ makes glibc fill new memory with zeros: the program counts in an array that it never clears.
        subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "MALLOC_PERTURB_": "255", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process,
        _stopped_after(process, timeout) as timed_out,
    ):
        assert process.stdout is not None
        for raw in process.stdout:
            line = raw.decode("utf-8", "replace").strip()
            if line:
                last.append(line)
                logger.info("%s: %s", program.name, line)
                on_line(line)
    problem = f"ran longer than {timeout:,g} s and was stopped" if timed_out.is_set() else ""
    _check(program, process.returncode, problem, last)
    missing = [name for name in outputs if not (folder / name).is_file()]
    if missing:
        raise _failure(program, f"ended without writing {', '.join(missing)}", last)


@contextlib.contextmanager
def _stopped_after(process: subprocess.Popen[bytes], timeout: float | None) -> Iterator[threading.Event]:
    """Kill the process when the time is up, which sets the event, and when the block is left early."""
    timed_out = threading.Event()

    def stop() -> None:
        timed_out.set()
        process.kill()

    timer = threading.Timer(timeout, stop) if timeout is not None else None
    try:
        if timer is not None:
            timer.start()
        yield timed_out
        process.wait()
    finally:
        if timer is not None:
            timer.cancel()
        if process.poll() is None:
            process.kill()


def _check(program: Path, code: int, problem: str, last: Sequence[str]) -> None:
    if problem:
        raise _failure(program, problem, last, "Raise the timeout, or use less text.")
    if code == 126 and last and last[-1].isdecimal():
        number = int(last[-1])
        if number == errno.ENOEXEC:
            raise UserError(f"{program} was built for another system or processor. {_INSTALL}")
        raise UserError(f"{program} cannot be executed ({os.strerror(number)}). {_INSTALL}")
    if code == -signal.SIGKILL:
        remedy = "It was killed by somebody or ran out of memory: use more memory or less text."
        raise _failure(program, "was killed (SIGKILL)", last, remedy)
    if code < 0:
        raise _failure(program, f"crashed ({signal.Signals(-code).name})", last)
    if code:
        raise _failure(program, f"ended with exit code {code}", last)


def _failure(program: Path, problem: str, last: Sequence[str], remedy: str = "") -> UserError:
    said = "\n".join(f"    {line}" for line in last) or "    nothing"
    advice = remedy or "If this happens again, use another build of the program or the engine embedded."
    return UserError(f"{program} {problem}. {advice} Its last lines:\n{said}")
