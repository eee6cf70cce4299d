"""What many tests share: synthetic examples (random ids, called synthetic wherever they appear) and a store."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from infra.artifacts import ArtifactStore
from infra.settings import REPOSITORY
from tests.support.processes.live_elasticsearch import LiveServer, NoServerError

# Time is no matter of the tests: on a busy machine any example may be slow. CI draws the same examples every time, so
# that a change is judged by what it changes; every other run draws new ones.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
# Of a mutant only matters that an example fails, not which is the smallest.
QUICK = (Phase.explicit, Phase.generate)
settings.register_profile(
    "mutants", settings.get_profile("ci"), database=None, phases=QUICK, report_multiple_bugs=False
)
settings.load_profile("default")

pytest_plugins = ("tests.support.skipped",)

BEGIN_WITH = ("server", "ray", "slow")
"""Markers of tests whose files are begun first, in this order."""

SHARED_DATA = REPOSITORY.parent / "shared" / "data"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Collect no garbage while modules are imported, and never look at what they hold: all of it stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no core waits for the other at the end of `make test`.

    Files stay whole and tests keep their order within a file: fixtures of a module are made once.
    """
    ranks: dict[Path, int] = {}
    for item in items:
        found = [rank for rank, name in enumerate(BEGIN_WITH) if item.get_closest_marker(name)]
        ranks[item.path] = min([*found, ranks.get(item.path, len(BEGIN_WITH))])
    items.sort(key=lambda item: ranks[item.path])


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store")


@pytest.fixture
def shared_data() -> Path:
    """Real text that is not part of the repository."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real data of ../shared/data is not on this machine")
    return SHARED_DATA


@pytest.fixture(scope="session")
def elasticsearch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A real Elasticsearch server; who kills it starts it again."""
    server = LiveServer(tmp_path_factory.mktemp("elasticsearch"))
    try:
        server.start()
    except NoServerError as error:
        pytest.skip(f"no Elasticsearch server can run here: {error}")
    yield server
    server.stop()


@pytest.fixture(autouse=True, scope="session")
def _quiet_libraries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Prefect and matplotlib keep their state in a folder of this test run, not in the user's home."""
    os.environ.pop("YIWEN_CORPUS", None)  # a corpus of the user's would stand in for that of the tests
    os.environ["PREFECT_HOME"] = str(tmp_path_factory.mktemp("prefect"))
    os.environ["MPLCONFIGDIR"] = str(tmp_path_factory.mktemp("matplotlib"))
    yield
