"""A decorator that limits the calls of a function."""

from __future__ import annotations

import functools
import inspect
from typing import Any, AsyncGenerator, Callable, Optional, TypeVar, Union, cast

from slidegate._errors import RateLimited
from slidegate._limiter import Key, Limiter, Policy, Seconds
from slidegate._native import Decision

F = TypeVar("F", bound=Callable[..., Any])


def limited(
    policy: Union[Policy, Limiter],
    *,
    key: Union[Key, Callable[..., Key], None] = None,
    cost: Union[int, Callable[..., int]] = 1,
    wait: Union[bool, Seconds] = False,
    **options: Any,
) -> Callable[[F], F]:
    """Limits the calls of a function, a coroutine function or an asynchronous generator function.

    ``key`` and ``cost`` are values, or functions of the arguments. By default, all calls are
    counted together. A denied call raises :class:`RateLimited`. With ``wait=True`` or a number of
    seconds, it waits for units instead. An asynchronous generator takes the units when its iteration
    begins.
    """
    limiter = policy if isinstance(policy, Limiter) else Limiter(policy, **options)
    timeout: Optional[Seconds] = None if isinstance(wait, bool) else wait
    is_waiting = wait is not False

    def decorate(function: F) -> F:
        def key_and_cost(*args: Any, **kwargs: Any) -> tuple[Key, int]:
            own = function.__qualname__ if key is None else key
            return (
                own(*args, **kwargs) if callable(own) else own,
                cost(*args, **kwargs) if callable(cost) else cost,
            )

        async def take_async(*args: Any, **kwargs: Any) -> None:
            subject, units = key_and_cost(*args, **kwargs)
            if is_waiting:
                decision = await limiter.wait_async(subject, units, timeout=timeout)
            else:
                decision = await limiter.check_async(subject, units)
            _raise_if_denied(decision)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def limited_async(*args: Any, **kwargs: Any) -> Any:
                await take_async(*args, **kwargs)
                return await function(*args, **kwargs)

            return cast(F, limited_async)

        if inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def limited_generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
                await take_async(*args, **kwargs)
                items = function(*args, **kwargs)
                step = items.asend(None)
                while True:
                    try:
                        item = await step
                    except StopAsyncIteration:
                        return
                    try:
                        step = items.asend((yield item))
                    except GeneratorExit:
                        await items.aclose()
                        raise
                    except BaseException as error:
                        step = items.athrow(error)

            return cast(F, limited_generator)

        @functools.wraps(function)
        def limited_sync(*args: Any, **kwargs: Any) -> Any:
            subject, units = key_and_cost(*args, **kwargs)
            if is_waiting:
                decision = limiter.wait(subject, units, timeout=timeout)
            else:
                decision = limiter.check(subject, units)
            _raise_if_denied(decision)
            return function(*args, **kwargs)

        return cast(F, limited_sync)

    return decorate


def _raise_if_denied(decision: Decision) -> None:
    if not decision.allowed:
        raise RateLimited(429, [], "text/plain", "", [decision])
