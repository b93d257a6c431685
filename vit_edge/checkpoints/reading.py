"""Read a checkpoint file or folder safely: what it is, is told from its content, never from its name.

Nothing is unpickled beyond tensors (`weights_only=True`, `allow_pickle=False`), file names inside an index are
plain names in the same folder, and declared sizes are checked before memory is taken.
"""

import hashlib
import pickle
import zipfile
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import safetensors
import torch
from torch import Tensor

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.fields import OBJECT, Fields
from vit_edge.places import NOT_UTF8, is_utf8
from vit_edge.runtime import strictjson
from vit_edge.runtime.onnxfile import file_sha256

__all__ = ["Source", "read"]

Content: TypeAlias = tuple[dict[str, Tensor], dict[str, str]]  # tensors; a header's own key-value pairs

_HARMLESS_BYTES = 1 << 30
_MAX_RATIO = 20  # weights hardly compress; an archive that unpacks to more than this times its size is a bomb
_MAX_SHARING = 8  # tied weights and half precision: float32 copies are a few times what a file holds
_MAX_JSON = 16 << 20
_WRAPPERS = ("model", "state_dict", "model_state_dict", "model_ema")  # a trainer's names for the state_dict
_WRAPPER_PREFIXES = ("module.", "_orig_mod.", "model.")  # DataParallel, torch.compile, trainers
_WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin", "model.pth", "model.npz")
_KINDS = (
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"\x89PNG", "a PNG image"),
    (b"GIF8", "a GIF image"),
    (b"\x89HDF", "an HDF5 file"),
    (b"%PDF", "a PDF"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"version https://git-lfs", "a Git LFS pointer, not the weights (git lfs pull fetches them)"),
    (b"\x08", "an ONNX file (vit-edge adopt makes a model file of it)"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """The raw content of a checkpoint: tensors under their own names, and the configs found beside them."""

    path: Path
    tensors: dict[str, Tensor]
    sha256: str  # of the weight file; of the joined digests where the weights are in several files
    metadata: dict[str, str] = field(default_factory=dict)  # a safetensors header's own key-value pairs
    config: Fields = field(default_factory=lambda: Fields("config.json"))
    preprocessor: dict[str, Any] = field(default_factory=dict)  # preprocessor_config.json

    def shape(self, name: str, *axes: int) -> tuple[int, ...]:
        """The shape of one tensor, which has one of these numbers of axes, none of them empty.

        Raises:
            CheckpointError: there is no such tensor.
        """
        if name not in self.tensors:
            raise CheckpointError(f"{self.path}: tensor {name} is missing")
        shape = tuple(self.tensors[name].shape)
        if len(shape) not in axes or 0 in shape:
            expected = " or ".join(map(str, axes))
            raise CheckpointError(f"{self.path}: tensor {name} has shape {shape}, expected {expected} axes, none empty")
        return shape


def read(path: Path) -> Source:
    """Read a weight file, or a folder with a weight file and its configs.

    Raises:
        CheckpointError: the path is missing, empty, not a checkpoint, damaged, or would need code to be run.
    """
    try:
        if not path.exists():
            raise CheckpointError(f"{path}: no such file or folder")
        return _read(path)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from error


def _read(path: Path) -> Source:
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
        config=Fields(str(folder / "config.json"), _read_json(folder / "config.json")) if folder else Fields(""),
        preprocessor=_read_json(folder / "preprocessor_config.json") if folder else {},
    )


def _weight_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(map(str, Fields(str(index), _read_json(index)).need("weight_map", OBJECT).values())))
        for name in names:
            if Path(name).name != name or not (folder / name).is_file():
                raise CheckpointError(f"{index}: names {name[:80]!r}, which is not a file in this folder")
        return [folder / name for name in names]
    named = [folder / name for name in _WEIGHT_FILES if (folder / name).is_file()]
    found = named[:1] or sorted(folder.glob("*.safetensors"))
    if len(found) != 1:
        count = "no" if not found else f"{len(found)} *.safetensors and no"
        raise CheckpointError(f"{folder}: {count} weight file; expected one of {', '.join(_WEIGHT_FILES)}")
    return found


def _read_file(file: Path) -> Content:
    """Tell the container from the first bytes and read it."""
    size = file.stat().st_size
    if size == 0:
        raise CheckpointError(f"{file}: is empty")
    with file.open("rb") as stream:
        head = stream.read(32)
    if head.startswith(b"PK\x03\x04"):
        return _guarded(file, _read_zip)
    if head[8:9] == b"{":
        if not is_utf8(file):
            raise CheckpointError(f"{file}: {NOT_UTF8}")
        return _guarded(file, _read_safetensors)
    if head.startswith(b"\x80"):
        return _guarded(file, _read_torch)
    kind = next((text for magic, text in _KINDS if head.startswith(magic)), "neither safetensors, PyTorch nor .npz")
    raise CheckpointError(f"{file}: is {kind}; expected a checkpoint (.safetensors, .pth/.bin, .npz or a folder)")


def _guarded(file: Path, reader: Callable[[Path], Content]) -> Content:
    """Run a reader of one container; whatever a damaged or hostile file makes it raise becomes one line."""
    try:
        return reader(file)
    except pickle.UnpicklingError as error:
        wants = next((line.strip() for line in str(error).splitlines() if "GLOBAL" in line or "global" in line), "")
        raise CheckpointError(
            f"{file}: refused, its pickle wants to run more than tensors need ({wants or 'unsafe pickle'}); "
            "save the state_dict alone, best as safetensors"
        ) from error
    except Exception as error:  # the parsers of torch, numpy and zipfile raise a dozen types on damaged bytes
        first = (str(error).splitlines() or [type(error).__name__])[0][:300]
        raise CheckpointError(f"{file}: damaged, truncated or unsafe checkpoint ({first})") from error


def _read_safetensors(file: Path) -> Content:
    with safetensors.safe_open(file, framework="pt") as opened:
        return {name: opened.get_tensor(name) for name in opened.keys()}, dict(opened.metadata() or {})  # noqa: SIM118


def _read_zip(file: Path) -> Content:
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
    declared = sum(entry.file_size for entry in entries)
    if declared > max(_HARMLESS_BYTES, _MAX_RATIO * file.stat().st_size):
        raise ValueError(f"declares {declared:,} bytes, too many for its size")
    if any(entry.filename.endswith("data.pkl") for entry in entries):
        return _read_torch(file)
    with np.load(file, allow_pickle=False) as arrays:
        return {name: _from_numpy(name, arrays[name]) for name in arrays.files}, {}


def _from_numpy(name: str, array: Any) -> Tensor:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        raise ValueError(f"{name} holds {getattr(array, 'dtype', 'bytes')}, not numbers")
    return torch.from_numpy(np.ascontiguousarray(array))


def _read_torch(file: Path) -> Content:
    with file.open("rb") as stream:  # given a path, torch would take a name in .safetensors for the content
        loaded = torch.load(stream, map_location="cpu", weights_only=True)
    for _ in range(3):  # trainers wrap the state_dict, some twice
        if not isinstance(loaded, dict):
            raise ValueError(f"holds a {type(loaded).__name__}, expected a state_dict")
        inner = (loaded.get(name) for name in _WRAPPERS)
        loaded = next((each for each in inner if isinstance(each, dict)), loaded)
    tensors = {str(name): value for name, value in loaded.items() if isinstance(value, Tensor)}
    for name, tensor in tensors.items():
        _require_plain(name, tensor)
    _require_own_memory(tensors.values())
    return tensors, {}


def _require_plain(name: str, tensor: Tensor) -> None:
    """Refuse what is not an array in memory: a stride of 0 declares any number of elements for the price of one."""
    plain = tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized
    if not plain or tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise ValueError(f"{name} is no plain array (sparse, quantized, without data or repeating its elements)")


def _require_own_memory(tensors: Collection[Tensor]) -> None:
    """Refuse a small file whose many tensors are views of one array: as float32, each takes memory of its own."""
    held = {storage.data_ptr(): storage.nbytes() for storage in (tensor.untyped_storage() for tensor in tensors)}
    needed = sum(tensor.numel() * max(tensor.element_size(), 4) for tensor in tensors)
    if needed > max(_HARMLESS_BYTES, _MAX_SHARING * sum(held.values())):
        raise ValueError(f"its tensors share memory: they would take {needed:,} bytes, it holds {sum(held.values()):,}")


def _strip_prefix(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Drop what wrappers put in front of every name, several of them one after another."""
    for prefix in ("opt/target/", "optimizer/target/", "params/"):  # beside them: the optimizer's own state
        tensors = _without(prefix, {k: v for k, v in tensors.items() if k.startswith(prefix)}) or tensors
    while prefix := next((each for each in _WRAPPER_PREFIXES if all(k.startswith(each) for k in tensors)), ""):
        tensors = _without(prefix, tensors)
    return tensors


def _without(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}


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
        content = strictjson.loads(file.read_text(encoding="utf-8"), max_characters=_MAX_JSON)
    except ValueError as error:
        raise CheckpointError(f"{file}: not valid JSON ({error})") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{file}: expected a JSON object, got {type(content).__name__}")
    return content


def _digest(files: Iterable[Path]) -> str:
    digests = [file_sha256(file) for file in files]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
