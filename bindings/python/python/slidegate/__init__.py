"""Exact sliding-window rate limits, in memory or in Redis.

>>> from slidegate import Limiter
>>> limiter = Limiter("2/minute")
>>> [limiter.check("alice").allowed for _ in range(3)]
[True, True, False]
"""

from slidegate._decorator import limited
from slidegate._errors import (
    CostError,
    LimitError,
    MemoryLimitError,
    PacingDeadline,
    PacingError,
    PacingScopes,
    PacingStopped,
    PacingWaiters,
    PolicyError,
    RateLimited,
    SettingError,
    SlidegateError,
    SnapshotError,
    StoreError,
    UnsupportedError,
    WaitersError,
    WindowError,
)
from slidegate._limiter import (
    Check,
    Limiter,
    Store,
    check_all,
    check_all_async,
    from_yaml,
    load,
)
from slidegate._native import Decision, ManualClock, Quota, Receipt, __version__, metrics
from slidegate._pacer import Pacer
from slidegate._rule import RateLimit

__all__ = [
    "Check",
    "CostError",
    "Decision",
    "LimitError",
    "Limiter",
    "ManualClock",
    "MemoryLimitError",
    "Pacer",
    "PacingDeadline",
    "PacingError",
    "PacingScopes",
    "PacingStopped",
    "PacingWaiters",
    "PolicyError",
    "Quota",
    "RateLimit",
    "RateLimited",
    "Receipt",
    "SettingError",
    "SlidegateError",
    "SnapshotError",
    "Store",
    "StoreError",
    "UnsupportedError",
    "WaitersError",
    "WindowError",
    "__version__",
    "check_all",
    "check_all_async",
    "from_yaml",
    "limited",
    "load",
    "metrics",
]
