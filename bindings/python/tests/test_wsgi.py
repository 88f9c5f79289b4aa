"""Flask, Django and plain WSGI behind real servers; gunicorn's workers share one limit."""

import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from wsgiref.simple_server import make_server

import httpx
from conftest import PATIENCE, asgi_server, eventually, free_port, process, wsgi_server

import slidegate.flask
import slidegate.wsgi
from slidegate import Limiter, ManualClock, RateLimit


def flask_app(rules, **options):
    from flask import Flask, request

    app = Flask(__name__)
    limiter = slidegate.flask.RateLimiter(app, rules, **options)

    @app.get("/")
    def page():
        return "hello", int(request.args.get("status", 200))

    @app.get("/export")
    @limiter.limit(RateLimit("1/hour", key=lambda request: request.args["user"]))
    def export():
        return "file"

    return app


def test_flask_denies_and_recovers(client):
    clock = ManualClock()
    app = flask_app(RateLimit(Limiter("3/minute", name="site", clock=clock)))
    with wsgi_server(app) as url:
        first = client.get(url)
        assert (first.text, first.headers["x-ratelimit-remaining"]) == ("hello", "2")
        export = client.get(url + "/export?user=a")
        # The fields describe the rule of the view.
        assert (export.text, export.headers["x-ratelimit-limit"]) == ("file", "1")
        denied = client.get(url + "/export?user=a")
        assert denied.status_code == 429 and denied.headers["x-ratelimit-limit"] == "1"
        denied = client.get(url)
        assert (denied.status_code, denied.headers["retry-after"]) == (429, "60")
        assert denied.json()["violated-policies"] == ["site"]
        clock.advance(60)
        assert client.get(url).status_code == 200


def test_flask_counts_failures_and_has_another_response(client):
    def on_denied(request, denied):
        return {"path": request.path}, denied.status, denied.headers

    app = flask_app(RateLimit("1/hour", count="failed"), on_denied=on_denied)
    with wsgi_server(app) as url:
        assert [client.get(url).status_code for _ in range(3)] == [200] * 3
        assert client.get(url + "?status=500").status_code == 500
        denied = client.get(url)
        assert denied.status_code == 429 and denied.json() == {"path": "/"}


def test_any_wsgi_application_is_limited(client):
    def app(environ, start_response):
        start_response("204 No Content", [("x-ratelimit-limit", "own")])
        return [b""]

    limited = slidegate.wsgi.RateLimitMiddleware(app, [RateLimit("1/hour", key="header:x-user")])
    with wsgi_server(limited) as url:
        first = client.get(url, headers={"x-user": "a"})
        # A field of the application is kept.
        assert (first.status_code, first.headers["x-ratelimit-limit"]) == (204, "own")
        assert client.get(url, headers={"x-user": "a"}).status_code == 429
        assert client.get(url, headers={"x-user": "b"}).status_code == 204
        # The server joins the lines of a field that is repeated.
        several = [("x-user", "c"), ("x-user", "junk")]
        assert client.get(url, headers=several).status_code == 403
        # Without the field, requests are counted by address.
        assert [client.get(url).status_code for _ in range(2)] == [204, 429]


def test_a_denied_head_request_has_no_body():
    def app(environ, start_response):
        start_response("200 OK", [])
        return []

    limited = slidegate.wsgi.RateLimitMiddleware(app, "1/hour")
    # This server sends everything that it gets.
    server = make_server("127.0.0.1", 0, limited)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def ask(method):
        with socket.create_connection(("127.0.0.1", server.server_port), PATIENCE) as connection:
            connection.sendall(f"{method} / HTTP/1.0\r\n\r\n".encode())
            reply = b"".join(iter(lambda: connection.recv(65536), b""))
        head, body = reply.split(b"\r\n\r\n", 1)
        return head.split(b" ")[1], len(body)

    try:
        assert ask("GET") == (b"200", 0)
        status, length = ask("GET")
        assert status == b"429" and length > 0
        assert ask("HEAD") == (b"429", 0)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_django_denies_synchronously_and_asynchronously(client):
    import django
    from django.conf import settings

    clock = ManualClock()
    settings.configure(
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=__name__,
        MIDDLEWARE=["slidegate.django.RateLimitMiddleware"],
        SLIDEGATE={"rules": RateLimit(Limiter("4/minute", name="site", clock=clock))},
    )
    django.setup()
    from django.core.exceptions import BadRequest, PermissionDenied
    from django.core.asgi import get_asgi_application
    from django.core.wsgi import get_wsgi_application
    from django.http import Http404, HttpResponse
    from django.test import Client
    from django.urls import path
    from django.utils.decorators import method_decorator
    from django.views import View

    from slidegate.django import rate_limit

    errors = {"404": Http404(), "403": PermissionDenied(), "400": BadRequest(), "500": ValueError()}

    @rate_limit(RateLimit(Limiter("1/hour", name="view", clock=clock)))
    def limited(request):
        return HttpResponse("limited")

    @rate_limit("1/hour")
    async def limited_async(request):
        return HttpResponse("limited")

    successful = RateLimit(Limiter("9/hour"), key="all", count="successful")
    seen = []
    recorded = RateLimit("9/hour", key="all", count=lambda status: seen.append(status))

    @rate_limit([successful, recorded])
    def failing(request):
        raise errors[request.GET["error"]]

    @rate_limit([successful, recorded])
    async def failing_async(request):
        raise errors[request.GET["error"]]

    class Asynchronous(View):
        async def get(self, request):
            return HttpResponse("limited")

    @method_decorator(rate_limit("1/hour"), name="dispatch")
    class Decorated(Asynchronous):
        pass

    async def on_denied(request, denied):
        return HttpResponse("slow down", status=denied.status)

    @rate_limit("1/hour", on_denied=on_denied)
    async def with_own_denial(request):
        return HttpResponse("limited")

    globals()["urlpatterns"] = [
        path("own-denial", with_own_denial),
        path("class", rate_limit("1/hour")(Asynchronous.as_view())),
        path("decorated-class", Decorated.as_view()),
        path("failing", failing),
        path("failing-async", failing_async),
        path("", lambda request: HttpResponse("hello")),
        path("limited", limited),
        path("async", limited_async),
    ]
    for serve, app in (
        (wsgi_server, get_wsgi_application()),
        (asgi_server, get_asgi_application()),
    ):
        with serve(app) as url:
            first = client.get(url)
            assert (first.text, first.headers["x-ratelimit-remaining"]) == ("hello", "3")
            page = "/limited" if serve is wsgi_server else "/async"
            assert client.get(url + page).text == "limited"
            assert client.get(url + page).status_code == 429
            client.get(url)
            denied = client.get(url)
            assert (denied.status_code, denied.headers["retry-after"]) == (429, "60")
            assert denied.headers["content-type"] == "application/problem+json"
        clock.advance(3600)
    with asgi_server(get_asgi_application()) as url:
        for page in ("/class", "/decorated-class"):
            assert [client.get(url + page).status_code for _ in range(2)] == [200, 429]
        clock.advance(3600)
        assert client.get(url + "/own-denial").text == "limited"
        assert client.get(url + "/own-denial").text == "slow down"
    # An exception counts with the status of the response that Django makes of it.
    site = Client(raise_request_exception=False)
    for page in ("/failing", "/failing-async"):
        for status in errors:
            clock.advance(3600)
            assert site.get(page, {"error": status}).status_code == int(status)
    assert seen == [int(status) for status in errors] * 2
    assert successful.limiter.usage("all") == [0]


APP = """
import os
from flask import Flask
from slidegate import RateLimit
from slidegate.flask import RateLimiter

app = Flask(__name__)
store = {"redis": os.environ["REDIS"], "deadline": "30s", "connect_deadline": "30s"}
RateLimiter(app, RateLimit("60/hour", name="workers", key="all", store=store))

@app.get("/")
def page():
    return str(os.getpid())
"""


def test_gunicorn_workers_share_one_limit_exactly(redis, tmp_path):
    import os

    (tmp_path / "limited_app.py").write_text(APP)
    port = free_port()
    # The application is loaded before the fork, as `--preload` does in production.
    command = [sys.executable, "-m", "gunicorn", "limited_app:app", "--preload"]
    command += ["--workers", "3", "--threads", "4", "--bind", f"127.0.0.1:{port}"]
    command += ["--timeout", "120", "--log-level", "error"]
    environment = {**os.environ, "REDIS": redis.url}
    url = f"http://127.0.0.1:{port}"
    with process(command, port, cwd=tmp_path, env=environment):

        def ask(_):
            response = httpx.get(url, timeout=PATIENCE)
            return response.status_code, response.text

        with ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(ask, range(100)))
        assert sorted(status for status, _ in answers) == [200] * 60 + [429] * 40
        workers = {text for status, text in answers if status == 200}
        assert workers, "no worker replied"
        # More workers reply sooner or later: all of them deny.
        assert eventually(lambda: ask(0)[0] == 429, "a denial")
