"""The verb `serve`: normalisation, models, linking and de-identification over HTTP, with a page of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from infra.errors import UserError


def serve(
    normaliser: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder that normalise/chip-cdn or normalise/index printed.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=DIR", help="A fine-tuned model, as /predict/NAME (may be given again)."),
    ] = None,
    linker: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder with entities, as knowledge/fuse printed it.")
    ] = None,
    deidentify: Annotated[bool, typer.Option("--deidentify", help="Offer de-identification.")] = False,
    profile: Annotated[
        str, typer.Option(metavar="NAME", help="Profile of de-identification: minimal, hipaa or gbt35273.")
    ] = "minimal",
    rules: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML file with your own rules of de-identification.")
    ] = None,
    encoder: Annotated[
        bool,
        typer.Option("--encoder", help="Let a larger encoder read again wherever names may be: more is found, slowly."),
    ] = False,
    host: Annotated[str, typer.Option(metavar="HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", help="Port to listen on; 0 for any that is free.")] = 8765,
    without_key: Annotated[
        bool, typer.Option("--without-key", help="Listen beyond this machine though YIWEN_API_KEY is not set.")
    ] = False,
    device: Annotated[
        str | None, typer.Option(metavar="cpu|cuda", help="Where models compute (default: a GPU if there is one).")
    ] = None,
    together: Annotated[
        bool,
        typer.Option(
            "--together",
            help="Models compute the records that wait together: faster, but what else is asked changes the seventh "
            "digit of scores.",
        ),
    ] = False,
    max_body: Annotated[int | None, typer.Option(metavar="BYTES", help="Bytes of a request (default: 4 MiB).")] = None,
    max_texts: Annotated[int | None, typer.Option(metavar="N", help="Texts of a request (default: 256).")] = None,
    max_characters: Annotated[
        int | None, typer.Option(metavar="N", help="Characters of a text (default: 20,000).")
    ] = None,
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", help="Time for an answer (default: 60).")] = None,
    log_requests: Annotated[
        bool, typer.Option("--log-requests", help="Log a line per request: endpoint, status and time, never a text.")
    ] = False,
) -> int:
    """Serve a normaliser, models and de-identification over HTTP.

    The service has a page at / and describes its endpoints at /docs. It listens on this machine only. Beyond it, set
    YIWEN_API_KEY to a secret, which every request but /health then needs.

    Examples:
      python -m flows serve --deidentify
      python -m flows serve --normaliser artifacts/normaliser/ab12cd --model cmeee=artifacts/finetune/34ef/model
      YIWEN_API_KEY=$(openssl rand -hex 24) python -m flows serve --linker artifacts/fuse_graphs/56ab --host 0.0.0.0
    """
    from flows.service.running import serve as run_service
    from flows.service.settings import Limits, ServiceSettings, key_from_environment

    if device not in (None, "cpu", "cuda"):
        raise UserError(f"--device {device}: there are cpu and cuda.")
    given = {"body_bytes": max_body, "texts": max_texts, "characters": max_characters, "seconds": timeout}
    changed = {name: value for name, value in given.items() if value is not None}
    for name, value in changed.items():
        if value <= 0:
            raise UserError(f"{_OPTIONS[name]} {value:g}: give a number above 0.")
    limits = Limits(**changed)  # type: ignore[arg-type]
    if timeout is not None:
        limits = dataclasses.replace(limits, work_seconds=min(limits.work_seconds, timeout))
    return run_service(
        ServiceSettings(
            normaliser=normaliser,
            models=_models(model or ()),
            linker=linker,
            deidentify=deidentify,
            profile=profile,
            rules=rules,
            encoder=encoder,
            host=host,
            port=port,
            without_key=without_key,
            device=device,
            together=together,
            key=key_from_environment(),
            log_requests=log_requests,
            limits=limits,
        ),
        lambda line: print(line, flush=True),
    )


_OPTIONS = {
    "body_bytes": "--max-body", "texts": "--max-texts", "characters": "--max-characters", "seconds": "--timeout",
}  # fmt: skip


def _models(given: Sequence[str]) -> dict[str, Path]:
    """Return folders by name.

    Raises:
        UserError: one is not of the form NAME=DIR, or a name is given twice.
    """
    found: dict[str, Path] = {}
    for one in given:
        name, equals, folder = one.partition("=")
        if not (name and equals and folder):
            raise UserError(
                f"--model {one} is not of the form NAME=DIR, such as --model cmeee=artifacts/finetune/34ef/model."
            )
        if name in found:
            raise UserError(f"--model {name}=… is given twice. Give each model a name of its own.")
        found[name] = Path(folder)
    return found
