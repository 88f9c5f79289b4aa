"""Limiters, and coroutines for everything that may take time."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import timedelta
from os import PathLike
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
    cast,
)

from slidegate import _native
from slidegate._errors import SettingError
from slidegate._native import Decision, ManualClock, Receipt

Key = Union[str, bytes]
Seconds = Union[float, timedelta]
#: ``"100/minute"``, several of them, or a policy as in a file of the daemon.
Policy = Union[str, Sequence[Any], Mapping[str, Any]]
T = TypeVar("T")

_LOG = logging.getLogger("slidegate")


class Store(_native.Store):
    """Redis as a store. Limiters on one store decide together in one atomic step.

    ``address`` is a URL such as ``redis://127.0.0.1:6379``. The options are those of a store in a
    file of the daemon: ``deadline="20ms"``, ``password``, ``prefix``, ``sentinel``, ``cluster``...
    """

    def __new__(cls, address: Optional[str] = None, **options: Any) -> Store:
        if address is not None:
            options["redis"] = address
        return super().__new__(cls, _json(options))


class Limiter(_native.Limiter):
    """Checks requests against a policy, in memory or in Redis.

    ``policy`` is ``"100/minute"``, a list of quotas, or a mapping as under ``policies`` in a file
    of the daemon. Keyword arguments add to it: ``name``, ``algorithm``, ``tiers``, ``mode``,
    ``failure_mode``...

    Methods without ``_async`` return at once in memory. With Redis and in ``wait``, they block the
    thread and release the GIL. In an event loop, use the methods with ``_async``.
    """

    def __new__(
        cls,
        policy: Union[Policy, _native.Gate],
        *,
        store: Union[str, Mapping[str, Any], Store, None] = None,
        clock: Optional[ManualClock] = None,
        memory_limit_mb: Optional[int] = None,
        on_full: Optional[str] = None,
        **options: Any,
    ) -> Limiter:
        if isinstance(policy, _native.Gate):
            return super().__new__(cls, policy)
        merged: Dict[str, Any] = {**policy} if isinstance(policy, Mapping) else {"quotas": policy}
        merged.update(options)
        shared = _store(store if store is not None else merged.pop("store", None))
        if shared is not None and "name" not in merged:
            message = "a policy in Redis needs a name, which identifies its state: set name"
            raise SettingError(message)
        merged.setdefault("name", "default")
        memory = {"limit_mb": memory_limit_mb, "on_full": on_full}
        memory = {name: value for name, value in memory.items() if value is not None}
        gate = _native.Gate(_json(merged), shared, _json(memory), clock)
        return super().__new__(cls, gate)

    async def check_async(self, key: Key, cost: int = 1, tier: Optional[str] = None) -> Decision:
        """Checks a request, and takes its units if it is allowed."""
        if self.in_process:
            return self.check(key, cost, tier)
        return await _run(self, self.check, key, cost, tier)

    async def check_at_most_async(self, key: Key, cost: int = 1) -> Decision:
        """Takes as many units as fit, at most ``cost``."""
        return await _run(self, self.check_at_most, key, cost)

    def reserve(self, key: Key, estimate: int = 1, tier: Optional[str] = None) -> Decision:
        """Takes an estimate, which ``settle`` corrects when the cost is known."""
        return self.check(key, estimate, tier)

    async def reserve_async(
        self, key: Key, estimate: int = 1, tier: Optional[str] = None
    ) -> Decision:
        """Takes an estimate, which ``settle_async`` corrects when the cost is known."""
        return await self.check_async(key, estimate, tier)

    async def peek_async(self, key: Key, cost: int = 1, tier: Optional[str] = None) -> Decision:
        """Evaluates a request without taking units."""
        return await _run(self, self.peek, key, cost, tier)

    async def wait_async(
        self,
        key: Key,
        cost: int = 1,
        tier: Optional[str] = None,
        *,
        timeout: Optional[Seconds] = None,
    ) -> Decision:
        """Takes the units as soon as they are available, within ``timeout``.

        Canceling the task leaves the queue and takes nothing.
        """
        return await _run(self, self.wait, key, cost, tier, timeout=timeout)

    async def refund_async(self, receipt: Receipt) -> int:
        """Refunds the units of a receipt. Returns the number that was still counted."""
        return await _run(self, self.refund, receipt)

    async def settle_async(self, receipt: Receipt, actual: int) -> int:
        """Corrects a reservation to its actual cost. Returns the units charged in total."""
        return await _run(self, self.settle, receipt, actual)

    async def uncount_async(self, decision: Decision) -> Decision:
        """Refunds a request that does not count, unless its receipt was refunded or settled.

        Returns the new decision.
        """
        return await _run(self, self.uncount, decision)

    async def charge_async(self, key: Key, units: int, tier: Optional[str] = None) -> int:
        """Records units without a check, above the limit if necessary."""
        return await _run(self, self.charge, key, units, tier)

    async def forgive_async(self, key: Key, units: int, tier: Optional[str] = None) -> int:
        """Refunds up to ``units`` without a receipt."""
        return await _run(self, self.forgive, key, units, tier)

    async def usage_async(self, key: Key, tier: Optional[str] = None) -> List[int]:
        """Returns the units that count against each quota now."""
        return await _run(self, self.usage, key, tier)

    async def history_async(
        self, key: Key, tier: Optional[str] = None
    ) -> List[Tuple[float, int]]:
        """Returns the requests in the longest window, oldest first."""
        return await _run(self, self.history, key, tier)

    async def reset_async(self, key: Key) -> bool:
        """Removes the key and ends its block. Returns whether it existed."""
        return await _run(self, self.reset, key)

    async def block_async(self, key: Key, time: Seconds) -> None:
        """Denies every check of a key for a time."""
        await _run(self, self.block, key, time)

    async def unblock_async(self, key: Key) -> bool:
        """Ends the block of a key. Returns whether there was one."""
        return await _run(self, self.unblock, key)


class Check(NamedTuple):
    """One of several checks that are decided together."""

    limiter: Limiter
    key: Key
    cost: int = 1
    tier: Optional[str] = None


def check_all(
    checks: Iterable[Union[Check, Tuple[Any, ...]]], *, timeout: Optional[Seconds] = None
) -> List[Decision]:
    """Checks several limiters: either all allow the request and take its units, or none does.

    With ``timeout``, a request over its limit waits for units.
    """
    return _native.check_all([Check(*check) for check in checks], timeout=timeout)


async def check_all_async(
    checks: Iterable[Union[Check, Tuple[Any, ...]]], *, timeout: Optional[Seconds] = None
) -> List[Decision]:
    """The same as ``check_all``, as a coroutine."""
    several = [Check(*check) for check in checks]
    limiters = [check.limiter for check in several]
    return await _run(limiters, _native.check_all, several, timeout=timeout)


def from_yaml(text: str, *, clock: Optional[ManualClock] = None) -> Dict[str, Limiter]:
    """Creates the limiters of a configuration file of the daemon, by the names of their policies.

    ``policies``, ``memory`` and ``stores`` are used. Everything else is ignored.
    """
    return {gate.name: Limiter(gate) for gate in _native.Gate.from_yaml(text, clock)}


def load(
    path: Union[str, PathLike[str]], *, clock: Optional[ManualClock] = None
) -> Dict[str, Limiter]:
    """Reads a configuration file of the daemon: see ``from_yaml``."""
    with open(path, encoding="utf-8") as file:
        return from_yaml(file.read(), clock=clock)


def _json(options: Mapping[str, Any]) -> str:
    try:
        return json.dumps(options)
    except TypeError as error:
        raise SettingError(f"invalid options: {error}") from None


def _store(store: Union[str, Mapping[str, Any], Store, None]) -> Optional[Store]:
    if store is None or store == "memory":
        return None
    if isinstance(store, Store):
        return store
    return Store(store) if isinstance(store, str) else Store(**store)


class _Waiter:
    """Awaits the result of a native method. Native code passes it to ``_deliver``."""

    __slots__ = ("future", "is_canceled", "limiters", "loop")

    def __init__(self, limiters: Sequence[Limiter]) -> None:
        self.limiters = limiters
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.is_canceled = False

    def resolve(self, value: Any, error: Optional[BaseException]) -> None:
        """Ends the wait. The event loop calls it."""
        if self.is_canceled or self.future.done():
            self.undo(value)
        elif error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(value)

    def undo(self, value: Any) -> None:
        """Refunds units that were taken for a task that is canceled."""
        decisions = value if isinstance(value, list) else [value]
        for limiter, decision in zip(self.limiters, decisions):
            if isinstance(decision, Decision):
                limiter.uncount(decision, notify=_IGNORED)


#: The result is ignored.
_IGNORED = object()

_Result = Tuple[_Waiter, Any, Optional[BaseException]]


def _deliver(batch: Sequence[Tuple[object, Any, Optional[BaseException]]]) -> None:
    """Passes results to their event loops, and warnings to the logger. A thread of the native module
    calls it.

    Waking an event loop is a system call, so each is woken once.
    """
    loops: Dict[asyncio.AbstractEventLoop, List[_Result]] = {}
    warnings: List[str] = []
    for waiter, value, error in batch:
        if not isinstance(waiter, _Waiter):
            if waiter is None:
                warnings.append(value)
            continue
        if waiter.is_canceled:
            # The event loop may end before it calls a function.
            waiter.undo(value)
        else:
            loops.setdefault(waiter.loop, []).append((waiter, value, error))
    for loop, results in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve, results)
        except RuntimeError:
            # The event loop is closed.
            for waiter, value, _ in results:
                waiter.undo(value)
    for warning in warnings:
        _LOG.warning(warning)


def _resolve(results: Sequence[_Result]) -> None:
    for waiter, value, error in results:
        waiter.resolve(value, error)


async def _run(
    limiter: Union[Limiter, Sequence[Limiter]],
    method: Callable[..., T],
    *arguments: Any,
    **options: Any,
) -> T:
    """Calls a native method. If its result is not available at once, awaits it."""
    waiter = _Waiter([limiter] if isinstance(limiter, Limiter) else limiter)
    started: Any = method(*arguments, notify=waiter, **options)
    if not isinstance(started, _native.Pending):
        return cast(T, started)
    future = waiter.future
    try:
        return cast(T, await future)
    except BaseException:
        # The task was canceled or the coroutine was closed, unless this is the error of the call.
        waiter.is_canceled = True
        started.cancel()
        if future.done() and not future.cancelled() and future.exception() is None:
            # The result arrived before the cancellation.
            waiter.undo(future.result())
        raise
