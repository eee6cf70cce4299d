"""CMedLMs' downstream networks, by name: over given embeddings, for tagging and for classification.

    network = models.networks.build("bilstm_crf", embedding_dim=100, num_labels=25, kind="tag")
    scores_TC = network(x_TD, Layout.from_lengths([12, 7, 30]))

Sequences are laid end to end, without padding (models/encoder/layout.py). Layers and sizes are those that the published
parameter counts amount to (CMedLMs, Tables 5 to 9). To add a network, write a file with a subclass of `Tagger`,
`CrfTagger` or `Classifier` and add a line to `_NETWORKS`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

from models.networks.avcnn import Avcnn
from models.networks.avrnn import Avrnn
from models.networks.bigru import BiGruClassifier, BiGruTagger
from models.networks.bilstm import BiLstmClassifier, BiLstmTagger
from models.networks.bilstm_crf import BiLstmCrf
from models.networks.cnn import Cnn
from models.networks.cnn_gru import CnnGru
from models.networks.cnn_lstm import CnnLstmClassifier, CnnLstmTagger
from models.networks.dpcnn import Dpcnn
from models.networks.dropout_avrnn import DropoutAvrnn
from models.networks.dropout_bigru import DropoutBiGru
from models.networks.parts.network import DROPOUT, Network
from models.networks.staresgru_cnn import StaResGruCnn
from models.networks.staresgru_cnn_crf import StaResGruCnnCrf

TAG, CLASSIFY = "tag", "classify"

_NETWORKS: dict[str, dict[str, Callable[[int, int, float], Network]]] = {
    TAG: {
        "bilstm_crf": BiLstmCrf,
        "cnn_lstm": CnnLstmTagger,
        "bilstm": BiLstmTagger,
        "bigru": BiGruTagger,
        "staresgru_cnn_crf": StaResGruCnnCrf,
    },
    CLASSIFY: {
        "cnn_lstm": CnnLstmClassifier,
        "cnn": Cnn,
        "bigru": BiGruClassifier,
        "cnn_gru": CnnGru,
        "bilstm": BiLstmClassifier,
        "dropout_bigru": DropoutBiGru,
        "dropout_avrnn": DropoutAvrnn,
        "avrnn": Avrnn,
        "avcnn": Avcnn,
        "dpcnn": Dpcnn,
        "staresgru_cnn": StaResGruCnn,
    },
}
"""Networks of each kind, in the order of the paper's tables."""


def names(kind: str) -> tuple[str, ...]:
    """Return the names of all networks of a kind, in the order of the paper's tables.

    Raises ValueError if there is no such kind.
    """
    if kind not in _NETWORKS:
        raise ValueError(f"kind must be {TAG!r} or {CLASSIFY!r}, got {kind!r}")
    return tuple(_NETWORKS[kind])


def build(name: str, embedding_dim: int, num_labels: int, kind: str, *, dropout: float = DROPOUT) -> Network:
    """Return the network `name` with fresh weights, which torch's default generator draws.

    Args:
        name: as in the paper, in any case and with hyphens or underscores: `BiLSTM-CRF` is `bilstm_crf`. For tagging:
            bilstm_crf, cnn_lstm, bilstm, bigru, staresgru_cnn_crf. For classification: cnn_lstm, cnn, bigru, cnn_gru,
            bilstm, dropout_bigru, dropout_avrnn, avrnn, avcnn, dpcnn, staresgru_cnn.
        embedding_dim: D, width of the embeddings.
        num_labels: C, number of classes, of labels, or of tags with "outside".
        kind: `tag`, for scores (T, C) of each token, or `classify`, for scores (S, C) of each sequence.
        dropout: rate in training, everywhere in the network (CMedLMs, Table 5).

    Raises:
        ValueError: the name or the kind is unknown (the message suggests similar names), or a number is impossible.
    """
    known, wanted = names(kind), str(name).lower().replace("-", "_")
    if wanted not in known:
        near = difflib.get_close_matches(wanted, known) or known
        raise ValueError(f"there is no network {name!r} of kind {kind!r}; did you mean {', '.join(near)}?")
    for label, number in (("embedding_dim", embedding_dim), ("num_labels", num_labels)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"{label} must be a whole number of at least 1, got {number!r}")
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"dropout must be in [0, 1), got {dropout!r}")
    return _NETWORKS[kind][wanted](embedding_dim, num_labels, dropout)
