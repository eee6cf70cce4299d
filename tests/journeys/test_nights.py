"""Nights of a scheduled refresh: when it is due, a bad file on the fourth, and a reader while it runs."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from prefect.client.schemas.schedules import CronSchedule as ClientSchedule
from prefect.server.schemas.schedules import CronSchedule

from flows.catalogue import PREFECT_YAML
from infra.artifacts import Artifact, ArtifactStore
from infra.stage import run
from infra.version import VERSION
from tasks.clean.stage import CleanParams, clean
from tasks.files.raw_input import RawInput
from tasks.ingest.stage import IngestParams, ingest


def refresh_deployment() -> dict[str, Any]:
    content = yaml.safe_load(PREFECT_YAML.read_text(encoding="utf-8"))
    found: dict[str, Any] = next(one for one in content["deployments"] if one["name"] == "refresh")
    return found


def test_refresh_is_due_on_monday_morning_in_shanghai_all_year() -> None:
    """3:00 in a zone without summer time is Sunday 19:00 UTC; weeks without a server are no special case."""
    (written,) = refresh_deployment()["schedules"]
    ClientSchedule(cron=written["cron"], timezone=written["timezone"])
    schedule = CronSchedule(cron=written["cron"], timezone=written["timezone"])
    dates = anyio.run(lambda: schedule.get_dates(n=53, start=datetime(2027, 1, 1, tzinfo=UTC)))
    in_utc = [date.astimezone(UTC) for date in dates]
    assert {(date.isoweekday(), date.hour, date.minute) for date in in_utc} == {(7, 19, 0)}
    assert {(later - earlier).days for earlier, later in itertools.pairwise(in_utc)} == {7}


SCHEDULER = """
import asyncio, sys
from prefect.server import models
from prefect.server.database import provide_database_interface
from prefect.server.schemas.core import Deployment, DeploymentSchedule, Flow
from prefect.server.schemas.schedules import CronSchedule

async def main():
    database = provide_database_interface()
    await database.create_db()
    async with database.session_context(begin_transaction=True) as session:
        flow = await models.flows.create_flow(session=session, flow=Flow(name="corpus"))
        weekly = DeploymentSchedule(schedule=CronSchedule(cron=sys.argv[1], timezone=sys.argv[2]), active=True)
        given = Deployment(name="refresh", flow_id=flow.id, schedules=[weekly])
        made = await models.deployments.create_deployment(session=session, deployment=given)
        await session.flush()
        print(len(await models.deployments.schedule_runs(session=session, deployment_id=made.id)))

asyncio.run(main())
"""


@pytest.mark.server
def test_pinned_packages_let_the_server_plan_runs(tmp_path: Path) -> None:
    """Prefect 3.8.8 accepts SQLAlchemy 2.1, with which it registers schedules and plans none of their runs."""
    (written,) = refresh_deployment()["schedules"]
    environment = {
        **os.environ,
        "PREFECT_HOME": str(tmp_path),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{tmp_path}/prefect.db",
    }
    command = [sys.executable, "-c", SCHEDULER, written["cron"], written["timezone"]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) >= 3


def test_two_refreshes_that_are_due_at_once_wait_for_each_other() -> None:
    """As each pre-training does; Prefect keeps the limit, tests/journeys/test_server.py runs one."""
    content = yaml.safe_load(PREFECT_YAML.read_text(encoding="utf-8"))
    for one in content["deployments"]:
        assert one["description"] and one["tags"] and one["work_pool"] == {"name": "yiwen"}, one["name"]
        assert one["version"] == VERSION
        if one["name"] == "refresh" or one["entrypoint"].startswith("flows/pretrain.py"):
            assert one["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}


class Nights:
    """A corpus that grows, and the first stages of its refresh."""

    def __init__(self, folder: Path, store: ArtifactStore) -> None:
        self.folder, self.store = folder, store
        folder.mkdir()

    def add(self, number: int) -> None:
        rows = [
            {"title": f"第{number}夜{row}", "text": f"患者第{number}次就诊，血糖{row}.5，建议复查。" * 5}
            for row in range(3)
        ]
        lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        (self.folder / f"night{number}.jsonl").write_text(lines, encoding="utf-8")

    def refresh(self) -> tuple[Artifact, Artifact]:
        read = run(ingest, self.store, IngestParams(), {"corpus": RawInput(self.folder)}).artifact
        return read, run(clean, self.store, CleanParams(), {"documents": read}).artifact


@pytest.fixture
def nights(tmp_path: Path, store: ArtifactStore) -> Nights:
    return Nights(tmp_path / "corpus", store)


def test_a_bad_file_on_the_fourth_night_costs_itself_alone(nights: Nights) -> None:
    for number in range(3):
        nights.add(number)
        _, cleaned = nights.refresh()
    assert cleaned.rows() == 9
    nights.add(3)
    whole = gzip.compress("血糖升高。".encode() * 1000)
    (nights.folder / "night3.txt.gz").write_bytes(whole[: len(whole) // 2])
    (nights.folder / "night3.xlsx").write_bytes(b"PK\x03\x04 no spreadsheet")
    read, after = nights.refresh()
    rejects = read.to_table("rejects").to_pylist()
    told = json.dumps(rejects, ensure_ascii=False)
    assert "night3.txt.gz" in told and "night3.xlsx" in told
    assert after.rows() >= 12
    cleaned.verify()  # what the nights before made is as it was
    (nights.folder / "night3.txt.gz").unlink()
    (nights.folder / "night3.xlsx").unlink()
    repaired, _ = nights.refresh()
    assert repaired.rows("rejects") == 0 and repaired.rows() == 12


def test_a_reader_keeps_its_artifacts_while_a_refresh_makes_new_ones(nights: Nights) -> None:
    """As a pre-training does, which reads for days what it began with."""
    nights.add(0)
    _, first = nights.refresh()
    reading = iter(first.parts())
    before = next(reading).read()
    nights.add(1)
    _, second = nights.refresh()
    assert second.fingerprint != first.fingerprint and second.rows() == 6
    assert first.to_table().slice(0, len(before)).equals(before) and first.rows() == 3
    first.verify()


def test_a_missed_week_is_made_up_by_one_refresh(nights: Nights) -> None:
    nights.add(0)
    nights.refresh()
    nights.add(1)  # its night was missed
    nights.add(2)
    _, both = nights.refresh()
    assert both.rows() == 9
    again = run(ingest, nights.store, IngestParams(), {"corpus": RawInput(nights.folder)})
    assert again.reused
