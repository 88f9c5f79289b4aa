"""`count` behind real servers: which responses count, also if the handler or the response fails."""

import pytest
from conftest import asgi_server, wsgi_server

import slidegate.asgi
import slidegate.fastapi
import slidegate.flask
import slidegate.wsgi
from slidegate import Limiter, RateLimit


def test_a_handler_can_settle_units_of_a_response_that_does_not_count(client):
    from fastapi import Depends, FastAPI, Response

    app = FastAPI()
    slidegate.fastapi.install(app)
    limiter = Limiter("10/hour")
    limit = slidegate.fastapi.RateLimit(limiter, key="all", cost=5, count="successful")

    @app.get("/")
    def page(decision=Depends(limit)):
        limiter.settle(decision.receipt, 2)
        return Response("failed", 502)

    with asgi_server(app) as url:
        response = client.get(url)
        assert (response.status_code, response.text) == (502, "failed")
    assert limiter.usage("all") == [2]


def test_a_response_counts_if_the_count_function_fails(client, caplog):
    def page(environ, start_response):
        start_response("200 OK", [])
        return [b"hello"]

    def count(status):
        raise ValueError("no such status")

    failing = RateLimit(Limiter("5/hour"), key="all", count=count)
    other = RateLimit(Limiter("5/hour"), key="all", count="failed")
    with wsgi_server(slidegate.wsgi.RateLimitMiddleware(page, [failing, other])) as url:
        response = client.get(url)
        assert (response.status_code, response.text) == (200, "hello")
    assert (failing.limiter.usage("all"), other.limiter.usage("all")) == ([1], [0])
    assert "`count` failed for status 200" in caplog.text and "no such status" in caplog.text


async def failing(scope, receive, send):
    raise ValueError("no response")


def plain(rule):
    return slidegate.asgi.RateLimitMiddleware(failing, rule)


def starlette(rule):
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.routing import Route

    def page(request):
        raise ValueError("no response")

    middleware = [Middleware(slidegate.asgi.RateLimitMiddleware, rules=rule)]
    return Starlette(routes=[Route("/", page)], middleware=middleware)


def starlette_mount(rule):
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.routing import Mount

    middleware = [Middleware(slidegate.asgi.RateLimitMiddleware, rules=rule)]
    # Outside of the middleware, Starlette turns an exception into the response for a missing page.
    return Starlette(routes=[Mount("/", routes=[], middleware=middleware)])


@pytest.mark.parametrize(
    ("make", "status"), [(plain, 500), (starlette, 500), (starlette_mount, 404)]
)
def test_an_exception_of_an_asgi_application_has_a_status(make, status, client):
    seen = []
    rule = RateLimit(Limiter("5/hour"), key="all", count=lambda status: seen.append(status))
    with asgi_server(make(rule)) as url:
        assert client.get(url).status_code == status
    assert seen == [status] and rule.limiter.usage("all") == [0]


def test_an_exception_of_a_fastapi_endpoint_is_a_failure(client):
    from fastapi import Depends, FastAPI

    app = FastAPI()
    slidegate.fastapi.install(app)
    limit = slidegate.fastapi.RateLimit(Limiter("5/hour"), key="all", count="successful")

    @app.get("/", dependencies=[Depends(limit)])
    def page():
        raise ValueError("no response")

    with asgi_server(app) as url:
        assert client.get(url).status_code == 500
    assert limit.limiter.usage("all") == [0]


def failing_at_once(environ, start_response):
    raise ValueError("no response")


def failing_generator(environ, start_response):
    raise ValueError("no response")
    yield b""


@pytest.mark.parametrize("app", [failing_at_once, failing_generator])
def test_an_exception_of_a_wsgi_application_is_a_failure(app, client):
    rule = RateLimit(Limiter("5/hour"), key="all", count="successful")
    with wsgi_server(slidegate.wsgi.RateLimitMiddleware(app, rule)) as url:
        assert client.get(url).status_code == 500
    assert rule.limiter.usage("all") == [0]


def test_the_body_of_a_wsgi_generator_is_closed(client):
    closed = []

    def app(environ, start_response):
        try:
            start_response("200 OK", [])
            yield b"hello "
            yield b"again"
        finally:
            closed.append(environ["PATH_INFO"])

    with wsgi_server(slidegate.wsgi.RateLimitMiddleware(app, "5/hour")) as url:
        response = client.get(url)
        assert (response.text, response.headers["x-ratelimit-remaining"]) == ("hello again", "4")
    assert closed == ["/"]


def test_websocket_handshakes_count_by_their_status():
    from starlette.testclient import TestClient
    from starlette.websockets import WebSocketDisconnect

    async def app(scope, receive, send):
        await receive()
        if scope["path"] == "/accepted":
            await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": 1000})

    failed = RateLimit(Limiter("5/hour"), key="all", count="failed")
    successful = RateLimit(Limiter("5/hour"), key="all", count="successful")
    server = TestClient(slidegate.asgi.RateLimitMiddleware(app, [failed, successful]))
    with server.websocket_connect("/accepted"):
        pass
    assert (failed.limiter.usage("all"), successful.limiter.usage("all")) == ([0], [1])
    with pytest.raises(WebSocketDisconnect), server.websocket_connect("/rejected"):
        pass
    assert (failed.limiter.usage("all"), successful.limiter.usage("all")) == ([1], [1])


def flask_app(rules):
    from flask import Flask, request

    app = Flask(__name__)
    slidegate.flask.RateLimiter(app, rules)

    @app.get("/")
    def page():
        return "hello", int(request.args["status"])

    @app.get("/fails")
    def fails():
        raise ValueError("no response")

    return app


def test_requests_in_one_context_of_flask_count_separately():
    rule = RateLimit(Limiter("5/hour"), key=lambda request: request.args["user"], count="failed")
    app = flask_app(rule)
    with app.app_context():
        client = app.test_client()
        client.get("/?status=401&user=a")
        last = client.get("/?status=200&user=b")
    assert (rule.limiter.usage("a"), rule.limiter.usage("b")) == ([1], [0])
    assert last.headers["x-ratelimit-remaining"] == "5"


@pytest.mark.parametrize("propagates", [False, True])
def test_an_exception_of_a_flask_view_is_a_failure(propagates, client):
    rule = RateLimit(Limiter("5/hour"), key="all", count="successful")
    app = flask_app(rule)
    app.config["PROPAGATE_EXCEPTIONS"] = propagates
    with wsgi_server(app) as url:
        assert client.get(url + "/fails").status_code == 500
    assert rule.limiter.usage("all") == [0]


@pytest.mark.parametrize("is_installed", [True, False])
def test_fastapi_limits_websocket_routes(is_installed):
    from fastapi import Depends, FastAPI, WebSocket
    from fastapi.testclient import TestClient
    from starlette.websockets import WebSocketDisconnect

    limit = slidegate.fastapi.RateLimit(Limiter("1/hour"), key=lambda request: request.url.path)
    successful = slidegate.fastapi.RateLimit(Limiter("5/hour"), key="all", count="successful")
    rules = [limit, successful] if is_installed else [limit]
    app = FastAPI(dependencies=[Depends(rule) for rule in rules])
    if is_installed:
        slidegate.fastapi.install(app)

    @app.websocket("/socket")
    async def greet(socket: WebSocket):
        await socket.accept()
        await socket.send_text("hello")
        await socket.close()

    @app.websocket("/rejected")
    async def reject(socket: WebSocket):
        await socket.close()

    server = TestClient(app)
    with server.websocket_connect("/socket") as socket:
        assert socket.receive_text() == "hello"
    for path, code in (("/socket", 1008), ("/rejected", 1000)):
        with pytest.raises(WebSocketDisconnect) as closed, server.websocket_connect(path):
            pass
        assert closed.value.code == code
    assert successful.limiter.usage("all") == [int(is_installed)]
