"""Log lines as JSON, for programs that collect logs: `YIWEN_LOG=json`.

    {"time": "2026-11-23T21:04:05.123Z", "level": "info", "logger": "infra.stage",
     "run": "20261123T210400.000001Z-3fa2c1", "stage": "clean", "part": 12, "message": "…"}

`run` is the name of the run's record in `YIWEN_HOME/.runs`, or of the flow run in Prefect; `stage` and `part` are what
the line is about, and absent where it is about none. An exception's traceback is in `error`. One line is one record.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from infra.errors import UserError

VARIABLE = "YIWEN_LOG"
"""`YIWEN_LOG`: `json` for a JSON object per line on standard error in place of text and bars; default `text`."""
RUN_VARIABLE = "YIWEN_RUN"
"""`YIWEN_RUN`: name of the run, which Yiwen sets for the processes that it starts."""

_fields: ContextVar[dict[str, Any] | None] = ContextVar("fields", default=None)


def is_json() -> bool:
    """Return whether log lines are to be JSON; raises `UserError` for an unknown form."""
    given = os.environ.get(VARIABLE) or "text"
    if given not in ("text", "json"):
        raise UserError(f"{VARIABLE}={given!r} is unknown; unset it or give text or json.")
    return given == "json"


@contextlib.contextmanager
def logged_as(**fields: Any) -> Iterator[None]:
    """Add fields, such as stage and part, to every line that this block logs."""
    token = _fields.set({**(_fields.get() or {}), **fields})
    try:
        yield
    finally:
        _fields.reset(token)


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line = _head(record.levelname.lower(), record.name, datetime.fromtimestamp(record.created, UTC))
        flow_run = getattr(record, "flow_run_name", None)  # Prefect's; `<unknown>` outside of a run
        if flow_run and not flow_run.startswith("<"):
            line.setdefault("run", flow_run)
        line["message"] = record.getMessage()
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def json_line(level: str, logger: str, message: str, **more: Any) -> str:
    """Return the line for something that is shown without a logger, such as progress."""
    line = {**_head(level, logger, datetime.now(UTC)), **more, "message": message}
    return json.dumps(line, ensure_ascii=False, default=str)


def _head(level: str, logger: str, when: datetime) -> dict[str, Any]:
    time = when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    run = os.environ.get(RUN_VARIABLE)
    fields = _fields.get() or {}
    return {"time": time, "level": level, "logger": logger, **({"run": run} if run else {}), **fields}
