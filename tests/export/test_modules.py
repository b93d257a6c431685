"""`export` of any PyTorch module: one that nobody prepared, transformers' own, and ours; the gates are the same."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.export.conftest import CONFIG, SIZE, lively
from vit_edge.checkpoints import from_module
from vit_edge.export import ExportError, ExportOptions, export
from vit_edge.preprocessing import named
from vit_edge.runtime import Predictor
from vit_edge.runtime.errors import ConfigError, VitEdgeError

SPEC = named("imagenet", SIZE)


class Net(nn.Module):
    """A plain encoder of torch's own parts, with dropout that eval mode turns off."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.patches = nn.Conv2d(3, 16, 8, 8)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.5, batch_first=True)
        self.head = nn.Linear(16, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(self.patches(x).flatten(2).transpose(1, 2)).mean(1))


def outputs(module: nn.Module, images: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return module.eval()(torch.from_numpy(images)).numpy()


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(3, 3, *SIZE)).astype(np.float32)


def test_a_module_nobody_prepared(tmp_path: Path, images: np.ndarray) -> None:
    net = Net().train()
    report = export(net, tmp_path / "net.onnx", preprocess=SPEC, labels=["a", "b", "c"])
    assert net.training, "the module is not changed"
    assert all(parameter.requires_grad for parameter in net.parameters())
    assert [stage.stage for stage in report.parity] == ["traced", "simplified", "file"]
    predictor = Predictor(report.path)
    expected = outputs(net, images)
    assert expected.std(axis=0).min() > 1e-3
    np.testing.assert_allclose(predictor.logits(images), expected, atol=1e-5 * np.abs(expected).max())
    assert predictor(np.zeros((40, 30, 3), np.uint8)).top[0].name in "abc"


@pytest.mark.slow
def test_of_transformers(tmp_path: Path, images: np.ndarray) -> None:
    """Its output is a record, its config tells the size and the labels."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=16, patch_size=8
    )
    config.id2label = {0: "ant", 1: "bee", 2: "cat"}
    model = transformers.ViTForImageClassification(config).eval()
    report = export(model, tmp_path / "hf.onnx", preprocess="half")
    predictor = Predictor(report.path)
    assert predictor.manifest.labels == ("ant", "bee", "cat")
    with torch.no_grad():
        expected = model(torch.from_numpy(images[:, :, :16])).logits.numpy()
    np.testing.assert_allclose(
        predictor.logits(images[:, :, :16]), expected, atol=1e-5 * np.abs(expected).max(), rtol=0
    )


def test_tokens_of_a_backbone(tmp_path: Path, images: np.ndarray) -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 8, 8), nn.Flatten(2), nn.GELU())
    report = export(net, tmp_path / "t.onnx", preprocess=SPEC)
    assert report.manifest.output.kind == "tokens"
    assert Predictor(report.path).logits(images).shape == (3, 48), "one row an image"
    with pytest.raises(ConfigError, match="no output of the kind logits"):
        export(net, tmp_path / "t.onnx", ExportOptions(output="logits"), preprocess=SPEC)


@pytest.mark.slow
def test_ours_in_memory_gives_what_its_file_gives(tmp_path: Path) -> None:
    model = lively(CONFIG)
    report = export(model, tmp_path / "m.onnx", preprocess="imagenet")
    assert report.manifest.model.architecture == CONFIG.to_dict()


@pytest.mark.slow
def test_timm_cfg_tells_all(tmp_path: Path) -> None:
    net = Net()
    net.pretrained_cfg = {  # type: ignore[assignment]
        "input_size": (3, *SIZE),
        "mean": (0.5, 0.5, 0.5),
        "std": (0.25, 0.25, 0.25),
        "interpolation": "bicubic",
        "crop_pct": 1.0,
    }
    spec = export(net, tmp_path / "m.onnx").manifest.input.preprocess
    assert (spec.std, spec.interpolation) == ((0.25,) * 3, "bicubic")


@pytest.mark.slow
def test_half_precision_is_converted_and_said(tmp_path: Path) -> None:
    report = export(Net().half(), tmp_path / "m.onnx", preprocess=SPEC)
    assert report.notes == ("the module's float16 parameters were converted to float32",)


class MixesBatch(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(0, keepdim=True) * 0.5)


class FixesBatch(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.reshape(2, 3, *SIZE))


class NamesDtype(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.to(torch.float32))


class Constant(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x * 0)


@pytest.mark.parametrize(
    ("module", "error", "message"),
    [
        (MixesBatch(), ExportError, "mixes the images of a batch|batch mates|max|Δ|"),
        (FixesBatch(), ConfigError, r"does not run on images \(3, 3, 24, 16\) float32: shape"),
        (NamesDtype(), ExportError, "does not run in float64"),
        (Constant(), ExportError, "hardly depend on the image"),
        (nn.Linear(5, 2), ConfigError, r"does not run on images \(2, 3, 24, 16\)"),
        (nn.Conv2d(3, 4, 8), ConfigError, r"gives \(2, 4, 17, 9\) float32 for 2 images"),
        (nn.LSTM(16, 2), ConfigError, "does not run|returns"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_refused_with_nothing_written(module: nn.Module, error: type[Exception], message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        export(module, tmp_path / "m.onnx", preprocess=SPEC)
    assert not list(tmp_path.iterdir())


def test_size_or_preprocessing_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Net does not tell its image size"):
        export(Net(), tmp_path / "m.onnx", preprocess="imagenet")
    with pytest.raises(ConfigError, match="preprocessing: it has to be given"):
        export(lively(CONFIG), tmp_path / "m.onnx")


def test_digest_follows_the_weights() -> None:
    net = Net()
    before = from_module(net, (3, *SIZE)).sha256
    assert from_module(Net(), (3, *SIZE)).sha256 == before
    with torch.no_grad():
        net.head.bias[0] += 1
    assert from_module(net, (3, *SIZE)).sha256 != before


@pytest.mark.slow
def test_a_path_is_loaded(checkpoint_file: Path, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("v\nw\nx\ny\nz\n")
    report = export(str(checkpoint_file), tmp_path / "m.onnx", labels=tmp_path / "names.txt")
    assert report.manifest.labels == tuple("vwxyz")


class Odd(nn.Module):
    """What a user's module may do wrong."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.layer = nn.Linear(3 * 24 * 16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x.flatten(1))
        if self.how == "random":
            return y + torch.randn(4)
        if self.how == "mixing":
            return y - y.mean(dim=0) * 0.1
        if self.how == "key":
            raise KeyError("mask")
        if self.how == "late" and x.abs().sum() > 0:  # not where the module is tried with black images
            raise KeyError("late")
        if self.how == "dict":
            return {"scores": y, "boxes": y}  # type: ignore[return-value]
        if self.how == "branch" and (x == 1234.5).any():
            return y * 2
        assert self.how != "assert", "needs a mask"
        return y


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("random", "not deterministic"),
        ("mixing", "mixes the images of a batch"),
        ("key", "Odd does not run on images .*'mask'"),
        ("assert", "Odd does not run on images .*needs a mask"),
        ("late", "the PyTorch model does not run: KeyError 'late'"),
        ("dict", "returns dict of scores, boxes, .*wrap it in a module"),
        ("branch", "cannot be traced: its code decides by values"),
    ],
)
def test_what_a_module_does_wrong_is_said(
    how: str, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(VitEdgeError, match=message):
        export(Odd(how), tmp_path / "m.onnx", preprocess=named("half", SIZE))
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr().err == "", "the message says it, no graph is printed"


def test_a_module_that_cannot_be_copied_is_said(tmp_path: Path) -> None:
    module = Odd("")
    module.computed = module.layer.weight * 2  # no leaf: deepcopy refuses it
    with pytest.raises(ConfigError, match=r"Odd cannot be copied .*register_buffer"):
        export(module, tmp_path / "m.onnx", preprocess=named("half", SIZE))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(4)), "has no shape yet"),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(1152, 4)).to("meta"), "on the meta device"),
        (lambda: torch.jit.script(nn.Sequential(nn.Flatten(), nn.Linear(1152, 4))), "is TorchScript"),
        (lambda: nn.Linear(3, 4).state_dict(), "load the state_dict into its module first"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_what_is_no_module_that_can_be_traced_is_said(module, message: str, tmp_path: Path) -> None:
    with pytest.raises(VitEdgeError, match=message):
        export(module(), tmp_path / "m.onnx", preprocess=named("half", SIZE))


def test_a_module_without_parameters_is_exported(tmp_path: Path) -> None:
    module = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
    report = export(module, tmp_path / "m.onnx", preprocess=named("half", SIZE))
    assert report.manifest.model.parameters == 0
    assert report.manifest.output.classes == 12
