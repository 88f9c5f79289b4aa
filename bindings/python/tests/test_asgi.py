"""FastAPI, Starlette and Litestar behind a real uvicorn, with real sockets."""

import httpx
import pytest
from conftest import PATIENCE, asgi_server, eventually

import slidegate.asgi
import slidegate.fastapi
from slidegate import Limiter, ManualClock, RateLimit


def starlette(rules, **options):
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def page(request):
        return PlainTextResponse("hello", int(request.query_params.get("status", 200)))

    middleware = Middleware(slidegate.asgi.RateLimitMiddleware, rules=rules, **options)
    return Starlette(routes=[Route("/", page)], middleware=[middleware])


def litestar(rules):
    from litestar import Litestar, get
    from litestar.middleware import DefineMiddleware

    @get("/", sync_to_thread=False)
    def page() -> str:
        return "hello"

    middleware = DefineMiddleware(slidegate.asgi.RateLimitMiddleware, rules=rules)
    return Litestar([page], middleware=[middleware], openapi_config=None)


@pytest.mark.parametrize("make", [starlette, litestar])
def test_a_limited_server_denies_and_recovers(make, client):
    clock = ManualClock()
    app = make([RateLimit(Limiter("2/minute", name="api", clock=clock))])
    with asgi_server(app) as url:
        first = client.get(url)
        assert (first.status_code, first.text) == (200, "hello")
        assert first.headers["ratelimit"].startswith('"api";r=1')
        assert first.headers["ratelimit-policy"] == '"api";q=2;w=60'
        assert first.headers["x-ratelimit-remaining"] == "1"
        client.get(url)
        denied = client.get(url, headers={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})
        assert (denied.status_code, denied.headers["retry-after"]) == (429, "60")
        assert denied.headers["content-type"] == "application/problem+json"
        assert denied.headers["cache-control"] == "no-store"
        problem = denied.json()
        assert problem["violated-policies"] == ["api"]
        assert problem["trace_id"] == "a" * 32
        clock.advance(60)
        assert client.get(url).status_code == 200


def test_rules_choose_key_cost_and_tier(client):
    async def tier(request):
        return "gold" if request.header("x-plan") == "gold" else None

    by_user = RateLimit(
        Limiter("3/hour", tiers={"gold": "100/hour"}, name="users"),
        key="header:x-user",
        missing_key="deny",
        cost=lambda request: int(request.header("x-cost") or 1),
        tier=tier,
        skip=lambda request: request.path == "/health",
    )
    everyone = RateLimit(Limiter("4/hour", name="all"), key="all")
    with asgi_server(starlette([by_user, everyone])) as url:
        assert client.get(url).status_code == 403
        assert client.get(url + "/health").status_code == 404

        def ask(user, **headers):
            return client.get(url, headers={"x-user": user, **headers}).status_code

        assert ask("a", **{"x-cost": "3"}) == 200
        # Denied by one rule, so that the other one is not charged either.
        assert [ask("a"), ask("a"), ask("a")] == [429] * 3
        assert ask("a", **{"x-plan": "gold"}) == 200
        assert ask("b") == 200
        # The rule for everyone counts the health check and three allowed requests.
        assert ask("c") == 429


@pytest.mark.parametrize(("mode", "status"), [("enforce", 403), ("shadow", 200), ("off", 200)])
def test_a_missing_key_is_denied_only_if_the_policy_is_enforced(client, mode, status):
    rule = RateLimit(Limiter("1/hour", mode=mode), key="header:x-user", missing_key="deny")
    with asgi_server(starlette(rule)) as url:
        assert [client.get(url).status_code for _ in range(2)] == [status] * 2


def several(value, *others):
    return [("x-user", value), *(("x-user", other) for other in others)]


@pytest.mark.parametrize(
    ("duplicates", "statuses"),
    [("deny", [403] * 3), ("first", [200, 200, 429]), ("last", [200] * 3)],
)
def test_a_header_with_several_values_is_no_new_key(client, duplicates, statuses):
    limiter = Limiter("2/hour")
    app = starlette(RateLimit(limiter, key="header:x-user", duplicates=duplicates))
    with asgi_server(app) as url:
        junk = [several("valid", f"junk{turn}") for turn in range(3)]
        assert [client.get(url, headers=fields).status_code for fields in junk] == statuses
        # A proxy may join lines.
        joined = client.get(url, headers=several("valid, other"))
        assert joined.status_code == {"deny": 403, "first": 429, "last": 200}[duplicates]
        assert duplicates == "first" or client.get(url, headers=several("valid")).status_code == 200


def test_several_values_are_denied_only_if_the_policy_is_enforced(client):
    rule = RateLimit(Limiter("1/hour", mode="shadow"), key="header:x-user")
    with asgi_server(starlette(rule)) as url:
        assert client.get(url, headers=several("valid", "junk")).status_code == 200


def test_failures_count_and_successes_do_not(client):
    rule = RateLimit(Limiter("2/hour"), count="failed")
    with asgi_server(starlette(rule)) as url:
        for _ in range(5):
            response = client.get(url)
            assert (response.status_code, response.headers["x-ratelimit-remaining"]) == (200, "2")
        assert client.get(url + "?status=401").headers["x-ratelimit-remaining"] == "1"
        assert client.get(url + "?status=401").status_code == 401
        assert client.get(url).status_code == 429
    rule = RateLimit(Limiter("1/hour"), count="successful")
    with asgi_server(starlette(rule)) as url:
        statuses = [client.get(url + query).status_code for query in ("?status=404", "", "")]
        assert statuses == [404, 200, 429]


@pytest.mark.parametrize(
    "options",
    [
        {"key": "address"},
        {"key": "header:not a name"},
        {"missing_key": "none"},
        {"duplicates": "first"},
        {"key": "header:x-user", "duplicates": "join"},
        {"count": "some"},
        {"ipv4_prefix": 33},
    ],
)
def test_invalid_options_of_rules_are_rejected(options):
    with pytest.raises(slidegate.SettingError, match="use|range|prefix"):
        RateLimit("1/hour", **options)


def test_denials_can_have_another_response(client):
    from starlette.responses import JSONResponse

    def on_denied(request, denied):
        return JSONResponse({"path": request.path}, 429, dict(denied.headers))

    app = starlette("1/hour", on_denied=on_denied, x_ratelimit="off", ratelimit="off")
    with asgi_server(app) as url:
        assert "x-ratelimit-limit" not in client.get(url).headers
        denied = client.get(url)
        assert denied.json() == {"path": "/"} and "retry-after" in denied.headers


def test_trusted_proxies_name_the_client(client):
    rule = RateLimit(Limiter("1/hour"), trusted_proxies=["127.0.0.0/8"])
    with asgi_server(starlette(rule), proxy_headers=False) as url:

        def ask(address):
            return client.get(url, headers={"x-forwarded-for": address}).status_code

        # The first address is the client's own claim, the last one is from the proxy.
        assert [ask("192.0.2.1"), ask("1.1.1.1, 192.0.2.1"), ask("192.0.2.2")] == [200, 429, 200]


def test_websocket_handshakes_are_limited():
    async def echo(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": 1000})

    from starlette.testclient import TestClient
    from starlette.websockets import WebSocketDisconnect

    app = TestClient(slidegate.asgi.RateLimitMiddleware(echo, "1/hour"))
    with app.websocket_connect("/"):
        pass
    with pytest.raises(WebSocketDisconnect) as closed, app.websocket_connect("/"):
        pass
    assert closed.value.code == 1008


def fastapi(clock=None, install=True, **store):
    from fastapi import APIRouter, Depends, FastAPI, Response

    app = FastAPI()
    if install:
        slidegate.fastapi.install(app)
    limiter = Limiter("2/minute", name="items", clock=clock, **store)
    limit = slidegate.fastapi.RateLimit(limiter)

    @app.get("/items", dependencies=[Depends(limit)])
    async def items():
        return ["one"]

    @app.get("/raw", dependencies=[Depends(limit)])
    def raw():
        return Response("raw")

    login = slidegate.fastapi.RateLimit("2/hour", key="header:x-user", count="failed")
    router = APIRouter(prefix="/auth")

    @router.post("/login")
    def log_in(status: int, response: Response, decision=Depends(login)):
        response.status_code = status
        return decision.remaining

    @app.get("/free")
    def free():
        return "free"

    app.include_router(router)
    return app


def test_fastapi_denies_and_recovers(client):
    clock = ManualClock()
    with asgi_server(fastapi(clock)) as url:
        first = client.get(url + "/items")
        assert first.json() == ["one"] and first.headers["x-ratelimit-remaining"] == "1"
        # A response of the endpoint's own has the fields, too.
        assert client.get(url + "/raw").headers["x-ratelimit-remaining"] == "0"
        denied = client.get(url + "/items")
        assert denied.status_code == 429 and denied.headers["retry-after"] == "60"
        assert denied.headers["content-type"] == "application/problem+json"
        problem = slidegate.fastapi.Problem.model_validate_json(denied.text)
        assert (problem.status, problem.violated_policies) == (429, ["items"])
        assert client.get(url + "/free").status_code == 200
        clock.advance(60)
        assert client.get(url + "/items").status_code == 200


def test_fastapi_counts_failures_of_a_login(client):
    with asgi_server(fastapi()) as url:

        def log_in(status):
            headers = {"x-user": "alice"}
            return client.post(url + "/auth/login", params={"status": status}, headers=headers)

        assert [log_in(200).status_code for _ in range(4)] == [200] * 4
        assert [log_in(401).status_code for _ in range(3)] == [401, 401, 429]


def test_fastapi_without_install_still_limits(client):
    with asgi_server(fastapi(install=False)) as url:
        assert client.get(url + "/items").headers["x-ratelimit-remaining"] == "1"
        client.get(url + "/items")
        denied = client.get(url + "/items")
        assert denied.status_code == 429 and "retry-after" in denied.headers
        assert denied.json()["detail"]["violated-policies"] == ["items"]


def test_openapi_documents_the_denial_of_limited_operations():
    schema = fastapi().openapi()
    for path, method in (("/items", "get"), ("/auth/login", "post")):
        response = schema["paths"][path][method]["responses"]["429"]
        content = response["content"]["application/problem+json"]
        assert content["schema"]["$ref"] == "#/components/schemas/Problem"
    assert "429" not in schema["paths"]["/free"]["get"]["responses"]
    properties = schema["components"]["schemas"]["Problem"]["properties"]
    assert {"status", "detail", "violated-policies", "retry_after"} <= set(properties)


def test_fastapi_survives_the_end_of_redis(own_redis, client):
    store = {"redis": own_redis.url, "deadline": "2s"}
    app = fastapi(store=store, failure_mode="deny")
    with asgi_server(app) as url:

        def status():
            return client.get(url + "/raw").status_code

        eventually(lambda: status() == 200, "a decision by Redis")
        own_redis.stop()
        failed = client.get(url + "/items")
        assert failed.status_code == 503 and "violated-policies" not in failed.json()
        assert client.get(url + "/free").status_code == 200
        own_redis.start()
        # The new server is empty.
        eventually(lambda: status() == 200, "an allowed request after the restart")


def test_concurrent_requests_share_one_limit_in_redis(redis):
    import asyncio

    store = {"redis": redis.url, "deadline": "30s", "connect_deadline": "30s"}
    rule = RateLimit(Limiter("25/hour", name="concurrent", store=store), key="all")
    with asgi_server(starlette(rule)) as url:

        async def run():
            async with httpx.AsyncClient(timeout=PATIENCE) as client:
                responses = await asyncio.gather(*(client.get(url) for _ in range(40)))
            return sorted(response.status_code for response in responses)

        assert asyncio.run(run()) == [200] * 25 + [429] * 15
