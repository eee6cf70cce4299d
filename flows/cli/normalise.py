"""The verb `normalise`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.shared_options import Device, Knowledge
from infra.counted import counted


def normalise(
    input: Annotated[Path, typer.Option(metavar="FILE", help=".xlsx, .csv, .tsv or .txt")],
    output: Annotated[Path, typer.Option(metavar="FILE", help=".xlsx, .csv or .tsv")],
    review: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What is below the threshold, for you to fill in: .xlsx, .csv or .tsv (default: NAME.review.… beside "
            "the output).",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Confidence from 0 to 1 that a code needs (default: that of the index, or 0.5; 0 codes all).",
        ),
    ] = None,
    names: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Your own names of codes: a review file that you filled in, or a table with the columns text and "
            "choice.",
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder that normalise/chip-cdn or normalise/index printed (default: the newest one in YIWEN_HOME).",
        ),
    ] = None,
    column: Annotated[str | None, typer.Option(help="Name of the column of diagnoses (default: text or 诊断).")] = None,
    candidates: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Candidates to write for each diagnosis, best first (default: 10; 0 for none; at most K).",
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("--k", metavar="K", help="Candidates to rank for each diagnosis (default: as trained, or 100)."),
    ] = None,
    elasticsearch: Annotated[
        bool,
        typer.Option(
            "--elasticsearch",
            help="Find candidates on the server of ELASTICSEARCH_URL, in the same list that the normaliser was made "
            "from.",
        ),
    ] = False,
    alias: Annotated[
        str | None, typer.Option(metavar="NAME", help="Alias of the list on the server (default: icd10).")
    ] = None,
    every_text: Annotated[
        bool,
        typer.Option(
            "--every-text",
            help="Code every text; by default what is denied, doubted, a history or no diagnosis gets no code.",
        ),
    ] = False,
    encoder: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Find candidates by meaning too, with the encoder that normalise/encoder printed (default: that of "
            "an index that was built with one).",
        ),
    ] = None,
    by_characters: Annotated[
        bool, typer.Option("--by-characters", help="Find candidates by characters alone, whatever the index has.")
    ] = False,
    knowledge: Knowledge = None,
    device: Device = None,
) -> None:
    """Find standard terms for a file of diagnoses.

    The standard terms, their codes and scores are written beside every diagnosis of the file, with the candidates
    that were considered.
    """
    from tqdm import tqdm

    from infra.errors import UserError
    from tasks.normalise.files import SHOWN, normalise_file, open_normaliser

    if by_characters and encoder is not None:
        raise UserError("--by-characters and --encoder contradict each other. Give one of them.")
    review = review or output.with_name(f"{output.stem}.review{output.suffix}")
    normaliser = open_normaliser(
        model,
        k,
        device,
        elasticsearch,
        alias,
        reads=not every_text,
        threshold=threshold,
        names=names,
        knowledge=knowledge,
        encoder=False if by_characters else encoder,
    )
    print(f"Codes are those of {normaliser.source}", file=sys.stderr)
    with tqdm(unit="diagnosis", disable=None) as bar:
        summary = normalise_file(
            normaliser,
            input,
            output,
            column,
            lambda done: bar.update(done - bar.n),
            SHOWN if candidates is None else candidates,
            review,
        )
    print(f"{output}: {summary}")
    print(f"Diagnoses were read from the column {summary.column}", file=sys.stderr)
    if not summary.rows:
        print(f"warning: {input} has a header, but no rows below it, so nothing was normalised.", file=sys.stderr)
    if summary.finer:
        print(
            f"{counted(summary.finer, 'rows')} with a finer code than the answer: it is kept in the column "
            "written_code. "
            "A list with these codes would give them."
        )
    # A row with several parts has each of their statuses: 高血压，否认冠心病 is coded and negated.
    others = [
        f"{count:,} {name.replace('_', ' ')}" for name, count in sorted(summary.statuses.items()) if name != "coded"
    ]
    if others:
        print(f"Rows with parts that got no code: {', '.join(others)}")
    if summary.to_review:
        unsure = counted(summary.to_review, "texts")
        print(f"{review}: {unsure} to review. Fill in the column choice, and give it with --names.")
    if summary.without_value:
        first = ", ".join(summary.without_value[:5])
        print(
            f"{len(summary.without_value):,} cells have a formula without a stored value and count as empty: {first}. "
            "Open the file in a spreadsheet and save it."
        )
    if not normaliser.is_trained:
        print(
            "The list and the rules found these codes. Your own labelled diagnoses train a ranker: normalise/chip-cdn."
        )
