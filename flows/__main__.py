"""Command line: `python -m flows list`, `python -m flows run FLOW/DEPLOYMENT [--param key=value]…`, and what is done
with trained models: `python -m flows export`, `predict`, `compare` and `normalise`.

The first two read `prefect.yaml`, so what runs here is what a server would run. Without `PREFECT_API_URL` no server is
needed: Prefect keeps its records in a local database for the time of the run.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_type_hints

from flows.catalogue import Entry, find, load_catalogue
from infra.errors import UserError


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status (2 for mistakes of the user)."""
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        told = "; the same command goes on where this run stopped" if options.command is _run else ""
        print(f"interrupted{told}", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m flows", description="Run Yiwen's flows here and now, without a server."
    )
    commands = parser.add_subparsers(required=True, metavar="list | run | export | predict | compare | normalise")
    listing = commands.add_parser("list", help="show every flow/deployment with its parameters")
    listing.set_defaults(command=_list)
    running = commands.add_parser(
        "run",
        help="run one flow/deployment",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Run one flow/deployment of prefect.yaml. Finished stages are reused, killed ones resumed.",
        epilog="examples:\n"
        "  python -m flows run pretrain/ehealth-tiny\n"
        "  python -m flows run pretrain/ehealth-tiny --param corpus=my_texts/ --param training.steps=1000\n"
        "  YIWEN_HOME=/data/yiwen python -m flows run corpus/refresh --param corpus=records.jsonl.gz\n",
    )
    running.add_argument("name", metavar="FLOW/DEPLOYMENT", help="as `python -m flows list` shows it")
    running.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a parameter of the flow, or a dotted preset key (training.steps=100); values are JSON, or text",
    )
    running.set_defaults(command=_run)
    _add_export(commands)
    _add_predict(commands)
    _add_compare(commands)
    _add_normalise(commands)
    return parser


def _add_export(commands: Any) -> None:
    exporting = commands.add_parser(
        "export",
        help="export a checkpoint of a run that has not finished, or the best of one that has",
        description="Write a checkpoint as a folder for transformers. Runs under way lie in "
        "YIWEN_HOME/train/.<fingerprint>.partial/scratch, finished ones in YIWEN_HOME/train/<fingerprint>.",
    )
    exporting.add_argument("--run", required=True, metavar="FOLDER", help="folder or URI that holds run.json")
    exporting.add_argument("--output", required=True, type=Path, metavar="FOLDER", help="a new folder")
    exporting.add_argument("--step", type=int, help="a step that was kept; the newest by default")
    exporting.set_defaults(command=_export)


def _add_predict(commands: Any) -> None:
    predicting = commands.add_parser(
        "predict",
        help="answer a file of texts with a fine-tuned model",
        description="Answer every row of a file. A row that cannot be answered is kept, with the reason in `error`.",
    )
    predicting.add_argument("--model", type=Path, required=True, metavar="DIR", help="model folder of a finetune run")
    predicting.add_argument("--task", help="checked against the model's; may be left out")
    predicting.add_argument("--input", type=Path, required=True, metavar="FILE", help=".txt, .jsonl, .json, .csv, .tsv")
    predicting.add_argument(
        "--output", type=Path, metavar="FILE", help="JSON lines; by default beside the input, as NAME.predictions.jsonl"
    )
    predicting.add_argument("--device", choices=("cpu", "cuda"), help="by default the GPU, where there is one")
    predicting.set_defaults(command=_predict)


def _add_compare(commands: Any) -> None:
    comparing = commands.add_parser(
        "compare",
        help="the paired test between two fine-tuned encoders, or two normalisers",
        description="Compare two runs of a finetune flow, or two of normalise/chip-cdn, on the records that both "
        "answered: difference, interval and p-value.",
    )
    comparing.add_argument(
        "first", metavar="RUN_A", help="folder of a finetune or normaliser artifact, or of its model"
    )
    comparing.add_argument("second", metavar="RUN_B")
    comparing.add_argument("--split", default="dev", choices=("dev", "test"))
    comparing.set_defaults(command=_compare)


def _add_normalise(commands: Any) -> None:
    normalising = commands.add_parser(
        "normalise",
        help="standard terms for a file of diagnoses",
        description="Write the standard terms, their codes and scores beside every diagnosis of a file, with the "
        "candidates that were considered.",
    )
    normalising.add_argument("--input", type=Path, required=True, metavar="FILE", help=".csv, .tsv or .txt")
    normalising.add_argument("--output", type=Path, required=True, metavar="FILE", help=".csv or .tsv")
    normalising.add_argument(
        "--model",
        type=Path,
        metavar="DIR",
        help="what normalise/chip-cdn printed, or normalise/index; by default the newest one here",
    )
    normalising.add_argument("--column", help="name of the column of diagnoses; by default the one called text or 诊断")
    normalising.add_argument(
        "--candidates",
        type=int,
        metavar="N",
        help="candidates of each diagnosis that are written, best first (default 10, 0 for none); at most K are there",
    )
    normalising.add_argument(
        "--k", type=int, metavar="K", help="candidates of each diagnosis that are ranked; by default as trained, or 100"
    )
    normalising.add_argument(
        "--elasticsearch",
        action="store_true",
        help="find candidates on the server of ELASTICSEARCH_URL, in the very list that the normaliser was made from",
    )
    normalising.add_argument("--alias", metavar="NAME", help="what the list was put there under; icd10 by default")
    normalising.add_argument("--device", choices=("cpu", "cuda"), help="by default the GPU, where there is one")
    normalising.set_defaults(command=_normalise)


def _list(options: argparse.Namespace) -> int:
    entries = load_catalogue()
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        print(f"{entry.name:{width}}  {entry.description}{entry.schedule and f'  [{entry.schedule}]'}")
        shown = ", ".join(f"{key}={json.dumps(value)}" for key, value in entry.parameters.items())
        print(f"{'':{width}}  parameters: {shown}")
    return 0


def _run(options: argparse.Namespace) -> int:
    entry = find(options.name)
    parameters = merge_parameters(entry, options.param)
    flow = entry.load_flow()
    print(flow(**fit_parameters(flow.fn, parameters, options.param)))
    return 0


def _export(options: argparse.Namespace) -> int:
    from tasks.pretrain.export import export_checkpoint

    step = export_checkpoint(options.run, options.output, options.step)
    print(f"step {step:,} is in {options.output}")
    return 0


def _predict(options: argparse.Namespace) -> int:
    from tqdm import tqdm

    from tasks.finetune.predict import Predictor, predict_file

    target = options.output or options.input.with_name(f"{options.input.stem}.predictions.jsonl")
    predictor = Predictor(options.model, options.device)
    with tqdm(unit="row", disable=None) as bar:
        counts = predict_file(predictor, options.input, target, options.task, lambda done: bar.update(done - bar.n))
    print(f"{target}: {counts['answered']:,} of {counts['rows']:,} rows answered, {counts['errors']:,} with an error")
    return 0


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


def _normalise(options: argparse.Namespace) -> int:
    from tqdm import tqdm

    from tasks.normalise.file import SHOWN, normalise_file, open_normaliser

    normaliser = open_normaliser(options.model, options.k, options.device, options.elasticsearch, options.alias)
    with tqdm(unit="diagnosis", disable=None) as bar:
        counts = normalise_file(
            normaliser,
            options.input,
            options.output,
            options.column,
            lambda done: bar.update(done - bar.n),
            SHOWN if options.candidates is None else options.candidates,
        )
    print(f"{options.output}: {counts['normalised']:,} of {counts['rows']:,} diagnoses normalised")
    if not normaliser.is_trained:
        print("No ranker was trained: these are the candidates that are called most alike. See normalise/chip-cdn.")
    return 0


def merge_parameters(entry: Entry, given: list[str]) -> dict[str, Any]:
    """The deployment's parameters with the given ones on top; dotted keys go to `overrides`, over what it is given.

    Raises:
        UserError: a parameter without `=`, one the flow does not have, or `overrides` that are none.
    """
    parameters = dict(entry.parameters)
    dotted: dict[str, Any] = {}
    for item in given:
        key, equals, text = item.partition("=")
        if not equals:
            raise UserError(f"--param {item!r} is not of the form KEY=VALUE.")
        if "." in key and "overrides" in parameters:
            dotted[key] = _value(text)
        elif key in entry.parameters:
            parameters[key] = _value(text)
        else:
            hint = " A key of the preset is given with its section, such as training.steps=100."
            raise UserError(
                f"{entry.name} has no parameter {key!r}; it has {', '.join(entry.parameters)}."
                f"{hint if 'overrides' in parameters else ''}"
            )
    if "overrides" in parameters:
        whole = parameters["overrides"] if parameters["overrides"] is not None else {}
        if not isinstance(whole, dict):
            raise UserError(f"--param overrides={whole} is no object of dotted keys to values.")
        parameters["overrides"] = {**whole, **dotted}
    return parameters


def fit_parameters(function: Callable[..., Any], parameters: Mapping[str, Any], given: list[str]) -> dict[str, Any]:
    """The parameters as the flow's function takes them: where it wants text, 2024 is the folder of that name.

    Raises:
        UserError: a value that the function does not take.
    """
    from pydantic import TypeAdapter, ValidationError  # not for who asks for --help or the list

    texts = {key: text for key, _, text in (item.partition("=") for item in given)}
    hints = get_type_hints(function)
    fitted = dict(parameters)
    for name, value in parameters.items():
        wanted: TypeAdapter[Any] = TypeAdapter(hints[name])
        try:
            wanted.validate_python(value)
        except ValidationError:
            try:
                fitted[name] = wanted.validate_python(texts.get(name, value))
            except ValidationError as error:
                why = " or ".join(dict.fromkeys(problem["msg"] for problem in error.errors()))
                raise UserError(f"--param {name}={texts.get(name, value)} cannot be used: {why}.") from error
    return fitted


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


if __name__ == "__main__":
    # As Python does with Ctrl+C: what runs below us ends with us. Left to itself SIGTERM ends the process on the spot.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
