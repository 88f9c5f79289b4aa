"""The traces in ``conformance/``, which every implementation decides identically."""

import json
from pathlib import Path

import pytest

from slidegate import Limiter, ManualClock, Store

TRACES = [
    path
    for path in sorted((Path(__file__).parents[3] / "conformance").glob("*.json"))
    # The package does not offer it.
    if "forgive" not in json.loads(path.read_text()).get("requires", [])
]


def quota(spec):
    return {"limit": spec["limit"], "window_ms": spec["window_ms"]}


def limiter_of(policy, **options):
    algorithm = policy["algorithm"]
    if "bytes_max" in policy:
        algorithm = {"log_capped": policy["bytes_max"]}
    if algorithm == "segments":
        algorithm = {"segments": policy["segments"]}
    return Limiter(
        [quota(spec) for spec in policy["quotas"]],
        algorithm=algorithm,
        mode=policy.get("mode", "enforce"),
        tick=f"{policy.get('tick_ms', 1)}ms",
        tiers={
            name: [quota(spec) for spec in specs]
            for name, specs in policy.get("tiers", {}).items()
        },
        **options,
    )


class Player:
    """Plays the steps of a trace and compares the results."""

    def __init__(self, trace, limiter, clock=None):
        self.trace, self.limiter, self.clock = trace, limiter, clock
        self.receipts = {}

    def play(self):
        for number, step in enumerate(self.trace["steps"], 1):
            allowed = 0
            for turn in range(step.get("repeat", 1)):
                if self.clock is not None:
                    millis = step["at_ms"] + turn * step.get("every_ms", 0)
                    self.clock.set((self.trace["start_ms"] + millis) / 1000)
                result = self.run(step)
                allowed += bool(getattr(result, "allowed", False))
            found = self.describe(step, result, allowed)
            expected = self.comparable(step, found)
            assert {name: found[name] for name in expected} == expected, (number, step)

    def comparable(self, step, found):
        return step.get("expect", {})

    def run(self, step):
        limiter, key, cost = self.limiter, step.get("key", "k"), step.get("cost", 1)
        operations = {
            "check": lambda: limiter.check(key, cost, step.get("tier")),
            "reserve": lambda: limiter.reserve(key, cost),
            "check_at_most": lambda: limiter.check_at_most(key, cost),
            "peek": lambda: limiter.peek(key, cost),
            "charge": lambda: limiter.charge(key, cost),
            "refund": lambda: limiter.refund(self.receipts.pop(step["of"])),
            "settle": lambda: limiter.settle(self.receipts.pop(step["of"]), step["actual"]),
            "block": lambda: limiter.block(key, step["for_ms"] / 1000),
            "unblock": lambda: limiter.unblock(key),
            "reset": lambda: limiter.reset(key),
            "usage": lambda: limiter.usage(key),
            "history": lambda: limiter.history(key),
            "clock": lambda: None,
        }
        result = operations[step["op"]]()
        if "as" in step and result.receipt is not None:
            self.receipts[step["as"]] = result.receipt
        return result

    def describe(self, step, result, allowed):
        """Returns the result with the names of the fields in ``expect``."""
        kind = step["op"]
        if kind in ("check", "reserve", "check_at_most", "peek"):
            after = result.retry_after
            return {
                "allowed": result.allowed,
                "allowed_count": allowed,
                "remaining": [quota.remaining for quota in result.quotas],
                "retry_after_ms": None if after is None else round(after * 1000, 3),
                "reset_after_ms": round(result.reset_after * 1000, 3),
                "shadow_denied": result.shadow_denied,
                "receipt": result.receipt is not None,
                "units": result.receipt.units if result.receipt is not None else 0,
            }
        if kind in ("refund", "settle", "charge"):
            return {"units": result}
        if kind in ("reset", "unblock"):
            return {"found": result}
        if kind == "usage":
            return {"used": result}
        if kind == "history":
            start = self.trace["start_ms"]
            events = [[round(at * 1000 - start), units] for at, units in result]
            return {"history": by_time(events)}
        return {}


def by_time(events):
    """Adds the units of one tick: a store reports them as one event."""
    units = {}
    for at, count in events:
        units[at] = units.get(at, 0) + count
    return [[at, count] for at, count in sorted(units.items())]


class MemoryPlayer(Player):
    def comparable(self, step, found):
        expected = dict(step.get("expect", {}))
        if "history" in expected:
            expected["history"] = by_time(expected["history"])
        return expected


class RedisPlayer(Player):
    """Compares what does not depend on the time, which is that of the server."""

    def comparable(self, step, found):
        skipped = ("retry_after_ms", "reset_after_ms", "history")
        return {
            name: value for name, value in step.get("expect", {}).items() if name not in skipped
        }


def load(path):
    return json.loads(path.read_text())


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_trace_in_memory(path):
    trace = load(path)
    clock = ManualClock(trace["start_ms"] / 1000)
    MemoryPlayer(trace, limiter_of(trace["policy"], clock=clock), clock).play()


def happens_at_one_moment(trace):
    """In such a trace, a longer window changes only times."""
    times = {step["at_ms"] + step.get("every_ms", 0) for step in trace["steps"]}
    is_log = trace["policy"]["algorithm"] in ("log", "gcra")
    return is_log and len(times) == 1 and all(s["op"] != "block" for s in trace["steps"])


MOMENTS = [path for path in TRACES if happens_at_one_moment(load(path))]


@pytest.mark.parametrize("path", MOMENTS, ids=lambda path: path.stem)
def test_trace_in_redis(path, redis):
    trace = load(path)
    policy = trace["policy"]
    for spec in [*policy["quotas"], *(s for t in policy.get("tiers", {}).values() for s in t)]:
        spec["window_ms"] = max(spec["window_ms"], 3_600_000)
    policy["tick_ms"] = 1
    store = Store(redis.url, deadline="30s", connect_deadline="30s", prefix="traces:")
    RedisPlayer(trace, limiter_of(policy, store=store, name=path.stem)).play()


def test_all_traces_are_found():
    assert len(TRACES) >= 150
    assert len(MOMENTS) >= 5
