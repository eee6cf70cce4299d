"""Placement of a run on a cluster: whole nodes, shared cores, patience with nodes to come."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from infra.errors import UserError
from tasks.training import placement as placements
from tasks.training.cluster import Cluster
from tasks.training.placement import place, wait_for_room

GPU_NODE = {"CPU": 32.0, "GPU": 4.0, "memory": 256e9}


@pytest.mark.parametrize(
    ("cluster", "nodes", "resources", "room"),
    [
        ({"workers": 2}, [{"CPU": 8.0}], {"CPU": 4}, 2),
        ({"workers": 3}, [{"CPU": 8.0}, {"CPU": 8.0}], {"CPU": 4}, 4),  # 5 cores each would leave the third out
        ({"workers": [1, 4]}, [{"CPU": 2.0}], {"CPU": 1}, 2),
        ({"workers": 8}, [{"CPU": 4.0}, GPU_NODE, GPU_NODE], {"CPU": 8, "GPU": 1}, 8),
        ({"workers": 2, "gpu": False}, [GPU_NODE], {"CPU": 16}, 2),
        ({"workers": 2, "memory_per_worker": 100, "gpu": True}, [GPU_NODE], {"CPU": 8, "GPU": 1, "memory": 1e11}, 2),
        ({"workers": 1, "cpus_per_worker": 64}, [GPU_NODE], {"CPU": 64, "GPU": 1}, 0),
    ],
)
def test_cores_are_shared_out_and_gpus_are_used(
    cluster: dict[str, Any], nodes: list[dict[str, float]], resources: dict[str, float], room: int
) -> None:
    placement = place(Cluster(**cluster), nodes)
    assert placement.resources == resources
    assert placement.room(nodes) == room


@given(
    st.lists(st.fixed_dictionaries({"CPU": st.integers(0, 16).map(float)}), max_size=4),
    st.integers(1, 6),
    st.integers(0, 5),
)
def test_room_is_what_packing_worker_by_worker_finds(nodes: list[dict[str, float]], cpus: int, more: int) -> None:
    placement = place(Cluster(workers=1 + more, cpus_per_worker=cpus), nodes)
    left = [node["CPU"] for node in nodes]
    packed = 0
    while any(cores >= cpus for cores in left):
        left[next(i for i, cores in enumerate(left) if cores >= cpus)] -= cpus
        packed += 1
    assert placement.room(nodes) == packed


def test_too_many_workers_error_names_what_there_is() -> None:
    wanted = Cluster(workers=[3, 8], cpus_per_worker=2, gpu=True, memory_per_worker=1.5)
    with pytest.raises(UserError) as caught:
        wait_for_room(wanted, lambda: [{"CPU": 4.0, "memory": 8e9}], seconds=0)
    assert str(caught.value).startswith(
        "No room for 3 workers of 2 CPU, 1 GPU, 1.5 GB each: the nodes have 4 CPU, 0 GPU, 8.0 GB, room for 0. "
        "Reduce cluster.workers"
    )


def test_autoscaler_is_asked_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placements, "SECONDS_BETWEEN_LOOKS", 0.0)
    looks, asked = iter([[], [{"CPU": 2.0}], [{"CPU": 2.0}, {"CPU": 2.0}]]), []
    placement = wait_for_room(Cluster(workers=2, cpus_per_worker=2), lambda: next(looks), seconds=60, ask=asked.append)
    assert placement.resources == {"CPU": 2}
    assert asked == [[{"CPU": 2}] * 2, []]  # at the end it may shrink again


@pytest.mark.parametrize("workers", [-1, False, True, "two", [2, 1], [0, 1], [1], [1, 2, 3], 1.5])
def test_impossible_workers_are_rejected(workers: Any) -> None:
    with pytest.raises(ValidationError, match=r"give a number of workers, or \[fewest, most\] with fewest at least 1"):
        Cluster(workers=workers)
