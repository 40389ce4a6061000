"""The package as it is installed: what old interpreters say, what it promises, and its manual."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Iterator, Optional

import pytest
import rhumb
from conftest import EXAMPLES, PATIENCE_S

PACKAGE = EXAMPLES.parent
IMPORT = "import sys; sys.path.insert(0, sys.argv[1]); import rhumb; print(rhumb.__version__)"


def wheel() -> Path:
    path = os.environ.get("RHUMB_WHEEL")
    if not path:
        pytest.skip("RHUMB_WHEEL does not name the wheel")
    return Path(path)


def interpreters() -> Iterator[tuple[tuple[int, int], str]]:
    """Others that this machine has, in `PATH` or by pyenv: version and path."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders = [*map(Path, os.environ.get("PATH", "").split(os.pathsep)), *pyenv.glob("*/bin")]
    seen = set()
    for folder in folders:
        for path in sorted(folder.glob("python[23].*")):
            named = re.fullmatch(r"python(\d)\.(\d+)", path.name)
            if named and folder.name != "shims":
                version = (int(named[1]), int(named[2]))
                if version not in seen and runs(path):
                    seen.add(version)
                    yield version, str(path)


def runs(python: Path) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


def run(*command: str) -> tuple[int, str]:
    done = subprocess.run(
        command, text=True, timeout=PATIENCE_S, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return done.returncode, done.stdout


def test_the_wheel_is_for_all_later_interpreters_and_typed() -> None:
    path = wheel()
    assert f"rhumb-{rhumb.__version__}-cp39-abi3-" in path.name
    with zipfile.ZipFile(path) as files:
        names = files.namelist()
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        said = files.read(metadata).decode()
    assert "rhumb/py.typed" in names and "rhumb/_native.pyi" in names
    assert "\nRequires-Python: >=3.9\n" in said
    assert "\nLicense-Expression: MIT OR Apache-2.0\n" in said


def test_pip_of_an_old_interpreter_says_what_is_needed() -> None:
    folder = wheel().parent
    asked = False
    for version, python in interpreters():
        if (3, 7) <= version < (3, 9):
            options = ["--no-index", "--no-input", "--disable-pip-version-check"]
            command = [python, "-m", "pip", "install", *options, "--find-links", str(folder), "rhumb"]
            code, said = run(*command)
            assert code != 0 and "3.9" in said or "No matching distribution" in said, said
            code, said = run(*command[:-3], str(wheel()))
            assert code != 0 and "not a supported wheel" in said, said
            asked = True
    if not asked:
        pytest.skip("this machine has no Python 3.7 or 3.8")


def test_an_old_interpreter_is_told_in_clear_words() -> None:
    """Even one that cannot read the syntax of the rest."""
    old = [(version, python) for version, python in interpreters() if version < (3, 9)]
    if not old:
        pytest.skip("this machine has no Python before 3.9")
    package = str(Path(rhumb.__file__).parent.parent)
    for version, python in old:
        code, said = run(python, "-c", IMPORT, package)
        expected = "rhumb needs Python 3.9 or later, and this is Python %d.%d" % version
        assert code == 1 and f"ImportError: {expected}" in said, said


def test_the_same_wheel_is_imported_by_every_later_interpreter() -> None:
    package = str(Path(rhumb.__file__).parent.parent)
    for version, python in interpreters():
        if version >= (3, 9):
            code, said = run(python, "-c", IMPORT, package)
            assert (code, said.strip()) == (0, rhumb.__version__), (version, said)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def test_the_manual_shows_what_runs() -> None:
    """Each piece of Python in it is a part of an example, which the other tests run."""
    examples = [path.read_text() for path in EXAMPLES.glob("*.py")]
    shown = blocks(PACKAGE.parent.parent / "docs" / "python.md", "python")
    assert len(shown) >= 5
    for block in shown:
        assert any(block in example for example in examples), block


def test_everything_has_words_and_is_in_the_manual() -> None:
    manual = (PACKAGE.parent.parent / "docs" / "python.md").read_text()
    for name in rhumb.__all__:
        it: Optional[object] = getattr(rhumb, name)
        assert name == "__version__" or f"`{name}" in manual, name
        if isinstance(it, type):
            assert it.__doc__, name
            for method, what in vars(it).items():
                if not method.startswith("_") and (callable(what) or isinstance(what, property)):
                    assert what.__doc__, f"{name}.{method}"


def test_the_project_is_what_was_built() -> None:
    manifest = (PACKAGE.parent.parent / "Cargo.toml").read_text()
    assert f'version = "{rhumb.__version__}"' in manifest
    assert sys.version_info >= (3, 9)
