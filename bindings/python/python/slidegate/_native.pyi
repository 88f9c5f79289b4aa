"""The native module. Import everything from ``slidegate`` instead."""

from datetime import timedelta
from typing import (
    Any,
    List,
    Optional,
    Sequence,
    Tuple,
    Union,
    final,
)

from typing_extensions import Self, disjoint_base

__all__ = [
    "AddressRules",
    "CODES",
    "Decision",
    "Gate",
    "HttpOptions",
    "KeyHeader",
    "Limiter",
    "ManualClock",
    "Pacing",
    "Pending",
    "Quota",
    "Receipt",
    "Store",
    "Ticket",
    "__version__",
    "check_all",
    "http_answer",
    "metrics",
]

_Key = Union[str, bytes]
_Seconds = Union[float, timedelta]
#: Awaits the result: see ``slidegate._limiter._deliver``.
_Notify = Optional[object]

CODES: List[str]
__version__: str

def metrics() -> str:
    """Returns the metrics of all limiters of this process in the text format of Prometheus."""

def check_all(
    checks: Sequence[Tuple[Limiter, _Key, int, Optional[str]]],
    *,
    timeout: Optional[_Seconds] = None,
    notify: _Notify = None,
) -> List[Decision]: ...
def http_answer(
    parts: Sequence[Tuple[Limiter, Decision]],
    options: HttpOptions,
    trace_id: Optional[str] = None,
) -> Tuple[List[Tuple[str, str]], Optional[Tuple[int, str, str]]]: ...
@final
class ManualClock:
    """A clock that changes only when a test sets or advances it."""

    def __new__(cls, now: _Seconds = ...) -> ManualClock: ...
    def advance(self, by: _Seconds) -> None:
        """Advances the clock by a number of seconds."""

    def set(self, now: _Seconds) -> None:
        """Sets the clock to a number of seconds since the epoch, which may be earlier."""

    def now(self) -> float:
        """Returns the seconds since the epoch."""

@final
class Decision:
    """The decision about a request. It is true if the request is allowed."""

    def __bool__(self) -> bool: ...
    @property
    def allowed(self) -> bool:
        """Whether the request is allowed."""

    @property
    def shadow_denied(self) -> bool:
        """Whether it is allowed only because the policy is not enforced for the key."""

    @property
    def blocked(self) -> bool:
        """Whether the key is blocked."""

    @property
    def estimated(self) -> bool:
        """Whether the table was full, so that usage is over-counted."""

    @property
    def degraded(self) -> Optional[str]:
        """Why the store did not decide, such as ``unreachable``."""

    @property
    def enforced(self) -> bool:
        """Whether denials are enforced for the key."""

    @property
    def outcome(self) -> str:
        """The outcome, as in metrics."""

    @property
    def limit(self) -> int:
        """The limit of the tightest quota."""

    @property
    def remaining(self) -> int:
        """Units left in the tightest quota."""

    @property
    def retry_after(self) -> Optional[float]:
        """Seconds until the cost passes: zero if allowed, ``None`` means never."""

    @property
    def reset_after(self) -> float:
        """Seconds until more units become available in the tightest quota."""

    @property
    def quotas(self) -> List[Quota]:
        """Every quota, in the order of the policy."""

    @property
    def receipt(self) -> Optional[Receipt]:
        """The receipt, to refund or settle the request once."""

@final
class Quota:
    """The decision of one quota."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    @property
    def limit(self) -> int:
        """The limit."""

    @property
    def remaining(self) -> int:
        """Units left."""

    @property
    def retry_after(self) -> Optional[float]:
        """Seconds until the cost passes. ``None`` means never."""

    @property
    def reset_after(self) -> float:
        """Seconds until more units become available."""

@final
class Receipt:
    """The receipt of an allowed check, to refund or settle it once."""

    def __new__(
        cls, key: _Key, units: int, tick: int, epoch: int, tier: Optional[str] = None
    ) -> Receipt: ...
    @property
    def key(self) -> _Key:
        """The key."""

    @property
    def tier(self) -> Optional[str]:
        """The tier of the request."""

    @property
    def units(self) -> int:
        """The units taken."""

    @property
    def tick(self) -> int:
        """The tick at which they are recorded."""

    @property
    def epoch(self) -> int:
        """The epoch of the key's state."""

    @property
    def used(self) -> bool:
        """Whether it was refunded or settled."""

    def __reduce__(self) -> Tuple[Any, ...]: ...

@disjoint_base
class Store:
    def __new__(cls, options: str) -> Self: ...

@final
class Gate:
    def __new__(
        cls,
        policy: str,
        store: Optional[Store] = None,
        memory: str = "{}",
        clock: Optional[ManualClock] = None,
    ) -> Gate: ...
    @staticmethod
    def from_yaml(text: str, clock: Optional[ManualClock] = None) -> List[Gate]: ...
    @property
    def name(self) -> str: ...

@disjoint_base
class Limiter:
    def __new__(cls, gate: Gate) -> Self: ...
    @property
    def name(self) -> str:
        """The name of the policy."""

    @property
    def tiers(self) -> List[str]:
        """The names of the tiers."""

    @property
    def in_process(self) -> bool:
        """Whether a check is decided in this process, without a call to a server."""

    @property
    def mode(self) -> str:
        """``enforce``, ``percentage``, ``shadow`` or ``off``."""

    def quotas(self, tier: Optional[str] = None) -> List[str]:
        """Returns the quotas of the policy or of a tier, as text."""

    def check(
        self,
        key: _Key,
        cost: int = 1,
        tier: Optional[str] = None,
        *,
        notify: _Notify = None,
    ) -> Decision:
        """Checks a request, and takes its units if it is allowed."""

    def check_at_most(self, key: _Key, cost: int = 1, *, notify: _Notify = None) -> Decision:
        """Takes as many units as fit, at most ``cost``. Denied only if not even one fits."""

    def peek(
        self,
        key: _Key,
        cost: int = 1,
        tier: Optional[str] = None,
        *,
        notify: _Notify = None,
    ) -> Decision:
        """Evaluates a request without taking units."""

    def wait(
        self,
        key: _Key,
        cost: int = 1,
        tier: Optional[str] = None,
        *,
        timeout: Optional[_Seconds] = None,
        notify: _Notify = None,
    ) -> Decision:
        """Takes the units as soon as they are available, within ``timeout``."""

    def refund(self, receipt: Receipt, *, notify: _Notify = None) -> int:
        """Refunds the units of a receipt. Returns the number that was still counted."""

    def settle(self, receipt: Receipt, actual: int, *, notify: _Notify = None) -> int:
        """Corrects a reservation to its actual cost. Returns the units charged in total."""

    def deny_without_key(self) -> bool:
        """Denies and counts a request without a key. ``False`` if the policy is not enforced for all keys."""

    def uncount(self, decision: Decision, *, notify: _Notify = None) -> Decision:
        """Refunds a request that does not count, unless its receipt was refunded or settled.

        Returns the new decision.
        """

    def charge(
        self,
        key: _Key,
        units: int,
        tier: Optional[str] = None,
        *,
        notify: _Notify = None,
    ) -> int:
        """Records units without a check, above the limit if necessary."""

    def forgive(
        self,
        key: _Key,
        units: int,
        tier: Optional[str] = None,
        *,
        notify: _Notify = None,
    ) -> int:
        """Refunds up to ``units`` without a receipt."""

    def usage(
        self, key: _Key, tier: Optional[str] = None, *, notify: _Notify = None
    ) -> List[int]:
        """Returns the units that count against each quota now."""

    def history(
        self, key: _Key, tier: Optional[str] = None, *, notify: _Notify = None
    ) -> List[Tuple[float, int]]:
        """Returns the requests in the longest window, oldest first: seconds and units."""

    def reset(self, key: _Key, *, notify: _Notify = None) -> bool:
        """Removes the key and ends its block. Returns whether it existed."""

    def block(self, key: _Key, time: _Seconds, *, notify: _Notify = None) -> None:
        """Denies every check of a key for a time. It replaces an earlier block."""

    def unblock(self, key: _Key, *, notify: _Notify = None) -> bool:
        """Ends the block of a key. Returns whether there was one."""

@final
class Pending:
    def cancel(self) -> None: ...

@final
class AddressRules:
    def __new__(cls, options: str) -> AddressRules: ...
    def key(self, peer: str, fields: Sequence[Tuple[str, bytes]] = ()) -> str: ...

@final
class KeyHeader:
    """A header field by whose value requests are counted."""

    def __new__(cls, name: str, duplicates: str) -> KeyHeader: ...
    def value(self, lines: Sequence[str]) -> Optional[str]:
        """Returns the value, which is empty if the field is missing, or ``None`` if the request has
        to be denied.
        """

@final
class HttpOptions:
    def __new__(cls, options: str) -> HttpOptions: ...

@final
class Ticket:
    @property
    def attempts(self) -> int:
        """How often the request was sent."""

@final
class Pacing:
    def __new__(
        cls,
        *,
        pacing: bool = True,
        reserve_percent: int = 5,
        deadline: Optional[_Seconds] = None,
        attempts_max: int = 5,
        repeat_refused: bool = True,
        learn_first: Optional[_Seconds] = None,
        backoff_first: Optional[_Seconds] = None,
        backoff_max: Optional[_Seconds] = None,
        budget_percent: int = 10,
        budget_floor: int = 10,
        scopes_max: int = 256,
        waiters_max: int = 1024,
        clock: Optional[ManualClock] = None,
    ) -> Pacing: ...
    def begin(self, host: str, parts: Sequence[str] = ()) -> Ticket: ...
    def ask(self, ticket: Ticket) -> Optional[float]: ...
    def answer(
        self,
        ticket: Ticket,
        status: int,
        fields: Sequence[Tuple[bytes, bytes]],
        method: str,
        has_idempotency_key: bool,
        is_repeatable: bool,
    ) -> bool: ...
    def end(self, ticket: Ticket) -> None: ...
    def take_news(self) -> bool: ...
    def stats(self) -> List[Tuple[str, int]]: ...
