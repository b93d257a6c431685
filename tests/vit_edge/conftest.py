"""Small random models, their weights under timm's names, and the peers' fixtures."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from vit_edge.checkpoints import CheckpointError, LoadOptions, load_checkpoint
from vit_edge.config import ViTConfig
from vit_edge.model import ViT
from vit_edge.runtime.errors import ConfigError

SMALL = {"image_size": (16, 24), "patch_size": (4, 8), "width": 16, "depth": 2, "heads": 2, "mlp_width": 24}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tensors of a few hundred numbers are no work to share: waiting for a second, busy core costs more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def make_config():
    """A small configuration of odd proportions, with changes."""

    def make(**changes):
        return ViTConfig(**{**SMALL, "classes": 7, **changes})

    return make


@pytest.fixture
def randomise():
    """Give a model seeded weights that make its outputs vary: zero-initialised parts would prove nothing."""

    def fill(model, seed=0):
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
                scale = parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.3
                around_one = "norm" in name and name.endswith("weight")
                parameter.copy_(1 + 0.3 * noise if around_one or name.endswith("gamma") else 1.5 * scale * noise)
        return model.eval().requires_grad_(False)

    return fill


@pytest.fixture
def make_model(make_config, randomise):
    """A small random model, with changes to its configuration."""

    def make(seed=0, **changes):
        return randomise(ViT(make_config(**changes)), seed)

    return make


@pytest.fixture
def make_images():
    """Normalised random images for a configuration."""

    def make(config, count=3, seed=0):
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(count, config.channels, *config.image_size, generator=generator)

    return make


@pytest.fixture
def as_timm():
    """The weights of one of our models under timm's names, queries, keys and values packed."""

    def pack(model):
        state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        for block in range(model.config.depth):
            for part in ("weight", "bias"):
                names = [f"blocks.{block}.attn.{layer}.{part}" for layer in "qkv"]
                if names[0] in state:
                    state[f"blocks.{block}.attn.qkv.{part}"] = torch.cat([state.pop(name) for name in names])
        return state

    return pack


@dataclass(frozen=True)
class Peer:
    """Another library's checkpoint, images (normalised) and what that library computes for them."""

    folder: Path
    weights: Path
    hints: dict
    images: torch.Tensor
    expected: torch.Tensor
    probabilities: bool

    def error(self, model):
        """Largest difference, relative to the largest magnitude."""
        outputs = model(self.images)
        outputs = outputs.softmax(dim=-1) if self.probabilities else outputs
        assert outputs.shape == self.expected.shape
        assert outputs.dtype == self.expected.dtype
        return float((outputs - self.expected).abs().max() / self.expected.abs().max())


@pytest.fixture
def peer(shared):
    """Read one of ../shared/peers by its name."""

    def read(name):
        folder = shared / "peers" / name
        hints = folder / "hints.json"
        with np.load(folder / "expected.npz") as arrays:
            key = "logits" if "logits" in arrays.files else "probabilities"
            images, expected = torch.from_numpy(arrays["images"]), torch.from_numpy(arrays[key])
        return Peer(
            folder=folder,
            weights=next(path for path in folder.iterdir() if path.name.startswith("model.")),
            hints=json.loads(hints.read_text()) if hints.is_file() else {},
            images=images,
            expected=expected,
            probabilities=key == "probabilities",
        )

    return read


@pytest.fixture
def timm_file(make_model, as_timm, tmp_path):
    """A square small model's bare weights under timm's names: nothing but the user tells its 2 heads."""
    model = make_model(image_size=(16, 16), patch_size=(4, 4))
    path = tmp_path / "bare.safetensors"
    save_file(as_timm(model), path)
    return path


def check_message(error):
    """One line of bounded length, unless it lists tensors."""
    message = str(error)
    if "does not fit the model" not in message:
        assert len(message.splitlines()) == 1
        assert len(message) < 2000
    return message


@pytest.fixture
def refused():
    """Load what must be refused; gives the message."""

    def load(path, **options):
        with pytest.raises((CheckpointError, ConfigError)) as caught:
            load_checkpoint(path, LoadOptions(**options))
        return check_message(caught.value)

    return load


@pytest.fixture
def loaded_or_refused():
    """Load what may be refused, giving None then; every other exception is a failure that names the case."""

    def load(path, case, **options):
        try:
            return load_checkpoint(path, LoadOptions(**options))
        except (CheckpointError, ConfigError) as error:
            check_message(error)
            return None
        except Exception as error:
            raise AssertionError(f"a traceback for {case!r}") from error

    return load


@pytest.fixture
def timm_config():
    """The config.json that timm would write for `timm_file`."""
    args = {"img_size": 16, "patch_size": 4, "embed_dim": 16, "depth": 2, "num_heads": 2, "mlp_ratio": 1.5}
    cfg = {"input_size": [3, 16, 16], "mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic", "crop_pct": 0.9}
    return {"architecture": "vit_tiny_patch16_224", "num_classes": 7, "model_args": args, "pretrained_cfg": cfg}


@pytest.fixture
def timm_folder(timm_file, timm_config, tmp_path):
    """A timm folder with another config.json."""

    def make(config=None):
        folder = tmp_path / "timm"
        folder.mkdir(exist_ok=True)
        shutil.copyfile(timm_file, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(config or timm_config))
        return folder

    return make


@pytest.fixture
def hf_folder(peer, tmp_path):
    """The peer's Hugging Face folder with fields of its config.json changed."""

    def make(**changes):
        folder = tmp_path / "hf"
        shutil.copytree(peer("hf_vit").folder, folder, dirs_exist_ok=True, copy_function=shutil.copyfile)
        folder.chmod(0o755)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **changes}))
        return folder

    return make
