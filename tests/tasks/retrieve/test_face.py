"""The face of the room: importing it loads neither the Elasticsearch client nor a stage."""

from __future__ import annotations

import subprocess
import sys

from infra.settings import REPOSITORY

HEAVY = ("elasticsearch", "infra.stage", "tasks.normalise")


def test_face_is_light_to_import() -> None:
    code = (
        "import sys; from tasks.retrieve import Candidate, CandidateIndex, ElasticsearchIndex, EmbeddedIndex;"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
