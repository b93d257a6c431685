"""From a checkpoint to a file: every opset and output, and a failing gate at every stage writes nothing."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from PIL import Image

from vit_edge.checkpoints import Checkpoint, load_checkpoint
from vit_edge.cli.export import STEPS
from vit_edge.export import ExportOptions, ExportReport, export, exporter
from vit_edge.export.errors import ExportError, ParityError
from vit_edge.export.parity import Reference
from vit_edge.runtime import Predictor
from vit_edge.runtime.onnxfile import read

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
OLDEST = {17: "1.12", 18: "1.14", 19: "1.16", 20: "1.17", 21: "1.18", 22: "1.21", 23: "1.23", 24: "1.24"}
SLOW = [pytest.param(opset, marks=pytest.mark.slow) for opset in (18, 19, 20, 21, 22, 24)]


def assert_gives(path: Path, images: Array, expected: Array) -> None:
    """A file's own predictor, one by one and together."""
    predictor = Predictor(path)
    assert expected.std(axis=0).max() > 0.01
    for got in (predictor.logits(images), np.concatenate([predictor.logits(image[None]) for image in images])):
        torch.testing.assert_close(torch.from_numpy(got), torch.from_numpy(expected), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("opset", [17, *SLOW])
def test_every_opset(opset: int, checkpoint: Checkpoint, ref: Reference, tmp_path: Path) -> None:
    made = export(checkpoint, tmp_path / "m.onnx", ExportOptions(opset=opset))
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]
    onnx.checker.check_model(onnx.load(made.path), full_check=True)
    file = read(made.path)
    assert file.opsets == {"": opset}
    assert ("Attention" in file.op_counts) == (opset >= 23)
    assert made.manifest.minimum_runtime == OLDEST[opset]
    assert_gives(made.path, ref.images[:3], ref.single[:3])


@pytest.mark.parametrize("optimize", ["unoptimised", "optimised"])
def test_default_export(optimize: str, report: ExportReport, ref: Reference) -> None:
    assert [stage.stage for stage in report.parity] == ["traced", "simplified", "file"]
    assert all(stage.max_abs < 5e-6 for stage in report.parity)
    assert report.notes == ()
    assert_gives(report.path, ref.images, ref.single)


def test_weights_are_all_in_the_file(report: ExportReport, checkpoint: Checkpoint) -> None:
    """Each once: the file is little larger than its weights."""
    names = {weight.name.removesuffix(".T") for weight in read(report.path).weights}
    assert set(checkpoint.model.state_dict()) <= names
    assert report.path.stat().st_size < 4 * report.manifest.model.parameters + 30_000


def test_probabilities_of_a_model_of_logits(
    quick: None, checkpoint: Checkpoint, ref: Reference, tmp_path: Path
) -> None:
    made = export(checkpoint, tmp_path / "m.onnx", ExportOptions(output="probabilities"))
    assert (made.manifest.output.name, made.manifest.output.kind) == ("probabilities", "probabilities")
    expected = torch.from_numpy(ref.single).softmax(dim=-1).numpy()
    assert_gives(made.path, ref.images, expected)
    picture = np.random.default_rng(0).integers(0, 256, (24, 16, 3), dtype=np.uint8)
    scores = [label.score for label in Predictor(made.path)(picture).top]
    assert sum(scores) == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("opset", [17, 23])
@pytest.mark.parametrize(("output", "shape"), [("features", (7, 32)), ("tokens", (7, 7 * 32))])
def test_features_and_tokens(
    output: str, shape: tuple[int, int], opset: int, checkpoint: Checkpoint, ref: Reference, tmp_path: Path
) -> None:
    options = ExportOptions(output=output, opset=opset)  # type: ignore[arg-type]
    made = export(checkpoint, tmp_path / "m.onnx", options)
    expected = getattr(checkpoint.model, output)(torch.from_numpy(ref.images)).flatten(1).numpy()
    assert expected.shape == shape
    assert made.manifest.labels == ()
    assert_gives(made.path, ref.images, expected)


VARIANTS = {
    "mean pooling": {"pool": "mean", "final_norm": "pooled", "class_token": False},
    "distilled": {"distillation_token": True, "distillation_head": True},
    "layer scale": {"layer_scale": True, "qkv_bias": False},
    "post-norm, ReLU": {"norm_place": "post", "activation": "relu", "final_norm": "none"},
    "res-post-norm": {"norm_place": "res_post"},
    "tutorial": {
        "patches": "scanlines",
        "positions": "sincos",
        "norm_axes": "tokens_and_width",
        "mlp": "single",
        "mlp_width": 32,
        "activation": "relu",
        "channels": 1,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("opset", [17, 23])
@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_variants(variant: str, opset: int, make_checkpoint: Callable[..., Path], tmp_path: Path) -> None:
    loaded = load_checkpoint(make_checkpoint(**VARIANTS[variant]))
    made = export(loaded, tmp_path / "m.onnx", ExportOptions(opset=opset))
    channels = loaded.model.config.channels
    images = np.random.default_rng(5).standard_normal((3, channels, 24, 16)).astype(np.float32)
    assert_gives(made.path, images, loaded.model(torch.from_numpy(images)).numpy())


def test_steps_are_those_the_command_line_counts(quick: None, checkpoint: Checkpoint, tmp_path: Path) -> None:
    steps: list[str] = []
    export(checkpoint, tmp_path / "m.onnx", progress=steps.append)
    assert len(steps) == STEPS
    assert steps[0].startswith("PyTorch reference")
    assert steps[-1] == "parity of the file graph"


def pictures(folder: Path, count: int) -> tuple[Path, ...]:
    rng = np.random.default_rng(1)
    paths = tuple(folder / f"{index}.png" for index in range(count))
    for path in paths:
        Image.fromarray(rng.integers(0, 256, (30, 20, 3), dtype=np.uint8)).save(path)
    return paths


@pytest.mark.parametrize("count", [2, 9])
def test_real_images_are_compared_and_settle_the_heads(
    count: int, quick: None, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    """An assumption is tested, and what was found is kept in the file."""
    assumed = dataclasses.replace(checkpoint, heads_assumed=True, notes=("heads: 2 is an assumption",))
    made = export(assumed, tmp_path / "m.onnx", ExportOptions(images=pictures(tmp_path, count)))
    assert made.manifest.provenance["parity_images"] == {"real": min(count, 7), "batches": [1, 2, 3, 7]}
    assert len(made.notes) == 2
    assert re.match(rf"heads: 2 (not settled|confirmed) on {max(count, 7)} images", made.notes[1])
    assert made.manifest.model.assumptions == made.notes


def test_wrong_option_is_refused_before_any_work(checkpoint: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="17 to 24"):
        export(checkpoint, tmp_path / "none" / "m.onnx", ExportOptions(opset=7))


def test_untrained_model_is_refused(make_checkpoint: Callable[..., Path], tmp_path: Path) -> None:
    """A head of zeros: any graph would pass."""
    loaded = load_checkpoint(make_checkpoint())
    loaded.model.get_parameter("head.weight").zero_()
    with pytest.raises(ExportError, match="hardly depend on the image"):
        export(loaded, tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


class Tamper(ir.passes.InPlacePass):
    """Change one weight, as a pass with an error would."""

    def __init__(self, weight: str) -> None:
        super().__init__()
        self.weight = weight

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        value = model.graph.initializers[self.weight]
        assert value.const_value is not None
        changed = value.const_value.numpy().copy()
        changed.flat[3] += 0.5
        value.const_value = ir.tensor(changed, name=self.weight)
        return ir.passes.PassResult(model, modified=True)


class BakeBatch(ir.passes.InPlacePass):
    """Fix the batch size at 1, as simplifiers with a fixed input shape do."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        logits = model.graph.outputs[0]
        shape = ir.Value(name="fixed", const_value=ir.tensor(np.array([1, 5]), name="fixed"))
        model.graph.register_initializer(shape)
        node = ir.node("Reshape", [logits, shape])
        node.outputs[0].name, node.outputs[0].type, node.outputs[0].shape = "fixed_logits", logits.type, logits.shape
        model.graph.append(node)
        model.graph.outputs[0] = node.outputs[0]
        return ir.passes.PassResult(model, modified=True)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"old")
    return path


def refused(checkpoint: Checkpoint, old: Path) -> str:
    """The message of an export that must fail, leaving the old file and nothing else."""
    with pytest.raises(ParityError) as raised:
        export(checkpoint, old)
    assert {path.name: path.read_bytes() for path in old.parent.iterdir()} == {"m.onnx": b"old"}
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_failing_trace(checkpoint: Checkpoint, old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = (*exporter.PREPARE, Tamper("blocks.1.mlp.fc2.weight"))
    monkeypatch.setattr(exporter, "PREPARE", prepare)
    message = refused(checkpoint, old)
    assert message.startswith("traced graph, batch 1, optimisation none, image ")
    assert "first diverging tensor: blocks.1.mlp.fc2 (max|Δ|" in message


def test_failing_simplification(
    quick: None, checkpoint: Checkpoint, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = (Tamper("blocks.0.attn.q.bias"),)
    monkeypatch.setattr(exporter, "simplification", lambda graph, opset: passes)
    message = refused(checkpoint, old)
    assert message.startswith("simplified graph, batch 1, ")
    assert "first diverging tensor: blocks.0.attn.q (max|Δ|" in message


def test_failing_file(quick: None, checkpoint: Checkpoint, old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file itself is read again, not only the graph it was written from."""
    original = exporter.write_manifest

    def damage(path: Path, manifest: object) -> object:
        written = original(path, manifest)  # type: ignore[arg-type]
        proto = onnx.load(path)
        bias = next(tensor for tensor in proto.graph.initializer if tensor.name == "head.bias")
        bias.raw_data = np.zeros(5, np.float32).tobytes()
        onnx.save(proto, path)
        return written

    monkeypatch.setattr(exporter, "write_manifest", damage)
    message = refused(checkpoint, old)
    assert message.startswith("file graph, batch 1, ")
    assert "all named tensors before the output agree" in message


def test_baked_in_batch(quick: None, checkpoint: Checkpoint, old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "simplification", lambda graph, opset: (BakeBatch(),))
    message = refused(checkpoint, old)
    assert message.startswith("simplified graph, batch 2, optimisation none: does not run: ")
    assert "diverging" not in message
