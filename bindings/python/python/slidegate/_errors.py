"""Exceptions. Every error of the native module has a class here, by its code."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple, Type

from slidegate import _native


class SlidegateError(Exception):
    """The base of all exceptions. A denial is not an error unless a decorator raises it."""

    #: The code for programs, which does not change.
    code = "other"


class LimitError(SlidegateError, ValueError):
    """A limit is out of range."""

    code = "limit"


class WindowError(SlidegateError, ValueError):
    """A window is out of range."""

    code = "window"


class CostError(SlidegateError, ValueError):
    """A cost is out of range."""

    code = "cost"


class PolicyError(SlidegateError, ValueError):
    """A policy is invalid."""

    code = "policy"


class SettingError(SlidegateError, ValueError):
    """An option or an argument is invalid."""

    code = "setting"


class UnsupportedError(SlidegateError):
    """The algorithm or the store does not support the operation."""

    code = "unsupported"


class WaitersError(SlidegateError):
    """Too many requests wait already."""

    code = "waiters"


class MemoryLimitError(SlidegateError):
    """The memory limit is reached."""

    code = "memory"


class SnapshotError(SlidegateError):
    """A snapshot cannot be read."""

    code = "snapshot"


class StoreError(SlidegateError):
    """The store did not reply."""

    code = "store"


class PacingError(SlidegateError):
    """An outgoing request was not sent."""


class PacingStopped(PacingError):
    """The server kept refusing requests, so none is sent for a while."""

    code = "pacing_stopped"


class PacingDeadline(PacingError):
    """The request would have to wait past its deadline."""

    code = "pacing_deadline"


class PacingWaiters(PacingError):
    """Too many requests wait already."""

    code = "pacing_waiters"


class PacingScopes(PacingError):
    """Too many scopes are in use."""

    code = "pacing_scopes"


class RateLimited(SlidegateError):
    """A request was denied. It has everything that a response needs.

    It can be pickled, without its ``decisions``.
    """

    code = "rate_limited"

    def __init__(
        self,
        status: int,
        headers: Sequence[Tuple[str, str]],
        content_type: str,
        body: str,
        decisions: Sequence[_native.Decision],
    ) -> None:
        waits = [decision.retry_after for decision in decisions if not decision.allowed]
        #: Seconds until the request may pass. ``None`` means never.
        self.retry_after: Optional[float] = (
            None if None in waits else max((wait for wait in waits if wait is not None), default=0.0)
        )
        after = "never" if self.retry_after is None else f"after {self.retry_after:.3f} s"
        super().__init__(f"the request is over its rate limit: retry {after}")
        self.status = status
        self.headers: List[Tuple[str, str]] = list(headers)
        self.content_type = content_type
        self.body = body
        self.decisions: List[_native.Decision] = list(decisions)

    def __reduce__(self) -> Tuple[Any, ...]:
        # For another process. Decisions belong to the limiters of this one.
        state = {**self.__dict__, "decisions": [], "args": self.args}
        return RateLimited, (self.status, self.headers, self.content_type, self.body, []), state


BY_CODE: Dict[str, Type[SlidegateError]] = {
    cls.code: cls
    for cls in (
        SlidegateError,
        LimitError,
        WindowError,
        CostError,
        PolicyError,
        SettingError,
        UnsupportedError,
        WaitersError,
        MemoryLimitError,
        SnapshotError,
        StoreError,
        PacingStopped,
        PacingDeadline,
        PacingWaiters,
        PacingScopes,
    )
}
