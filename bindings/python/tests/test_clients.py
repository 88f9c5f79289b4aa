"""httpx and requests against a real limited server."""

import asyncio
import threading
import time

import httpx
import pytest
import requests
from conftest import PATIENCE, asgi_server

import slidegate
import slidegate.asgi
from slidegate import ManualClock, Pacer, RateLimit, _native
from slidegate.httpx import AsyncPacingTransport, PacingTransport
from slidegate.requests import PacingAdapter


class Server:
    """Counts requests by status, and replies what a test wants."""

    def __init__(self, replies=()):
        self.replies, self.seen = list(replies), []
        self.lock = threading.Lock()

    async def __call__(self, scope, receive, send):
        body = (await receive()).get("body", b"")
        with self.lock:
            status, headers = self.replies.pop(0) if self.replies else (200, {})
            self.seen.append((scope["method"], status, body))
        fields = [(name.encode(), value.encode()) for name, value in headers.items()]
        fields.append((b"content-length", b"0"))
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body"})


def limited(server, policy):
    """Adds a real limit to a server, with the header fields of this package."""
    return slidegate.asgi.RateLimitMiddleware(server, RateLimit(policy))


def test_httpx_paces_before_the_limit_is_hit():
    server = Server()
    with asgi_server(limited(server, "5/second")) as url:
        with httpx.Client(transport=PacingTransport(), timeout=PATIENCE) as client:
            statuses = [client.get(url).status_code for _ in range(12)]
            stats = client._transport.pacer.stats()
    assert statuses == [200] * 12
    # Every request was sent once: none was refused, although the limit was reached twice.
    assert (stats["sent"], stats["retries"], stats["refusals"]) == (12, 0, 0)
    assert len(server.seen) == 12


def test_requests_paces_threads_of_one_session():
    server = Server()
    pacer = Pacer()
    with asgi_server(limited(server, "5/second")) as url, requests.Session() as session:
        session.mount("http://", PacingAdapter(pacer=pacer))
        statuses = []

        def work():
            for _ in range(4):
                statuses.append(session.get(url, timeout=PATIENCE).status_code)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert statuses == [200] * 12
    assert pacer.stats()["sent"] == 12 + pacer.stats()["retries"]


def test_tasks_share_one_pacer():
    server = Server()
    pacer = Pacer()

    async def run(url):
        transport = AsyncPacingTransport(pacer=pacer)
        async with httpx.AsyncClient(transport=transport, timeout=PATIENCE) as client:
            responses = await asyncio.gather(*(client.get(url) for _ in range(12)))
        return [response.status_code for response in responses]

    with asgi_server(limited(server, "5/second")) as url:
        assert asyncio.run(run(url)) == [200] * 12
    assert pacer.stats()["waiting"] == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"retry-after": "1"},
        {"x-ratelimit-limit": "9", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"},
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "EPOCH"},
        {"ratelimit": '"api";r=0;t=1', "ratelimit-policy": '"api";q=9;w=60'},
        {},
    ],
    ids=["retry-after", "delta", "epoch", "ratelimit", "no time"],
)
def test_refused_requests_are_sent_again(headers):
    now = int(time.time())
    headers = {name: value.replace("EPOCH", str(now + 2)) for name, value in headers.items()}
    server = Server([(429, headers), (429, headers)])
    transport = PacingTransport(pacer=Pacer(backoff_first=0.01))
    with asgi_server(server) as url:
        with httpx.Client(transport=transport, timeout=PATIENCE) as client:
            response = client.post(url, content=b"body")
    assert (response.status_code, response.extensions["slidegate"]) == (200, {"attempts": 3})
    # The body is sent every time.
    assert server.seen == [("POST", 429, b"body")] * 2 + [("POST", 200, b"body")]


def test_only_safe_requests_are_sent_again():
    failed = (503, {"retry-after": "0"})
    for method, options, sent in (
        ("GET", {}, 2),
        ("PUT", {"data": b"body"}, 2),
        # The server may have handled it.
        ("POST", {"data": b"body"}, 1),
        ("POST", {"data": b"body", "headers": {"Idempotency-Key": "1"}}, 2),
        # It can be read once.
        ("PUT", {"data": iter([b"body"])}, 1),
    ):
        server = Server([failed])
        with asgi_server(server) as url, requests.Session() as session:
            session.mount("http://", PacingAdapter(pacer=Pacer(backoff_first=0.01)))
            response = session.request(method, url, timeout=PATIENCE, **options)
        assert len(server.seen) == response.attempts == sent, (method, options)


def test_the_retry_budget_bounds_retries():
    server = Server([(429, {})] * 100)
    pacer = Pacer(backoff_first=0, backoff_max=0, budget_percent=0, budget_floor=3)
    with asgi_server(server) as url:
        with httpx.Client(transport=PacingTransport(pacer=pacer), timeout=PATIENCE) as client:
            statuses = [client.get(url).status_code for _ in range(4)]
    assert statuses == [429] * 4
    # Three retries, and at most a few that the budget earned meanwhile.
    assert 3 <= pacer.stats()["retries"] <= 6


def test_a_wait_past_the_deadline_is_an_error():
    server = Server([(429, {"retry-after": "3600"})])
    pacer = Pacer(deadline=5)
    with asgi_server(server) as url:
        with httpx.Client(transport=PacingTransport(pacer=pacer), timeout=PATIENCE) as client:
            # The request cannot be sent again in time, so its response is returned.
            assert client.get(url).status_code == 429
            # Other requests to that server are not sent.
            with pytest.raises(slidegate.PacingDeadline, match="deadline"):
                client.get(url)
    assert len(server.seen) == 1


def test_scopes_have_separate_quotas():
    server = Server([(429, {"retry-after": "3600"})])
    pacer = Pacer(deadline=5, scope=lambda request: ("api", request.headers.get("x-user", "")))
    with asgi_server(server) as url:
        with httpx.Client(transport=PacingTransport(pacer=pacer), timeout=PATIENCE) as client:
            assert client.get(url, headers={"x-user": "a"}).status_code == 429
            with pytest.raises(slidegate.PacingDeadline):
                client.get(url, headers={"x-user": "a"})
            assert client.get(url, headers={"x-user": "b"}).status_code == 200
    assert pacer.stats()["scopes"] == 2


def test_backoff_doubles_up_to_half_a_minute():
    clock = ManualClock()
    waits = []
    for _ in range(40):
        pacing = _native.Pacing(clock=clock, deadline=3600, attempts_max=12, budget_floor=100)
        ticket = pacing.begin("host")
        own = []
        while True:
            wait = pacing.ask(ticket)
            if wait is not None:
                own.append(wait)
                clock.advance(wait + 0.000_001)
                continue
            if not pacing.answer(ticket, 429, [], "GET", False, True):
                break
        pacing.end(ticket)
        waits.append(own)
    assert max(wait for own in waits for wait in own) <= 30
    # The first wait is at most half a second. Later ones are longer, and random.
    assert max(own[0] for own in waits) <= 0.5
    assert max(own[-1] for own in waits) > 10
    assert len({own[-1] for own in waits}) > 30


def test_invalid_settings_are_rejected():
    with pytest.raises(slidegate.SettingError, match="attempts_max"):
        Pacer(attempts_max=0)


def test_a_canceled_task_leaves_the_queue():
    async def run(url):
        pacer = Pacer()
        transport = AsyncPacingTransport(pacer=pacer)
        async with httpx.AsyncClient(transport=transport, timeout=PATIENCE) as client:
            task = asyncio.ensure_future(client.get(url))
            while pacer.stats()["waiting"] == 0:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return pacer.stats()["waiting"]

    server = Server([(429, {"retry-after": "60"})])
    with asgi_server(server) as url:
        assert asyncio.run(run(url)) == 0
