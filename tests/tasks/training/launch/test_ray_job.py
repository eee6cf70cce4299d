"""Long work as a job on a real Ray cluster: submitted, found again, stopped, and failures with their messages.

Jobs are submitted by processes of their own, as by flows: Ray keeps the first token that a process has shown.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.artifacts import ArtifactStore
from infra.cluster.jobs import JobEndpoint
from infra.errors import UserError
from infra.stage import run
from tasks.pretrain.train import TrainParams, train
from tasks.training.cluster import Cluster
from tests.support.processes.ray_head import RayHead
from tests.support.training.synthetic_examples import TINY_MODEL, make_inputs, training

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def head() -> Iterator[RayHead]:
    running = RayHead()
    try:
        running.wait_until_up()
        yield running
    finally:
        running.stop()


def params(seed: int, workers: Any = 1, **changes: Any) -> TrainParams:
    return TrainParams(
        objective="ehealth",
        model=TINY_MODEL,
        training=training(seed=seed, **changes),
        cluster=Cluster(workers=workers, max_failures=0),
    )


def run_stage(root: str, settings: str) -> None:
    """Run the stage as a flow does; for a submitting process."""
    store = ArtifactStore(root)
    result = run(train, store, params(**json.loads(settings)), make_inputs(store))
    print(json.dumps(result.artifact.manifest.counters))


STAGE = "import sys; from tests.tasks.training.launch.test_ray_job import run_stage; run_stage(*sys.argv[1:])"


def start_stage(head: RayHead, store: ArtifactStore, **settings: Any) -> subprocess.Popen[str]:
    return head.python(STAGE, store.root, json.dumps(settings))


def jobs_of(head: RayHead, store: ArtifactStore, **settings: Any) -> dict[int, str]:
    """Return the status of each attempt at a run."""
    name = train.fingerprint(params(**settings), make_inputs(store))
    return {int(job.rpartition("-")[2]): status for job, status in sorted(head.jobs().items()) if name in job}


def wait_for(store: ArtifactStore, pattern: str, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 200
    while not list(Path(store.root).glob(pattern)):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_job_outlives_a_killed_flow_and_the_next_flow_finds_it(head: RayHead, store: ArtifactStore) -> None:
    make_inputs(store)
    # Only here elastic: what Ray set aside for an elastic run that was killed, it keeps for three minutes.
    elastic = {"seed": 1, "workers": [1, 2]}
    first = start_stage(head, store, **elastic)
    wait_for(store, "train/.*/scratch/driver.log", first)  # the job has begun to speak
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = start_stage(head, store, **elastic)
    output, _ = second.communicate(timeout=300)
    assert second.returncode == 0, output
    assert json.loads(output.splitlines()[-1]) == {"steps": 12, "workers": 2}
    assert jobs_of(head, store, seed=1) == {1: "SUCCEEDED"}
    artifact = store.latest("train")
    assert artifact is not None
    artifact.verify()
    assert {row["step"] for row in artifact.to_table().to_pylist()} == set(range(1, 13))


EMBED = """
import json, sys
from infra.artifacts import ArtifactStore
from infra.stage import run
from kg.graph import KnowledgeGraph
from tasks.files.raw_input import RawInput
from tasks.knowledge.embed import EmbedParams, embed_graph
from tasks.knowledge.read import ReadGraphParams, read_graph
store = ArtifactStore(sys.argv[1])
graph = run(read_graph, store, ReadGraphParams(source="drugs"), {"graph": RawInput(sys.argv[2])}).artifact
params = EmbedParams(entity_dim=4, relation_dim=4, transe_epochs=2, epochs=2, batch_size=8, held_out=2)
print(json.dumps(run(embed_graph, store, params, {"graph": graph}).artifact.manifest.counters))
"""


def test_a_graph_is_embedded_by_a_job_as_well(head: RayHead, store: ArtifactStore, tmp_path: Path) -> None:
    rows = [f"药{n},{relation},{relation}{n % 3}" for n in range(9) for relation in ("适应症", "不良反应")]
    (tmp_path / "drugs.csv").write_text("\n".join(["head,relation,tail", *rows]), encoding="utf-8")
    output, _ = (flow := head.python(EMBED, store.root, str(tmp_path / "drugs.csv"))).communicate(timeout=300)
    assert flow.returncode == 0, output
    assert json.loads(output.splitlines()[-1]) == {"triples": 16, "held_out": 2, "entities_without_triples": 0}
    assert [status for job, status in head.jobs().items() if job.startswith("kg_embeddings-")] == ["SUCCEEDED"]


def test_an_interrupted_flow_stops_its_job(head: RayHead, store: ArtifactStore) -> None:
    make_inputs(store)
    settings = {"seed": 2, "steps": 100_000}
    flow = start_stage(head, store, **settings)
    wait_for(store, "train/.*/scratch/metrics.jsonl", flow)
    flow.send_signal(signal.SIGINT)
    output, _ = flow.communicate(timeout=120)
    assert flow.returncode != 0 and "KeyboardInterrupt" in output
    assert jobs_of(head, store, **settings) == {1: "STOPPED"}


def test_failed_job_error_says_why(head: RayHead, store: ArtifactStore) -> None:
    examples = make_inputs(store)["examples"]
    for part in (Path(store.root) / "encode" / examples.fingerprint / "examples").iterdir():
        part.unlink()
    flow = start_stage(head, store, seed=3)
    output, _ = flow.communicate(timeout=300)
    assert flow.returncode != 0
    assert "DamagedArtifactError" not in output.splitlines()[-1]
    assert "UserError" in output and "the file is missing" in output.splitlines()[-1]
    assert jobs_of(head, store, seed=3) == {1: "FAILED"}


ATTEMPTS = """
import json, sys
from pathlib import Path
from infra.cluster.copied_log import CopiedLog
from infra.cluster.jobs import JobEndpoint
from infra.settings import Settings
endpoint = JobEndpoint(Settings.from_environment().ray_address)
looks = []
def attempt(number, code, done=False):
    job = endpoint.attach_or_submit("work", ["python", "-c", code, "two words"], is_done=lambda: done)
    log = CopiedLog(Path(sys.argv[1]) / f"{number}.log")
    info = job.follow(log, lambda: looks.append(number))
    log.close()
    return [job.id, info.status, info.driver_exit_code, log.last_lines()[-1]]
code = "import sys; print('血糖', sys.argv[1:], end=''); sys.exit(3)"
found = [attempt(1, code), attempt(2, "print('done')")]
found += [attempt(3, "print(1 / 0)", done=True), attempt(4, "print('more')")]
print(json.dumps({"found": found, "looks": sorted(set(looks))}))
"""


def test_attempts_are_counted_and_logs_are_copied(head: RayHead, tmp_path: Path) -> None:
    process = head.python(ATTEMPTS, str(tmp_path))
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    found = json.loads(output.splitlines()[-1])
    assert found["found"] == [
        ["work-1", "FAILED", 3, "血糖 ['two words']"],
        ["work-2", "SUCCEEDED", 0, "done"],
        ["work-2", "SUCCEEDED", 0, "done"],  # its result is still there
        ["work-3", "SUCCEEDED", 0, "more"],  # its result is not
    ]
    assert found["looks"] == [1, 2, 3, 4]
    assert (tmp_path / "2.log").read_text().splitlines()[-1] == "done"


KNOCK = (
    "from infra.cluster.jobs import JobEndpoint; from infra.settings import Settings;"
    "JobEndpoint(Settings.from_environment().ray_address)"
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"RAY_AUTH_TOKEN": "not-the-token-of-this-cluster-at-all"}, "asks for a token .* RAY_AUTH_TOKEN"),
        ({"RAY_AUTH_MODE": "disabled"}, "asks for a token .* RAY_AUTH_MODE=token"),
    ],
)
def test_wrong_token_error_names_the_variables(head: RayHead, changes: dict[str, str], message: str) -> None:
    process = head.python(KNOCK, **changes)
    output, _ = process.communicate(timeout=120)
    assert process.returncode != 0
    assert re.search(message, output.splitlines()[-1]), output


def test_missing_endpoint_error_names_the_address() -> None:
    with pytest.raises(
        UserError, match=r"RAY_ADDRESS=http://127\.0\.0\.1:1: no job endpoint answers.*unset RAY_ADDRESS"
    ):
        JobEndpoint("http://127.0.0.1:1")
