"""Fine-tuning and inference against transformers' Trainer and pipeline, and the memory of CMeIE's head.

    python benchmarks/training/finetune.py speed --data ../shared/data/chineseblue/cMedQQ.parquet
    python benchmarks/training/finetune.py parity --data ../shared/data/chineseblue/cMedTC.parquet
    python benchmarks/training/finetune.py memory

`speed`: BERT with 4 layers of 256, random weights, batches of 32. The Trainer in random order and grouped by length,
each batch padded to its longest row, and ours in random order, unpadded, averaged weights included. For inference the
text-classification pipeline (one text at a time, which is its default; batches of 32; the same with the longest texts
first, which saves padding) and ours; all begin with text. Sides take turns in one process. CPU seconds are those of all
threads together.

`parity`: both train from the same initial weights, data, recipe and seeds; the scores should differ by no more than
those of different seeds.

`memory`: peak memory that the relation loss of 44 relations needs beyond its input and parameters, forward and
backward, at batch 12, length 300, width 768; each implementation in a process of its own.

`speed` and `parity` need accelerate in addition to the project's packages. The data are a Parquet file with `label` and
either `text` or `text_a` and `text_b`.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.pages import cpu_name, publish, table
from models import heads
from models.encoder.config import EncoderConfig
from models.encoder.layout import Layout
from models.finetuning import FinetuneConfig, finetune
from models.heads.examples import HeadExample, TokenSequence
from models.heads.task_model import TaskModel
from models.inference import predict
from models.training.allocator import keep_freed_memory, return_freed_memory
from models.weights.convert import electra_config, to_transformers

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
MAX_TOKENS = 128
BATCH = 32
SIZES = {"hidden_size": 256, "num_layers": 4, "num_heads": 4, "intermediate_size": 1024}


class Data(NamedTuple):
    """Texts, their classes and what reads them."""

    texts: list[tuple[str, ...]]
    classes: np.ndarray
    tokenizer: Any
    num_labels: int


class Spent(NamedTuple):
    """What some examples cost."""

    examples: int
    wall: float
    cpu: float


def read(path: Path, rows: int, seed: int = 0) -> Data:
    """A random sample of the file, with a tokenizer of its characters."""
    frame = pl.read_parquet(path).sample(fraction=1.0, shuffle=True, seed=seed).head(rows)
    columns = [name for name in ("text", "text_a", "text_b") if name in frame.columns]
    texts = list(frame.select(columns).iter_rows())
    labels = sorted(frame["label"].cast(str).unique().to_list())
    classes = np.array([labels.index(label) for label in frame["label"].cast(str)])
    characters = sorted({c for row in texts for text in row for c in text.lower() if not c.isspace()})
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = Path(folder) / "vocab.txt"
        pieces = [piece for c in characters for piece in ((c, f"##{c}") if c.isascii() else (c,))]
        vocabulary.write_text("\n".join(SPECIAL + pieces) + "\n", encoding="utf-8")
        tokenizer = transformers.BertTokenizer.from_pretrained(folder)
    return Data(texts, classes, tokenizer, len(labels))


def tokenize(data: Data, rows: Sequence[int]) -> Any:
    """transformers' encoding of these rows, unpadded."""
    columns = list(zip(*(data.texts[row] for row in rows), strict=True))
    return data.tokenizer(*map(list, columns), truncation=True, max_length=MAX_TOKENS)


def as_examples(data: Data, rows: Sequence[int]) -> list[HeadExample]:
    """Our examples of these rows."""
    encoded = tokenize(data, rows)
    return [
        HeadExample((TokenSequence(np.array(ids), np.array(types)),), int(data.classes[row]))
        for row, ids, types in zip(rows, encoded["input_ids"], encoded["token_type_ids"], strict=True)
    ]


def our_model(data: Data, seed: int) -> TaskModel:
    """BERT 4 x 256 with a classifier on [CLS], random weights."""
    config = EncoderConfig(vocab_size=len(data.tokenizer), **SIZES)
    return heads.build("pair" if len(data.texts[0]) == 2 else "single", config, num_labels=data.num_labels, seed=seed)


class TheirModel(nn.Module):
    """transformers' BertModel with the same head and the same weights."""

    def __init__(self, ours: TaskModel) -> None:
        super().__init__()
        sizes = electra_config(ours.encoder.config)
        del sizes["embedding_size"]
        self.bert = transformers.BertModel(transformers.BertConfig(**sizes), add_pooling_layer=False)
        self.bert.load_state_dict(to_transformers(ours.encoder))
        self.classifier = nn.Linear(*reversed(ours.classifier.weight.shape))
        self.classifier.load_state_dict(ours.classifier.state_dict())

    def forward(self, labels: Tensor | None = None, **inputs: Tensor) -> dict[str, Tensor]:
        """Loss and logits, as the Trainer wants them."""
        logits = self.classifier(F.dropout(self.bert(**inputs)[0][:, 0], 0.1, self.training))
        return {"logits": logits} if labels is None else {"loss": F.cross_entropy(logits, labels), "logits": logits}


def trainer(data: Data, rows: Sequence[int], model: nn.Module, **options: Any) -> Any:
    """The Trainer with eHealth's recipe but for the averaged weights, which it does not have."""
    encoded = tokenize(data, rows)
    dataset = [
        {name: encoded[name][i] for name in ("input_ids", "token_type_ids")} | {"labels": int(data.classes[row])}
        for i, row in enumerate(rows)
    ]
    arguments = transformers.TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        learning_rate=options.pop("learning_rate", 1e-4),
        weight_decay=0.01,
        warmup_steps=0.1,
        lr_scheduler_type="linear",
        max_grad_norm=1.0,
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        remove_unused_columns=False,
        **options,
    )
    collator = transformers.DataCollatorWithPadding(data.tokenizer)
    return transformers.Trainer(model=model, args=arguments, train_dataset=dataset, data_collator=collator)


def timed(examples: int, work: Callable[[], Any]) -> Spent:
    """What `work` on so many examples costs."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Spent(examples, time.perf_counter() - wall, time.process_time() - cpu)


def train_ours(data: Data, rows: Sequence[int]) -> Spent:
    """One epoch by our loop."""
    model, examples = our_model(data, 0), as_examples(data, rows)
    config = FinetuneConfig(epochs=1, batch_size=BATCH, learning_rate=1e-4)
    keep_freed_memory()
    try:
        return timed(len(rows), lambda: finetune(model, examples, config))
    finally:
        return_freed_memory()


def train_theirs(data: Data, rows: Sequence[int], strategy: str) -> Spent:
    """One epoch by the Trainer."""
    loop = trainer(data, rows, TheirModel(our_model(data, 0)), num_train_epochs=1, train_sampling_strategy=strategy)
    return timed(len(rows), loop.train)


def infer_ours(data: Data, rows: Sequence[int], precision: str = "fp32") -> Spent:
    """From text to probabilities by models/inference.py; keeps freed memory as prediction/file.py does."""
    model = our_model(data, 0)
    keep_freed_memory()
    try:
        return timed(len(rows), lambda: predict(model, as_examples(data, rows), precision=precision))
    finally:
        return_freed_memory()


def their_classifier(data: Data, dtype: torch.dtype) -> nn.Module:
    """transformers' own classifier of our sizes."""
    sizes = electra_config(our_model(data, 0).encoder.config)
    del sizes["embedding_size"]
    config = transformers.BertConfig(**sizes, num_labels=data.num_labels)
    model: nn.Module = transformers.BertForSequenceClassification(config).eval().to(dtype)
    return model


def infer_plain(data: Data, rows: Sequence[int], dtype: torch.dtype = torch.float32) -> Spent:
    """From text to probabilities by the loop that one writes by hand: all rows tokenised, sorted, padded, run."""
    model = their_classifier(data, dtype)

    def work() -> Tensor:
        encoded = tokenize(data, rows)
        order = sorted(range(len(rows)), key=lambda i: -len(encoded["input_ids"][i]))
        probabilities = torch.empty(len(rows), data.num_labels)
        with torch.inference_mode():
            for start in range(0, len(order), BATCH):
                some = order[start : start + BATCH]
                given = [{name: encoded[name][i] for name in encoded} for i in some]
                batch = data.tokenizer.pad(given, return_tensors="pt")
                probabilities[torch.tensor(some)] = model(**batch).logits.float().softmax(1)
        return probabilities

    return timed(len(rows), work)


def infer_theirs(
    data: Data, rows: Sequence[int], batch: int = BATCH, sort: bool = False, dtype: torch.dtype = torch.float32
) -> Spent:
    """From text to probabilities by the pipeline."""
    model = their_classifier(data, dtype)
    pipe = transformers.pipeline("text-classification", model=model, tokenizer=data.tokenizer, device="cpu")
    inputs = [dict(zip(("text", "text_pair"), data.texts[row], strict=False)) for row in rows]
    if sort:
        inputs.sort(key=lambda texts: -sum(map(len, texts.values())))
    return timed(len(rows), lambda: list(pipe(inputs, batch_size=batch, truncation=True, max_length=MAX_TOKENS)))


def speed(options: argparse.Namespace) -> list[str]:
    """The page of `speed`."""
    data = read(options.data, options.rows)
    rows = list(range(len(data.texts)))
    lengths = [len(ids) for ids in tokenize(data, rows)["input_ids"]]
    training: dict[str, Callable[[], Spent]] = {
        "Trainer, random order": lambda: train_theirs(data, rows, "random"),
        "Trainer, grouped by length": lambda: train_theirs(data, rows, "group_by_length"),
        "ours, random order": lambda: train_ours(data, rows),
    }
    inference: dict[str, Callable[[], Spent]] = {
        "pipeline, a text at a time": lambda: infer_theirs(data, rows, batch=1),
        "pipeline, batches": lambda: infer_theirs(data, rows),
        "pipeline, batches, sorted": lambda: infer_theirs(data, rows, sort=True),
        "pipeline, batches, sorted, bf16": lambda: infer_theirs(data, rows, sort=True, dtype=torch.bfloat16),
        "plain loop, sorted": lambda: infer_plain(data, rows),
        "plain loop, sorted, bf16": lambda: infer_plain(data, rows, torch.bfloat16),
        "ours": lambda: infer_ours(data, rows),
        "ours, bf16": lambda: infer_ours(data, rows, "bf16"),
    }
    page = [
        f"# Fine-tuning and inference, {options.data.stem}, {datetime.date.today()}",
        "",
        f"{len(rows):,} rows, tokens a row: median {statistics.median(lengths):.0f}, mean {np.mean(lengths):.1f}, at "
        f"most {max(lengths)}; BERT 4 x 256, vocabulary {len(data.tokenizer):,}, batch {BATCH}, float32 where nothing "
        f"else is said, {torch.get_num_threads()} thread(s). {environment()} Medians over {options.rounds} rounds, the "
        "sides in turns. Ratios are of CPU seconds: other work on the machine disturbs wall time.",
        "",
    ]
    parts = (("Fine-tuning", training, "Trainer, grouped by length"), ("Inference", inference, "pipeline, batches"))
    for title, sides, baseline in parts:
        found: dict[str, list[Spent]] = {name: [] for name in sides}
        for _ in range(options.rounds):
            for name, side in sides.items():
                found[name].append(side())
                print(f"# {name}: {found[name][-1]}", file=sys.stderr, flush=True)
        page += rates(title, found, baseline)
    return page


def rates(title: str, found: dict[str, list[Spent]], baseline: str) -> list[str]:
    """A table of sequences a second, each side also as a multiple of the baseline."""
    by_cpu = {name: statistics.median(s.examples / s.cpu for s in spent) for name, spent in found.items()}
    by_wall = {name: statistics.median(s.examples / s.wall for s in spent) for name, spent in found.items()}
    rows = [
        [name, f"{by_cpu[name]:,.0f}", f"{by_wall[name]:,.0f}", f"{by_cpu[name] / by_cpu[baseline]:.2f}"]
        for name in found
    ]
    head = [title.lower(), "sequences / CPU s", "sequences / s", f"to *{baseline}*"]
    return [f"## {title}", "", *table(head, rows), ""]


def parity(options: argparse.Namespace) -> list[str]:
    """The page of `parity`."""
    data = read(options.data, options.rows + options.dev_rows)
    train, dev = list(range(options.rows)), list(range(options.rows, len(data.texts)))
    truth = data.classes[dev]
    ways = {
        "Trainer": lambda seed: parity_theirs(data, train, dev, seed, options),
        "ours, no average": lambda seed: parity_ours(data, train, dev, seed, options, None),
        "ours": lambda seed: parity_ours(data, train, dev, seed, options, 0.9999),
    }
    scores: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for seed in range(options.rounds):
        for name, way in ways.items():
            predicted = way(seed)
            scores[name].append((float((predicted == truth).mean()), macro_f1(truth, predicted)))
            print(f"# {name}, seed {seed}: {scores[name][-1]}", file=sys.stderr, flush=True)
    rows = [[name, *(spread([score[i] for score in found]) for i in (0, 1))] for name, found in scores.items()]
    majority = float(np.bincount(truth).max() / len(truth))
    return [
        f"# The same training by transformers' Trainer, {options.data.stem}, {datetime.date.today()}",
        "",
        f"BERT 4 x 256 from the same random weights, {len(train):,} training rows, {len(dev):,} dev rows, "
        f"{options.epochs} epochs, batch {BATCH}, learning rate {options.learning_rate}, {options.rounds} seeds; "
        f"{data.num_labels} classes, the most frequent one {majority:.3f} of dev. Mean and standard deviation over "
        f"seeds, last weights. {environment()}",
        "",
        *table(["trained by", "accuracy", "macro-F1"], rows),
        "",
    ]


def parity_theirs(data: Data, train: list[int], dev: list[int], seed: int, options: argparse.Namespace) -> np.ndarray:
    """Classes that the Trainer's model predicts."""
    settings = {"num_train_epochs": options.epochs, "learning_rate": options.learning_rate, "seed": seed}
    loop = trainer(data, train, TheirModel(our_model(data, seed)), **settings)
    loop.train()
    encoded = tokenize(data, dev)
    held_out = [{name: encoded[name][i] for name in ("input_ids", "token_type_ids")} for i in range(len(dev))]
    return loop.predict(held_out).predictions.argmax(1)


def parity_ours(
    data: Data, train: list[int], dev: list[int], seed: int, options: argparse.Namespace, decay: float | None
) -> np.ndarray:
    """Classes that our model predicts."""
    model = our_model(data, seed)
    config = FinetuneConfig(
        epochs=options.epochs, batch_size=BATCH, learning_rate=options.learning_rate, seed=seed, ema_decay=decay
    )
    finetune(model, as_examples(data, train), config)
    return np.array([int(np.argmax(p)) for p in predict(model, as_examples(data, dev))])


def macro_f1(truth: np.ndarray, predicted: np.ndarray) -> float:
    """Mean over the classes in `truth` of 2 tp / (2 tp + fp + fn)."""
    hits = [
        2 * ((truth == c) & (predicted == c)).sum() / ((truth == c).sum() + (predicted == c).sum())
        for c in np.unique(truth)
    ]
    return float(np.mean(hits))


def spread(values: list[float]) -> str:
    """Mean ± standard deviation."""
    return f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}"


def relation_loss(way: str, batch: int, length: int, relations: int = 44, width: int = 768) -> float:
    """Peak bytes that one forward and backward of the relation loss adds, in this process."""
    encoder = {"vocab_size": 9, "hidden_size": width, "num_layers": 1, "num_heads": 12, "intermediate_size": 9}
    model: Any = heads.build("triples", encoder, num_labels=relations, seed=0)
    layout = Layout.from_lengths([length] * batch)
    hidden = torch.randn(batch * length, width, requires_grad=True)
    positives = torch.tensor([[0, 1, 2, 3]])
    target = torch.zeros(0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if way == "ours":
        model._relation_loss(hidden, layout, positives).backward()
    else:
        x = hidden.view(batch, length, width)
        weight = model.selection.weight.view(relations, width, width)
        if way == "biaffine":
            query = torch.einsum("bid,ked->bike", x, weight)
            scores = torch.einsum("bike,bje->bijk", query, x)
        else:  # additive selection of Bekoulis et al.: one hidden layer for each pair and relation
            side = torch.einsum("bid,ked->bike", x, weight)
            scores = torch.relu(side[:, :, None] + side[:, None]).sum(-1)
        target = torch.zeros_like(scores)
        target[0, 1, 3, 2] = 1.0
        F.binary_cross_entropy_with_logits(scores, target).backward()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024.0


def memory(options: argparse.Namespace) -> list[str]:
    """The page of `memory`."""
    rows = []
    for way, batch, length in (("ours", 12, 300), ("biaffine", 12, 300), ("additive", 1, 40), ("additive", 1, 60)):
        command = [sys.executable, __file__, "memory", "--of", way, "--shape", str(batch), str(length)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        rows.append([way, f"{batch} x {length}", f"{float(done.stdout) / 1e9:.2f}"])
    tensor = 12 * 300 * 300 * 44 * 768 * 4 / 1e9
    rows.append(["additive", "12 x 300", f"at least {tensor:.0f}, computed: its [L, L, 44, 768] tensors alone"])
    return [
        f"# Memory of CMeIE's relation loss, {datetime.date.today()}",
        "",
        f"44 relations, width 768, float32, forward and backward; peak above input and parameters, the gradient of the "
        f"relations' matrices (0.10 GB) included. *biaffine* is the same formula by two einsums under autograd, "
        f"*additive* the form of Bekoulis et al. {environment()}",
        "",
        *table(["way", "batch x length", "GB"], rows),
        "",
    ]


def environment() -> str:
    """What it ran on."""
    return (
        f"Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}, "
        f"{cpu_name()}."
    )


def main() -> None:
    """Run one of the three and print its page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("speed", "parity", "memory"))
    parser.add_argument("--data", type=Path, help="Parquet file with label and text, or text_a and text_b")
    parser.add_argument("--rows", type=int, default=1600, help="rows to train on")
    parser.add_argument("--dev-rows", type=int, default=1000, help="parity: rows to score on")
    parser.add_argument("--rounds", type=int, default=3, help="turns, or seeds")
    parser.add_argument("--epochs", type=int, default=3, help="parity: epochs")
    parser.add_argument("--learning-rate", type=float, default=3e-4, help="parity: peak rate")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, help="write the page here, too")
    parser.add_argument("--of", help=argparse.SUPPRESS)
    parser.add_argument("--shape", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.of:
        print(relation_loss(options.of, *options.shape))
        return
    if options.what != "memory" and options.data is None:
        parser.error(f"{options.what} needs --data FILE")
    publish({"speed": speed, "parity": parity, "memory": memory}[options.what](options), options.output)


if __name__ == "__main__":
    main()
