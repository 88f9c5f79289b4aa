"""Rules: what is counted for which requests, independent of a framework."""

from __future__ import annotations

import inspect
import json
import logging
import re
from typing import Any, Callable, Iterable, List, Optional, Sequence, Tuple, Union

from slidegate import _native
from slidegate._errors import RateLimited, SettingError
from slidegate._limiter import Check, Key, Limiter, Policy, check_all, check_all_async
from slidegate._native import Decision

Headers = List[Tuple[str, str]]

#: Peers without an address: on a unix socket, as gunicorn, waitress and Werkzeug report it, and
#: Starlette's test client.
_LOCAL = ("", "localhost", "<local>", "testclient")

_LOG = logging.getLogger("slidegate")


class View:
    """The parts of a request that rules read. Each framework has a subclass."""

    #: The framework's request, which is passed to functions.
    request: Any
    #: The address of the client, as the server or its proxy middleware reports it. Empty on a unix
    #: socket, ``None`` if it is not known.
    peer: Optional[str]

    def fields(self, name: str) -> List[str]:
        """Returns the values of a header field, one per line."""
        raise NotImplementedError


class RateLimit:
    """Applies a policy to requests.

    =========== ===================================================== ========
    option      meaning                                               default
    =========== ===================================================== ========
    key         ``"ip"``, ``"header:NAME"``, ``"all"``, or a function ``"ip"``
                of the request
    missing_key for a request without a key: ``"ip"`` counts it by    ``"ip"``
                address, ``"skip"`` allows it, ``"deny"`` is 403
                if the policy is enforced for all keys
    duplicates  for a request with several values of the key's        ``"deny"``
                header: ``"deny"`` is 403 like a missing key,
                ``"first"`` and ``"last"`` use one of them
    cost        units, or a function of the request                   1
    tier        name of a tier, or a function of the request          none
    skip        function; requests for which it is true are allowed   none
    count       ``"all"``, ``"failed"`` (status 400 and above),       ``"all"``
                ``"successful"``, or a function of the status; if the
                function raises, the response counts and the error
                is logged
    =========== ===================================================== ========

    ``trusted_proxies``, ``header``, ``ipv4_prefix`` and ``ipv6_prefix`` say how the client's address
    is found and grouped. A client on a unix socket counts as ``127.0.0.1``. All other options are those of :class:`Limiter`.
    """

    def __init__(
        self,
        policy: Union[Policy, Limiter],
        *,
        key: Union[str, Callable[[Any], Any]] = "ip",
        missing_key: str = "ip",
        duplicates: str = "deny",
        cost: Union[int, Callable[[Any], Any]] = 1,
        tier: Union[str, Callable[[Any], Any], None] = None,
        skip: Optional[Callable[[Any], Any]] = None,
        count: Union[str, Callable[[int], bool]] = "all",
        trusted_proxies: Sequence[str] = (),
        header: Optional[str] = None,
        ipv4_prefix: Optional[int] = None,
        ipv6_prefix: Optional[int] = None,
        **options: Any,
    ) -> None:
        if isinstance(policy, Limiter):
            if options:
                raise SettingError(f"unknown options {sorted(options)}: the limiter has its own")
            self.limiter = policy
        else:
            self.limiter = Limiter(policy, **options)
        if isinstance(key, str) and key not in ("ip", "all") and not key.startswith("header:"):
            raise SettingError(f"unknown key {key!r}: use ip, all, header:NAME or a function")
        if missing_key not in ("ip", "skip", "deny"):
            raise SettingError(f"unknown missing_key {missing_key!r}: use ip, skip or deny")
        if not callable(count) and count not in ("all", "failed", "successful"):
            message = f"unknown count {count!r}: use all, failed, successful or a function"
            raise SettingError(message)
        self._key = key
        self._header: Optional[_native.KeyHeader] = None
        if isinstance(key, str) and key.startswith("header:"):
            self._header_name = key[len("header:") :]
            self._header = _native.KeyHeader(self._header_name, duplicates)
        elif duplicates != "deny":
            raise SettingError('`duplicates` has no effect without a header: use key="header:NAME"')
        self._missing_key = missing_key
        self._cost = cost
        self._tier = tier
        self._skip = skip
        self._count = count
        address = {
            "trusted_proxies": list(trusted_proxies),
            "header": header,
            "ipv4_prefix": ipv4_prefix,
            "ipv6_prefix": ipv6_prefix,
        }
        self._address = _native.AddressRules(json.dumps(address))
        self._hop = (header or "x-forwarded-for").lower() if trusted_proxies else None

    def counts(self, status: int) -> bool:
        """Returns whether a response with this status counts."""
        if callable(self._count):
            try:
                return bool(self._count(status))
            except Exception:
                # The response is complete and must not be lost.
                _LOG.exception("`count` failed for status %s, so the response counts", status)
                return True
        return self._count == "all" or (status >= 400) == (self._count == "failed")

    @property
    def counts_all(self) -> bool:
        """Whether every response counts."""
        return self._count == "all"

    def check_for(self, view: View) -> Optional[Check]:
        """Returns the check of a request, or ``None`` if it is not limited."""
        parts: List[Any] = []
        for part in (self._skip, self._key, self._cost, self._tier):
            if not callable(part):
                parts.append(part)
                continue
            value = part(view.request)
            if inspect.isawaitable(value):
                raise SettingError("a coroutine function needs an asynchronous framework")
            if part is self._skip and value:
                return None
            parts.append(value)
        return self._check(view, *parts[1:])

    async def check_for_async(self, view: View) -> Optional[Check]:
        """The same, with functions that may be coroutine functions."""
        parts: List[Any] = []
        for part in (self._skip, self._key, self._cost, self._tier):
            if not callable(part):
                parts.append(part)
                continue
            value = part(view.request)
            if inspect.isawaitable(value):
                value = await value
            if part is self._skip and value:
                return None
            parts.append(value)
        return self._check(view, *parts[1:])

    def _check(self, view: View, key: Any, cost: int, tier: Optional[str]) -> Optional[Check]:
        if not callable(self._key):
            key = self._key_of(view)
            if key is None:
                self._deny()
                return None
        if key is None or key in ("", b""):
            if self._missing_key == "skip":
                return None
            if self._missing_key == "deny":
                self._deny()
                return None
            # No header field contains a zero byte, so no client can choose this key.
            key = b"\0" + self.address(view).encode()
        elif not isinstance(key, (str, bytes)):
            key = str(key)
        return Check(self.limiter, key, cost, tier)

    def _deny(self) -> None:
        """Denies a request, unless the policy is not enforced for all keys."""
        if self.limiter.deny_without_key():
            raise NoKey

    def _key_of(self, view: View) -> Optional[Key]:
        """Returns the key, which is empty if it is missing, or ``None`` if the request is denied."""
        if self._header is not None:
            return self._header.value(view.fields(self._header_name))
        return "all" if self._key == "all" else self.address(view)

    def address(self, view: View) -> str:
        """Returns the key of the client's address."""
        peer = view.peer
        if peer is None:
            message = "the server does not report the client's address: set a key"
            raise SettingError(message)
        peer = "127.0.0.1" if peer in _LOCAL else peer
        hop = self._hop
        lines = [] if hop is None else view.fields(hop)
        return self._address.key(peer, [(str(hop), line.encode("latin-1")) for line in lines])


class NoKey(Exception):
    """A request has no key, or several, and the rule denies such requests."""


Rule = Union[RateLimit, Limiter, Policy]


class Guard:
    """Applies rules to requests, all or nothing, and describes the result for the client."""

    def __init__(
        self,
        rules: Union[Rule, Sequence[Rule]],
        *,
        ratelimit: str = "list",
        x_ratelimit: str = "delta",
        retry_after: bool = True,
        body: str = "problem",
        on_denied: Optional[Callable[[Any, RateLimited], Any]] = None,
    ) -> None:
        several = rules if isinstance(rules, (list, tuple)) else [rules]
        self.rules = [
            rule if isinstance(rule, RateLimit) else RateLimit(rule) for rule in several
        ]
        if not self.rules:
            raise SettingError("no rules: use at least one")
        options = {
            "ratelimit": ratelimit,
            "x_ratelimit": x_ratelimit,
            "retry_after": retry_after,
            "body": body,
        }
        self.options = _native.HttpOptions(json.dumps(options))
        self.on_denied = on_denied

    def check(self, view: View) -> Passed:
        """Checks a request. Raises :class:`RateLimited` if it is denied."""
        try:
            found = [(rule, rule.check_for(view)) for rule in self.rules]
        except NoKey:
            raise _without_key() from None
        rules, checks = _applying(found)
        if len(checks) == 1:
            limiter, key, cost, tier = checks[0]
            decisions = [limiter.check(key, cost, tier)]
        else:
            decisions = check_all(checks)
        return self._passed(view, rules, decisions)

    async def check_async(self, view: View) -> Passed:
        """The same in an event loop."""
        try:
            found = [(rule, await rule.check_for_async(view)) for rule in self.rules]
        except NoKey:
            raise _without_key() from None
        rules, checks = _applying(found)
        if len(checks) == 1:
            limiter, key, cost, tier = checks[0]
            decisions = [await limiter.check_async(key, cost, tier)]
        else:
            decisions = await check_all_async(checks)
        return self._passed(view, rules, decisions)

    def _passed(
        self, view: View, rules: Sequence[RateLimit], decisions: Sequence[Decision]
    ) -> Passed:
        passed = Passed(self, list(rules), list(decisions))
        passed.headers, denial = _native.http_answer(passed.parts(), self.options)
        trace_id = None if denial is None else _trace_id(view)
        if trace_id is not None:
            _, denial = _native.http_answer(passed.parts(), self.options, trace_id)
        if denial is not None:
            status, content_type, body = denial
            raise RateLimited(status, passed.headers, content_type, body, decisions)
        return passed


class Passed:
    """A request that passed, until its response is known."""

    def __init__(self, guard: Guard, rules: List[RateLimit], decisions: List[Decision]) -> None:
        self._guard = guard
        self._rules = rules
        self.decisions = decisions
        #: The header fields of the response.
        self.headers: Headers = []

    @property
    def waits_for_status(self) -> bool:
        """Whether some responses do not count."""
        return not all(rule.counts_all for rule in self._rules)

    def parts(self) -> List[Tuple[Limiter, Decision]]:
        return [(rule.limiter, own) for rule, own in zip(self._rules, self.decisions)]

    def finish(self, status: int) -> Headers:
        """Refunds the units of a response that does not count, unless the handler has refunded or
        settled them. Returns the header fields.
        """
        for place in self._uncounted(status):
            limiter = self._rules[place].limiter
            self.decisions[place] = limiter.uncount(self.decisions[place])
        return self._refreshed()

    async def finish_async(self, status: int) -> Headers:
        """The same in an event loop."""
        for place in self._uncounted(status):
            limiter = self._rules[place].limiter
            self.decisions[place] = await limiter.uncount_async(self.decisions[place])
        return self._refreshed()

    def _uncounted(self, status: int) -> List[int]:
        if not self.waits_for_status:
            return []
        return [place for place, rule in enumerate(self._rules) if not rule.counts(status)]

    def _refreshed(self) -> Headers:
        if self.waits_for_status:
            self.headers, _ = _native.http_answer(self.parts(), self._guard.options)
        return self.headers


def merge(own: Iterable[Tuple[str, str]], present: Iterable[str]) -> Headers:
    """Returns the fields that a response does not have yet."""
    names = {name.lower() for name in present}
    return [(name, value) for name, value in own if name not in names]


def _applying(
    found: Sequence[Tuple[RateLimit, Optional[Check]]],
) -> Tuple[List[RateLimit], List[Check]]:
    applying = [(rule, check) for rule, check in found if check is not None]
    return [rule for rule, _ in applying], [check for _, check in applying]


def _without_key() -> RateLimited:
    body = {
        "type": "about:blank",
        "title": "Forbidden",
        "status": 403,
        "detail": "the request has no key to be counted by, or several",
    }
    headers = [("cache-control", "no-store")]
    return RateLimited(403, headers, "application/problem+json", json.dumps(body), [])


_TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


def _trace_id(view: View) -> Optional[str]:
    values = view.fields("traceparent")
    match = _TRACE.match(values[0]) if len(values) == 1 else None
    return match.group(1) if match else None
