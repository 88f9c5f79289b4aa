"""The pages of the guide about Python: their code is run."""

import re
import subprocess
import sys
from pathlib import Path
from typing import List, Optional, Tuple

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"


def blocks(page: str) -> List[Tuple[Optional[str], str]]:
    """Returns the code blocks of a page, each with the file name in the line before it."""
    text = (DOCS / page).read_text()
    found = re.findall(r"(?:^`([\w.]+)`:\n\n)?^```python\n(.*?)^```$", text, re.M | re.S)
    return [(name or None, code) for name, code in found]


def test_the_app_of_the_fastapi_tutorial_passes_its_test(tmp_path: Path) -> None:
    files = blocks("tutorials/fastapi.md")
    assert [name for name, _ in files] == ["app.py", "test_app.py"]
    for name, code in files:
        (tmp_path / str(name)).write_text(code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_app.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr


SNIPPETS = blocks("how-to/from-python-limits.md")


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_code_before_and_after_the_migration_from_limits(number: int) -> None:
    _, code = SNIPPETS[number]
    exec(compile(code, f"from-python-limits.md, block {number}", "exec"), {"__name__": "page"})


def test_the_migration_shows_both_sides() -> None:
    before = [code for _, code in SNIPPETS if "from limits import" in code]
    after = [code for _, code in SNIPPETS if "from slidegate import" in code]
    assert (len(before), len(after)) == (2, 3)
