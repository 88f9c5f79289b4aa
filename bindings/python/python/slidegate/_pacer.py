"""Pacing of outgoing requests: when each may be sent, and whether it is sent again."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Callable, Dict, Iterable, Optional, Set, Tuple, Union
from urllib.parse import urlsplit

from slidegate import _native
from slidegate._native import Ticket

#: Returns the scope of a request: a name, or a name and parts that are stored as a digest.
ScopeOf = Callable[[Any], Union[str, Tuple[str, ...]]]


class Pacer:
    """Paces and retries outgoing requests. Share one among all clients of the same servers.

    ``scope`` is a function of the request. Requests of one scope share the server's quotas: by
    default a host with its port. The options have the defaults of the Rust client:

    =================  ==========  =============================================================
    option             default     meaning
    =================  ==========  =============================================================
    pacing             ``True``    requests wait before an advertised quota is used up
    reserve_percent    5           share of a limit that is kept in reserve
    learn_first        1           seconds to wait for the first response of a new scope
    deadline           120         the longest total wait of a request, in seconds
    attempts_max       5           times a request is sent, the first included
    repeat_refused     ``True``    a 429 is retried with any method: it was not handled
    backoff_first      0.5         bound of the first random wait without a time of the server
    backoff_max        30          bound of all such waits
    budget_percent     10          retries as a share of the requests
    budget_floor       10          retries per minute that are always allowed
    scopes_max         256         scopes in memory
    waiters_max        1024        requests that wait at the same time
    =================  ==========  =============================================================
    """

    def __init__(self, *, scope: Optional[ScopeOf] = None, **options: Any) -> None:
        self._native = _native.Pacing(**options)
        self._scope = scope
        self._news = threading.Condition()
        self._version = 0
        self._sleepers: Set[Tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def stats(self) -> Dict[str, int]:
        """Returns counters: scopes, waiting, sent, retries, refusals, refused."""
        return dict(self._native.stats())

    def request(self, url: str, request: Any) -> PacedRequest:
        """Starts a request, which must be closed."""
        if self._scope is None:
            parts = urlsplit(url)
            port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
            scope: Union[str, Tuple[str, ...]] = f"{parts.hostname}:{port}"
        else:
            scope = self._scope(request)
        host, *rest = (scope,) if isinstance(scope, str) else scope
        return PacedRequest(self, self._native.begin(host, rest))

    def _wake(self) -> None:
        """Wakes requests that wait, if they should ask again."""
        if not self._native.take_news():
            return
        with self._news:
            self._version += 1
            self._news.notify_all()
            sleepers, self._sleepers = self._sleepers, set()
        for loop, event in sleepers:
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:
                pass  # The event loop is closed.


class PacedRequest:
    """A request that waits until it may be sent."""

    def __init__(self, pacer: Pacer, ticket: Ticket) -> None:
        self._pacer = pacer
        self._ticket = ticket

    @property
    def attempts(self) -> int:
        """How often the request was sent."""
        return self._ticket.attempts

    def __enter__(self) -> PacedRequest:
        return self

    def __exit__(self, *_: object) -> None:
        self._pacer._native.end(self._ticket)
        self._pacer._wake()

    def ready(self) -> None:
        """Waits until the request may be sent. Raises :class:`slidegate.PacingError`."""
        pacer = self._pacer
        while True:
            with pacer._news:
                version = pacer._version
            wait = pacer._native.ask(self._ticket)
            pacer._wake()
            if wait is None:
                return
            with pacer._news:
                pacer._news.wait_for(lambda: pacer._version != version, timeout=wait)

    async def ready_async(self) -> None:
        """The same in an event loop."""
        pacer, loop = self._pacer, asyncio.get_running_loop()
        while True:
            sleeper = (loop, asyncio.Event())
            with pacer._news:
                # Registered before the call, so that news in between are not missed.
                pacer._sleepers.add(sleeper)
            try:
                wait = pacer._native.ask(self._ticket)
                pacer._wake()
                if wait is None:
                    return
                try:
                    await asyncio.wait_for(sleeper[1].wait(), wait)
                except asyncio.TimeoutError:
                    pass
            finally:
                with pacer._news:
                    pacer._sleepers.discard(sleeper)

    def answered(
        self,
        status: int,
        fields: Iterable[Tuple[bytes, bytes]],
        *,
        method: str,
        has_idempotency_key: bool,
        is_repeatable: bool,
    ) -> bool:
        """Learns from a response. Returns whether to drop it and send the request again."""
        again = self._pacer._native.answer(
            self._ticket, status, list(fields), method, has_idempotency_key, is_repeatable
        )
        self._pacer._wake()
        return again
