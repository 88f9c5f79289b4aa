"""Transports for httpx that pace and retry."""

from __future__ import annotations

from typing import Optional

import httpx

from slidegate._pacer import PacedRequest, Pacer


class PacingTransport(httpx.BaseTransport):
    """Sends the requests of an ``httpx.Client`` when the server's quotas allow it.

    ``response.extensions["slidegate"]`` has the number of attempts.
    """

    def __init__(
        self, transport: Optional[httpx.BaseTransport] = None, *, pacer: Optional[Pacer] = None
    ) -> None:
        self._transport = httpx.HTTPTransport() if transport is None else transport
        self.pacer = Pacer() if pacer is None else pacer

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with self.pacer.request(str(request.url), request) as paced:
            while True:
                paced.ready()
                response = self._transport.handle_request(request)
                if not _again(paced, request, response):
                    return response
                response.close()

    def close(self) -> None:
        self._transport.close()


class AsyncPacingTransport(httpx.AsyncBaseTransport):
    """The same for an ``httpx.AsyncClient`` in an asyncio event loop."""

    def __init__(
        self,
        transport: Optional[httpx.AsyncBaseTransport] = None,
        *,
        pacer: Optional[Pacer] = None,
    ) -> None:
        self._transport = httpx.AsyncHTTPTransport() if transport is None else transport
        self.pacer = Pacer() if pacer is None else pacer

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        with self.pacer.request(str(request.url), request) as paced:
            while True:
                await paced.ready_async()
                response = await self._transport.handle_async_request(request)
                if not _again(paced, request, response):
                    return response
                await response.aclose()

    async def aclose(self) -> None:
        await self._transport.aclose()


def _again(paced: PacedRequest, request: httpx.Request, response: httpx.Response) -> bool:
    response.extensions["slidegate"] = {"attempts": paced.attempts}
    return paced.answered(
        response.status_code,
        response.headers.raw,
        method=request.method,
        has_idempotency_key="idempotency-key" in request.headers,
        # Other streams can be read once.
        is_repeatable=isinstance(request.stream, httpx.ByteStream),
    )
