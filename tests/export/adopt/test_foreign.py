"""What cannot be adopted is refused in one line that says why."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from vit_edge.export.errors import ExportError
from vit_edge.export.foreign import Choices, read_foreign
from vit_edge.runtime.errors import ConfigError, ModelFileError, VitEdgeError

WriteText = Callable[..., Path]
MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3,8,8] x) => (float[N,192] y) { y = Flatten (x) }"""


def refusal(path: Path, error: type[VitEdgeError], choices: Choices | None = None) -> str:
    with pytest.raises(error) as caught:
        read_foreign(path, choices or Choices())
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_files_that_are_no_onnx(write_text: WriteText, tmp_path: Path):
    whole = write_text(MODEL.replace("Flatten (x)", "Flatten (x)\n# long\n")).read_bytes()
    for name, content in (("empty", b""), ("text", b"hello, world"), ("cut", whole[: len(whole) // 2])):
        (tmp_path / name).write_bytes(content)
    assert "is empty" in refusal(tmp_path / "empty", ModelFileError)
    assert "is not an ONNX file" in refusal(tmp_path / "text", ModelFileError)
    assert "truncated" in refusal(tmp_path / "cut", ModelFileError)
    assert "does not exist" in refusal(tmp_path / "none", ModelFileError)


def test_an_unknown_operator_is_named(write_text: WriteText):
    text = MODEL.replace('["" : 17]', '["" : 17, "com.example" : 1]').replace("Flatten (x)", "com.example.Magic (x)")
    told = refusal(write_text(text), ModelFileError)
    assert "uses the operator com.example::Magic" in told


def test_an_opset_from_the_future(write_text: WriteText):
    assert "onnxruntime cannot load it" in refusal(write_text(MODEL.replace(": 17", ": 99")), ModelFileError)


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/passwd", "a/b", ".."])
def test_weights_elsewhere_are_never_followed(location: str, write_text: WriteText):
    path = _with_external(write_text, location)
    assert "only a file beside it is accepted" in refusal(path, ModelFileError)


def test_weights_beside_it_may_have_any_name(write_text: WriteText, tmp_path: Path):
    path = _with_external(write_text, "weights.bin")
    assert "'weights.bin', which is missing" in refusal(path, ModelFileError)
    (tmp_path / "weights.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    foreign = read_foreign(path, Choices())
    (weight,) = foreign.graph.graph.initializers.values()
    assert weight.const_value is not None
    assert weight.const_value.numpy().tolist() == [0, 1, 2, 3]
    (tmp_path / "weights.bin").write_bytes(b"short")
    assert "foreign.onnx: " in refusal(path, ModelFileError)


def _with_external(write_text: WriteText, location: str) -> Path:
    graph = "=> (float[N,3,8,8] y) <float[4] w = {0,0,0,0}> { z = Concat <axis = 0> (w, w)\n y = Add (x, z) }"
    path = write_text(MODEL.replace("=> (float[N,192] y) { y = Flatten (x) }", graph))
    proto = onnx.load(path)
    weight = proto.graph.initializer[0]
    weight.ClearField("float_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", "16")):
        weight.external_data.add(key=key, value=value)
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("before", "after", "error", "told"),
    [
        ("(float[N,3,8,8] x)", "(float[N,3,8,8] x, float[N] z)", ExportError, "expected one: the image"),
        ("float[N,3,8,8] x", "float[N,192] x", ExportError, r"expected images: \(N, C, H, W\)"),
        ("float[N,3,8,8] x", "float16[N,3,8,8] x", ExportError, "float16 .*expected float32 or uint8"),
        ("float[N,3,8,8] x", "float[N,4,8,8] x", ExportError, "no axis of 1 or 3 channels"),
        ("float[N,3,8,8] x", "float[N,3,8,3] x", ConfigError, "give --layout nchw or nhwc"),
        ("float[N,3,8,8] x", "float[N,C,H,W] x", ConfigError, "give --layout nchw or nhwc"),
        ("float[N,3,8,8] x", "float[N,3,H,8] x", ConfigError, "give --image-size"),
        ("float[N,192] y", "int64[N,192] y", ConfigError, "expected one of float32"),
    ],
)
def test_inputs_and_outputs_that_are_not_an_image_models(
    before: str, after: str, error: type[VitEdgeError], told: str, write_text: WriteText
):
    path = write_text(MODEL.replace(before, after))
    with pytest.raises(error, match=told):
        read_foreign(path, Choices())


def test_choices_settle_what_is_open(write_text: WriteText):
    both = write_text(MODEL.replace("N,3,8,8", "N,3,8,3"))
    assert read_foreign(both, Choices(layout="nhwc")).input.size == (3, 8)
    assert read_foreign(both, Choices(layout="nchw")).input.size == (8, 3)
    nothing = write_text(MODEL.replace("N,3,8,8", "N,C,H,W"))
    taken = read_foreign(nothing, Choices(layout="nhwc", image_size=(8, 16))).input
    assert (taken.channels, taken.size, taken.batch) == (3, (8, 16), None)
    with pytest.raises(ExportError, match="8 channels as NHWC"):
        read_foreign(write_text(MODEL), Choices(layout="nhwc"))


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("{0: 'a', 1: 'b'}", ("a", "b")),
        ("['a', 'b']", ("a", "b")),
        ("{1: 'a', 0: 'b'}", ()),
        ("{0: 'a', 2: 'b'}", ()),
        ("{0: 1}", ()),
        ("__import__('os').abort()", ()),
        ("[" * 5000, ()),
        ("{[]: 1}", ()),
        ("", ()),
    ],
)
def test_names_in_the_metadata_are_data_never_code(text: str, labels: tuple[str, ...], write_text: WriteText):
    path = write_text(MODEL)
    proto = onnx.load(path)
    proto.metadata_props.add(key="names", value=text)
    onnx.save(proto, path)
    assert read_foreign(path, Choices()).labels == labels


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("../w.data", "only a file beside it is accepted"),
        ("/tmp/w.data", "only a file beside it is accepted"),
        ("gone.data", "keeps its weights in 'gone.data', which is missing beside it"),
    ],
)
def test_weights_elsewhere_are_refused(location: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=re.escape(message)):
        read_foreign(weights_beside(tmp_path, location), Choices())


def test_digest_covers_the_weights_beside(tmp_path: Path) -> None:
    path = weights_beside(tmp_path, "w.data")
    (tmp_path / "w.data").write_bytes(np.float32([1, 2, 3]).tobytes())
    first = read_foreign(path, Choices()).sha256
    (tmp_path / "w.data").write_bytes(np.float32([1, 2, 4]).tobytes())
    assert read_foreign(path, Choices()).sha256 != first


def weights_beside(folder: Path, location: str) -> Path:
    """A file whose one weight lies in `location`, which is not written."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3,8,8] x) => (float[N,3] y) <float[3] w = {1, 2, 3}> {
  means = ReduceMean <axes = [2, 3], keepdims = 0> (x)
  y = Mul (means, w)
}""")
    (weight,) = model.graph.initializer
    weight.ClearField("float_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    (folder / "foreign.onnx").write_bytes(model.SerializeToString())
    return folder / "foreign.onnx"
