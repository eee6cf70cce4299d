"""Small tokenisers for tests of features: ours, and BERT's with nothing but a vocabulary."""

from __future__ import annotations

from pathlib import Path

from models.tokenizer.wordpiece import SPECIAL_TOKENS, save_tokenizer

CHARACTERS = "患者有高血压病糖尿头痛发热咳嗽用药检查肺部感染二甲双胍血常规治疗引起的是不吗怎么办0123456789型、。，？"
VOCABULARY = [*SPECIAL_TOKENS, *dict.fromkeys(CHARACTERS), "ct", "c", "t", "##t", "m", "##g", "mri", "a", "b"]


def save_ours(folder: Path) -> Path:
    """`tokenizer.json` and what else our export writes."""
    folder.mkdir(parents=True, exist_ok=True)
    save_tokenizer(VOCABULARY, folder, 64)
    return folder


def save_vocab_txt(folder: Path) -> Path:
    """`vocab.txt` alone."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in VOCABULARY), encoding="utf-8")
    return folder
