"""A wheel, installed into a clean environment, where the examples of the README run."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import slidegate

ROOT = Path(__file__).parents[1]
SNIPPETS = re.findall(r"^## ([^\n]+)\n|^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)

#: What each example must do, by its heading: code that runs after it.
CHECKS = {
    "FastAPI": """
from fastapi.testclient import TestClient
with TestClient(app) as client:
    last = [client.get("/search", headers={"x-user": "a"}) for _ in range(6)][-1]
    assert last.status_code == 429 and last.json()["status"] == 429, last.text
    assert "429" in client.get("/openapi.json").json()["paths"]["/search"]["get"]["responses"]
""",
    "Starlette": """
from starlette.testclient import TestClient
with TestClient(app) as client:
    statuses = [client.get("/", headers={"x-api-key": "a"}).status_code for _ in range(3)]
assert statuses == [200, 200, 429], statuses
""",
    "Litestar": """
from litestar.testing import TestClient
app.register(get("/other", sync_to_thread=False)(page.fn))
with TestClient(app) as client:
    statuses = [client.get(path).status_code for path in ("/", "/other", "/", "/other")]
assert statuses == [200, 200, 429, 429], statuses
""",
    "Flask": """
client = app.test_client()
statuses = [client.post("/login", data={"user": "a"}).status_code for _ in range(6)]
assert statuses == [401] * 5 + [429], statuses
""",
    "Django": """
import django
from django.test import RequestFactory
from slidegate.django import RateLimitMiddleware
django.setup()
middleware = RateLimitMiddleware(view)
responses = [middleware(RequestFactory().get("/")) for _ in range(3)]
assert [response.status_code for response in responses] == [200, 200, 429]
assert int(responses[0]["x-ratelimit-reset"]) > 1_700_000_000
""",
    "httpx and requests": """
import threading
from wsgiref.simple_server import WSGIRequestHandler, make_server
from slidegate.wsgi import RateLimitMiddleware

class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass

def hello(environ, start_response):
    start_response("204 No Content", [])
    return []

server = make_server("127.0.0.1", 0, RateLimitMiddleware(hello, "2/second"), handler_class=Quiet)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
session.mount("http://", session.get_adapter("https://"))
assert [client.get(url).status_code, session.get(url).status_code] == [204, 204]
assert [client.get(url).status_code, session.get(url).status_code] == [204, 204]
assert pacer.stats()["refusals"] == 0
server.shutdown()
""",
}


def examples():
    """Returns the examples with their headings."""
    heading, found = "", []
    for title, code in SNIPPETS:
        heading = title or heading
        if code:
            found.append((heading, code))
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Packs the tested files with the metadata that maturin writes for a release."""
    folder = tmp_path_factory.mktemp("wheel")
    package, unpacked = Path(slidegate.__file__).parent, folder / "unpacked"
    shutil.copytree(
        package, unpacked / "slidegate", ignore=shutil.ignore_patterns("__pycache__")
    )
    scripts = sysconfig.get_path("scripts")
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    command = [f"{scripts}/maturin", "pep517", "write-dist-info"]
    command += ["--metadata-directory", str(unpacked), "--interpreter", sys.executable]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    command = [sys.executable, "-m", "wheel", "pack", str(unpacked), "--dest-dir", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """Returns the interpreter of an environment with nothing but the wheel."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=True)
    interpreter = folder / "bin" / "python"
    # Without an index and without a Rust toolchain on the search path.
    command = [str(interpreter), "-m", "pip", "install", "--no-index", "--quiet", str(wheel)]
    subprocess.run(command, check=True, env={"PATH": "/usr/bin:/bin"})
    return interpreter


def run(python, code, **variables):
    environment = {"PATH": "/usr/bin:/bin", **variables}
    command = [str(python), "-W", "ignore", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_is_for_every_newer_python(wheel):
    assert re.match(r"slidegate-\d+\.\d+\.\d+-cp39-abi3-\w+\.whl", wheel.name), wheel.name


def test_the_wheel_works_without_anything_else(python):
    code = "import slidegate; print(slidegate.Limiter('1/hour').check('k'), slidegate.__file__)"
    said = run(python, code)
    assert "allowed=True" in said and str(python.parents[1]) in said


@pytest.mark.parametrize(
    ("heading", "code"), examples(), ids=[heading for heading, _ in examples()]
)
def test_examples_of_the_readme_run(heading, code, python, redis):
    # The frameworks are those of the tests. The package is that of the wheel.
    frameworks = sysconfig.get_path("purelib")
    code = code.replace("redis://127.0.0.1:6379", redis.url).replace("50ms", "30s")
    code += CHECKS.get(heading, "")
    code += "\nimport slidegate\nprint(slidegate.__file__)"
    assert str(python.parents[1]) in run(python, code, PYTHONPATH=frameworks)


def test_each_framework_has_an_example():
    assert len(examples()) >= 10
    assert set(CHECKS) <= {heading for heading, _ in examples()}
