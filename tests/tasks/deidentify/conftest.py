"""Fixtures of the tests that train small encoders."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Several threads on a busy machine wait for each other in every small step."""
    import torch  # only here: most tests of this folder do without

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
