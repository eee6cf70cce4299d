"""Stages `bare_embeddings` and `vector_table`: folders that fine-tuning takes as its model, with a network.

Time and memory grow with the words of the table and, for bare embeddings, the training records.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from infra.errors import UserError
from infra.stage import Output, stage
from models.heads.embedding_table import EmbeddingTable, random_table
from models.word_vectors import WordVectors
from tasks.downstream.catalogue import task
from tasks.downstream.features.alignment import plain_text
from tasks.downstream.task_data import load_task_data
from tasks.finetune.sources.params import BareParams, VectorTableParams
from tasks.finetune.sources.tokenizer import SPECIAL, word_tokenizer

SOURCE = "model"
"""Folder of the table within the artifact."""


@stage(name="bare_embeddings", version=1, params=BareParams)
def bare_embeddings(inputs: Mapping[str, Any], params: BareParams, out: Output) -> None:
    """Write fresh vectors for the characters of the training records of `inputs["data"]` (`TaskFiles`)."""
    records = load_task_data(task(params.task), inputs["data"].path, params.limit).train
    texts = (plain_text(text) for record in records for text in record.texts)
    counts = Counter(character for text in texts for character in text.lower() if not character.isspace())
    words = sorted(counts, key=lambda character: (-counts[character], character))
    _write(out, words, random_table(len(SPECIAL) + len(words), params.width, params.seed))


@stage(name="vector_table", version=1, params=VectorTableParams)
def vector_table(inputs: Mapping[str, Any], params: VectorTableParams, out: Output) -> None:
    """Write the word vectors of `inputs["vectors"]` (`VectorFile`) as a table; what has no vector gets their mean."""
    path = inputs["vectors"].path
    vectors = WordVectors.read(path)
    own = [row for row, word in enumerate(vectors.words) if word.strip() and word not in SPECIAL][: params.words]
    if not own:
        raise UserError(f"{path} has no words. Give vectors that were trained on a corpus.")
    matrix_WD = np.array(vectors.matrix[own])
    special_SD = np.zeros((len(SPECIAL), vectors.width), dtype=np.float32)
    special_SD[SPECIAL.index("[UNK]")] = matrix_WD.mean(0)
    table_VD = torch.from_numpy(np.concatenate([special_SD, matrix_WD]))
    words = [vectors.words[row] for row in own]
    _write(out, words, EmbeddingTable(table_VD, trained=False, by_word=params.by_word))


def _write(out: Output, words: Sequence[str], table: EmbeddingTable) -> None:
    out.count("words", len(words))
    with tempfile.TemporaryDirectory(prefix="yiwen-table-") as name:
        folder = Path(name, SOURCE)
        table.save(folder)
        word_tokenizer(words).save(str(folder / "tokenizer.json"))
        out.add_folder(Path(name))
