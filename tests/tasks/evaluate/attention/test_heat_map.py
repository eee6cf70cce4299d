"""Heat maps: a picture whose labels all have a glyph."""

from __future__ import annotations

import io
import warnings

import numpy as np
from fontTools.ttLib import TTFont
from matplotlib.image import imread
from pylopdf_fonts_zh_cn import sans_path

from tasks.evaluate.attention.heat_map import MOST_TOKENS, draw_heat_map


def test_chinese_labels_and_signs_have_glyphs() -> None:
    labels = ["[CLS]", *"患者因再生障碍性贫血入院，既往丙肝；", "ct", "$5$", "[SEP]"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns of each character that its font lacks
        png = draw_heat_map(np.full((len(labels),) * 2, 1 / len(labels)), labels, [(4, 11)], "再生障碍性贫血")
    assert png.startswith(b"\x89PNG")


def test_the_font_has_what_gb2312_has() -> None:
    known = TTFont(sans_path()).getBestCmap()
    level_one = bytes(byte for high in range(0xB0, 0xF8) for low in range(0xA1, 0xFF) for byte in (high, low))
    missing = [one for one in level_one.decode("gb2312", errors="ignore") if ord(one) not in known]
    assert missing == []


def test_the_longest_sentence_fits_and_a_map_is_always_the_same_picture() -> None:
    labels = ["[CLS]", *("患" for _ in range(MOST_TOKENS - 2)), "[SEP]"]
    weights = np.eye(MOST_TOKENS)
    one, other = (draw_heat_map(weights, labels, [], "") for _ in range(2))
    assert one == other
    assert min(imread(io.BytesIO(one)).shape[:2]) > 15 * MOST_TOKENS  # 15 pixels a label


def test_attention_to_special_tokens_does_not_whiten_the_others() -> None:
    labels = ["[CLS]", *"患者发热", "[SEP]"]
    weights = np.full((6, 6), 0.02)
    weights[:, -1] = 0.9
    faint = imread(io.BytesIO(draw_heat_map(weights, labels, [], "")))[..., :3]
    inner = faint[faint.shape[0] // 2, faint.shape[1] // 2 - 20 : faint.shape[1] // 2]
    assert inner.mean() < 0.2
