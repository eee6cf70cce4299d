"""The endpoints. Bodies are read and checked here; the work is done in the workers behind the lanes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import jinja2
from fastapi import FastAPI, Request, Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from flows.service import forms
from flows.service.answers import to_bytes
from flows.service.engines import DEIDENTIFY, LINK, NORMALISE, PREDICT, EngineSpec, Opened
from flows.service.guard import GoneError, Guard, Receive, RefusedError, Scope, Send, read_body, refuse
from flows.service.lane import BusyError, Lane, TooSlowError
from flows.service.metrics import Metrics
from flows.service.settings import Limits, ServiceSettings
from flows.service.worker import Failure, ProcessWorker, Worker
from infra.counted import counted
from infra.version import VERSION

WEB = Path(__file__).parent / "web"
_PAGE_FILES = {"/page.css": "text/css; charset=utf-8", "/page.js": "text/javascript; charset=utf-8"}

MOST_OF_DIAGNOSIS = 1_000
"""Characters of a diagnosis that the normaliser reads (tasks/normalise/reading/statements.py)."""

F = TypeVar("F", bound=forms.Form)
T = TypeVar("T")


class Service:
    """Lanes by the name of their engine, and the state that /health reports."""

    def __init__(self, settings: ServiceSettings, make: Callable[[EngineSpec], Worker] = ProcessWorker) -> None:
        """Prepare the service; `make` returns the worker of an engine."""
        self.settings = settings
        self.metrics = Metrics()
        self.is_draining = False
        self.lanes: dict[str, Lane] = {
            spec.name: Lane(spec.name, make(spec), settings.limits, self.metrics.events_of(spec.name))
            for spec in specs_of(settings)
        }

    async def start(self) -> None:
        """Open all engines at once. Raises `UserError` for the first that cannot be opened, and ends the others."""
        try:
            async with asyncio.TaskGroup() as group:
                for lane in self.lanes.values():
                    group.create_task(lane.start())
        except BaseExceptionGroup as error:
            await self.stop()
            raise error.exceptions[0] from None

    async def stop(self) -> None:
        """End all workers."""
        for lane in self.lanes.values():
            await lane.stop()

    @property
    def is_ready(self) -> bool:
        """True if all engines answer and no end is near."""
        return not self.is_draining and all(lane.ready for lane in self.lanes.values())

    def health(self) -> forms.Health:
        """Return the state of all engines."""
        limits = self.settings.limits
        return forms.Health(
            alive=True,
            ready=self.is_ready,
            version=VERSION,
            limits=forms.HealthLimits(
                body_bytes=limits.body_bytes,
                texts=limits.texts,
                characters=limits.characters,
                diagnosis_characters=min(limits.characters, MOST_OF_DIAGNOSIS),
            ),
            engines=[
                forms.EngineHealth(
                    name=lane.name,
                    kind=lane.name.partition("/")[0],
                    ready=lane.ready,
                    fingerprint=opened.fingerprint,
                    artifact=opened.artifact,
                    about=dict(opened.about),
                    waiting=lane.waiting_texts,
                    restarts=lane.restarts,
                )
                for lane in self.lanes.values()
                if (opened := lane.opened) is not None
            ],
        )


def specs_of(settings: ServiceSettings) -> list[EngineSpec]:
    """Return what the settings ask for."""
    specs = [
        EngineSpec(PREDICT, f"{PREDICT}/{name}", folder, settings.device, settings.together)
        for name, folder in settings.models.items()
    ]
    if settings.normaliser:
        specs.append(EngineSpec(NORMALISE, NORMALISE, settings.normaliser, settings.device))
    if settings.linker:
        specs.append(EngineSpec(LINK, LINK, settings.linker))
    if settings.deidentify:
        specs.append(
            EngineSpec(DEIDENTIFY, DEIDENTIFY, profile=settings.profile, rules=settings.rules, encoder=settings.encoder)
        )
    return specs


def create_app(service: Service, *, starts: bool = True) -> Guard:
    """Return the service as an ASGI application.

    Args:
        starts: True: engines are opened when the application starts, and ended with it.
    """

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        if starts:
            await service.start()
        try:
            yield
        finally:
            await service.stop()

    app = FastAPI(
        title="Yiwen",
        version=VERSION,
        description="Standard terms for diagnoses, answers of fine-tuned models, entities and de-identification.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would repeat the host that a client made up
        lifespan=life,
    )
    _add_engines(app, service)
    _add_pages(app, service)
    _add_state(app, service)
    app.add_exception_handler(RefusedError, _refused)
    app.add_exception_handler(GoneError, _gone)
    app.add_exception_handler(HTTPException, _not_found)
    app.add_exception_handler(Exception, _failed)
    return Guard(app, service.settings, service.metrics, app.routes)


def _add_engines(app: FastAPI, service: Service) -> None:
    limits = service.settings.limits

    @app.post("/normalise", **_described(forms.DiagnosesRequest, forms.NormaliseResponse))
    async def normalise(request: Request) -> Response:
        """Standard terms, codes, confidence and reasons for diagnoses."""
        lane = _lane(service, NORMALISE, "--normaliser DIR")
        asked = await _form(request, forms.DiagnosesRequest, limits)
        _check_texts(asked.texts, limits.texts, min(limits.characters, MOST_OF_DIAGNOSIS))
        items = [(text, asked.candidates) for text in asked.texts]
        opened, answers = await _answers(request, lane, items, list(map(len, asked.texts)), limits)
        return _json(answers, fingerprint=opened.fingerprint, threshold=opened.about["threshold"])

    @app.post("/predict/{name}", **_described(forms.RecordsRequest, forms.PredictResponse))
    async def predict(request: Request, name: str) -> Response:
        """Answers of a fine-tuned model, by the name it was served under."""
        lane = _lane(service, f"{PREDICT}/{name}", "--model NAME=DIR")
        asked = await _form(request, forms.RecordsRequest, limits)
        records = [[record] if isinstance(record, str) else record for record in asked.texts]
        _check_count(len(records), limits.texts)
        assert lane.opened is not None, "a lane is found after its start"
        _check_records(records, lane.opened, limits)
        sizes = [_size(record, lane.opened) for record in records]
        opened, answers = await _answers(request, lane, asked.texts, sizes, limits)
        about = opened.about
        return _json(answers, model=name, fingerprint=opened.fingerprint, task=about["task"], labels=about["labels"])

    @app.post("/link", **_described(forms.TextsRequest, forms.LinkResponse))
    async def link(request: Request) -> Response:
        """Names of a knowledge graph's entities in texts."""
        lane = _lane(service, LINK, "--linker DIR")
        asked = await _form(request, forms.TextsRequest, limits)
        _check_texts(asked.texts, limits.texts, limits.characters)
        opened, answers = await _answers(request, lane, asked.texts, list(map(len, asked.texts)), limits)
        return _json(answers, fingerprint=opened.fingerprint)

    @app.post("/deidentify", **_described(forms.DeidentifyRequest, forms.DeidentifyResponse))
    async def deidentify(request: Request) -> Response:
        """Texts with the identifiers of persons replaced. No rule finds them all."""
        lane = _lane(service, DEIDENTIFY, "--deidentify")
        asked = await _form(request, forms.DeidentifyRequest, limits)
        _check_texts(asked.texts, limits.texts, limits.characters)
        items = [(text, asked.explain) for text in asked.texts]
        opened, answers = await _answers(request, lane, items, list(map(len, asked.texts)), limits)
        return _json(answers, fingerprint=opened.fingerprint)


def _add_pages(app: FastAPI, service: Service) -> None:
    page = (WEB / "index.html").read_bytes()
    files = {path: (WEB / path[1:]).read_bytes() for path in _PAGE_FILES}

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def index() -> Response:
        return Response(page, media_type="text/html; charset=utf-8")

    def add(path: str) -> None:
        @app.api_route(path, methods=["GET", "HEAD"], include_in_schema=False)
        async def file() -> Response:
            return Response(files[path], media_type=_PAGE_FILES[path])

    for path in _PAGE_FILES:
        add(path)

    @app.api_route("/docs", methods=["GET", "HEAD"], include_in_schema=False)
    async def docs() -> Response:
        return Response(_docs_page(app.openapi()), media_type="text/html; charset=utf-8")


def _add_state(app: FastAPI, service: Service) -> None:
    @app.api_route("/health", methods=["GET", "HEAD"], include_in_schema=False)
    async def health() -> Response:
        state = service.health()
        return Response(state.model_dump_json(), 200 if state.ready else 503, media_type="application/json")

    @app.api_route("/health/alive", methods=["GET", "HEAD"], include_in_schema=False)
    async def alive() -> Response:
        return Response('{"alive":true}', media_type="application/json")

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(service.metrics.page(service.lanes.values()), media_type=service.metrics.content_type)


def _described(request: type[forms.Form], response: type[forms.Form]) -> dict[str, Any]:
    """Return what OpenAPI says of an endpoint. FastAPI itself would read a body before its length is known."""
    schema = request.model_json_schema(ref_template="#/components/schemas/{model}")
    statuses = {
        400: "no JSON", 401: "no key", 404: "not offered", 408: "body too slow", 413: "body too long",
        415: "no JSON", 422: "unusable", 500: "failed", 503: "busy; see Retry-After", 504: "too slow",
    }  # fmt: skip
    return {
        "response_model": None,
        "openapi_extra": {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}},
        "responses": {
            200: {"model": response},
            **{status: {"model": forms.ErrorResponse, "description": why} for status, why in statuses.items()},
        },
    }


def _lane(service: Service, name: str, option: str) -> Lane:
    lane = service.lanes.get(name)
    if lane is None or lane.opened is None:
        known = ", ".join(f"/{one}" for one in service.lanes)
        raise RefusedError(404, "not_offered", f"Not offered here; start with {option}. Offered: {known}.", close=True)
    return lane


async def _form(request: Request, form: type[F], limits: Limits) -> F:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # other types could be sent by any page that a browser shows
        raise RefusedError(415, "no_json", "Send JSON in UTF-8 with Content-Type: application/json.", close=True)
    body = await read_body(request.scope, request.receive, limits.body_bytes, limits.body_seconds)
    try:
        return form.model_validate_json(body)
    except ValidationError as error:
        problems = forms.problems_of(error, form)
        if error.errors(include_url=False, include_input=False)[0]["type"] == "json_invalid":
            raise RefusedError(400, "no_json", problems[0]["message"]) from None
        raise _unusable("The body is JSON, but not as /docs says.", problems) from None


def _unusable(message: str, problems: Sequence[Mapping[str, Any]]) -> RefusedError:
    return RefusedError(422, "unusable", message, problems=problems)


def _check_count(count: int, most: int) -> None:
    if count > most:
        where = {"where": ["texts"], "message": counted(count, "texts")}
        raise _unusable(f"A request may have {most:,} texts; send several requests.", [where])


def _check_texts(texts: Sequence[str], most: int, longest: int) -> None:
    _check_count(len(texts), most)
    for number, text in enumerate(texts):
        if len(text) > longest:
            where = {"where": ["texts", number], "message": f"{len(text):,} characters"}
            raise _unusable(f"A text may have {longest:,} characters here.", [where])


def _check_records(records: Sequence[Sequence[str]], opened: Opened, limits: Limits) -> None:
    wanted = opened.about["texts_per_record"]
    for number, record in enumerate(records):
        if len(record) != wanted if wanted is not None else len(record) < 3:
            takes = "evidence, question and options" if wanted is None else counted(wanted, "texts")
            where = {"where": ["texts", number], "message": counted(len(record), "texts")}
            raise _unusable(f"A record of {opened.about['task']} has {takes}.", [where])
        if len(record) > limits.record_texts:
            where = {"where": ["texts", number], "message": counted(len(record), "texts")}
            raise _unusable(f"A record may have {limits.record_texts:,} texts.", [where])
        if sum(map(len, record)) > limits.characters:
            where = {"where": ["texts", number], "message": f"{sum(map(len, record)):,} characters"}
            raise _unusable(f"A record may have {limits.characters:,} characters.", [where])


def _size(record: Sequence[str], opened: Opened) -> int:
    """Return the characters that a model reads of a record: evidence and question again for each of its options."""
    if opened.about["texts_per_record"] is not None:
        return sum(map(len, record))
    evidence, question, *options = map(len, record)
    return (evidence + question) * len(options) + sum(options)


async def _answers(
    request: Request, lane: Lane, items: Sequence[Any], sizes: Sequence[int], limits: Limits
) -> tuple[Opened, list[bytes]]:
    try:
        outcomes = await _while_wanted(request, lane.answers(items, sizes), limits.seconds)
    except BusyError as error:
        wait = str(error.retry_after).encode()
        raise RefusedError(
            503, "busy", f"Too much waits; try again in {error.retry_after} s.", headers=[(b"retry-after", wait)]
        ) from None
    except (TooSlowError, TimeoutError):
        raise RefusedError(504, "too_slow", "It took too long and was given up; send fewer or shorter texts.") from None
    answers: list[bytes] = []
    for number, outcome in enumerate(outcomes):
        if isinstance(outcome, Failure):
            where = {"where": ["texts", number], "message": outcome.message}
            if outcome.is_users:
                raise _unusable("A text cannot be answered.", [where])
            raise RefusedError(500, "failed", "A text could not be answered.", problems=[where])
        answers.append(outcome)
    assert lane.opened is not None
    return lane.opened, answers


async def _while_wanted(request: Request, work: Coroutine[Any, Any, T], seconds: float) -> T:
    """Return the result of some work. It is cancelled when the client leaves or time is up.

    Raises:
        GoneError: the client left.
        TimeoutError: time is up.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_left(request.receive))
    try:
        await asyncio.wait({working, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        if leaving.done():
            raise GoneError
        raise TimeoutError
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _json(answers: Sequence[bytes], **fields: Any) -> Response:
    head = to_bytes(fields)[:-1]
    return Response(head + b',"answers":[' + b",".join(answers) + b"]}", media_type="application/json")


class _Refusal(Response):
    def __init__(self, error: RefusedError) -> None:
        super().__init__(status_code=error.status)
        self._error = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await refuse(self._error, receive, send)


class _Nothing(Response):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send nothing: nobody listens."""


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return _Refusal(error)


async def _gone(request: Request, error: Exception) -> Response:
    return _Nothing()


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = {404: "There is no such address; see /docs.", 405: "This address takes another method; see /docs."}
    headers = [(name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items()]
    word = {404: "not_found", 405: "method"}.get(error.status_code, "refused")
    told = message.get(error.status_code, "Refused.")
    return _Refusal(RefusedError(error.status_code, word, told, headers=headers, close=True))


async def _failed(request: Request, error: Exception) -> Response:
    return _Refusal(RefusedError(500, "failed", "The service failed; its log says where.", close=True))


def _docs_page(schema: Mapping[str, Any]) -> str:
    """Return a plain page about the endpoints, which needs no network."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    schemas = schema["components"]["schemas"]
    endpoints = []
    for path, methods in schema["paths"].items():
        for method, one in methods.items():
            answer = one["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            endpoints.append(
                {
                    "method": method.upper(),
                    "path": path,
                    "about": one["description"],
                    "request": one["requestBody"]["content"]["application/json"]["schema"],
                    "answer": answer,
                    "errors": {code: told["description"] for code, told in one["responses"].items() if code != "200"},
                }
            )
    template = environment.from_string((WEB / "docs.html.j2").read_text(encoding="utf-8"))
    return template.render(
        title=schema["info"]["title"], version=VERSION, endpoints=endpoints, schemas=schemas, type_of=_type_of
    )


def _type_of(field: Mapping[str, Any]) -> str:
    """Return the type of a field in words: `list of string`."""
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "anyOf" in field:
        return " or ".join(_type_of(one) for one in field["anyOf"])
    if field.get("type") == "array":
        return f"list of {_type_of(field.get('items', {}))}"
    return str(field.get("type", "any"))
