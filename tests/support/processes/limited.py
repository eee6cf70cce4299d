"""A program in a process of its own, with a limit on its memory and its time."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from typing import Any

from infra.settings import REPOSITORY

MIB = 1 << 20

_REPORT = """
import json
def report(found):
    # Not `getrusage`, whose peak begins with that of the process that forked this one.
    peak = next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(json.dumps({"found": found, "peak": peak}))
"""


def limited(code: str, *arguments: str, mib: int, seconds: float, **environment: str) -> Any:
    """Return what the code gives to `report`, as JSON.

    Args:
        code: Python; `sys.argv[1:]` holds the arguments.
        mib: most memory, resident and (with 2 GiB more for what libraries only reserve) allocated.
        seconds: most time; on a busy machine everything takes longer, so give several times what is expected.
    """

    def set_limits() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, ((mib + 2048) * MIB,) * 2)

    done = subprocess.run(
        [sys.executable, "-c", _REPORT + code, *arguments],
        env=os.environ
        | {"PYTHONPATH": str(REPOSITORY), "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
        | environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        preexec_fn=set_limits,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert told["peak"] < mib * MIB, f"{told['peak'] / MIB:,.0f} MiB"
    return told["found"]
