"""The commands, each with its arguments and its action in one place, and the parser made of them.

An action imports what it needs: `--help` and `list` must not wait for torch.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flows.catalogue import find, load_catalogue
from flows.cli.deidentify import add_deidentify
from flows.cli.parameters import merge_parameters
from flows.cli.running import run_entry
from infra.errors import UserError
from infra.extras import explained
from infra.printable import printable
from infra.private_files import private_files

Subparsers = Any
"""What `add_subparsers` returns; argparse keeps the name of its type private."""


@private_files()
def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status (2 for an error the user can fix)."""
    options = _parser().parse_args(arguments)
    try:
        return options.action(options)
    except UserError as error:
        print(printable(f"error: {error}"), file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        missing = explained(error)
        if missing is None:
            raise
        print(f"error: {missing}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m flows",
        description="Run Yiwen's flows on this machine, and use the models they trained.",
        epilog="python -m flows COMMAND --help shows the options of a command.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (_add_list, _add_run, _add_export, _add_predict, _add_compare, _add_normalise, _add_deidentify):
        add(commands)
    return parser


def _add(commands: Subparsers, name: str, action: Callable[[argparse.Namespace], int], **options: Any) -> Any:
    command = commands.add_parser(name, **options)
    command.set_defaults(action=action)
    return command


def _add_list(commands: Subparsers) -> None:
    _add(
        commands,
        "list",
        _list,
        help="list every flow/deployment with its parameters",
        description="List every flow/deployment of prefect.yaml, with its schedule, its parameters and their defaults.",
    )


def _list(options: argparse.Namespace) -> int:
    entries = load_catalogue()
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        print(f"{entry.name:{width}}  {entry.description}{entry.schedule and f'  [{entry.schedule}]'}")
        shown = ", ".join(f"{key}={json.dumps(value)}" for key, value in entry.parameters.items())
        print(f"{'':{width}}  parameters: {shown}")
    return 0


def _add_run(commands: Subparsers) -> None:
    command = _add(
        commands,
        "run",
        _run,
        help="run one flow/deployment",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Run one flow/deployment of prefect.yaml on this machine, and print the folder of its result.\n"
        "Finished stages are reused, interrupted ones resume. With PREFECT_API_URL set (or an active\n"
        "Prefect profile that sets it), that server records the run.",
        epilog="examples:\n"
        "  python -m flows run pretrain/ehealth-tiny\n"
        "  python -m flows run pretrain/ehealth-tiny --param corpus=my_texts/ --param training.steps=1000\n"
        "  YIWEN_HOME=/data/yiwen python -m flows run corpus/refresh --param corpus=records.jsonl.gz\n",
    )
    command.add_argument("name", metavar="FLOW/DEPLOYMENT", help="a name from `python -m flows list`")
    command.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a parameter of the flow, or a dotted key of its preset (training.steps=100); values are JSON, or text",
    )


def _run(options: argparse.Namespace) -> int:
    entry = find(options.name)
    print(printable(run_entry(entry, merge_parameters(entry, options.param), options.param)))
    return 0


def _add_export(commands: Subparsers) -> None:
    command = _add(
        commands,
        "export",
        _export,
        help="export a checkpoint of an unfinished run, or the best one of a finished run",
        description="Write a checkpoint as a folder that transformers loads. Unfinished runs are stored in "
        "YIWEN_HOME/train/.<fingerprint>.partial/scratch, finished ones in YIWEN_HOME/train/<fingerprint>.",
    )
    command.add_argument("--run", required=True, metavar="FOLDER", help="folder or URI that holds run.json")
    command.add_argument("--output", required=True, type=Path, metavar="FOLDER", help="a new folder")
    command.add_argument("--step", type=int, help="a step whose checkpoint was kept (default: the newest)")


def _export(options: argparse.Namespace) -> int:
    from tasks.pretrain.export import export_checkpoint

    step = export_checkpoint(options.run, options.output, options.step)
    print(f"Exported step {step:,} to {options.output}")
    return 0


def _add_predict(commands: Subparsers) -> None:
    command = _add(
        commands,
        "predict",
        _predict,
        help="apply a fine-tuned model to a file of texts",
        description="Answer every row of a file. A row that cannot be answered is kept, with the reason in `error`.",
    )
    command.add_argument("--model", type=Path, required=True, metavar="DIR", help="model folder of a finetune run")
    command.add_argument("--task", help="the task to check the model against (default: no check)")
    command.add_argument("--input", type=Path, required=True, metavar="FILE", help=".txt, .jsonl, .json, .csv, .tsv")
    command.add_argument(
        "--output", type=Path, metavar="FILE", help="JSON lines (default: NAME.predictions.jsonl beside the input)"
    )
    _add_knowledge(command)
    _add_device(command)


def _predict(options: argparse.Namespace) -> int:
    from tqdm import tqdm

    from tasks.finetune.predict import Predictor
    from tasks.finetune.predict_file import predict_file

    target = options.output or options.input.with_name(f"{options.input.stem}.predictions.jsonl")
    predictor = Predictor(options.model, options.device, knowledge=options.knowledge)
    with tqdm(unit="row", disable=None) as bar:
        counts = predict_file(predictor, options.input, target, options.task, lambda done: bar.update(done - bar.n))
    print(f"{target}: {counts['answered']:,} of {counts['rows']:,} rows answered, {counts['errors']:,} with an error")
    return 0


def _add_compare(commands: Subparsers) -> None:
    command = _add(
        commands,
        "compare",
        _compare,
        help="test whether two fine-tuned encoders, or two normalisers, differ",
        description="Compare two runs of a finetune flow, or two of normalise/chip-cdn, on the records that both "
        "answered: difference, interval and p-value of a paired test.",
    )
    command.add_argument("first", metavar="RUN_A", help="folder of a finetune or normaliser artifact, or of its model")
    command.add_argument("second", metavar="RUN_B")
    command.add_argument("--split", default="dev", choices=("dev", "test"))


def _compare(options: argparse.Namespace) -> int:
    from tasks.downstream.evaluation import score_text
    from tasks.finetune.compare import compare_runs, open_run

    found = compare_runs(open_run(options.first), open_run(options.second), options.split)
    first, second, low, high = (score_text(found["metric"], found[name]) for name in ("first", "second", "low", "high"))
    print(f"{found['task']}, {found['metric']} on {found['records']:,} records of {found['split']}")
    print(f"  first   {first}\n  second  {second}")
    difference = score_text(found["metric"], found["difference"])
    print(f"  difference {difference}, 95 % interval {low} to {high}, p = {found['p_value']:.4f}")
    return 0


def _add_normalise(commands: Subparsers) -> None:
    command = _add(
        commands,
        "normalise",
        _normalise,
        help="find standard terms for a file of diagnoses",
        description="Write the standard terms, their codes and scores beside every diagnosis of a file, with the "
        "candidates that were considered.",
    )
    command.add_argument("--input", type=Path, required=True, metavar="FILE", help=".xlsx, .csv, .tsv or .txt")
    command.add_argument("--output", type=Path, required=True, metavar="FILE", help=".xlsx, .csv or .tsv")
    command.add_argument(
        "--review",
        type=Path,
        metavar="FILE",
        help="what is below the threshold, for you to fill in: .xlsx, .csv or .tsv (default: NAME.review.… beside the "
        "output)",
    )
    command.add_argument(
        "--threshold",
        type=float,
        metavar="P",
        help="confidence from 0 to 1 that a code needs (default: that of the index, or 0.5; 0 codes all)",
    )
    command.add_argument(
        "--names",
        type=Path,
        metavar="FILE",
        help="your own names of codes: a review file that you filled in, or a table with the columns text and choice",
    )
    command.add_argument(
        "--model",
        type=Path,
        metavar="DIR",
        help="folder that normalise/chip-cdn or normalise/index printed (default: the newest one in YIWEN_HOME)",
    )
    command.add_argument("--column", help="name of the column of diagnoses (default: text or 诊断)")
    command.add_argument(
        "--candidates",
        type=int,
        metavar="N",
        help="candidates to write for each diagnosis, best first (default: 10; 0 for none; at most K)",
    )
    command.add_argument(
        "--k", type=int, metavar="K", help="candidates to rank for each diagnosis (default: as trained, or 100)"
    )
    command.add_argument(
        "--elasticsearch",
        action="store_true",
        help="find candidates on the server of ELASTICSEARCH_URL, in the same list that the normaliser was made from",
    )
    command.add_argument("--alias", metavar="NAME", help="alias of the list on the server (default: icd10)")
    command.add_argument(
        "--every-text",
        action="store_true",
        help="code every text; by default what is denied, doubted, a history or no diagnosis gets no code",
    )
    _add_knowledge(command)
    _add_device(command)


def _add_deidentify(commands: Subparsers) -> None:
    add_deidentify(functools.partial(_add, commands))


def _normalise(options: argparse.Namespace) -> int:
    from tqdm import tqdm

    from tasks.normalise.files import SHOWN, normalise_file, open_normaliser

    target = options.output
    review = options.review or target.with_name(f"{target.stem}.review{target.suffix}")
    normaliser = open_normaliser(
        options.model,
        options.k,
        options.device,
        options.elasticsearch,
        options.alias,
        reads=not options.every_text,
        threshold=options.threshold,
        names=options.names,
        knowledge=options.knowledge,
    )
    print(f"Codes are those of {normaliser.source}", file=sys.stderr)
    with tqdm(unit="diagnosis", disable=None) as bar:
        summary = normalise_file(
            normaliser,
            options.input,
            target,
            options.column,
            lambda done: bar.update(done - bar.n),
            SHOWN if options.candidates is None else options.candidates,
            review,
        )
    print(f"{target}: {summary}")
    # A row with several parts has each of their statuses: 高血压，否认冠心病 is coded and negated.
    others = [
        f"{count:,} {name.replace('_', ' ')}" for name, count in sorted(summary.statuses.items()) if name != "coded"
    ]
    if others:
        print(f"Rows with parts that got no code: {', '.join(others)}")
    if summary.to_review:
        print(f"{review}: {summary.to_review:,} texts to review. Fill in the column choice, and give it with --names.")
    if summary.without_value:
        first = ", ".join(summary.without_value[:5])
        print(
            f"{len(summary.without_value):,} cells have a formula without a stored value and count as empty: {first}. "
            "Open the file in a spreadsheet and save it."
        )
    if not normaliser.is_trained:
        print("No ranker was trained, so these are the candidates with the most similar names. See normalise/chip-cdn.")
    return 0


def _add_knowledge(command: Any) -> None:
    command.add_argument(
        "--knowledge", type=Path, metavar="DIR", help="knowledge arrays of a model that reads some (default: look for)"
    )


def _add_device(command: Any) -> None:
    command.add_argument("--device", choices=("cpu", "cuda"), help="where to compute (default: a GPU if there is one)")
