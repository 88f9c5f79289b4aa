"""Middleware for ASGI applications: Starlette, Litestar, FastAPI, Quart, and any other."""

from __future__ import annotations

import inspect
from typing import Any, Awaitable, Callable, List, MutableMapping, Optional, Sequence, Union

from slidegate._errors import RateLimited
from slidegate._rule import Guard, Passed, Rule, View, merge

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def peer_of(scope: Scope) -> Optional[str]:
    """Returns the peer of a :class:`View`."""
    client, server = scope.get("client"), scope.get("server")
    if client:
        return str(client[0])
    # A unix socket has a path and no port.
    return "" if server and server[1] is None else None


class Request(View):
    """A request as functions of rules see it: ``scope``, ``method``, ``path`` and header fields."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.request = self
        self.peer = peer_of(scope)

    @property
    def method(self) -> str:
        return str(self.scope.get("method", "GET"))

    @property
    def path(self) -> str:
        return str(self.scope["path"])

    def fields(self, name: str) -> List[str]:
        wanted = name.lower().encode("latin-1")
        return [value.decode("latin-1") for key, value in self.scope["headers"] if key == wanted]

    def header(self, name: str) -> Optional[str]:
        """Returns the value of a header field, or ``None`` if it is missing or repeated."""
        values = self.fields(name)
        return values[0] if len(values) == 1 else None


class RateLimitMiddleware:
    """Limits the requests and WebSocket handshakes of an ASGI application.

    ``rules`` is one rule or a list of rules: ``"100/minute"``, a :class:`slidegate.Limiter`, or a
    :class:`slidegate.RateLimit` with a key. A request takes from all of them or from none.
    ``on_denied(request, denied)`` returns another ASGI response.

    A policy such as ``"100/minute"`` gets a limiter of its own in each instance. Litestar creates one
    instance for every route: to share a limit, create the limiter or the rule once and pass it.
    """

    def __init__(
        self, app: App, rules: Union[Rule, Sequence[Rule]] = "100/minute", **options: Any
    ) -> None:
        self.app = app
        self._guard = Guard(rules, **options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        try:
            passed = await self._guard.check_async(request)
        except RateLimited as denied:
            await self._deny(request, denied, receive, send)
            return
        await run(self.app, scope, receive, send, [passed])

    async def _deny(
        self, request: Request, denied: RateLimited, receive: Receive, send: Send
    ) -> None:
        if request.scope["type"] == "websocket":
            # Before the handshake, the server turns this into a response with status 403.
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "rate limited"})
            return
        if self._guard.on_denied is not None:
            response = self._guard.on_denied(request, denied)
            if inspect.isawaitable(response):
                response = await response
            await response(request.scope, receive, send)
            return
        await send_denial(denied, send)


async def send_denial(denied: RateLimited, send: Send) -> None:
    """Sends the response of a denied request."""
    body = denied.body.encode()
    headers = [(name.encode(), value.encode("latin-1")) for name, value in denied.headers]
    headers.append((b"content-type", denied.content_type.encode()))
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": denied.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def run(
    app: App, scope: Scope, receive: Receive, send: Send, several: Sequence[Passed]
) -> None:
    """Runs an application. Its response finishes the requests and gets their header fields."""
    is_finished = False

    async def send_with_fields(message: Message) -> None:
        nonlocal is_finished
        status = None if is_finished else _status(message)
        if status is None:
            await send(message)
            return
        is_finished = True
        headers = list(message.get("headers", []))
        # The rules of a route come last and describe the request better.
        for passed in reversed(several):
            own = await passed.finish_async(status)
            present = [name.decode("latin-1") for name, _ in headers]
            for name, value in merge(own, present):
                headers.append((name.encode(), value.encode("latin-1")))
        if "status" in message:
            message["headers"] = headers
        await send(message)

    try:
        await app(scope, receive, send_with_fields)
    except Exception as error:
        if not is_finished:
            # Exceptions for responses, such as Starlette's `HTTPException`, have a status.
            status = getattr(error, "status_code", 500)
            for passed in several:
                await passed.finish_async(status if isinstance(status, int) else 500)
        raise


def _status(message: Message) -> Optional[int]:
    """Returns the status of a response that starts with this message."""
    if message["type"] in ("http.response.start", "websocket.http.response.start"):
        return int(message["status"])
    # What the server sends when a WebSocket is accepted, or closed before that.
    return {"websocket.accept": 101, "websocket.close": 403}.get(message["type"])
