"""`ray start` for tests: with patience for a busy machine, and for several nodes that listen on loopback alone.

Ray joins nodes only where RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER lets processes listen on all interfaces. Here only the
command is let through: the processes that it starts inherit the environment, and stay on loopback.

A raylet waits 15 s for its agents to say at which ports they listen, and an agent takes long to start where other tests
run. The ports are given on the command line, so they are said here, in the files in which the agents would say them.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from ray._private import ray_constants, services
from ray._raylet import persist_port
from ray.scripts.scripts import main

SECONDS_TO_REGISTER = 200.0
"""Ray itself gives a node up after 30 s."""

PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")

_ask, _start = services.get_node, services.start_raylet


def _get_node(*arguments: Any) -> Any:
    deadline = time.monotonic() + SECONDS_TO_REGISTER
    while True:
        try:
            return _ask(*arguments)
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _start_raylet(*arguments: Any, **options: Any) -> Any:
    named = dict(zip(_start.__annotations__, arguments, strict=False)) | options
    for name in PORTS:
        persist_port(named["session_dir"], named["node_id"], name, named[name])
    return _start(*arguments, **options)


if __name__ == "__main__":
    services.get_node, services.start_raylet = _get_node, _start_raylet
    if "--head" not in sys.argv:
        ray_constants.ENABLE_RAY_CLUSTER = True
        services.get_node_ip_address = lambda *_, **__: "127.0.0.1"  # not that of the network card
    sys.exit(main())
