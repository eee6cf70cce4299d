"""CMedLMs' tables: the embeddings of their rows, and which networks each has."""

from __future__ import annotations

from typing import NamedTuple

EMBEDDINGS = {
    "bare": "Bare embedding",
    "glove-general": "GloVe (general)",
    "word2vec-general": "Word2Vec (general)",
    "glove-char": "CMed-GloVe (characters)",
    "glove-word": "CMed-GloVe (words)",
    "word2vec-char": "CMed-Word2Vec (characters)",
    "word2vec-word": "CMed-Word2Vec (words)",
    "bert": "BERT",
    "cmed-bert": "CMed-BERT",
}
"""Names of the nine embeddings, and how pages write them."""
BY_WORD = frozenset({"glove-general", "word2vec-general", "glove-word", "word2vec-word"})
"""Embeddings that are vectors of words."""
ENCODERS = frozenset({"bert", "cmed-bert"})
"""Embeddings that are a frozen encoder's states."""


class Table(NamedTuple):
    """A table of the paper."""

    title: str
    published: str
    """Task of its cells in published.csv."""
    networks: tuple[str, ...]
    """In the order of its rows."""


_TAGGERS = ("bilstm_crf", "cnn_lstm", "bilstm", "bigru", "staresgru_cnn_crf")
_CLASSIFIERS = ("cnn_lstm", "cnn", "bilstm", "staresgru_cnn", "dpcnn")
_PREDICTORS = (
    "cnn_lstm", "cnn", "bigru", "cnn_gru", "bilstm", "dropout_bigru", "dropout_avrnn", "avrnn", "avcnn",
    "staresgru_cnn",
)  # fmt: skip
TABLES = {
    "cehrner": Table("Table 7 (CCKS 2019)", "ccks2019-ner", _TAGGERS),
    "ccks2019-ner": Table("Table 7 (CCKS 2019)", "ccks2019-ner", _TAGGERS),
    "sahsu-ner": Table("Table 7 (SAHSU)", "sahsu-ner", _TAGGERS),
    "cmed-classification": Table("Table 8", "cmed-classification", _CLASSIFIERS),
    "cmedtc": Table("Table 8", "cmed-classification", _CLASSIFIERS),
    "disease-diagnosis": Table("Table 9", "disease-diagnosis", _PREDICTORS),
    "symptom-department": Table("Table 9", "disease-diagnosis", _PREDICTORS),
}
"""Tasks that the flow can run, each with the table in whose shape it is shown."""
