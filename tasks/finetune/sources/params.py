"""Parameters of the stages that make what networks read. Nothing here imports torch."""

from __future__ import annotations

from pydantic import Field

from infra.stage import StageParams


class BareParams(StageParams):
    """Parameters of bare embeddings."""

    task: str
    limit: int | None = Field(default=None, ge=1)
    """Records of training that are read; as in fine-tuning."""
    width: int = Field(default=100, ge=1)
    """Values of a vector; the published parameter counts amount to 100."""
    seed: int = 0


class VectorTableParams(StageParams):
    """Parameters of a table of word vectors."""

    by_word: bool
    """The vectors are those of words: a character that is tagged gets the vector of the word around it. Otherwise they
    are those of characters."""
    words: int = Field(default=200_000, ge=1)
    """Words of the table at most, the first of the file, which are the most frequent."""


class StatesParams(StageParams):
    """Parameters of a frozen encoder's states; those of fine-tuning with the same names must be equal."""

    task: str
    limit: int | None = Field(default=None, ge=1)
    max_length: int | None = None
