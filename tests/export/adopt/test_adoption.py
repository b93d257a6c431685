"""A foreign file becomes a model file that computes the same, or nothing is written."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from torch import nn

from vit_edge.export.adoption import AdoptOptions, AdoptReport, adopt
from vit_edge.export.batch import batch_problem
from vit_edge.export.errors import ExportError, ParityError
from vit_edge.export.foreign import Choices
from vit_edge.export.passes import FixBatch
from vit_edge.preprocessing import named
from vit_edge.runtime import ConfigError, Predictor
from vit_edge.runtime.golden import golden_images
from vit_edge.runtime.onnxfile import read
from vit_edge.runtime.preprocess import normalise
from vit_edge.runtime.session import open_session

LegacyExport = Callable[..., Path]
WriteText = Callable[..., Path]
Adopt = Callable[..., AdoptReport]


def foreign_outputs(path: Path, images: np.ndarray) -> np.ndarray:
    session = open_session(path, optimization="none")
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: image[None]})[0] for image in images])


@pytest.mark.parametrize("opset", [17, 11])
def test_a_legacy_export_is_adopted_at_its_own_opset(opset: int, legacy_export: LegacyExport, run_adopt: Adopt):
    source = legacy_export(opset=opset)
    report = run_adopt(source)
    predictor = Predictor(report.path)
    assert read(report.path).opsets == {"": opset}
    assert report.manifest.output.kind == "logits"
    assert report.manifest.provenance["adopted"]["producer"].startswith("pytorch")
    images = normalise(golden_images(5, 32, 32, 3), report.manifest.input.preprocess)
    expected = foreign_outputs(source, images)
    assert expected.std(axis=0).min() > 0.01
    np.testing.assert_allclose(predictor.logits(images), expected, atol=2e-5 * np.abs(expected).max())


def test_the_last_block_is_computed_for_what_the_head_reads(legacy_export: LegacyExport, run_adopt: Adopt):
    """Attention comes with packed queries, keys and values here; from the mixture on it is one token."""
    report = run_adopt(legacy_export())
    assert report.manifest.provenance["rewrites"] == {"fused": 0, "attentions": 1, "last_block": [0]}
    graph = ir.load(report.path).graph
    assert next(node for node in graph if node.op_type == "Erf").outputs[0].name.endswith("[0]")


def test_adopting_twice_gives_the_same_bytes(legacy_export: LegacyExport, run_adopt: Adopt):
    first = run_adopt(legacy_export()).path.read_bytes()
    assert run_adopt(legacy_export()).path.read_bytes() == first


@pytest.mark.parametrize(
    ("baked", "batch", "dynamic"),
    [
        ("repeat", 1, True),
        ("repeat", 8, True),
        ("expand", 1, True),
        ("expand", 8, True),
        ("", 1, False),
        ("", 4, False),
    ],
)
def test_a_baked_batch_is_named_and_repaired(
    baked: str, batch: int, dynamic: bool, legacy_export: LegacyExport, run_adopt: Adopt, tmp_path: Path
):
    source = legacy_export(baked, batch=batch, dynamic=dynamic)
    with pytest.raises(ExportError, match=rf"size {batch} stands in: .*/attn/Reshape \(Reshape\) .*--fix-batch"):
        run_adopt(source)
    assert not list(tmp_path.iterdir())
    report = run_adopt(source, fix_batch=True)
    assert any("/attn/Reshape_1" in repair for repair in report.repairs)
    assert report.manifest.provenance["adopted"]["batch_repaired"] == list(report.repairs)
    images = normalise(golden_images(5, 32, 32, 3), report.manifest.input.preprocess)
    expected = foreign_outputs(legacy_export(), images)  # the same weights, exported with a dynamic batch
    np.testing.assert_allclose(Predictor(report.path).logits(images), expected, atol=2e-5 * np.abs(expected).max())


def test_a_fixed_input_alone_is_named(write_text: WriteText, run_adopt: Adopt):
    source = write_text(LINEAR.replace("N,3,8,8", "1,3,8,8"))
    with pytest.raises(ExportError, match="input of fixed batch 1: --fix-batch"):
        run_adopt(source)
    assert run_adopt(source, fix_batch=True).repairs == ("input of fixed batch 1",)


def test_a_wrong_repair_is_caught(
    legacy_export: LegacyExport, run_adopt: Adopt, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """The canary: once the pass sees it itself, once it is fooled behind its own last look."""
    source = legacy_export("repeat", batch=1)
    with monkeypatch.context() as patch:
        patch.setattr("vit_edge.export.passes.fix_batch.batch_axis", lambda *_: 1)
        with pytest.raises(ExportError, match="the batch is not dynamic"):
            run_adopt(source, fix_batch=True)
    real = FixBatch.call

    def wrong_call(self: FixBatch, model: ir.Model) -> ir.passes.PassResult:
        result = real(self, model)
        node = next(each for each in model.graph if each.name == "/attn/Reshape_1")
        assert node.inputs[1] is not None
        node.inputs[1].const_value = ir.tensor(np.array([17, -1, 32], np.int64))
        return result

    monkeypatch.setattr(FixBatch, "call", wrong_call)
    with pytest.raises(ExportError, match="--fix-batch did not repair it"):
        run_adopt(source, fix_batch=True)
    assert not list(tmp_path.iterdir())


def test_a_graph_that_mixes_batch_mates_is_refused(write_text: WriteText, run_adopt: Adopt, tmp_path: Path):
    """The canary: half the mean over the batch is taken off."""
    source = write_text(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,3,8,8] x) => (float[N,4] y) <float[192,4] w = {%s}> {
          mean = ReduceMean <axes = [0], keepdims = 1> (x)
          halved = Mul (mean, half)
          centred = Sub (x, halved)
          flat = Flatten (centred)
          y = MatMul (flat, w)
        }""".replace("<float[192,4]", "<float half = {0.5}, float[192,4]")
        % WEIGHTS
    )
    for fix in (False, True):
        with pytest.raises(ExportError, match=r"change by .* at batch 3; images of a batch are mixed.*ReduceMean"):
            run_adopt(source, fix_batch=fix)
    assert list(tmp_path.iterdir()) == [source]


def test_nhwc_and_bytes_are_adapted_exactly(write_text: WriteText, run_adopt: Adopt):
    reference = run_adopt(write_text(LINEAR)).manifest.golden.outputs
    nhwc = run_adopt(write_text(NHWC, "nhwc.onnx"))
    assert nhwc.manifest.golden.outputs == reference
    assert [value.shape for value in read(nhwc.path).inputs] == [("batch", 3, 8, 8)]
    for text in (NHWC_BYTES, NCHW_BYTES):
        report = run_adopt(write_text(text, "bytes.onnx"), preset="imagenet")
        assert report.manifest.input.preprocess.std == (1 / 255,) * 3
        np.testing.assert_allclose(report.manifest.golden.outputs, reference, rtol=1e-4)
        assert read(report.path).op_counts["Cast"] >= 1


def test_all_bytes_survive_the_float_input(write_text: WriteText, run_adopt: Adopt):
    """(x / 255 - 0) / (1 / 255) is off by a rounding error, Floor(x + 0.5) gives the byte again."""
    report = run_adopt(write_text(ALL_BYTES), output_kind="features")
    spec = report.manifest.input.preprocess
    pixels = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
    got = Predictor(report.path).logits(normalise(pixels, spec))
    assert got.tolist() == [list(range(256))]


def test_several_outputs_ask_for_one(write_text: WriteText, run_adopt: Adopt):
    text = LINEAR.replace("(float[N,4] y)", "(float[N,4] y, float[N,192] flat, int64[N] best)").replace(
        "y = MatMul (flat, w)", "y = MatMul (flat, w)\n best = ArgMax <axis = 1, keepdims = 0> (y)"
    )
    with pytest.raises(ConfigError, match=r"y float32 \(N, 4\), flat .*--output-name"):
        run_adopt(write_text(text))
    report = run_adopt(write_text(text), choices=Choices(output_name="y"))
    assert [value.name for value in read(report.path).outputs] == ["y"]
    assert "ArgMax" not in read(report.path).op_counts
    only = LINEAR.replace("(float[N,4] y)", "(int64[N] best, float[N,4] y)").replace(
        "y = MatMul (flat, w)", "y = MatMul (flat, w)\n best = ArgMax <axis = 1, keepdims = 0> (y)"
    )
    assert run_adopt(write_text(only)).manifest.output.name == "y"


def test_open_sizes_are_fixed(write_text: WriteText, run_adopt: Adopt):
    text = LINEAR.replace("N,3,8,8", "N,3,H,W")
    with pytest.raises(ConfigError, match="height and width are dynamic: give --image-size"):
        run_adopt(write_text(text))
    report = run_adopt(write_text(text), choices=Choices(image_size=(8, 8)))
    assert read(report.path).inputs[0].shape == ("batch", 3, 8, 8)
    with pytest.raises(ConfigError, match="takes no other size"):
        run_adopt(write_text(LINEAR), choices=Choices(image_size=(16, 8)))


def test_class_names_come_from_the_files_metadata(write_text: WriteText, run_adopt: Adopt):
    source = write_text(LINEAR)
    proto = onnx.load(source)
    proto.metadata_props.add(key="names", value="{0: 'ant', 1: 'bee', 2: 'cat', 3: \"d'or\"}")
    onnx.save(proto, source)
    report = run_adopt(source)
    assert report.manifest.labels == ("ant", "bee", "cat", "d'or")
    assert run_adopt(source, labels=lambda count: tuple("abcd"[:count])).manifest.labels == ("a", "b", "c", "d")
    with pytest.raises(ExportError, match="is a vit-edge model file already"):
        run_adopt(report.path.rename(source.with_name("other.onnx")))


def test_a_map_is_adopted_and_predicted(write_text: WriteText, run_adopt: Adopt):
    report = run_adopt(write_text(MAP))
    assert (report.manifest.output.kind, report.manifest.output.shape) == ("map", (4, 8))
    prediction = Predictor(report.path)(np.full((9, 17, 3), 200, np.uint8))
    assert prediction.map.shape == (4, 8)
    with pytest.raises(ConfigError, match=r"the model gives map, not class scores: use \.map"):
        prediction.best(1)


def test_the_source_is_never_overwritten(write_text: WriteText, tmp_path: Path, run_adopt: Adopt):
    source = write_text(LINEAR, "adopted.onnx")
    before = source.read_bytes()
    with pytest.raises(ExportError, match="is the source itself"):
        run_adopt(source)
    assert source.read_bytes() == before


@pytest.mark.parametrize("dynamic", [True, False])
def test_a_quantized_file_keeps_its_own_tolerance(
    dynamic: bool, legacy_export: LegacyExport, run_adopt: Adopt, tmp_path: Path
):
    quantization = pytest.importorskip("onnxruntime.quantization")
    source, path = legacy_export(), tmp_path / "int8.onnx"
    if dynamic:
        quantization.quantize_dynamic(source, path, op_types_to_quantize=["MatMul"])
    else:
        images = normalise(golden_images(4, 32, 32, 3), run_adopt(source).manifest.input.preprocess)

        class Reader(quantization.CalibrationDataReader):  # type: ignore[name-defined,misc]
            def __init__(self) -> None:
                self.feeds = iter([{"x": image[None]} for image in images])

            def get_next(self) -> dict[str, np.ndarray] | None:
                return next(self.feeds, None)

        quantization.quantize_static(source, path, Reader(), op_types_to_quantize=["MatMul"])
    report = run_adopt(path)
    assert report.manifest.model.precision == "int8"
    assert report.manifest.golden.tolerance >= 2e-5
    assert any("batch mates" in note for note in report.manifest.model.assumptions) == dynamic


def test_noise_of_a_quantized_file_that_takes_bytes(write_text: WriteText, run_adopt: Adopt, tmp_path: Path):
    """Bytes hide a rounding error of the input, so that of the weights is measured."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    quantization.quantize_dynamic(write_text(NHWC_BYTES), tmp_path / "int8.onnx", op_types_to_quantize=["MatMul"])
    report = run_adopt(tmp_path / "int8.onnx")
    assert report.manifest.model.precision == "int8"
    assert 2e-5 <= report.manifest.golden.tolerance < 0.5


def test_half_precision_weights_bring_their_own_tolerance(write_text: WriteText, run_adopt: Adopt):
    half = LINEAR.replace("float[192,4] w", "float[192,4] v").replace(
        "y = MatMul (flat, w)",
        "small = Cast <to = 10> (flat)\n w = Cast <to = 10> (v)\n p = MatMul (small, w)\n y = Cast <to = 1> (p)",
    )
    source = write_text(half)
    proto = onnx.load(source)
    weight = onnx.numpy_helper.to_array(proto.graph.initializer[0]).astype(np.float16)
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weight, "v"))
    onnx.save(proto, source)
    report = run_adopt(source)
    assert report.manifest.model.precision == "fp16"
    assert report.manifest.golden.tolerance >= 2e-5


def test_one_changed_weight_fails_parity(
    legacy_export: LegacyExport, run_adopt: Adopt, monkeypatch: pytest.MonkeyPatch
):
    """The canary: what is written is not what was read."""
    import vit_edge.export.adoption as module

    real = module.save

    def save_changed(model: object, path: Path, ir_version: int) -> Path:
        real(model, path, ir_version)  # type: ignore[arg-type]
        proto = onnx.load(path)
        weight = next(each for each in proto.graph.initializer if each.name == "head.bias")
        weight.raw_data = (onnx.numpy_helper.to_array(weight) + 1e-2).tobytes()
        onnx.save(proto, path)
        return path

    monkeypatch.setattr(module, "save", save_changed)
    with pytest.raises((ParityError, ExportError), match=r"foreign file's|outputs change by .* at batch 1"):
        run_adopt(legacy_export())


def test_a_sound_batch_has_no_problem(legacy_export: LegacyExport, run_adopt: Adopt):
    from vit_edge.export.parity import TOLERANCES, Reference

    path = legacy_export()
    images = normalise(golden_images(3, 32, 32, 3), run_adopt(path).manifest.input.preprocess)
    outputs = foreign_outputs(path, images)
    assert batch_problem(path, Reference(images, outputs, outputs.astype(np.float64)), TOLERANCES["adopted"]) is None


WEIGHTS = ", ".join(f"{value:.4f}" for value in np.random.default_rng(0).standard_normal(768))
LINEAR = f"""<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3,8,8] x) => (float[N,4] y) <float[192,4] w = {{{WEIGHTS}}}> {{
  flat = Flatten (x)
  y = MatMul (flat, w)
}}"""
NHWC = LINEAR.replace("N,3,8,8", "N,8,8,3").replace(
    "flat = Flatten (x)", "planes = Transpose <perm = [0, 3, 1, 2]> (x)\n flat = Flatten (planes)"
)
_NORMALISE = """values = Cast <to = 1> (x)
  unit = Div (values, full)
  shifted = Sub (unit, half)
  scaled = Div (shifted, half)"""
_SCALARS = "<float full = {255.0}, float half = {0.5}, float[192,4]"
NCHW_BYTES = (
    LINEAR.replace("float[N,3,8,8]", "uint8[N,3,8,8]")
    .replace("flat = Flatten (x)", f"{_NORMALISE}\n flat = Flatten (scaled)")
    .replace("<float[192,4]", _SCALARS)
)
NHWC_BYTES = (
    NHWC.replace("float[N,8,8,3]", "uint8[N,8,8,3]")
    .replace(
        "planes = Transpose <perm = [0, 3, 1, 2]> (x)",
        f"{_NORMALISE}\n planes = Transpose <perm = [0, 3, 1, 2]> (scaled)",
    )
    .replace("<float[192,4]", _SCALARS)
)
ALL_BYTES = """<ir_version: 8, opset_import: ["" : 17]>
g (uint8[N,16,16,1] x) => (float[N,256] y) {
  values = Cast <to = 1> (x)
  y = Flatten (values)
}"""
MAP = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3,8,16] x) => (float[N,1,4,8] y) {
  grey = ReduceMean <axes = [1], keepdims = 1> (x)
  y = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (grey)
}"""


def test_weights_beside_the_file_are_taken_into_the_adopted_one(tmp_path: Path) -> None:
    """As torch.onnx.export leaves them by default."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 8, 8, 8), nn.GELU(), nn.Flatten(), nn.Linear(8 * 16, 300)).eval()
    path = tmp_path / "foreign.onnx"
    dynamic = ({0: torch.export.Dim("batch")},)
    torch.onnx.export(
        module, (torch.zeros(2, 3, 32, 32),), path, dynamo=True, dynamic_shapes=dynamic, external_data=True
    )
    assert (tmp_path / "foreign.onnx.data").is_file()
    (tmp_path / "elsewhere").mkdir()
    options = AdoptOptions(preprocess=lambda size, channels: named("half", size, channels))
    report = adopt(path, tmp_path / "elsewhere" / "adopted.onnx", options)
    assert [each.name for each in (tmp_path / "elsewhere").iterdir()] == ["adopted.onnx"]
    x = np.random.default_rng(0).standard_normal((3, 3, 32, 32)).astype(np.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(x)).numpy()
    assert expected.std() > 0.01
    np.testing.assert_allclose(Predictor(report.path).logits(x), expected, atol=2e-5 * np.abs(expected).max())
