"""Middleware and decorator for Django, synchronous and asynchronous."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Dict, List, Sequence, TypeVar, Union, cast

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from slidegate._errors import RateLimited
from slidegate._rule import Guard, Rule, View, merge
from slidegate.asgi import peer_of

F = TypeVar("F", bound=Callable[..., Any])


class _View(View):
    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.peer = request.META.get("REMOTE_ADDR")
        if self.peer is None and hasattr(request, "scope"):
            self.peer = peer_of(request.scope)

    def fields(self, name: str) -> List[str]:
        value = self.request.headers.get(name)
        return [] if value is None else [value]


@sync_and_async_middleware  # type: ignore[untyped-decorator]
def RateLimitMiddleware(get_response: Callable[[HttpRequest], Any]) -> Callable[..., Any]:
    """Limits every request by ``settings.SLIDEGATE``: ``{"rules": ..., "body": ...}``."""
    return _limited(get_response, Guard(settings.SLIDEGATE["rules"], **_options()))


def rate_limit(rules: Union[Rule, Sequence[Rule]], **options: Any) -> Callable[[F], F]:
    """Limits one view, in addition to the middleware, with the same options by default."""
    guard = Guard(rules, **{**_options(), **options})

    def decorate(view: F) -> F:
        return cast(F, functools.wraps(view)(_limited(view, guard)))

    return decorate


def _limited(inner: Callable[..., Any], guard: Guard) -> Callable[..., Any]:
    if _is_async(inner):

        async def limited_async(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            try:
                passed = await guard.check_async(_View(request))
            except RateLimited as denied:
                denial = _denial(guard, request, denied)
                return await denial if inspect.isawaitable(denial) else denial
            try:
                response = await inner(request, *args, **kwargs)
            except Exception as error:
                await passed.finish_async(_status(error))
                raise
            return _with(response, await passed.finish_async(response.status_code))

        return limited_async

    def limited(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        try:
            passed = guard.check(_View(request))
        except RateLimited as denied:
            return _denial(guard, request, denied)
        try:
            response = inner(request, *args, **kwargs)
        except Exception as error:
            passed.finish(_status(error))
            raise
        return _with(response, passed.finish(response.status_code))

    return limited


def _is_async(view: Callable[..., Any]) -> bool:
    # Before Python 3.12, only asgiref knows the mark that Django puts on views of classes.
    if iscoroutinefunction(view):
        return True
    # `method_decorator` passes a partial function of a method. `dispatch` of an asynchronous class
    # returns a coroutine.
    owner = getattr(getattr(view, "func", view), "__self__", None)
    return getattr(owner, "view_is_async", False) is True


def _options() -> Dict[str, Any]:
    configured = getattr(settings, "SLIDEGATE", {})
    return {name: value for name, value in configured.items() if name != "rules"}


def _status(error: Exception) -> int:
    """Returns the status of the response that Django makes of an exception."""
    if isinstance(error, Http404):
        return 404
    if isinstance(error, PermissionDenied):
        return 403
    is_bad = isinstance(error, (BadRequest, SuspiciousOperation, MultiPartParserError))
    return 400 if is_bad else 500


def _denial(guard: Guard, request: HttpRequest, denied: RateLimited) -> HttpResponseBase:
    if guard.on_denied is not None:
        return cast(HttpResponseBase, guard.on_denied(request, denied))
    return _with(
        HttpResponse(denied.body, status=denied.status, content_type=denied.content_type),
        denied.headers,
    )


def _with(response: HttpResponseBase, headers: List[Any]) -> HttpResponseBase:
    for name, value in merge(headers, [name for name, _ in response.items()]):
        response[name] = value
    return response
