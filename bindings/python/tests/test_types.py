"""The annotations: complete, and equal to what the native module has."""

import subprocess
import sys
from pathlib import Path

import slidegate

PACKAGE = Path(slidegate.__file__).parent


def run(*arguments):
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stub_matches_the_native_module():
    run("mypy.stubtest", "slidegate._native")


def test_the_package_passes_strict_type_checks(tmp_path):
    run("mypy", "--cache-dir", str(tmp_path), str(PACKAGE))


def test_the_package_is_marked_as_typed():
    assert (PACKAGE / "py.typed").is_file()
