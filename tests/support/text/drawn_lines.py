"""A small source of sentences and terms, from which lines for training are drawn."""

from __future__ import annotations

from tasks.deidentify.recogniser.drawing import Source

TERMS = ("头痛", "阿司匹林")
SOURCE = Source(
    ["头痛三天，伴恶心。", "建议口服药物。"],
    {"dx": TERMS, "sx": TERMS, "drug": TERMS, "herb": TERMS, "exam": TERMS, "op": TERMS, "lab": TERMS, "any": TERMS,
     "product": TERMS},
)  # fmt: skip
