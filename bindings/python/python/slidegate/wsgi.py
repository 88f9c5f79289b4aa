"""Middleware for WSGI applications."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Union

from slidegate._errors import RateLimited
from slidegate._rule import Guard, Rule, View, merge

Environ = Dict[str, Any]


class Request(View):
    """A request as functions of rules see it: ``environ``, ``method``, ``path`` and header fields."""

    def __init__(self, environ: Environ) -> None:
        self.environ = environ
        self.request = self
        self.peer = environ.get("REMOTE_ADDR")

    @property
    def method(self) -> str:
        return str(self.environ["REQUEST_METHOD"])

    @property
    def path(self) -> str:
        return str(self.environ.get("PATH_INFO", ""))

    def fields(self, name: str) -> List[str]:
        # A WSGI server joins the lines of a repeated field by commas.
        value = self.environ.get("HTTP_" + name.upper().replace("-", "_"))
        return [] if value is None else [value]

    def header(self, name: str) -> Optional[str]:
        """Returns the value of a header field, or ``None`` if it is missing."""
        values = self.fields(name)
        return values[0] if values else None


class RateLimitMiddleware:
    """Limits the requests of a WSGI application.

    ``rules`` is one rule or a list of rules, as in :class:`slidegate.asgi.RateLimitMiddleware`.
    ``on_denied(request, denied)`` returns another WSGI application.
    """

    def __init__(
        self,
        app: Callable[..., Iterable[bytes]],
        rules: Union[Rule, Sequence[Rule]] = "100/minute",
        **options: Any,
    ) -> None:
        self.app = app
        self._guard = Guard(rules, **options)

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        request = Request(environ)
        try:
            passed = self._guard.check(request)
        except RateLimited as denied:
            if self._guard.on_denied is not None:
                response = self._guard.on_denied(request, denied)
                return response(environ, start_response)  # type: ignore[no-any-return]
            body = denied.body.encode()
            length = [("content-type", denied.content_type), ("content-length", str(len(body)))]
            phrase = HTTPStatus(denied.status).phrase
            start_response(f"{denied.status} {phrase}", [*denied.headers, *length])
            # Not all servers remove the body of a response to HEAD.
            return [] if request.method == "HEAD" else [body]

        is_finished = False

        def start(status: str, headers: List[Any], *rest: Any) -> Any:
            nonlocal is_finished
            is_finished = True
            own = passed.finish(int(status.split(" ", 1)[0]))
            return start_response(
                status, [*headers, *merge(own, (name for name, _ in headers))], *rest
            )

        def fail() -> None:
            if not is_finished:
                passed.finish(500)

        try:
            parts = self.app(environ, start)
            # A generator calls `start` with its first part. Other bodies are returned as they are,
            # for `wsgi.file_wrapper`.
            return parts if is_finished else _Body(parts, fail)
        except Exception:
            fail()
            raise


class _Body:
    """A body that calls a function if it fails."""

    def __init__(self, parts: Iterable[bytes], fail: Callable[[], None]) -> None:
        self._parts = parts
        self._next = iter(parts)
        self._fail = fail

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._next)
        except StopIteration:
            raise
        except Exception:
            self._fail()
            raise

    def close(self) -> None:
        close = getattr(self._parts, "close", None)
        if close is not None:
            close()
