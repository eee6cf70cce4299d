"""States of short texts by any folder: a model with knowledge reads that of the mentions that are left in a text."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models.heads.encoders import open_encoder, open_plain_encoder
from models.weights.pretrained import load_encoder
from tasks.evaluate.attention.attending import Attending
from tasks.evaluate.text_encoder import TextEncoder, of_folder
from tasks.pretrain.products import encoded, pair_ids, value_ids
from tests.support.graphs.knowledge_models import save_text_encoder
from tests.support.text.tokenizers import save_ours

torch.set_num_threads(1)

PAIRS = [("高血压患者头痛", "糖尿病"), ("患者检查", "治疗"), ("头痛" * 20, "发热")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = save_text_encoder(tmp_path_factory.mktemp("store"))
    save_ours(found.parent)
    return found


def states(encoder: TextEncoder, pairs: list[tuple[str, str]], longest: int = 24) -> np.ndarray:
    texts = encoded(sorted({text for pair in pairs for text in pair}), encoder.tokenizer)
    cut = [pair_ids(texts.of(title), texts.of(name), longest) for title, name in pairs]
    return encoder.states(cut, pairs)


def test_states_have_the_knowledge_of_the_texts_mentions(folder: Path) -> None:
    known, plain = of_folder(folder), of_folder(folder.parent)
    difference = np.abs(states(known, PAIRS) - states(plain, PAIRS)).max(1)
    assert difference[0] > 1e-3 and difference[2] > 1e-3
    assert difference[1] < 1e-5  # it names no entity
    for number, pair in enumerate(PAIRS):
        np.testing.assert_allclose(states(known, PAIRS)[number], states(known, [pair])[0], rtol=1e-4, atol=1e-5)


def test_mentions_are_those_that_are_left(folder: Path) -> None:
    encoder = of_folder(folder)
    ids, second = np.array([2, 9, 9, 9, 9, 3, 9, 9, 3]), 6
    (found,) = encoder._mentions([(ids, second)], [("高血压头痛", "发热咳嗽")])
    assert found is not None and found.tolist() == [[1, 4, 3, 0], [6, 8, 1, 0]]  # half of 头痛 and all of 咳嗽 are cut
    value = value_ids(np.arange(5, 9), 4)
    (found,) = encoder._mentions([(value, len(value))], [("头痛发热",)])
    assert found is not None and found.tolist() == [[1, 3, 0, 0]]
    (nothing,) = of_folder(folder.parent)._mentions([(ids, second)], [("高血压头痛", "发热咳嗽")])
    assert nothing is None


def test_attention_is_that_of_the_encoder_without_knowledge(folder: Path) -> None:
    known, plain = Attending(folder), Attending(folder.parent)
    (tokens,) = known.tokenizer.words(["高血压头痛"])
    given: Any = [known.tokenizer.frame(tokens.ids)]
    ((_, ours),), ((_, theirs),) = (list(one.maps(given, [1, 3])) for one in (known, plain))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_the_plain_encoder_of_a_model_with_knowledge_needs_none(folder: Path, tmp_path: Path) -> None:
    alone = shutil.copytree(folder, tmp_path / "alone")
    found, plain = open_plain_encoder(alone), load_encoder(folder.parent)
    assert all(torch.equal(value, found.state_dict()[name]) for name, value in plain.state_dict().items())
    assert open_encoder(folder.parent, knowledge=False).config == plain.config  # type: ignore[union-attr]
