"""`count` behind real servers: which responses count, also if the handler or the response fails."""

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
