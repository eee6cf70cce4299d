"""Epochs per second of networks: ours, unpadded, beside a plain PyTorch loop with padding and without bucketing.

    python benchmarks/training/networks.py [--threads 2] [--rounds 3] [--records 512] [--data cEHRNER.parquet]

Both train the same network on the same vectors with the same batches of 64, in random order, by AdamW with clipped
gradients. The plain loop pads each batch to its longest text, as a DataLoader's collate function does, and its layers
are torch's own; nn.LSTM and nn.GRU also with packed sequences, which never read padding but take longer. Lengths are
those of the texts in `--data`, or drawn from a log-normal distribution with a median of 90 tokens. Rounds alternate;
the table has the best of each, in CPU seconds of all threads together and in seconds.
"""

from __future__ import annotations

import argparse
import functools
import math
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[2]))
from models import heads
from models.finetuning import FinetuneConfig, finetune
from models.heads.embedding_table import EmbeddingTable
from models.heads.examples import HeadExample, TokenSequence

WIDTH, VOCABULARY, LABELS, LONGEST, BATCH, RATE = 100, 3_000, 25, 512, 64, 1e-3
CASES = [
    ("tagging", "bilstm"),
    ("tagging", "cnn_lstm"),
    ("single", "cnn"),
    ("single", "bigru"),
    ("single", "avcnn"),
    ("single", "staresgru_cnn"),
]


def lengths_of(records: int, data: Path | None) -> np.ndarray:
    """Return the number of tokens of each record, with [CLS] and [SEP]."""
    rng = np.random.default_rng(0)
    if data is None:
        drawn = np.exp(rng.normal(math.log(90), 0.8, records))
    else:
        import polars as pl

        texts = pl.read_parquet(data)["text"].str.len_chars().to_numpy()
        drawn = rng.choice(texts, records)
    return np.clip(drawn.astype(int) + 2, 3, LONGEST)


def make_examples(kind: str, lengths: Sequence[int]) -> list[HeadExample]:
    """Return records of random tokens with random answers."""
    rng = np.random.default_rng(1)
    found = []
    for length in lengths:
        ids = rng.integers(5, VOCABULARY, length)
        target = rng.integers(0, LABELS, length) if kind == "tagging" else int(rng.integers(LABELS))
        found.append(HeadExample((TokenSequence(ids, np.zeros_like(ids)),), target))
    return found


class Plain(nn.Module):
    """A network in torch's own layers, over padded batches."""

    def __init__(self, name: str, kind: str, table: Tensor, packed: bool) -> None:
        super().__init__()
        self.name, self.kind, self.packed = name, kind, packed
        self.table = nn.Embedding.from_pretrained(table, freeze=True)
        self.layers = nn.ModuleList()
        features = 1024
        if name == "bilstm":
            self.layers.append(nn.LSTM(WIDTH, 512, bidirectional=True, batch_first=True))
        elif name == "bigru":
            self.layers.append(nn.GRU(WIDTH, 512, bidirectional=True, batch_first=True))
        elif name == "staresgru_cnn":
            self.layers.extend(nn.GRU(width, 512, bidirectional=True, batch_first=True) for width in (WIDTH, 1024))
            self.dense, features = nn.Linear(1024, 512), 512
        elif name == "cnn_lstm":
            self.layers.extend([nn.Conv1d(WIDTH, 64, 3, padding=1), nn.LSTM(64, 512, batch_first=True)])
            features = 512
        elif name == "cnn":
            self.layers.append(nn.Conv1d(WIDTH, 128, 5, padding=2))
            self.dense, features = nn.Linear(128, 64), 64
        else:
            self.layers.extend(nn.Conv1d(WIDTH, 300, width, padding="same") for width in (1, 2, 3, 4))
            self.attention = nn.Linear(300, 1, bias=False)
            self.dense, features = nn.Linear(3600, 144), 144
        self.output = nn.Linear(features, LABELS)

    def forward(self, ids_SL: Tensor, lengths_S: Tensor) -> Tensor:
        x_SLD = self.table(ids_SL)
        inside_SL1 = (torch.arange(ids_SL.shape[1]) < lengths_S[:, None])[:, :, None]
        if self.name in ("cnn", "avcnn"):
            return self.output(self._drop(torch.relu(self.dense(self._views(x_SLD, inside_SL1)))))
        for number, layer in enumerate(self.layers):
            if isinstance(layer, nn.Conv1d):
                x_SLD = torch.relu(layer(x_SLD.transpose(1, 2)).transpose(1, 2)) * inside_SL1
                continue
            out_SLF, last = self._recurrent(layer, x_SLD, lengths_S)
            x_SLD = out_SLF + x_SLD if self.name == "staresgru_cnn" and number else out_SLF
        if self.kind == "tagging":
            return self.output(self._drop(x_SLD))
        if self.name == "staresgru_cnn":
            most = x_SLD.masked_fill(~inside_SL1, -torch.inf).amax(1)
            return self.output(self._drop(torch.relu(self.dense(most))))
        return self.output(self._drop(last.transpose(0, 1).flatten(1)))

    def _recurrent(self, layer: nn.Module, x_SLD: Tensor, lengths_S: Tensor) -> tuple[Tensor, Tensor]:
        if not self.packed:
            out, last = layer(x_SLD)
            return out, last[0] if isinstance(last, tuple) else last
        packed = nn.utils.rnn.pack_padded_sequence(x_SLD, lengths_S, batch_first=True, enforce_sorted=False)
        out, last = layer(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        return padded, last[0] if isinstance(last, tuple) else last

    def _views(self, x_SLD: Tensor, inside_SL1: Tensor) -> Tensor:
        found = [torch.relu(layer(x_SLD.transpose(1, 2)).transpose(1, 2)) for layer in self.layers]
        most = [one.masked_fill(~inside_SL1, -torch.inf).amax(1) for one in found]
        if self.name == "cnn":
            return most[0]
        shares = [torch.softmax(self.attention(one).masked_fill(~inside_SL1, -torch.inf), 1) for one in found]
        weighted = [(share * one).sum(1) for share, one in zip(shares, found, strict=True)]
        means = [(one * inside_SL1).sum(1) / inside_SL1.sum(1) for one in found]
        return torch.cat([*most, *weighted, *means], 1)

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.4, self.training)


def plain_epoch(kind: str, name: str, examples: Sequence[HeadExample], table: Tensor, packed: bool) -> None:
    """Train one epoch of the plain loop."""
    torch.manual_seed(0)
    model = Plain(name, kind, table, packed).train()
    trained = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, fused=True)
    order = torch.randperm(len(examples)).tolist()
    for first in range(0, len(order), BATCH):
        batch = [examples[row] for row in order[first : first + BATCH]]
        ids = [torch.from_numpy(one.sequences[0].input_ids) for one in batch]
        lengths_S = torch.tensor([len(one) for one in ids])
        scores = model(nn.utils.rnn.pad_sequence(ids, batch_first=True), lengths_S)
        if kind == "tagging":
            tags = [torch.from_numpy(one.target) for one in batch]
            targets = nn.utils.rnn.pad_sequence(tags, batch_first=True, padding_value=-100)
            loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=-100)
        else:
            loss = F.cross_entropy(scores, torch.tensor([one.target for one in batch]))
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def our_epoch(kind: str, name: str, examples: Sequence[HeadExample], table: Tensor) -> None:
    """Train one epoch of our fine-tuning, as the flows run it but without averaged weights."""
    model = heads.build(kind, EmbeddingTable(table, trained=False), num_labels=LABELS, network=name, seed=0)
    config = FinetuneConfig(epochs=1, batch_size=BATCH, learning_rate=RATE, ema_decay=None)
    finetune(model, examples, config)


def main() -> None:
    """Time all cases, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=512)
    parser.add_argument("--data", type=Path, help="Parquet file with a column `text`, whose lengths are taken")
    parser.add_argument("--networks", nargs="*", help="some of the networks")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    table = torch.randn(VOCABULARY, WIDTH, generator=torch.Generator().manual_seed(0))
    lengths = lengths_of(options.records, options.data)
    print(f"torch {torch.__version__}, {platform.machine()}, {options.threads} threads, {options.records} records")
    print(f"tokens: mean {lengths.mean():.0f}, median {np.median(lengths):.0f}, longest {lengths.max()}\n")
    print("| task | network | ours, CPU s/epoch (s) | padded | packed | times padded | times packed |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for kind, name in CASES:
        if options.networks and name not in options.networks:
            continue
        examples = make_examples(kind, lengths)
        ways = {
            "ours": functools.partial(our_epoch, kind, name, examples, table),
            "padded": functools.partial(plain_epoch, kind, name, examples, table, False),
            "packed": functools.partial(plain_epoch, kind, name, examples, table, True),
        }
        if name in ("cnn", "avcnn"):
            del ways["packed"]  # nothing is recurrent
        rounds = [{way: timed(run) for way, run in ways.items()} for _ in range(options.rounds)]
        best = {way: min(one[way] for one in rounds) for way in ways}
        cells = [
            f"{best[way][0]:.2f} ({best[way][1]:.2f})" if way in best else "–" for way in ("ours", "padded", "packed")
        ]
        ratios = [f"{best[way][0] / best['ours'][0]:.2f}" if way in best else "–" for way in ("padded", "packed")]
        print(f"| {kind} | {name} | {' | '.join([*cells, *ratios])} |", flush=True)


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Return the CPU seconds and the seconds of a call."""
    cpu, wall = time.process_time(), time.perf_counter()
    run()
    return time.process_time() - cpu, time.perf_counter() - wall


if __name__ == "__main__":
    main()
