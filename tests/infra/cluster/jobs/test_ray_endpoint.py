"""Heavy stages as jobs on a real Ray cluster: submitted, found again, stopped, and their failures explained.

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
from infra.cluster.jobs.ray_endpoint import RayEndpoint
from infra.errors import UserError
from infra.settings import Settings
from tasks.pretrain.train import TrainParams, train
from tasks.runner import stage_runner
from tasks.training.cluster import Cluster
from tests.support.processes.ray_head import RayHead
from tests.support.text.synthetic_text import write_corpus
from tests.support.training.synthetic_examples import TINY_MODEL, make_inputs, training

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def head() -> Iterator[RayHead]:
    running = RayHead()
    try:
        running.wait_until_up()
        yield running
    finally:
        running.stop()


def params(seed: int, workers: int = 0, **changes: Any) -> TrainParams:
    return TrainParams(
        objective="ehealth",
        model=TINY_MODEL,
        training=training(seed=seed, **changes),
        cluster=Cluster(workers=workers, max_failures=0),
    )


def run_stage(root: str, settings: str) -> None:
    """Run the stage as a flow does; for a submitting process."""
    with stage_runner(Settings.from_environment()) as run:
        made = run(train, params(**json.loads(settings)), **make_inputs(run.store))
    print(json.dumps(made.manifest.counters))


STAGE = "import sys; from tests.infra.cluster.jobs.test_ray_endpoint import run_stage; run_stage(*sys.argv[1:])"


def start_stage(head: RayHead, store: ArtifactStore, **settings: Any) -> subprocess.Popen[str]:
    return head.python(STAGE, store.root, json.dumps(settings), YIWEN_HOME=store.root)


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
    settings = {"seed": 1, "workers": 1}  # on Ray, from a child process of the job; the others train in that process
    first = start_stage(head, store, **settings)
    wait_for(store, "train/.*/scratch/driver.log", first)  # the training has begun to speak
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = start_stage(head, store, **settings)
    output, _ = second.communicate(timeout=300)
    assert second.returncode == 0, output
    assert json.loads(output.splitlines()[-1]) == {"steps": 12, "workers": 1}
    assert jobs_of(head, store, seed=1) == {1: "SUCCEEDED"}
    artifact = store.latest("train")
    assert artifact is not None
    artifact.verify()
    assert {row["step"] for row in artifact.to_table().to_pylist()} == set(range(1, 13))


STAGES = """
import json, sys
from tasks.clean.stage import CleanParams, clean
from tasks.files.raw_input import RawInput
from tasks.ingest.stage import IngestParams, ingest
from tasks.knowledge.embed import EmbedParams, embed_graph
from tasks.knowledge.read import ReadGraphParams, read_graph
from tasks.runner import stage_runner
with stage_runner() as run:
    documents = run(ingest, IngestParams(bytes_per_part=1000), corpus=RawInput(sys.argv[1]))
    cleaned = run(clean, CleanParams(), documents=documents)
    graph = run(read_graph, ReadGraphParams(source="drugs"), graph=RawInput(sys.argv[2]))
    embed = EmbedParams(entity_dim=4, relation_dim=4, transe_epochs=2, epochs=2, batch_size=8, held_out=2)
    vectors = run(embed_graph, embed, graph=graph)
print(json.dumps([cleaned.rows(), len(cleaned.parts()), vectors.manifest.counters]))
"""


def test_stages_of_the_corpus_and_the_graph_are_jobs(head: RayHead, store: ArtifactStore, tmp_path: Path) -> None:
    rows = [f"药{n},{relation},{relation}{n % 3}" for n in range(9) for relation in ("适应症", "不良反应")]
    (tmp_path / "drugs.csv").write_text("\n".join(["head,relation,tail", *rows]), encoding="utf-8")
    texts = write_corpus(tmp_path / "texts")
    flow = head.python(STAGES, str(texts), str(tmp_path / "drugs.csv"), YIWEN_HOME=store.root)
    output, _ = flow.communicate(timeout=300)
    assert flow.returncode == 0, output
    documents, parts, counters = json.loads(output.splitlines()[-1])
    assert documents and parts > 1
    assert counters == {"triples": 16, "held_out": 2, "entities_without_triples": 0}
    done = {job.partition("-")[0]: status for job, status in head.jobs().items()}
    assert {name: done.get(name) for name in ("ingest", "clean", "kg_embeddings", "read_graph")} == {
        "ingest": "SUCCEEDED", "clean": "SUCCEEDED", "kg_embeddings": "SUCCEEDED", "read_graph": None,
    }  # fmt: skip


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


COMMAND = """
import json, time
from infra.cluster.jobs.ray_endpoint import RayEndpoint
from infra.settings import Settings
site = RayEndpoint(Settings.from_environment().ray_address)
# Ray writes a line of its own once it has begun the command: on a busy machine behind what a quick one has said.
code = "import sys, time; time.sleep(3); print('血糖', sys.argv[1:], end=''); sys.exit(3)"
found = [site.state("work-1"), site.submit("work-1", ["python", "-c", code, "two words"])]
found += [site.submit("work-1", ["true"])]
found += ["".join(log("work-1")).splitlines()[-1] for log in (site.log, site._polled)]
state = site.state("work-1")
print(json.dumps([*found, state.status, state.exit_status, state.is_of_the_cluster, [n["CPU"] for n in site.nodes()]]))
"""


def test_an_endpoint_runs_commands_and_tells_how_they_ended(head: RayHead) -> None:
    process = head.python(COMMAND)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    said = "血糖 ['two words']"
    assert json.loads(output.splitlines()[-1]) == [None, True, False, said, said, "FAILED", 3, False, [2.0]]


KNOCK = (
    "from infra.cluster.jobs.ray_endpoint import RayEndpoint; from infra.settings import Settings;"
    "RayEndpoint(Settings.from_environment().ray_address)"
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
        RayEndpoint("http://127.0.0.1:1")
