"""Units of work on a local Ray: in processes of their own, with one thread each, and nothing left of it here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest

from infra.artifacts import ArtifactStore
from infra.builds import PartWriter
from infra.ray_session import ONE_THREAD, RayExecutor, stop_ray
from infra.settings import REPOSITORY
from infra.stage import Output, StageParams, run, stage


def tell(writer: PartWriter, number: int) -> None:
    writer.count("in_other_processes", int(os.getpid() != number))
    writer.count("one_thread", int(all(os.environ.get(name) == value for name, value in ONE_THREAD.items())))
    writer.count("our_code", int(os.environ["PYTHONPATH"].split(os.pathsep)[0] == str(REPOSITORY)))


@stage(name="told", version=1, params=StageParams)
def told(inputs: Mapping[str, Any], params: StageParams, out: Output) -> None:
    out.map(tell, [os.getpid()] * 3)


@pytest.mark.ray
def test_workers_have_the_code_and_one_thread_and_we_keep_our_environment(store: ArtifactStore) -> None:
    before = dict(os.environ)
    try:
        found = run(told, store, StageParams(), {}, executor=RayExecutor(workers=2)).artifact
        assert {name: os.environ.get(name) for name in (*ONE_THREAD, "PYTHONPATH")} == {
            name: before.get(name) for name in (*ONE_THREAD, "PYTHONPATH")
        }
    finally:
        stop_ray()
    assert found.manifest.counters == {"in_other_processes": 3, "one_thread": 3, "our_code": 3}
