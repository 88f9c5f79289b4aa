"""Real servers for the tests, on loopback ports."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

import httpx
import pytest

#: A busy machine may take long. No test depends on how long something takes.
PATIENCE = 60.0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def eventually(condition, what):
    """Polls a condition until it is true."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        result = condition()
        if result:
            return result
        threading.Event().wait(0.02)
    raise AssertionError(f"{what} did not happen within {PATIENCE} s")


def accepts(port):
    """Returns whether a server listens on a port, or on the path of a unix socket."""
    family = socket.AF_INET if isinstance(port, int) else socket.AF_UNIX
    with contextlib.suppress(OSError), socket.socket(family) as probe:
        probe.settimeout(1)
        probe.connect(("127.0.0.1", port) if isinstance(port, int) else str(port))
        return True
    return False


class Redis:
    """A real server, which a test can stop and start again."""

    def __init__(self, folder):
        program = shutil.which("redis-server")
        assert program, "redis-server is missing: apt-get install redis-server"
        self.folder, self.program, self.process = folder, program, None
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        command = [self.program, "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", str(self.folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        eventually(lambda: accepts(self.port), "the start of redis-server")

    def command(self, line):
        """Sends a command and returns the reply."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as connection:
            connection.sendall(f"{line}\r\nQUIT\r\n".encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()

    def holds_a_script(self):
        """Returns whether a script waits because the server is paused."""
        clients = self.command("CLIENT LIST").splitlines()
        return any(" flags=b " in client and " cmd=eval" in client for client in clients)

    def stop(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="session")
def redis(tmp_path_factory):
    server = Redis(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture
def own_redis(tmp_path):
    server = Redis(tmp_path)
    yield server
    server.stop()


@contextlib.contextmanager
def asgi_server(app, **options):
    """Runs uvicorn in a thread and yields the address."""
    import uvicorn

    port = free_port()
    config = uvicorn.Config(
        app, host="127.0.0.1", port=port, log_level="error", lifespan="off", **options
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started, "the start of uvicorn")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@contextlib.contextmanager
def wsgi_server(app):
    """Runs Werkzeug's threaded server in a thread and yields the address."""
    from werkzeug.serving import make_server

    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def process(command, port, **options):
    """Runs a server as a process until the block ends."""
    running = subprocess.Popen(command, start_new_session=True, **options)
    try:
        eventually(lambda: accepts(port), f"the start of {command}")
        yield running
    finally:
        os.killpg(running.pid, signal.SIGTERM)
        running.wait()


@pytest.fixture
def client():
    with httpx.Client(timeout=PATIENCE) as client:
        yield client
