"""Limiters in Redis: a real server, which also stops in the middle."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
from conftest import PATIENCE, eventually

import slidegate
from slidegate import Check, Limiter, Store, check_all

PATIENT = {"deadline": "30s", "connect_deadline": "30s"}


def test_limiters_share_the_units_of_a_policy(redis):
    one, other = (
        Limiter("3/hour", name="shared", store={"redis": redis.url, **PATIENT}) for _ in range(2)
    )
    assert [one.check("k").remaining, other.check("k").remaining] == [2, 1]
    receipt = one.check("k").receipt
    assert not other.check("k")
    assert one.usage("k") == other.usage("k") == [3]
    # A receipt is valid in another process, too.
    assert other.refund(slidegate.Receipt("k", receipt.units, receipt.tick, receipt.epoch)) == 1
    assert not one.in_process
    assert other.check("k") and other.reset("k") and one.usage("k") == [0]


def test_several_policies_of_a_store_decide_together(redis):
    store = Store(redis.url, **PATIENT)
    one = Limiter("5/hour", name="one", store=store)
    other = Limiter("1/hour", name="other", store=store)
    assert all(check_all([Check(one, "k", 2), Check(other, "k")]))
    assert not any(check_all([Check(one, "k", 2), Check(other, "k")]))
    assert one.usage("k") == [2]


def test_threads_share_the_limit_exactly(redis):
    limiter = Limiter("50/hour", name="threads", store={"redis": redis.url, **PATIENT})
    allowed = []

    def work():
        allowed.append(sum(limiter.check("k").allowed for _ in range(25)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(allowed) == 50


def test_coroutines_run_while_redis_decides(redis):
    async def run():
        limiter = Limiter("50/hour", name="tasks", store={"redis": redis.url, **PATIENT})
        decisions = await asyncio.gather(*(limiter.check_async("k") for _ in range(80)))
        assert sum(decision.allowed for decision in decisions) == 50
        assert await limiter.usage_async("k") == [50]
        assert not await limiter.wait_async("k", timeout=0.01)
        decisions = await slidegate.check_all_async([(limiter, "a"), (limiter, "b")])
        assert all(decisions)

    asyncio.run(run())


@pytest.mark.parametrize("in_flight_max", [1024, 2])
def test_ten_thousand_coroutines_admit_exactly_the_limit(redis, in_flight_max):
    # Every check that Redis does not decide is admitted, which is the default.
    store = {"redis": redis.url, "deadline": "500ms", "in_flight_max": in_flight_max}
    limiter = Limiter("100/hour", name=f"burst-{in_flight_max}", store=store)

    async def run():
        while (await limiter.check_async("warm")).degraded:
            pass
        decisions = await asyncio.gather(*(limiter.check_async("k") for _ in range(10_000)))
        assert Counter(decision.degraded for decision in decisions) == {None: 10_000}
        assert sum(decision.allowed for decision in decisions) == 100

    asyncio.run(run())


def test_checks_are_sent_while_python_code_runs(redis):
    limiter = Limiter("999/hour", name="busy", store={"redis": redis.url, **PATIENT})

    async def run():
        await limiter.check_async("warm")
        interval = sys.getswitchinterval()
        # No other thread gets the GIL while this one runs.
        sys.setswitchinterval(60)
        tasks = [asyncio.ensure_future(limiter.check_async("k")) for _ in range(200)]
        await asyncio.sleep(0)
        end = time.time() + 2
        while time.time() < end:
            pass
        sys.setswitchinterval(interval)
        await asyncio.gather(*tasks)
        # The server is on the same machine, so its clock is the same.
        history = await limiter.history_async("k")
        assert sum(units for _, units in history) == 200
        assert max(at for at, _ in history) < end

    asyncio.run(run())


def refunded(limiter):
    eventually(lambda: limiter.usage("k") == [0], "the refund of a canceled check")


CALLS = {
    "check": lambda limiter: limiter.check_async("k"),
    "wait": lambda limiter: limiter.wait_async("k"),
    "check_all": lambda limiter: slidegate.check_all_async([(limiter, "k")]),
    "wait_for_all": lambda limiter: slidegate.check_all_async([(limiter, "k")], timeout=9),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_check_that_is_canceled_in_flight_is_refunded(own_redis, name):
    limiter = Limiter("9/hour", name="canceled", store={"redis": own_redis.url, **PATIENT})
    limiter.check("warm")

    async def run():
        task = asyncio.ensure_future(CALLS[name](limiter))
        while not own_redis.holds_a_script():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    own_redis.command("CLIENT PAUSE 60000 WRITE")
    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    own_redis.command("CLIENT UNPAUSE")
    refunded(limiter)


def test_a_check_that_is_canceled_when_its_result_arrives_is_refunded(redis):
    limiter = Limiter("9/hour", name="arrived", store={"redis": redis.url, **PATIENT})

    async def run():
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(limiter.check_async("k"))

        def cancel_late():
            # The task goes on in the next turn of the event loop.
            if task._fut_waiter is not None and task._fut_waiter.done():
                task.cancel()
            else:
                loop.call_soon(cancel_late)

        loop.call_soon(cancel_late)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    refunded(limiter)


def test_a_canceled_wait_leaves_the_queue(redis):
    limiter = Limiter("1/hour", name="queue", store={"redis": redis.url, **PATIENT})

    async def run():
        taken = await limiter.check_async("k")
        first = asyncio.ensure_future(limiter.wait_async("k"))
        assert not await limiter.wait_async("k", timeout=0.01)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.ensure_future(limiter.wait_async("k"))
        await limiter.refund_async(taken.receipt)
        assert await second

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert limiter.usage("k") == [1]


@pytest.mark.parametrize(("mode", "allowed"), [("deny", False), ("allow", True), ("local", True)])
def test_the_failure_mode_decides_while_redis_is_down(own_redis, mode, allowed):
    limiter = Limiter(
        "2/hour", name="api", failure_mode=mode, store={"redis": own_redis.url, "deadline": "2s"}
    )
    assert eventually(lambda: limiter.check("warm").degraded is None, "a decision by Redis")
    own_redis.stop()
    decision = limiter.check("k")
    assert decision.allowed is allowed and decision.degraded
    if mode == "local":
        limiter.check("k")
        assert not limiter.check("k")
    with pytest.raises(slidegate.StoreError) as error:
        limiter.usage("k")
    assert error.value.code == "store"
    own_redis.start()
    eventually(lambda: limiter.check("other").degraded is None, "a decision by Redis")


@pytest.fixture
def warnings(caplog):
    """Returns the warnings of the package so far."""
    caplog.set_level("WARNING", "slidegate")
    own = [record for record in caplog.records if record.name == "slidegate"]
    assert own == []
    return lambda: [r.getMessage() for r in caplog.records if r.name == "slidegate"]


def test_an_outage_is_logged_once_with_its_cause_and_its_end_with_the_count(own_redis, warnings):
    limiter = Limiter("9999/hour", name="api", store={"redis": own_redis.url, "deadline": "1s"})
    eventually(lambda: limiter.check("k").degraded is None, "a decision by Redis")
    # The first checks may be degraded, because they did not wait for the connection.
    seen = len(warnings())
    own_redis.stop()
    degraded = sum(limiter.check("k").degraded is not None for _ in range(50))
    eventually(lambda: len(warnings()) > seen, "the warning about the outage")
    assert degraded >= 49 and len(warnings()) == seen + 1
    assert "failure modes decide, because Redis does not" in warnings()[-1]
    own_redis.start()
    eventually(lambda: limiter.check("k").degraded is None, "a decision by Redis")
    eventually(lambda: len(warnings()) == seen + 2, "the end of the outage")
    assert "Redis decides again" in warnings()[-1] and " checks in " in warnings()[-1]


def test_a_wrong_password_is_logged_without_it(own_redis, warnings):
    own_redis.command("CONFIG SET requirepass right")
    store = {"redis": own_redis.url, "password": "wrong-secret"}
    limiter = Limiter("1/hour", name="api", store=store)

    async def run():
        return [await limiter.check_async("k") for _ in range(20)]

    # Every check is admitted, which is the default.
    assert all(asyncio.run(run()))
    eventually(warnings, "a warning")
    (message,) = warnings()
    assert "WRONGPASS" in message and str(own_redis.port) in message
    assert "wrong-secret" not in message


ENDING = """
import asyncio, sys
from slidegate import Limiter

store = {"redis": sys.argv[1], "deadline": "30s", "connect_deadline": "30s"}
limiter = Limiter("1000000/hour", name="ending", store=store)

async def run():
    tasks = [asyncio.ensure_future(limiter.check_async("k")) for _ in range(200)]
    # The process ends while replies arrive.
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

asyncio.run(run())
"""


def test_a_process_can_end_while_replies_arrive(redis):
    for _ in range(8):
        command = [sys.executable, "-c", ENDING, redis.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_forked_process_must_not_use_an_open_connection(redis):
    limiter = Limiter("9/hour", name="fork", store={"redis": redis.url, **PATIENT})
    unused = Limiter("9/hour", name="unused", store={"redis": redis.url, **PATIENT})
    limiter.check("k")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            limiter.check("k")
            said = "no error"
        except slidegate.SettingError as error:
            said = f"{error}; remaining {unused.check('k').remaining}"
        except BaseException as error:
            said = repr(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    said = os.read(reader, 4096).decode()
    os.waitpid(child, 0)
    assert "before it forked" in said
    # A limiter that was not used before the fork works, with a runtime of its own.
    assert said.endswith("remaining 8")
