"""Records with options: how many texts one may have, and how much work it counts for in a lane."""

from __future__ import annotations

import json

import pytest

from flows.service.app import _check_records, _size
from flows.service.engines import Opened
from flows.service.guard import RefusedError
from flows.service.settings import Limits

OPTIONS = Opened("f", about={"texts_per_record": None, "task": "choice"})
PAIRS = Opened("f", about={"texts_per_record": 2, "task": "pairs"})


def test_a_record_counts_evidence_and_question_for_each_option() -> None:
    assert _size(["证据证据", "问题", "甲", "乙丙"], OPTIONS) == (4 + 2) * 2 + 1 + 2
    assert _size(["证据证据", "问题"], PAIRS) == 6


def test_too_many_options_are_refused_however_short() -> None:
    limits = Limits(record_texts=4)
    _check_records([["证据", "问题", "甲", "乙"]], OPTIONS, limits)
    with pytest.raises(RefusedError) as refused:
        _check_records([["证据", "问题", "甲"], ["证据", "问题", "甲", "乙", "丙"]], OPTIONS, limits)
    assert refused.value.status == 422
    assert json.loads(refused.value.body)["problems"] == [{"where": ["texts", 1], "message": "5 texts"}]
