"""Extension for Flask."""

from __future__ import annotations

import functools
from typing import Any, Callable, List, Optional, Sequence, TypeVar, Union, cast

import flask

from slidegate._errors import RateLimited
from slidegate._rule import Guard, Passed, Rule, View, merge

F = TypeVar("F", bound=Callable[..., Any])


class _View(View):
    def __init__(self, request: flask.Request) -> None:
        self.request = request
        self.peer = request.remote_addr

    def fields(self, name: str) -> List[str]:
        return self.request.headers.getlist(name)  # type: ignore[no-any-return]


class RateLimiter:
    """Limits the requests of a Flask application, and of single views with :meth:`limit`.

    ``rules`` apply to every request: ``"100/minute"``, a :class:`slidegate.RateLimit`, or a list.
    ``on_denied(request, denied)`` returns another response.
    """

    def __init__(
        self,
        app: Optional[flask.Flask] = None,
        rules: Union[Rule, Sequence[Rule], None] = None,
        **options: Any,
    ) -> None:
        self._guard = None if rules is None else Guard(rules, **options)
        self._options = options
        if app is not None:
            self.init_app(app)

    def init_app(self, app: flask.Flask) -> None:
        """Registers the limits of an application."""
        app.before_request(self._before)
        app.after_request(self._after)
        app.teardown_request(self._teardown)

    def limit(self, rules: Union[Rule, Sequence[Rule]], **options: Any) -> Callable[[F], F]:
        """Limits one view, in addition to the rules for every request."""
        guard = Guard(rules, **{**self._options, **options})

        def decorate(view: F) -> F:
            @functools.wraps(view)
            def limited(*args: Any, **kwargs: Any) -> Any:
                denial = self._check(guard)
                if denial is not None:
                    return denial
                return flask.current_app.ensure_sync(view)(*args, **kwargs)

            return cast(F, limited)

        return decorate

    def _before(self) -> Optional[flask.typing.ResponseReturnValue]:
        return None if self._guard is None else self._check(self._guard)

    def _check(self, guard: Guard) -> Optional[flask.typing.ResponseReturnValue]:
        try:
            passed = guard.check(_View(flask.request))
        except RateLimited as denied:
            if guard.on_denied is not None:
                return cast("flask.typing.ResponseReturnValue", guard.on_denied(flask.request, denied))
            headers = [*denied.headers, ("content-type", denied.content_type)]
            return flask.Response(denied.body, denied.status, headers)
        flask.g.setdefault("slidegate", []).append(passed)
        return None

    def _after(self, response: flask.Response) -> flask.Response:
        # The rules of a view come last and describe the request better.
        for passed in reversed(_passed()):
            own = passed.finish(response.status_code)
            for name, value in merge(own, response.headers.keys()):
                response.headers.add(name, value)
        return response

    def _teardown(self, error: Optional[BaseException]) -> None:
        # Without a response, if Flask propagates the exception or another function raised it.
        for passed in _passed():
            if error is not None:
                passed.finish(500)


def _passed() -> List[Passed]:
    """Returns the requests to finish, once. Several requests can have one context."""
    return cast("List[Passed]", flask.g.pop("slidegate", []))
