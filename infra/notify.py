"""A notice that a run failed, to a webhook: who is told, and that no text of anybody's goes with it."""

from __future__ import annotations

import json
import logging
import os
import urllib.request
from datetime import UTC, datetime

from infra.version import VERSION

logger = logging.getLogger(__name__)

WEBHOOK = "YIWEN_WEBHOOK"
"""`YIWEN_WEBHOOK`: address that is told of failed runs by a POST; it may hold a secret, and is not logged."""
SECONDS = 10.0


def notify_failure(flow: str, run: str, state: str) -> bool:
    """Tell the webhook of the environment that a run failed; returns whether it was told. Never raises.

    The notice has names, a time and the kind of failure. It has no message, which may quote a document or name a
    patient's file: the log of the run has that.

    Args:
        flow: name of the flow or deployment, such as `corpus/refresh`.
        run: name of the run, by which its log is found.
        state: `failed`, or `crashed` for a run whose process was lost.
    """
    address = os.environ.get(WEBHOOK)
    if not address:
        return False
    now = datetime.now(UTC).isoformat(timespec="seconds")
    notice = {
        # What chat programs show.
        "text": f"Yiwen: {flow} {state} ({run}, {now}). The log of the run says why.",
        "flow": flow,
        "run": run,
        "state": state,
        "time": now,
        "version": VERSION,
    }
    try:
        request = urllib.request.Request(
            address, json.dumps(notice).encode(), {"Content-Type": "application/json"}, method="POST"
        )
        urllib.request.urlopen(request, timeout=SECONDS).close()
    except Exception as error:  # of the many that a faulty address or a garbled answer raise
        # The error of urllib may name the address, and with it the secret.
        logger.warning("%s was not told that %s %s (%s)", WEBHOOK, flow, state, type(error).__name__)
        return False
    return True
