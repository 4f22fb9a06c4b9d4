"""The page's server: its files, the data behind it, and `/metrics`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from evenflow.dashboard import series
from evenflow.dashboard.access import Access
from evenflow.dashboard.consumers import lag_families
from evenflow.dashboard.history import QueryHistory, sentence_of
from evenflow.dashboard.overview import batch_of, overview_of
from evenflow.dashboard.sources import Sources
from evenflow.metrics.prometheus import CONTENT_TYPE, exposition
from evenflow.model.errors import EvenflowError

STATIC = files("evenflow.dashboard") / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PAUSE = 0.25  # seconds between two looks for a change
_SILENCE = 15.0  # seconds, after which a comment keeps the connection open


def build_app(sources: Sources) -> FastAPI:
    """The application without its guard: wrap it in `guarded`.

    Parameters:
        sources: what the page watches.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    def query(number: int) -> QueryHistory:
        if not 0 <= number < len(sources.queries):
            raise HTTPException(404, f"There is no query {number} on this page.")
        return sources.queries[number]

    @app.exception_handler(HTTPException)
    async def say_http(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": error.detail}, error.status_code)

    @app.exception_handler(EvenflowError)
    async def say(_: Request, error: EvenflowError) -> JSONResponse:
        return JSONResponse({"error": sentence_of(error)}, 422)

    @app.get("/")
    def page() -> Response:
        return _file("index.html")

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        return _file(name)

    @app.get("/api/overview")
    def overview() -> dict[str, Any]:
        return overview_of(sources)

    @app.get("/api/updates")
    async def updates(request: Request) -> StreamingResponse:
        return StreamingResponse(_updates(sources, request), media_type="text/event-stream")

    @app.get("/api/queries/{number}/series")
    def batches(
        number: int, begin: float | None = None, end: float | None = None, points: int = 600
    ) -> dict[str, Any]:
        found = series.select(query(number).summaries(), begin, end)
        return {**series.columns_of(found, points), **series.events_of(found)}

    @app.get("/api/queries/{number}/batches/{batch}")
    def one_batch(number: int, batch: int) -> dict[str, Any]:
        found = batch_of(query(number), batch)
        if found is None:
            raise HTTPException(404, f"Nothing is known of batch {batch}.")
        return found

    @app.get("/api/queries/{number}/what-if")
    def what_if(
        number: int, scheme: str, partitions: int, theta: float | None = None
    ) -> dict[str, Any]:
        from evenflow.dashboard.what_if import answer

        return answer(query(number), scheme, partitions, theta)

    @app.get("/api/consumers/{number}")
    def consumers(number: int) -> dict[str, Any]:
        if not 0 <= number < len(sources.consumers):
            raise HTTPException(404, f"There is no consumer group {number} on this page.")
        return sources.consumers[number].to_json()

    @app.get("/api/fleet")
    def fleet() -> dict[str, Any]:
        if sources.fleet is None:
            raise HTTPException(404, "There is no fleet on this page.")
        return sources.fleet.to_json()

    @app.get("/metrics")
    def metrics() -> Response:
        counters = [one.counters for one in sources.queries]
        found = exposition(counters, lag_families(sources.consumers))
        return Response(found, media_type=CONTENT_TYPE)

    return app


def guarded(sources: Sources, token: str, port: int, hosts: tuple[str, ...] = ()) -> Access:
    """The application behind its guard.

    Parameters:
        sources: what the page watches.
        token: that every request must have.
        port: of the server.
        hosts: names that it answers under, besides localhost and plain addresses.
    """
    return Access(build_app(sources), token, port, hosts)  # type: ignore[arg-type]


def _file(name: str) -> Response:
    found = STATIC / name
    suffix = name[name.rfind(".") :] if "." in name else ""
    if "/" in name or "\\" in name or suffix not in _TYPES or not found.is_file():
        raise HTTPException(404, "The page has no such file.")
    return Response(found.read_bytes(), media_type=_TYPES[suffix])


async def _updates(sources: Sources, request: Request) -> AsyncIterator[str]:
    """An overview whenever something has changed, as server-sent events."""
    sent, last = -1, time.monotonic()
    while not sources.stopped and not await request.is_disconnected():
        version = sources.version
        if version != sent:
            text = json.dumps(await asyncio.to_thread(overview_of, sources), allow_nan=False)
            yield f"data: {text}\n\n"
            sent, last = version, time.monotonic()
        elif time.monotonic() - last > _SILENCE:
            yield ": still here\n\n"
            last = time.monotonic()
        await asyncio.sleep(_PAUSE)
