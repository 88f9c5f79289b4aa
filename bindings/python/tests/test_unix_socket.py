"""Servers on unix sockets: their clients have no address."""

import sys

import httpx
import pytest
from conftest import PATIENCE, asgi_server, process

import slidegate.asgi
import slidegate.fastapi
from slidegate import RateLimit

APP = """
from flask import Flask
import slidegate.flask
import slidegate.wsgi
from slidegate import RateLimit

def rule():
    return RateLimit("1/hour", trusted_proxies=["127.0.0.1"])

def hello(environ, start_response):
    start_response("200 OK", [("content-length", "0")])
    return []

plain = slidegate.wsgi.RateLimitMiddleware(hello, rule())

flask = Flask(__name__)
slidegate.flask.RateLimiter(flask, rule())

@flask.get("/")
def page():
    return "hello"
"""

DJANGO = """
import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path
from slidegate import RateLimit

settings.configure(
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    MIDDLEWARE=["slidegate.django.RateLimitMiddleware"],
    SLIDEGATE={"rules": RateLimit("1/hour", trusted_proxies=["127.0.0.1"])},
)
urlpatterns = [path("", lambda request: HttpResponse("hello"))]
wsgi = get_wsgi_application()
asgi = get_asgi_application()
"""


def statuses(socket):
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), timeout=PATIENCE) as client:
        proxied = {"x-forwarded-for": "192.0.2.1"}
        requests = [{}, {}, proxied, proxied]
        return [client.get("http://localhost/", headers=each).status_code for each in requests]


def asgi():
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    routes = [Route("/", lambda request: PlainTextResponse("hello"))]
    rule = RateLimit("1/hour", trusted_proxies=["127.0.0.1"])
    return slidegate.asgi.RateLimitMiddleware(Starlette(routes=routes), rule)


def fastapi():
    from fastapi import Depends, FastAPI

    rule = slidegate.fastapi.RateLimit("1/hour", trusted_proxies=["127.0.0.1"])
    app = FastAPI(dependencies=[Depends(rule)])
    app.get("/")(lambda: "hello")
    return app


@pytest.mark.parametrize("make", [asgi, fastapi])
def test_clients_of_an_asgi_server_on_a_unix_socket_count_as_local(make, tmp_path):
    socket = tmp_path / "socket"
    # uvicorn trusts proxies itself by default.
    with asgi_server(make(), uds=str(socket), proxy_headers=False):
        assert statuses(socket) == [200, 429] * 2


@pytest.mark.parametrize(
    ("name", "code", "server"),
    [
        ("plain", APP, "gunicorn"),
        ("flask", APP, "gunicorn"),
        ("wsgi", DJANGO, "gunicorn"),
        ("asgi", DJANGO, "uvicorn"),
    ],
)
def test_clients_of_a_server_on_a_unix_socket_count_as_local(name, code, server, tmp_path):
    (tmp_path / "limited_app.py").write_text(code)
    socket = tmp_path / "socket"
    command = [sys.executable, "-m", server, f"limited_app:{name}", "--log-level", "error"]
    if server == "gunicorn":
        command += ["--bind", f"unix:{socket}"]
    else:
        command += ["--uds", str(socket), "--no-proxy-headers", "--lifespan", "off"]
    with process(command, socket, cwd=tmp_path):
        assert statuses(socket) == [200, 429] * 2
