"""Hub ids, offline: a cache prepared in huggingface_hub's own layout stands for the Hub."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from vit_edge.checkpoints import LoadOptions, load_checkpoint, save_checkpoint
from vit_edge.config import ViTConfig
from vit_edge.hub import fetch, is_hub_id
from vit_edge.model import ViT
from vit_edge.preprocessing import named
from vit_edge.runtime.errors import ConfigError

huggingface_hub = pytest.importorskip("huggingface_hub")

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SMALL = ViTConfig(image_size=(16, 16), patch_size=(8, 8), width=16, depth=1, heads=2, mlp_width=32, classes=3)

Repository = Callable[..., Path]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Put files into the cache as owner/name at `COMMIT`, branch main; nothing else can be reached."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    def put(*files: Path) -> Path:
        folder = tmp_path / "cache" / "models--owner--name"
        snapshot = folder / "snapshots" / COMMIT
        snapshot.mkdir(parents=True)
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text(COMMIT)
        for file in files:
            shutil.copy(file, snapshot / file.name)
        return snapshot

    return put


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    path = tmp_path / "model.safetensors"
    save_checkpoint(ViT(SMALL), path, name="small", preprocess=named("half", (16, 16)))
    return path


def test_ids_are_told_from_paths() -> None:
    assert is_hub_id("hf:owner/name")
    assert not is_hub_id("hf/owner/name")


@pytest.mark.parametrize("name", ["hf:owner/name", "hf:owner/name@main", f"hf:owner/name@{COMMIT}"])
def test_a_cached_repository_is_found_with_its_commit(repository: Repository, weights: Path, name: str) -> None:
    snapshot = repository(weights)
    fetched = fetch(name)
    assert (fetched.path, fetched.repository, fetched.revision) == (snapshot, "owner/name", COMMIT)


def test_the_commit_goes_into_the_checkpoint(repository: Repository, weights: Path) -> None:
    repository(weights)
    loaded = load_checkpoint("hf:owner/name", LoadOptions())
    assert loaded.name == "owner/name"
    assert loaded.about["hub"] == {"repository": "owner/name", "revision": COMMIT}


def test_pickled_weights_are_taken_only_by_name(repository: Repository, weights: Path, tmp_path: Path) -> None:
    from vit_edge.hub import _PATTERNS

    assert not any(pattern.endswith((".bin", ".pth", "*")) for pattern in _PATTERNS)
    pickled = tmp_path / "pytorch_model.bin"
    torch.save(ViT(SMALL).state_dict(), pickled)
    snapshot = repository(weights, pickled)
    assert fetch("hf:owner/name/pytorch_model.bin").path == snapshot / "pytorch_model.bin"


@pytest.mark.parametrize("name", ["hf:owner/other", "hf:owner/name@v2", "hf:owner/name/missing.bin"])
def test_what_is_neither_cached_nor_reachable_is_one_line(repository: Repository, weights: Path, name: str) -> None:
    repository(weights)
    with pytest.raises(ConfigError, match="not in the local cache and cannot be fetched") as caught:
        fetch(name)
    assert str(caught.value).startswith(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["hf:", "hf:name", "hf:a/b/c/d", "hf:owner/na me", "hf:../../etc/passwd"])
def test_malformed_ids_are_refused(repository: Repository, name: str) -> None:
    with pytest.raises(ConfigError, match=r"expected hf:owner/name|cannot be fetched"):
        fetch(name)
