"""Read a checkpoint file or folder safely: what it is, is told from its content, never from its name.

Nothing is unpickled beyond tensors (`weights_only=True`, `allow_pickle=False`), file names inside an index are
plain names in the same folder, and declared sizes are checked before memory is taken.
"""

import hashlib
import json
import pickle
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import torch
from torch import Tensor

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.runtime.onnxfile import file_sha256

__all__ = ["Source", "read"]

_MAX_BYTES = 64 << 30  # larger than any published ViT; a declared size above it is a damaged or hostile file
_MAX_JSON = 16 << 20
_WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin", "model.pth", "model.npz")
_KINDS = (
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"\x89PNG", "a PNG image"),
    (b"GIF8", "a GIF image"),
    (b"\x89HDF", "an HDF5 file"),
    (b"%PDF", "a PDF"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x08", "an ONNX file (to use one as it is: vit-edge predict)"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """The raw content of a checkpoint: tensors under their own names, and the configs found beside them."""

    path: Path
    tensors: dict[str, Tensor]
    sha256: str  # of the weight file; of the joined digests where the weights are in several files
    metadata: dict[str, str] = field(default_factory=dict)  # a safetensors header's own key-value pairs
    config: dict[str, Any] = field(default_factory=dict)  # config.json
    preprocessor: dict[str, Any] = field(default_factory=dict)  # preprocessor_config.json

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of one tensor.

        Raises:
            CheckpointError: there is no such tensor.
        """
        if name not in self.tensors:
            raise CheckpointError(f"{self.path}: tensor {name} is missing")
        return tuple(self.tensors[name].shape)


def read(path: Path) -> Source:
    """Read a weight file, or a folder with a weight file and its configs.

    Raises:
        CheckpointError: the path is missing, empty, not a checkpoint, damaged, or would need code to be run.
    """
    if not path.exists():
        raise CheckpointError(f"{path}: no such file or folder")
    folder = path if path.is_dir() else path.parent if path.name in _WEIGHT_FILES else None
    files = _weight_files(path) if path.is_dir() else [path]
    tensors: dict[str, Tensor] = {}
    metadata: dict[str, str] = {}
    for file in files:
        more, header = _read_file(file)
        tensors.update(more)
        metadata.update(header)
    if not tensors:
        raise CheckpointError(f"{path}: holds no tensors")
    return Source(
        path=path,
        tensors=_strip_prefix({name: _as_float32(path, name, tensor) for name, tensor in tensors.items()}),
        sha256=_digest(files),
        metadata=metadata,
        config=_read_json(folder / "config.json") if folder else {},
        preprocessor=_read_json(folder / "preprocessor_config.json") if folder else {},
    )


def _weight_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(_read_json(index).get("weight_map", {}).values()))
        for name in names:
            if Path(str(name)).name != name or not (folder / name).is_file():
                raise CheckpointError(f"{index}: names {name!r}, which is not a file in this folder")
        return [folder / name for name in names]
    named = [folder / name for name in _WEIGHT_FILES if (folder / name).is_file()]
    found = named[:1] or sorted(folder.glob("*.safetensors"))
    if len(found) != 1:
        count = "no" if not found else f"{len(found)} *.safetensors and no"
        raise CheckpointError(f"{folder}: {count} weight file; expected one of {', '.join(_WEIGHT_FILES)}")
    return found


def _read_file(file: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tell the container from the first bytes and read it."""
    size = file.stat().st_size
    if size == 0:
        raise CheckpointError(f"{file}: is empty")
    with file.open("rb") as stream:
        head = stream.read(16)
    if head.startswith(b"PK\x03\x04"):
        return _guarded(file, _read_zip), {}
    if head[8:9] == b"{":
        return _read_safetensors(file)
    if head.startswith(b"\x80"):
        return _guarded(file, _read_torch), {}
    kind = next((text for magic, text in _KINDS if head.startswith(magic)), "neither safetensors, PyTorch nor .npz")
    raise CheckpointError(f"{file}: is {kind}; expected a checkpoint (.safetensors, .pth/.bin, .npz or a folder)")


def _read_safetensors(file: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safetensors.safe_open(file, framework="pt") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}, dict(opened.metadata() or {})  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"{file}: damaged or truncated safetensors file ({error})") from error


def _guarded(file: Path, reader: Callable[[Path], dict[str, Tensor]]) -> dict[str, Tensor]:
    """Run a reader of pickle or zip files; its errors become one line."""
    try:
        return reader(file)
    except pickle.UnpicklingError as error:
        wants = next((line.strip() for line in str(error).splitlines() if "GLOBAL" in line or "global" in line), "")
        raise CheckpointError(
            f"{file}: refused, its pickle wants to run more than tensors need ({wants or 'unsafe pickle'}); "
            "save the state_dict alone, best as safetensors"
        ) from error
    except (RuntimeError, EOFError, ValueError, KeyError, zipfile.BadZipFile, OSError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(f"{file}: damaged, truncated or unsafe checkpoint ({first})") from error


def _read_zip(file: Path) -> dict[str, Tensor]:
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
    if sum(entry.file_size for entry in entries) > _MAX_BYTES:
        raise ValueError(f"declares more than {_MAX_BYTES >> 30} GiB")
    if any(entry.filename.endswith("data.pkl") for entry in entries):
        return _read_torch(file)
    with np.load(file, allow_pickle=False) as arrays:
        return {name: torch.from_numpy(np.ascontiguousarray(arrays[name])) for name in arrays.files}


def _read_torch(file: Path) -> dict[str, Tensor]:
    loaded = torch.load(file, map_location="cpu", weights_only=True)
    for _ in range(3):  # trainers wrap the state_dict, some twice
        inner = next((loaded[k] for k in ("model", "state_dict", "model_state_dict", "model_ema") if k in loaded), None)
        if not isinstance(inner, dict):
            break
        loaded = inner
    if not isinstance(loaded, dict):
        raise ValueError(f"holds a {type(loaded).__name__}, expected a state_dict")
    return {name: value for name, value in loaded.items() if isinstance(value, Tensor)}


def _strip_prefix(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Drop what wrappers put in front of every name (DataParallel, torch.compile, trainers, JAX trees)."""
    for prefix in ("module.", "_orig_mod.", "model.", "opt/target/", "optimizer/target/", "params/"):
        inside = {name: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        jax_tree = prefix.endswith("/") and inside  # the optimizer's own state stands beside the parameters
        if inside and (len(inside) == len(tensors) or jax_tree):
            tensors = {name.removeprefix(prefix): tensor for name, tensor in inside.items()}
    return tensors


def _as_float32(path: Path, name: str, tensor: Tensor) -> Tensor:
    if tensor.is_floating_point():
        tensor = tensor.float()
        if not torch.isfinite(tensor).all():
            raise CheckpointError(f"{path}: tensor {name} holds NaN or infinity")
    return tensor.contiguous()


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    if file.stat().st_size > _MAX_JSON:
        raise CheckpointError(f"{file}: larger than {_MAX_JSON >> 20} MiB, not a config")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{file}: not valid JSON ({error})") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{file}: expected a JSON object, got {type(content).__name__}")
    return content


def _digest(files: Iterable[Path]) -> str:
    digests = [file_sha256(file) for file in files]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
