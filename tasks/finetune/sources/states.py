"""Stage `encoder_states`: a frozen encoder's states of a task's texts, computed once for all networks and seeds.

The artifact has the files of models/heads/state_cache.py, in float16: 2 F bytes per token, which is 6 KB for a base
encoder's last four layers. Time grows with the tokens of the task's texts, equal sequences counted once; memory with
their ids and one batch. A killed run resumes after its last finished batch.

Shape legend: N sequences, T tokens of all of them, F features.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from infra.errors import UserError
from infra.stage import Output, stage
from models.encoder.network import Encoder
from models.heads.batch import pack
from models.heads.examples import HeadExample, TokenSequence
from models.heads.frozen import FrozenStates
from models.heads.state_cache import KEYS, OFFSETS, STATES, unique
from models.inference import BATCH_TOKENS, batches_by_length
from tasks.downstream.catalogue import task
from tasks.downstream.features.shapes import shape_of
from tasks.downstream.task_data import load_task_data
from tasks.finetune.sources.params import StatesParams
from tasks.finetune.trials.model import open_start

_DONE = "done.json"
"""Number of batches whose states are written."""


@stage(name="encoder_states", version=1, params=StatesParams, unit="batch", heavy=True)
def encoder_states(inputs: Mapping[str, Any], params: StatesParams, out: Output) -> None:
    """Compute the states of `inputs["model"]` (`ModelFolder`) for all splits of `inputs["data"]` (`TaskFiles`)."""
    spec = task(params.task)
    start = open_start(str(inputs["model"].path), spec, params.max_length)
    if not isinstance(start.encoder, Encoder):
        raise UserError(f"{inputs['model'].path} is no encoder whose layers can be frozen. Leave its states out.")
    data = load_task_data(spec, inputs["data"].path, params.limit)
    features = shape_of(spec, data.train, start.max_length).features(start.tokenizer)
    pieces = [piece for records in (data.train, data.dev, data.test) for piece in features.encode(records)]
    sequences, keys = unique([one for piece in pieces for one in piece.example.sequences])
    offsets = np.cumsum([0, *(len(one.input_ids) for one in sequences)], dtype=np.int64)
    with tempfile.TemporaryDirectory(prefix="yiwen-states-") as name:
        np.save(Path(name, OFFSETS), offsets)
        np.save(Path(name, KEYS), keys)
        out.add_folder(Path(name))
        scratch = Path(name) if "://" in out.scratch else Path(out.scratch)
        out.add_file(STATES, _compute(FrozenStates(start.encoder), sequences, offsets, scratch, out))
    out.count("sequences", len(sequences))
    out.count("tokens", int(offsets[-1]))


def _compute(
    frozen: FrozenStates, sequences: Sequence[TokenSequence], offsets: np.ndarray, folder: Path, out: Output
) -> Path:
    """Return the file with the states float16 (T, F)."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    frozen.to(device)
    examples = [HeadExample((sequence,)) for sequence in sequences]
    batches = list(batches_by_length(examples, BATCH_TOKENS[device]))
    path, record = folder / STATES, folder / _DONE
    folder.mkdir(parents=True, exist_ok=True)
    done = json.loads(record.read_text()) if record.is_file() and path.is_file() else 0
    shape = (int(offsets[-1]), frozen.sizes.hidden_size)
    states_TF = np.lib.format.open_memmap(path, "r+" if done else "w+", dtype=np.float16, shape=shape)
    for number, rows in enumerate(batches[done:], start=done + 1):
        batch = pack([examples[row] for row in rows], seed=0, step=0).to(device)
        parts = frozen.states(batch, None).half().cpu().split(batch.layout.lengths)
        for row, place in zip(rows, batch.places.tolist(), strict=True):
            states_TF[offsets[row] : offsets[row + 1]] = parts[place].numpy()
        states_TF.flush()  # before the record, so that a killed run never counts states that are not on disk
        record.write_text(json.dumps(number))
        out.on_progress("encoder-states", number, len(batches))
    return path
