"""The limiter in memory: every method, errors, threads and coroutines."""

import asyncio
import pickle
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from multiprocessing import get_context

import pytest
from conftest import PATIENCE

import slidegate
from slidegate import Check, Limiter, ManualClock, check_all, check_all_async, limited

CONFIG = """
slidegate: 1
listen: {http: 127.0.0.1:8080}
policies:
  - name: api
    quotas: [2/second, {limit: 10, window: 1h}]
    tiers: {gold: [5/second, 1000/hour]}
  - name: trial
    quotas: 1/minute
    mode: shadow
"""


def test_denies_over_the_limit_and_recovers_at_the_exact_time():
    clock = ManualClock()
    limiter = Limiter("2/minute", clock=clock)
    assert limiter.check("alice") and limiter.check(b"alice")
    denied = limiter.check("alice")
    assert not denied and denied.retry_after == 60.0 and denied.receipt is None
    assert (denied.limit, denied.remaining, denied.outcome) == (2, 0, "denied")
    clock.advance(59.999)
    assert not limiter.check("alice")
    clock.advance(timedelta(milliseconds=1))
    assert limiter.check("alice").remaining == 1
    assert limiter.check("bob").remaining == 1


def test_policy_forms_are_equal():
    for policy in (
        "100/minute",
        ["100/minute"],
        {"quotas": {"limit": 100, "window": "1m"}},
        {"name": "x", "quotas": [{"limit": 100, "window_ms": 60_000}]},
    ):
        assert Limiter(policy).quotas() == ["100/minute"]
    limiter = Limiter("10/second", name="api", algorithm="gcra", tiers={"gold": "50/second"})
    assert (limiter.name, limiter.tiers, limiter.mode) == ("api", ["gold"], "enforce")
    assert limiter.quotas("gold") == ["50/second"]
    assert limiter.check("k", tier="gold").limit == 50
    assert repr(limiter) == 'Limiter("api", "10/second")'


def test_receipts_work_once():
    limiter = Limiter("10/minute")
    receipt = limiter.check("k", cost=4).receipt
    assert (receipt.units, receipt.used) == (4, False)
    assert limiter.refund(receipt) == 4
    assert receipt.used
    with pytest.raises(slidegate.SettingError, match="used already"):
        limiter.refund(receipt)
    reserved = limiter.reserve("k", 5)
    stored = pickle.loads(pickle.dumps(reserved.receipt))
    assert (stored.key, stored.units) == ("k", 5)
    assert limiter.settle(stored, 2) == 2
    assert limiter.usage("k") == [2]
    assert [units for _, units in limiter.history("k")] == [2]
    assert limiter.reset("k") and limiter.usage("k") == [0]


def test_other_operations():
    clock = ManualClock()
    limiter = Limiter("5/minute", clock=clock)
    assert limiter.peek("k", 5).remaining == 5
    assert limiter.check_at_most("k", 9).receipt.units == 5
    assert limiter.charge("k", 3) == 3
    assert limiter.usage("k") == [8]
    assert limiter.forgive("k", 4) == 4
    limiter.block("other", 30)
    assert limiter.check("other").blocked
    assert limiter.unblock("other") and limiter.check("other")
    decision = limiter.check("third", 2)
    assert limiter.uncount(decision).remaining == 5
    assert limiter.usage("third") == [0]


def test_a_settled_request_is_not_uncounted():
    limiter = Limiter("5/minute")
    decision = limiter.check("k", 3)
    limiter.settle(decision.receipt, 2)
    assert limiter.uncount(decision).receipt is None
    assert limiter.usage("k") == [2]


def test_uncounting_returns_units_that_only_the_candidate_took():
    limiter = Limiter("1/hour", name="tried", mode="shadow", candidate={"quotas": "2/hour"})

    def candidate(outcome):
        lines = slidegate.metrics().splitlines()
        lines = [line for line in lines if line.startswith("rate_limit_candidate_total")]
        mine = [line for line in lines if 'policy="tried"' in line and f'"{outcome}"' in line]
        return sum(int(line.split()[-1]) for line in mine)

    limiter.check("k")
    # Over the limit of the policy, so the decision has no receipt.
    limiter.uncount(limiter.check("k"))
    limiter.check("k")
    assert (candidate("allowed"), candidate("denied")) == (3, 0)
    limiter.check("k")
    assert (candidate("allowed"), candidate("denied")) == (3, 1)


def test_files_of_the_daemon_become_limiters(tmp_path):
    (tmp_path / "slidegate.yaml").write_text(CONFIG)
    limiters = slidegate.load(tmp_path / "slidegate.yaml", clock=ManualClock())
    assert sorted(limiters) == ["api", "trial"]
    assert limiters["api"].check("k", tier="gold").quotas[1].remaining == 999
    limiters["trial"].check("k")
    second = limiters["trial"].check("k")
    assert second.allowed and second.shadow_denied and not second.enforced


def test_several_limiters_take_all_or_nothing():
    one, other = Limiter("5/minute"), Limiter("1/minute")
    checks = [Check(one, "k", 2), Check(other, "k")]
    assert all(check_all(checks))
    assert not any(check_all(checks))
    assert (one.usage("k"), other.usage("k")) == ([2], [1])
    assert check_all([]) == []
    assert not any(asyncio.run(check_all_async([(one, "k"), (other, "k")])))
    for call in (check_all, lambda checks: asyncio.run(check_all_async(checks))):
        with pytest.raises(slidegate.SettingError, match="65 checks"):
            call([Check(one, "k")] * 65)
    assert one.usage("k") == [2]


def test_a_tier_belongs_to_its_limiter():
    one = Limiter("10/hour", tiers={"free": "1/hour", "gold": "100/hour"})
    other = Limiter("10/hour", tiers={"huge": "9999/hour", "large": "999/hour"})
    receipt = one.check("k", tier="gold").receipt
    for call in (lambda: other.refund(receipt), lambda: other.settle(receipt, 5)):
        with pytest.raises(slidegate.SettingError, match="no tier \"gold\""):
            call()
    # The error has not used the receipt.
    assert one.refund(receipt) == 1


@pytest.mark.parametrize(
    ("make", "error", "code", "message"),
    [
        (lambda: Limiter("many"), slidegate.PolicyError, "policy", "invalid quota"),
        (lambda: Limiter("1/s", limt=3), slidegate.PolicyError, "policy", "limt"),
        (lambda: Limiter("1/s").check("k", 0), slidegate.CostError, "cost", "1 to"),
        (lambda: Limiter("1/s").check("k", -1), slidegate.CostError, "cost", "-1 units"),
        (lambda: Limiter("1/s").check("k", tier="x"), slidegate.SettingError, "setting", "none"),
        (lambda: Limiter("1/s").wait("k", timeout=-1), slidegate.SettingError, "setting", "-1"),
        (lambda: Limiter("1/s", store="redis://h"), slidegate.SettingError, "setting", "name"),
        (lambda: Limiter("1/s", name=object()), slidegate.SettingError, "setting", "object"),
        (lambda: slidegate.from_yaml("policies: ["), slidegate.SettingError, "setting", "configuration"),
        (
            lambda: Limiter("1/s", algorithm="gcra").history("k"),
            slidegate.UnsupportedError,
            "unsupported",
            "history",
        ),
    ],
)
def test_errors_have_types_and_codes(make, error, code, message):
    with pytest.raises(error, match=message) as raised:
        make()
    assert raised.value.code == code
    assert isinstance(raised.value, slidegate.SlidegateError)


def test_every_code_has_a_class():
    from slidegate import _native
    from slidegate._errors import BY_CODE

    assert set(_native.CODES) <= set(BY_CODE)
    assert all(error.code == code for code, error in BY_CODE.items())


def test_wrong_types_are_type_errors():
    limiter = Limiter("1/s")
    for call in (lambda: limiter.check(7), lambda: limiter.check("k", "one"), limiter.check):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError, match="number of seconds"):
        limiter.wait("k", timeout="soon")


def test_threads_never_exceed_the_limit():
    limiter = Limiter("1000/hour")
    allowed = []

    def work():
        allowed.append(sum(limiter.check("k").allowed for _ in range(400)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(allowed) == 1000


def test_a_thread_waits_without_the_gil():
    clock = ManualClock()
    limiter = Limiter("1/minute", clock=clock)
    limiter.check("k")
    results = []
    waiter = threading.Thread(target=lambda: results.append(limiter.wait("k")))
    waiter.start()
    # This thread runs while the other one waits, so the GIL is free.
    while waiter.is_alive():
        clock.advance(60)
        waiter.join(0.01)
    assert results[0].allowed
    assert not limiter.wait("k", timeout=30)


def test_a_signal_ends_a_wait():
    limiter = Limiter("1/hour")
    limiter.check("k")

    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(Stop):
            limiter.wait("k")
    finally:
        signal.signal(signal.SIGALRM, before)


def test_coroutines_decide_like_methods():
    async def run():
        clock = ManualClock()
        limiter = Limiter("2/minute", clock=clock, tiers={"gold": "9/minute"})
        first = await limiter.check_async("k")
        assert await limiter.refund_async(first.receipt) == 1
        reserved = await limiter.reserve_async("k", 1)
        assert await limiter.settle_async(reserved.receipt, 2) == 2
        assert not await limiter.peek_async("k")
        assert (await limiter.peek_async("k", tier="gold")).remaining == 7
        assert await limiter.usage_async("k") == [2]
        assert len(await limiter.history_async("k")) >= 1
        assert await limiter.forgive_async("k", 1) == 1
        assert (await limiter.check_at_most_async("k", 5)).receipt.units == 1
        assert await limiter.charge_async("k", 1) == 1
        await limiter.block_async("k", 5)
        assert await limiter.unblock_async("k")
        assert await limiter.reset_async("k")
        assert (await limiter.uncount_async(await limiter.check_async("k"))).remaining == 2

    asyncio.run(run())


def test_coroutines_wait_in_order_and_can_be_canceled():
    async def run():
        clock = ManualClock()
        limiter = Limiter("1/minute", clock=clock)
        limiter.check("k")
        first = asyncio.ensure_future(limiter.wait_async("k"))
        second = asyncio.ensure_future(limiter.wait_async("k"))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        while not second.done():
            clock.advance(60)
            await asyncio.sleep(0.005)
        assert (await second).allowed
        # The canceled request took nothing that still counts.
        assert limiter.usage("k") == [1]
        return True

    assert asyncio.run(run())


def test_functions_are_limited_by_their_arguments():
    @limited("2/minute", key=lambda user: user)
    def send(user):
        """Sends."""
        return user

    assert (send("a"), send("a"), send("b"), send.__doc__) == ("a", "a", "b", "Sends.")
    with pytest.raises(slidegate.RateLimited) as denied:
        send("a")
    assert 0 < denied.value.retry_after <= 61
    assert denied.value.decisions[0].remaining == 0

    clock = ManualClock()
    limiter = Limiter("1/minute", clock=clock)

    @limited(limiter, cost=lambda units: units, wait=5)
    async def take(units):
        return units

    assert asyncio.run(take(1)) == 1
    with pytest.raises(slidegate.RateLimited):
        asyncio.run(take(1))
    with pytest.raises(slidegate.RateLimited) as never:
        asyncio.run(take(2))
    assert never.value.retry_after is None


def deny_in_a_process():
    limited("1/hour", cost=2)(deny_in_a_process)()


def test_a_denial_in_another_process_is_raised_here():
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        with pytest.raises(slidegate.RateLimited, match="retry never") as denied:
            pool.submit(deny_in_a_process).result(PATIENCE)
    assert (denied.value.status, denied.value.retry_after) == (429, None)


def test_asynchronous_generators_are_limited_when_they_begin():
    clock = ManualClock()
    events = []

    @limited(Limiter("1/minute", clock=clock), key="k", wait=90)
    async def items():
        try:
            events.append((yield 1))
            yield 2
        except ValueError:
            yield 3
        finally:
            events.append("closed")

    async def run():
        generator = items()
        assert [await generator.asend(None), await generator.asend("sent")] == [1, 2]
        assert await generator.athrow(ValueError) == 3
        with pytest.raises(StopAsyncIteration):
            await generator.asend(None)
        # Other tasks run while a generator waits for units.
        generator = items()
        first = asyncio.ensure_future(generator.asend(None))
        while not first.done():
            clock.advance(1)
            await asyncio.sleep(0)
        assert await first == 1
        await generator.aclose()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert events == ["sent", "closed", "closed"]

    @limited("1/hour")
    async def denied():
        yield 1

    async def collect():
        return [item async for item in denied()]

    assert asyncio.run(collect()) == [1]
    with pytest.raises(slidegate.RateLimited):
        asyncio.run(collect())


def test_metrics_show_the_limiters_of_the_process():
    limiter = Limiter("1/minute", name="measured")
    limiter.check("k")
    limiter.check("k")
    text = slidegate.metrics()
    lines = [line for line in text.splitlines() if 'policy="measured"' in line]
    counts = [line for line in lines if line.startswith("rate_limit_requests_total")]
    assert any('outcome="allowed"' in line and line.endswith(" 1") for line in counts)
    assert any('outcome="denied"' in line and line.endswith(" 1") for line in counts)
