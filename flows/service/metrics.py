"""Figures for Prometheus. Labels are names of endpoints and engines, never parts of a request."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

from flows.service.lane import Lane, LaneEvents

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counters of one service, in a registry of their own."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        own = self.registry
        self.requests = Counter(
            "yiwen_requests", "Requests by endpoint and status.", ("endpoint", "status"), registry=own
        )
        self.seconds = Histogram(
            "yiwen_request_seconds",
            "Time from a request's headers to its answer.",
            ("endpoint",),
            buckets=_SECONDS,
            registry=own,
        )
        self.texts = Counter("yiwen_texts", "Texts answered.", ("engine",), registry=own)
        self.characters = Counter("yiwen_characters", "Characters of these texts.", ("engine",), registry=own)
        self.batch_texts = Histogram(
            "yiwen_batch_texts", "Texts of a batch.", ("engine",), buckets=(1, 2, 4, 8, 16, 32, 64), registry=own
        )
        self.batch_seconds = Histogram(
            "yiwen_batch_seconds", "Time for a batch.", ("engine",), buckets=_SECONDS, registry=own
        )
        self.restarts = Counter(
            "yiwen_restarts", "Starts of an engine's process after the first.", ("engine",), registry=own
        )
        self.refused = Counter(
            "yiwen_refused", "Requests refused because the queue was full.", ("engine",), registry=own
        )
        self.waiting = Gauge("yiwen_waiting_texts", "Texts that wait.", ("engine",), registry=own)
        self.ready = Gauge("yiwen_ready", "1 if the engine answers.", ("engine",), registry=own)

    def events_of(self, engine: str) -> LaneEvents:
        """Return what a lane calls."""

        def batch(texts: int, characters: int, seconds: float) -> None:
            self.texts.labels(engine).inc(texts)
            self.characters.labels(engine).inc(characters)
            self.batch_texts.labels(engine).observe(texts)
            self.batch_seconds.labels(engine).observe(seconds)

        return LaneEvents(batch, self.restarts.labels(engine).inc)

    def page(self, lanes: Iterable[Lane]) -> bytes:
        """Return all figures in Prometheus's text format."""
        for lane in lanes:
            self.waiting.labels(lane.name).set(lane.waiting_texts)
            self.ready.labels(lane.name).set(lane.ready)
        return generate_latest(self.registry)
