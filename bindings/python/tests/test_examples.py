"""The service in `examples/fastapi` of the repository, as its page starts it."""

import pathlib
import subprocess
import sys

import httpx
from conftest import accepts, eventually, free_port

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples/fastapi"


def test_the_sixth_request_to_the_fastapi_example_is_denied():
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "app:app", "--port", str(port)]
    service = subprocess.Popen([*command, "--log-level", "error"], cwd=EXAMPLE)
    try:
        eventually(lambda: accepts(port), "the start of uvicorn")
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            for _ in range(5):
                response = client.get("/")
                assert (response.status_code, response.text) == (200, "hello\n")
            denied = client.get("/")
        assert denied.status_code == 429
        assert int(denied.headers["retry-after"]) > 0
    finally:
        service.kill()
        service.wait()
