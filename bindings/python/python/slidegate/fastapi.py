"""Dependency for FastAPI, and its documentation in OpenAPI."""

import json
from typing import Any, Dict, List, Optional

from fastapi import FastAPI, HTTPException, Request, Response, WebSocketException, routing
from fastapi.requests import HTTPConnection
from pydantic import BaseModel, ConfigDict, Field

from slidegate import _rule
from slidegate._errors import RateLimited
from slidegate._native import Decision
from slidegate._rule import Guard, Passed, merge
from slidegate.asgi import App, Receive, Scope, Send, peer_of, run

_STATE = "slidegate.passed"


class Problem(BaseModel):
    """The body of a denied request, ``application/problem+json``."""

    model_config = ConfigDict(populate_by_name=True)

    type: str = Field(description="identifies the problem")
    title: str
    status: int
    detail: str
    violated_policies: List[str] = Field(default_factory=list, alias="violated-policies")
    retry_after: Optional[int] = Field(default=None, description="seconds")
    trace_id: Optional[str] = None


class RateLimitExceeded(HTTPException):
    """A denied request, as an exception that FastAPI turns into a response."""

    def __init__(self, denied: RateLimited) -> None:
        super().__init__(denied.status, json.loads(denied.body), dict(denied.headers))
        #: What the response needs, with the decisions.
        self.denied = denied


class RateLimit(_rule.RateLimit):
    """A dependency that limits requests and WebSockets: ``Depends(RateLimit("5/minute"))``.

    The options are those of :class:`slidegate.RateLimit`, and those of header fields and bodies:
    ``ratelimit``, ``x_ratelimit``, ``retry_after`` and ``body``. As a parameter of the endpoint, it
    is the :class:`slidegate.Decision`.
    """

    def __init__(self, policy: Any, **options: Any) -> None:
        names = ("ratelimit", "x_ratelimit", "retry_after", "body")
        http = {name: options.pop(name) for name in names if name in options}
        super().__init__(policy, **options)
        self._guard = Guard(self, **http)

    async def __call__(self, request: HTTPConnection, response: Response) -> Optional[Decision]:
        """Checks the request. Raises :class:`RateLimitExceeded` if it is denied.

        A denied WebSocket is closed before its handshake, which is a response with status 403.
        """
        try:
            passed = await self._guard.check_async(_View(request))
        except RateLimited as denied:
            if request.scope["type"] == "websocket":
                raise WebSocketException(1008, "rate limited") from None
            raise RateLimitExceeded(denied) from None
        several: Optional[List[Passed]] = request.scope.get(_STATE)
        if several is not None:
            several.append(passed)
        elif passed.waits_for_status:
            raise RuntimeError("`count` needs the response: call slidegate.fastapi.install(app)")
        else:
            for name, value in merge(passed.headers, response.headers.keys()):
                response.headers[name] = value
        return passed.decisions[0] if passed.decisions else None


def install(app: FastAPI) -> None:
    """Completes the responses of an application whose routes have a :class:`RateLimit`.

    Denials become ``application/problem+json``, every response gets the header fields, also one
    that an endpoint creates itself, ``count`` works, and OpenAPI documents the 429.
    """
    app.add_exception_handler(RateLimitExceeded, _problem)
    app.add_middleware(_Fields)
    generate = app.openapi

    def openapi() -> Dict[str, Any]:
        return _documented(generate(), app)

    app.openapi = openapi  # type: ignore[method-assign]


def _documented(schema: Dict[str, Any], app: FastAPI) -> Dict[str, Any]:
    """Adds the 429 to every operation that has a :class:`RateLimit`."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    response = {
        "description": "Too many requests",
        "headers": {"Retry-After": {"schema": {"type": "integer"}, "description": "seconds"}},
        "content": content,
    }
    # Newer versions of FastAPI keep the routes of an included router in a tree.
    walk: Any = getattr(routing, "iter_route_contexts", iter)
    for route in walk(app.routes):
        dependant = getattr(route, "dependant", None)
        if dependant is None or not _is_limited(dependant):
            continue
        path = schema.get("paths", {}).get(route.path_format, {})
        for method in route.methods:
            if method.lower() in path:
                path[method.lower()]["responses"].setdefault("429", response)
                schemas = schema.setdefault("components", {}).setdefault("schemas", {})
                schemas.setdefault("Problem", Problem.model_json_schema())
    return schema


def _is_limited(dependant: Any) -> bool:
    return isinstance(dependant.call, RateLimit) or any(
        _is_limited(each) for each in dependant.dependencies
    )


class _View(_rule.View):
    def __init__(self, request: HTTPConnection) -> None:
        self.request = request
        self.peer = peer_of(request.scope)

    def fields(self, name: str) -> List[str]:
        return self.request.headers.getlist(name)  # type: ignore[no-any-return]


class _Fields:
    """Finishes the requests and adds the header fields when the response starts."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        several: List[Passed] = []
        scope[_STATE] = several
        await run(self.app, scope, receive, send, several)


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, RateLimitExceeded)
    denied = error.denied
    headers = dict(denied.headers)
    return Response(denied.body, denied.status, headers, media_type=denied.content_type)
