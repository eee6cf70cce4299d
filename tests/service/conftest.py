"""One service for all tests of the endpoints: its workers take seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from flows.service.app import Service, create_app
from flows.service.settings import Limits, ServiceSettings
from tests.support.service import folders


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> ServiceSettings:
    """Settings of a service with every kind of engine."""
    root = tmp_path_factory.mktemp("served")
    return ServiceSettings(
        normaliser=folders.save_normaliser(root / "index"),
        models={
            "cmeee": folders.save_model(root / "cmeee", folders.TAGGED),
            "matching": folders.save_model(root / "pairs", folders.PAIRED),
        },
        linker=folders.save_graph(root / "store"),
        deidentify=True,
        device="cpu",
        # On a busy machine a batch may take long.
        limits=Limits(body_bytes=200_000, texts=64, characters=5_000, body_seconds=2, seconds=240, work_seconds=200),
    )


@pytest.fixture(scope="session")
def service(served: ServiceSettings) -> Service:
    return Service(served)


@pytest.fixture(scope="session")
def client(service: Service) -> Iterator[TestClient]:
    """A client in this process; the engines are in processes of their own."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("OMP_NUM_THREADS", "1")  # for the workers, whose models are tiny
        found = TestClient(create_app(service), base_url="http://127.0.0.1")
        found.__enter__()
    yield found
    found.__exit__()
