"""Adapter for requests that paces and retries."""

from __future__ import annotations

from typing import Any, Optional

import requests
from requests.adapters import HTTPAdapter

from slidegate._pacer import Pacer


class PacingAdapter(HTTPAdapter):
    """Sends the requests of a session when the server's quotas allow it.

    ``session.mount("https://", PacingAdapter())``. ``response.attempts`` is the number of attempts.
    """

    def __init__(self, *, pacer: Optional[Pacer] = None, **options: Any) -> None:
        super().__init__(**options)
        self.pacer = Pacer() if pacer is None else pacer

    def send(
        self, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> requests.Response:
        with self.pacer.request(str(request.url), request) as paced:
            while True:
                paced.ready()
                response = super().send(request, *args, **kwargs)
                response.attempts = paced.attempts  # type: ignore[attr-defined]
                again = paced.answered(
                    response.status_code,
                    # urllib3 keeps several lines of one field.
                    [
                        (name.encode("latin-1"), value.encode("latin-1"))
                        for name, value in response.raw.headers.items()
                    ],
                    method=str(request.method),
                    has_idempotency_key="idempotency-key" in request.headers,
                    # Files and generators can be read once.
                    is_repeatable=request.body is None or isinstance(request.body, (bytes, str)),
                )
                if not again:
                    return response
                response.close()
