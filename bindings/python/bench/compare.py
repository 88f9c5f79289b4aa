"""Compares this package with ``limits`` (moving window, memory) and ``slowapi`` in one run.

Timings on a shared machine vary, so contenders take turns, and the ratio of each turn counts.
Needs a release build, and ``wrk`` for the requests per second.
"""

import argparse
import contextlib
import gc
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

LIMIT = 100


def ours():
    from slidegate import Limiter

    limiter = Limiter(f"{LIMIT}/hour", memory_limit_mb=2048)
    return lambda key: limiter.check(key).allowed


def limits_moving_window():
    from limits import RateLimitItemPerHour, storage, strategies

    limiter = strategies.MovingWindowRateLimiter(storage.MemoryStorage())
    item = RateLimitItemPerHour(LIMIT)
    return lambda key: limiter.hit(item, key)


CONTENDERS = {"slidegate": ours, "limits": limits_moving_window}


def nanoseconds(check, keys, rounds):
    gc.collect()
    began = time.perf_counter_ns()
    for _ in range(rounds):
        for key in keys:
            check(key)
    return (time.perf_counter_ns() - began) / (rounds * len(keys))


def speed(turns):
    """One key far over its limit, and a thousand keys that fill up."""
    for name, keys, rounds in (
        ("denied, 1 key", ["alice"], 20_000),
        (f"allowed, {LIMIT} requests to 1000 keys", None, LIMIT),
    ):
        times = {contender: [] for contender in CONTENDERS}
        for turn in range(turns):
            for contender, make in CONTENDERS.items():
                check = make()
                if keys is not None:
                    for _ in range(LIMIT):
                        assert check(keys[0])
                mine = keys or [f"user-{turn}-{number}" for number in range(1000)]
                times[contender].append(nanoseconds(check, mine, rounds))
        ratio = statistics.median(
            theirs / own for theirs, own in zip(times["limits"], times["slidegate"])
        )
        shown = ", ".join(f"{who} {statistics.median(t):.0f} ns" for who, t in times.items())
        print(f"check, {name}: {shown}; limits takes {ratio:.1f} times as long")


def resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def memory(contender, keys):
    """Prints the bytes per key with as many requests as the limit. A process of its own."""
    check = CONTENDERS[contender]()
    check("warm")
    names = [f"user-{number:06}" for number in range(keys)]
    gc.collect()
    before = resident()
    for _ in range(LIMIT):
        for name in names:
            assert check(name)
    print((resident() - before) / keys)


def memory_of_all(keys):
    used = {}
    for contender in CONTENDERS:
        command = [sys.executable, __file__, "--memory-of", contender, "--keys", str(keys)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        used[contender] = float(done.stdout)
    shown = ", ".join(f"{who} {used[who]:.0f} bytes" for who in used)
    ratio = used["limits"] / used["slidegate"]
    print(f"memory per key at limit {LIMIT}: {shown}; limits takes {ratio:.0f} times as much")


def app(contender):
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def page(request):
        return PlainTextResponse("hello")

    routes = [Route("/", page)]
    if contender == "slidegate":
        from slidegate.asgi import RateLimitMiddleware

        own = Middleware(RateLimitMiddleware, rules="1000000/hour")
        return Starlette(routes=routes, middleware=[own])
    if contender == "slowapi":
        from slowapi import Limiter
        from slowapi.middleware import SlowAPIASGIMiddleware
        from slowapi.util import get_remote_address

        limited = Starlette(routes=routes, middleware=[Middleware(SlowAPIASGIMiddleware)])
        limited.state.limiter = Limiter(
            key_func=get_remote_address,
            default_limits=["1000000/hour"],
            strategy="moving-window",
            headers_enabled=True,
        )
        return limited
    return Starlette(routes=routes)


def serve(contender, port):
    import uvicorn

    uvicorn.run(app(contender), host="127.0.0.1", port=port, log_level="error", access_log=False)


@contextlib.contextmanager
def server(contender):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, __file__, "--serve", contender, "--port", str(port)]
    running = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
        yield f"http://127.0.0.1:{port}/"
    finally:
        running.send_signal(signal.SIGINT)
        running.wait()


def requests_per_second(turns, seconds):
    if shutil.which("wrk") is None:
        print("requests per second: wrk is missing")
        return
    names = ["no limit", "slidegate", "slowapi"]
    rates = {name: [] for name in names}
    with contextlib.ExitStack() as stack:
        urls = {name: stack.enter_context(server(name)) for name in names}
        for _ in range(turns):
            for name in names:
                command = ["wrk", "-t1", "-c16", f"-d{seconds}s", urls[name]]
                said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                assert "Non-2xx" not in said, said
                rates[name].append(float(re.search(r"Requests/sec:\s+([\d.]+)", said).group(1)))
    for name in names:
        share = statistics.median(own / base for own, base in zip(rates[name], rates["no limit"]))
        rate = statistics.median(rates[name])
        print(f"uvicorn, {name}: {rate:.0f} requests per second, {share:.2f} of no limit")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--memory-of", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        memory(options.memory_of, options.keys)
    elif options.serve:
        serve(options.serve, options.port)
    else:
        speed(options.turns)
        memory_of_all(options.keys)
        requests_per_second(options.turns, options.seconds)


if __name__ == "__main__":
    main()
