"""Distillation of the encoder: a small one learns what the large one makes of drawn lines (Hinton et al. 2015).

    python -m tasks.deidentify.recogniser.distilling --data DATA --labelled LINES.jsonl --output reader.npz

DATA and LINES are those of training.py. The small encoder begins with the principal components of the large one's
embeddings. It learns the large one's probabilities, its last states (through a matrix that is thrown away, as in Jiao
et al. 2020, section 3.1) and the labels themselves. Its inner function is ReLU, which takes a tenth of GELU's time.
Equal inputs and seeds give equal weights on one machine with one thread. Time grows with the lines times epochs; memory
holds all lines.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn
from transformers import RoFormerConfig, RoFormerModel

from tasks.deidentify.recogniser.archive import write_arrays
from tasks.deidentify.recogniser.drawing import Drawing
from tasks.deidentify.recogniser.encoder import READER, WEIGHTS, rows_of
from tasks.deidentify.recogniser.encoder_training import (
    MOST,
    NONE,
    Example,
    Tagger,
    arrays_of,
    batches_of,
    example_of,
    resumed,
    rows_and_labels,
)
from tasks.deidentify.recogniser.tagging import PASSAGE, pieces
from tasks.deidentify.recogniser.tokens import shortened
from tasks.deidentify.recogniser.training import add_labelled, read_all_labelled, read_source, read_texts


def main() -> None:
    """Train and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public sources")
    parser.add_argument("--teacher", type=Path, default=WEIGHTS, help="weights of the large encoder")
    add_labelled(parser)
    parser.add_argument("--lines", type=int, default=400_000, help="lines that are drawn")
    parser.add_argument("--passages", type=int, default=10_000, help="passages of real text from each source")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rate", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--characters", type=int, default=3000, help="characters of a step")
    parser.add_argument("--hidden", type=float, default=0.1, help="share of the characters of names that are changed")
    parser.add_argument("--names-kept", type=float, default=0.3, help="share of the names that stay as written")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=128, help="columns of the states")
    parser.add_argument("--inner", type=int, default=512, help="columns inside of a layer")
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--bf16", action="store_true", help="multiply in bfloat16, where the processor has it")
    parser.add_argument("--cost", type=float, default=1.0, help="what a span must be worth more than none, in nats")
    parser.add_argument("--least-lead", type=int, default=300, help="see encoder.py")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--output", type=Path, default=READER)
    options = parser.parse_args()
    torch.set_num_threads(1)
    labelled = read_all_labelled(options)
    source = read_source(options.data, labelled, options.seed)
    drawing = Drawing(source, options.seed, options.labelled_share, options.names_kept)
    teacher, characters, _ = resumed(options.teacher)
    examples = [example_of(drawing.line(), characters) for _ in range(options.lines)]
    examples += passages(options.data, characters, options.passages, options.seed)
    print(f"{len(source.sentences)} sentences, {len(labelled)} labelled lines", flush=True)
    torch.manual_seed(options.seed)
    student = begun(teacher, options.layers, options.width, options.inner, options.heads)
    distil(teacher, student, examples, options)
    arrays = arrays_of(student, characters, options.heads)
    arrays |= {"cost": np.array(options.cost), "least_lead": np.array(options.least_lead)}
    write_arrays(options.output, arrays)
    print(f"{options.output}: {options.output.stat().st_size / 1e6:.2f} MB", flush=True)


def passages(data: Path, characters: np.ndarray, most: int, seed: int) -> list[Example]:
    """Return passages of each public source as the tagger cuts them, whose labels only the large encoder tells."""
    found = []
    for _, texts in read_texts(data, random.Random(seed)):
        cut = (text[start:end] for text in texts for start, end in pieces(text, PASSAGE))
        for passage in itertools.islice(cut, most):
            rows = rows_of(shortened(passage)[0], characters)[:MOST]
            found.append(Example(rows, np.full(len(rows), NONE)))
    return found


def begun(teacher: Tagger, layers: int, width: int, inner: int, heads: int) -> Tagger:
    """Return a small tagger whose embeddings are the principal components of the large one's."""
    held = teacher.encoder.embeddings.word_embeddings.weight.detach()
    config = RoFormerConfig(
        vocab_size=len(held), hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=inner, hidden_act="relu", type_vocab_size=1, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    student = Tagger(RoFormerModel(config), width)
    centred = held - held.mean(dim=0)
    directions = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -width:]
    embeddings = student.encoder.embeddings
    with torch.no_grad():
        embeddings.word_embeddings.weight.copy_(centred @ directions)
        embeddings.token_type_embeddings.weight.zero_()
    return student


def distil(teacher: Tagger, student: Tagger, examples: Sequence[Example], options: argparse.Namespace) -> None:
    """Take a step for each batch: AdamW, a rate that rises for 200 steps and then falls in a line."""
    rng = np.random.default_rng(options.seed)
    batches = [batch for _ in range(options.epochs) for batch in batches_of(examples, options.characters, rng)]
    project = nn.Linear(student.head.in_features, teacher.head.in_features)
    trained = [*student.parameters(), *project.parameters()]
    optimiser = torch.optim.AdamW(trained, lr=options.rate, weight_decay=0.01)
    many = teacher.encoder.embeddings.word_embeddings.num_embeddings
    began, losses = time.process_time(), np.zeros(3)
    teacher.eval()
    student.train()
    for step, batch in enumerate(batches, start=1):
        optimiser.param_groups[0]["lr"] = options.rate * min(1.0, step / 200) * max(0.02, 1 - step / len(batches))
        rows, mask, labels = rows_and_labels(batch, options.hidden, rng, many)
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
            with torch.no_grad():
                wanted = teacher.states(rows, mask).float()
                probabilities = teacher.head(wanted).softmax(dim=-1)
            states = student.states(rows, mask).float()
            drawn = project(states)
        is_text = mask.bool()
        logs = student.head(states)[is_text].log_softmax(dim=-1)
        parts = (
            -(probabilities[is_text] * logs).sum(dim=-1).mean(),
            nn.functional.mse_loss(drawn.float()[is_text], wanted[is_text]) / wanted[is_text].var(),
            nn.functional.nll_loss(logs, labels[is_text], ignore_index=NONE, reduction="sum") / len(logs),
        )
        optimiser.zero_grad()
        (parts[0] + parts[1] + 0.5 * parts[2]).backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        losses += [part.item() for part in parts]
        if step % 200 == 0 or step == len(batches):
            means = losses / ((step - 1) % 200 + 1)
            print(
                f"step {step:,} of {len(batches):,}: cross-entropy with the large one {means[0]:.4f}, states "
                f"{means[1]:.4f}, labels {means[2]:.4f}, {time.process_time() - began:.0f} CPU seconds",
                flush=True,
            )
            losses[:] = 0


if __name__ == "__main__":
    main()
