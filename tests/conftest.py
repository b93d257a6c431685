"""Fixtures for all tests."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared():
    """The folder with real images, weights and peers' outputs, never part of the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("VIT_EDGE_SHARED", beside))
    if not (folder / "data").is_dir():
        pytest.skip(f"needs the data folder of {folder} (VIT_EDGE_SHARED names another one)")
    return folder


@pytest.fixture(scope="session")
def base_python(tmp_path_factory):
    """The Python of a new environment with the project's wheel and its base dependencies, nothing else."""
    root, folder = Path(__file__).resolve().parents[1], tmp_path_factory.mktemp("base")
    tree = folder / "tree"
    tree.mkdir()
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / file, tree)
    for each in ("vit_edge", "export", "runtime"):
        shutil.copytree(root / each, tree / each, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))

    def run(*command, **options):
        done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    build = f"from setuptools import build_meta; print(build_meta.build_wheel({str(folder)!r}))"
    wheel = folder / run(sys.executable, "-c", build, cwd=tree).splitlines()[-1]
    run(sys.executable, "-m", "venv", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "-c", root / "constraints.txt", wheel)
    return python
