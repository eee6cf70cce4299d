"""benchmarks/text/corpus_peers.py: files that hold every text with its place; which copies count as found."""

import json
from pathlib import Path

import pytest

from benchmarks.text import corpus_peers


def test_files_hold_every_text_once_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_peers, "FILE_BYTES", 100)
    texts = [f"第{number}份病历，咳嗽三天。" for number in range(20)]
    corpus_peers.write_corpus(tmp_path, texts)
    files = sorted(tmp_path.glob("*.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(files) > 1
    assert [(row["place"], row["text"]) for row in rows] == list(enumerate(texts))
    assert [row["id"] for row in rows] == [str(place) for place in range(20)]  # what datatrove calls a document


@pytest.mark.parametrize(("kept", "share"), [({0, 1, 2, 3}, 0.0), ({0, 2, 3}, 0.5), ({1, 2}, 1.0), (set(), 1.0)])
def test_a_copy_is_found_if_it_and_its_original_are_not_both_kept(kept: set[int], share: float) -> None:
    assert corpus_peers.caught(kept, [(0, 1), (2, 3)]) == share
