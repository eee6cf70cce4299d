"""Training of the encoder: a pre-trained BERT with rotary positions, tuned to label the characters of drawn lines.

    python -m tasks.deidentify.recogniser.encoder_training --data DATA --labelled LINES.jsonl --encoder FOLDER

FOLDER is a model as `pretrain/bert-mini` exports it, or an `encoder.npz`, which is then trained further. DATA and LINES
are those of training.py. Characters of names are often hidden or drawn anew, so that what stands around them counts.
Matrices are rounded to 8 bits with a scale a row.
Equal inputs and seeds give equal weights on one machine with one thread. Time grows with the lines times epochs; memory
holds all lines.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers import RoFormerConfig, RoFormerModel

from tasks.deidentify.recogniser.archive import write_arrays
from tasks.deidentify.recogniser.drawing import Drawing, Line
from tasks.deidentify.recogniser.encoder import FIRST, OTHER, SPACE, WEIGHTS, rows_of, unrounded
from tasks.deidentify.recogniser.labels import LABELS, OUTSIDE, mark_span
from tasks.deidentify.recogniser.tokens import shortened
from tasks.deidentify.recogniser.training import add_labelled, read_all_labelled, read_source

MOST = 128
"""Most characters of a line: those behind are not learned from."""
_OFTEN = 20
"""Lines that a character must be in to get a row where the pre-trained vocabulary lacks it."""
NONE = -100
"""Label of padding, which counts for nothing."""
_IS_NAME = np.array([label.endswith("name") for label in LABELS])


class Tagger(nn.Module):
    """An encoder with a layer of labels on top."""

    encoder: Any
    """A RoFormerModel of transformers."""

    def __init__(self, encoder: Any, width: int) -> None:
        """Begin with a pre-trained encoder of `width` columns."""
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(width, len(LABELS))

    def states(self, rows: Tensor, mask: Tensor) -> Tensor:
        """Return the last states, (B, N, width), of rows of the embeddings, int64 (B, N)."""
        states: Tensor = self.encoder(input_ids=rows, attention_mask=mask).last_hidden_state
        return states

    def forward(self, rows: Tensor, mask: Tensor) -> Tensor:
        """Return the scores of the labels, (B, N, L), of rows of the embeddings, int64 (B, N)."""
        scores: Tensor = self.head(self.states(rows, mask).float())
        return scores


class Example(NamedTuple):
    """A line as the encoder sees it."""

    rows: np.ndarray
    """Row of the embeddings of each character, int64 (N,)."""
    labels: np.ndarray
    """Label of each character, int64 (N,)."""


def main() -> None:
    """Train and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public sources")
    parser.add_argument(
        "--encoder", type=Path, required=True, help="folder of the pre-trained model, or weights to train further"
    )
    add_labelled(parser)
    parser.add_argument("--lines", type=int, default=300_000, help="lines that are drawn")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--rate", type=float, default=5e-4, help="highest learning rate")
    parser.add_argument("--characters", type=int, default=3000, help="characters of a step")
    parser.add_argument("--hidden", type=float, default=0.15, help="share of the characters of names that are changed")
    parser.add_argument("--layers", type=int, default=4, help="layers that are kept, from the first on")
    parser.add_argument("--names-kept", type=float, default=0.0, help="share of the names that stay as written")
    parser.add_argument("--dropout", type=float, default=0.0, help="rate of dropout on states and attention")
    parser.add_argument("--bf16", action="store_true", help="multiply in bfloat16, where the device has it")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda for a GPU")
    parser.add_argument("--cost", type=float, default=2.0, help="what a span must be worth more than none, in nats")
    parser.add_argument("--least-lead", type=int, default=-(10**9), help="see encoder.py; by default all is read again")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--output", type=Path, default=WEIGHTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    labelled = read_all_labelled(options)
    source = read_source(options.data, labelled, options.seed)
    drawing = Drawing(source, options.seed, options.labelled_share, options.names_kept)
    lines = [drawing.line() for _ in range(options.lines)]
    print(f"{len(source.sentences)} sentences, {len(labelled)} labelled lines", flush=True)
    torch.manual_seed(options.seed)
    if options.encoder.is_dir():
        words = (options.encoder / "vocab.txt").read_text(encoding="utf-8").splitlines()
        characters = characters_of(words, lines)
        tagger, heads = started(options.encoder, words, characters, options.layers)
    else:
        tagger, characters, heads = resumed(options.encoder)
    set_dropout(tagger, options.dropout)
    examples = [example_of(line, characters) for line in lines]
    train(tagger, examples, options)
    arrays = arrays_of(tagger, characters, heads)
    arrays |= {"cost": np.array(options.cost), "least_lead": np.array(options.least_lead)}
    write_arrays(options.output, arrays)
    print(f"{options.output}: {options.output.stat().st_size / 1e6:.2f} MB", flush=True)


def characters_of(words: Sequence[str], lines: Sequence[Line]) -> np.ndarray:
    """Return the code points that get a row, int32 (V,) in order: those of a vocabulary, and frequent ones."""
    counts = Counter(character for line in lines for character in set(line.text))
    held = {word for word in words if len(word) == 1}
    held |= {character for character, count in counts.items() if count >= _OFTEN}
    return np.array(sorted(ord(one) for one in held if not one.isspace()), dtype=np.int32)


def started(folder: Path, words: Sequence[str], characters: np.ndarray, layers: int) -> tuple[Tagger, int]:
    """Return a tagger whose rows are those of the pre-trained words, and the number of its heads.

    A capital begins as its small letter, a character without a row as the unknown word, a blank as the mask.
    """
    model = RoFormerModel.from_pretrained(folder)
    model.encoder.layer = model.encoder.layer[:layers]
    places = {word: place for place, word in enumerate(words)}
    unknown = places["[UNK]"]
    rows = [unknown, places["[MASK]"]]
    rows += [places.get(chr(point), places.get(chr(point).lower(), unknown)) for point in characters.tolist()]
    held = model.embeddings.word_embeddings.weight.detach()[torch.tensor(rows)]
    # Else characters without a row could not be told apart.
    held = held + 0.01 * torch.randn(held.shape)
    model.embeddings.word_embeddings = nn.Embedding.from_pretrained(held, freeze=False)
    return Tagger(model, model.config.hidden_size), model.config.num_attention_heads


def resumed(file: Path) -> tuple[Tagger, np.ndarray, int]:
    """Return the tagger of a file of weights, its characters and the number of its heads."""
    with np.load(file) as held:
        arrays = dict(held)
    heads, rows = int(arrays["heads"]), len(arrays["embeddings"])
    many, width = arrays["layers.0.up"].shape
    layers = sum(name.endswith(".query") for name in arrays)
    config = RoFormerConfig(
        vocab_size=rows, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=many,
        type_vocab_size=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        hidden_act="relu" if arrays.get("rectified", 0) else "gelu",
    )  # fmt: skip
    tagger = Tagger(RoFormerModel(config), width)
    with torch.no_grad():
        embeddings = tagger.encoder.embeddings
        embeddings.word_embeddings.weight.copy_(torch.from_numpy(unrounded(arrays, "embeddings")))
        embeddings.token_type_embeddings.weight.zero_()  # those of the file hold them already
        for name, module in _parts(tagger).items():
            module.weight.copy_(torch.from_numpy(unrounded(arrays, name)))
            module.bias.copy_(torch.from_numpy(unrounded(arrays, f"{name}.bias")))
    return tagger, arrays["characters"], heads


def set_dropout(tagger: Tagger, rate: float) -> None:
    """Set the rate of all dropout in the encoder."""
    for module in tagger.encoder.modules():
        if isinstance(module, nn.Dropout):
            module.p = rate


def example_of(line: Line, characters: np.ndarray) -> Example:
    """Return what the encoder sees of a line, whose placeholders are one character, and the labels."""
    text, places = shortened(line.text)
    labels = np.full(len(text), OUTSIDE, dtype=np.int64)
    for start, end, kind in line.spans:
        first, last = np.searchsorted(places[:-1], (start, end)).tolist()
        mark_span(labels, first, last, kind)
    return Example(rows_of(text, characters)[:MOST], labels[:MOST])


def train(tagger: Tagger, examples: Sequence[Example], options: argparse.Namespace) -> None:
    """Take a step for each batch: AdamW, a rate that rises for 200 steps and then falls in a line."""
    device = torch.device(options.device)
    tagger.to(device)
    rng = np.random.default_rng(options.seed)
    batches = [batch for _ in range(options.epochs) for batch in batches_of(examples, options.characters, rng)]
    trained = [each for each in tagger.parameters() if each.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=options.rate, weight_decay=0.01)
    many = tagger.encoder.embeddings.word_embeddings.num_embeddings
    began, losses = time.process_time(), 0.0
    tagger.train()
    for step, batch in enumerate(batches, start=1):
        optimiser.param_groups[0]["lr"] = options.rate * min(1.0, step / 200) * max(0.02, 1 - step / len(batches))
        given = [each.to(device) for each in rows_and_labels(batch, options.hidden, rng, many)]
        with torch.autocast(device.type, torch.bfloat16, enabled=options.bf16):
            scores = tagger(given[0], given[1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), given[2].flatten(), ignore_index=NONE)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        losses += loss.item()
        if step % 200 == 0 or step == len(batches):
            print(
                f"step {step:,} of {len(batches):,}: loss of a character {losses / ((step - 1) % 200 + 1):.4f}, "
                f"{time.process_time() - began:.0f} CPU seconds",
                flush=True,
            )
            losses = 0.0
    tagger.cpu()


def rows_and_labels(
    batch: Sequence[Example], hidden: float, rng: np.random.Generator, many: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows of a batch, of which a share is hidden, the mask of its text and its labels, int64 (B, N)."""
    longest = max(len(each.rows) for each in batch)
    rows = np.zeros((len(batch), longest), dtype=np.int64)
    labels = np.full((len(batch), longest), NONE, dtype=np.int64)
    mask = np.zeros((len(batch), longest), dtype=np.int64)
    for place, each in enumerate(batch):
        share = hidden * np.where(_IS_NAME[np.maximum(each.labels, OUTSIDE)], 1.0, 0.25)
        rows[place, : len(each.rows)] = _blurred(each.rows, share, rng, many)
        labels[place, : len(each.rows)] = each.labels
        mask[place, : len(each.rows)] = 1
    return torch.from_numpy(rows), torch.from_numpy(mask), torch.from_numpy(labels)


def batches_of(examples: Sequence[Example], characters: int, rng: np.random.Generator) -> Iterator[list[Example]]:
    """Yield all lines in batches of lines alike in length, in random order."""
    order = rng.permutation(len(examples))
    for start in range(0, len(order), 2000):
        chosen = sorted((examples[place] for place in order[start : start + 2000]), key=lambda each: len(each.rows))
        batches: list[list[Example]] = [[]]
        for each in chosen:
            if batches[-1] and (len(batches[-1]) + 1) * len(each.rows) > characters:
                batches.append([])
            if len(each.rows):
                batches[-1].append(each)
        for place in rng.permutation(len(batches)):
            yield batches[place]


def _blurred(rows: np.ndarray, share: np.ndarray, rng: np.random.Generator, many: int) -> np.ndarray:
    """Return rows of which a share is hidden, three of five, or drawn anew."""
    chance = rng.random(len(rows))
    drawn = np.where(chance < 0.6 * share, OTHER, rng.integers(FIRST, many, len(rows)))
    return np.where((chance < share) & (rows != SPACE), drawn, rows)


def arrays_of(tagger: Tagger, characters: np.ndarray, heads: int) -> dict[str, np.ndarray]:
    """Return what `Encoder` reads: matrices of 8 bits with a scale a row, vectors as float32."""
    embeddings = tagger.encoder.embeddings
    words = embeddings.word_embeddings.weight + embeddings.token_type_embeddings.weight[0]
    arrays = {"characters": characters, "heads": np.array(heads), **rounded("embeddings", words.detach().numpy())}
    if tagger.encoder.config.hidden_act == "relu":
        arrays["rectified"] = np.array(1)
    for name, module in _parts(tagger).items():
        weight = module.weight.detach().numpy()
        arrays |= rounded(name, weight) if weight.ndim == 2 else {name: weight}
        arrays[f"{name}.bias"] = module.bias.detach().numpy()
    return arrays


def _parts(tagger: Tagger) -> dict[str, Any]:
    """Return the modules with a weight and a bias, by their names in a file of weights."""
    parts = {"embeddings_norm": tagger.encoder.embeddings.LayerNorm, "head": tagger.head}
    for number, layer in enumerate(tagger.encoder.encoder.layer):
        attention = layer.attention
        for name, module in {
            "query": attention.self.query, "key": attention.self.key, "value": attention.self.value,
            "output": attention.output.dense, "attention_norm": attention.output.LayerNorm,
            "up": layer.intermediate.dense, "down": layer.output.dense, "norm": layer.output.LayerNorm,
        }.items():  # fmt: skip
            parts[f"layers.{number}.{name}"] = module
    return parts


def rounded(name: str, held: np.ndarray) -> dict[str, np.ndarray]:
    """Return a matrix as integers of 8 bits with a scale a row, under its name and `NAME/scale`."""
    scale = np.maximum(np.abs(held).max(axis=1), 1e-9) / 127
    return {name: np.rint(held / scale[:, None]).astype(np.int8), f"{name}/scale": scale.astype(np.float32)}


if __name__ == "__main__":
    main()
