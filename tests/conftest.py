"""Fixtures for all tests."""

import os
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
