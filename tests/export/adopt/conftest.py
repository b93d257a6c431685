"""Foreign files as people have them: legacy exports of a small ViT in timm's style, and graphs in text form."""

import warnings
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from torch import Tensor, nn

from vit_edge.export.adoption import AdoptOptions, AdoptReport, adopt
from vit_edge.preprocessing import named

SIZE, WIDTH, HEADS, CLASSES = 32, 32, 2, 5


class _Attention(nn.Module):
    """Packed q, k and v; `baked` makes the batch a Python number, as `view(int(B), ...)` does."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, baked: bool) -> Tensor:
        B, N, D = x.shape
        B = int(B) if baked else B
        q, k, v = self.qkv(x).reshape(B, N, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = ((q * (D // HEADS) ** -0.5) @ k.transpose(-2, -1)).softmax(-1) @ v
        return self.proj(mixed.transpose(1, 2).reshape(B, N, D))


class ForeignViT(nn.Module):
    """A ViT as timm and Hugging Face write it; `baked`: "", "expand" or "repeat" of the class token."""

    def __init__(self, baked: str = "") -> None:
        super().__init__()
        self.baked = baked
        self.patch = nn.Conv2d(3, WIDTH, 8, 8)
        self.cls, self.pos = nn.Parameter(torch.randn(1, 1, WIDTH)), nn.Parameter(torch.randn(1, 17, WIDTH))
        self.norm1, self.attn, self.norm2 = nn.LayerNorm(WIDTH), _Attention(), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.2)  # so that outputs vary

    def forward(self, x: Tensor) -> Tensor:
        B = int(x.shape[0]) if self.baked else x.shape[0]
        x = self.patch(x).flatten(2).transpose(1, 2)
        cls = self.cls.repeat(B, 1, 1) if self.baked == "repeat" else self.cls.expand(B, -1, -1)
        x = torch.cat([cls, x], dim=1) + self.pos
        x = x + self.attn(self.norm1(x), bool(self.baked))
        x = x + self.mlp(self.norm2(x))
        return self.head(self.norm(x)[:, 0])


LegacyExport = Callable[..., Path]
Adopt = Callable[..., AdoptReport]


@pytest.fixture(scope="session")
def legacy_export(tmp_path_factory: pytest.TempPathFactory) -> LegacyExport:
    """`torch.onnx.export(dynamo=False)` of the small ViT."""
    folder = tmp_path_factory.mktemp("legacy")

    def run(baked: str = "", *, batch: int = 2, opset: int = 17, dynamic: bool = True) -> Path:
        path = folder / f"vit_{baked or 'dynamic'}_{batch}_{opset}_{dynamic}.onnx"
        if not path.exists():
            torch.manual_seed(0)
            axes = {"dynamic_axes": {"x": {0: "n"}, "y": {0: "n"}}} if dynamic else {}
            model, example = ForeignViT(baked).eval(), (torch.randn(batch, 3, SIZE, SIZE),)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(
                    model, example, path, dynamo=False, opset_version=opset,
                    input_names=["x"], output_names=["y"], **axes,
                )  # fmt: skip
        return path

    return run


@pytest.fixture
def write_text(tmp_path: Path) -> Callable[[str], Path]:
    """A model in ONNX text form as a file."""

    def write(text: str, name: str = "foreign.onnx") -> Path:
        onnx.save(onnx.parser.parse_model(text), tmp_path / name)
        return tmp_path / name

    return write


@pytest.fixture
def run_adopt(tmp_path: Path) -> Adopt:
    """Adopt into a new file with the preset `half` unless another is named."""

    def run(source: Path, *, preset: str = "half", **options: object) -> AdoptReport:
        chosen = AdoptOptions(
            preprocess=lambda size, channels: named(preset, size, channels),
            **options,  # type: ignore[arg-type]
        )
        return adopt(source, tmp_path / "adopted.onnx", chosen)

    return run
