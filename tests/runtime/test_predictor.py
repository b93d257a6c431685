"""From a file and an image to scores; every way a file can be wrong ends in one line that says which."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BytesIO

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from PIL import Image

from vit_edge.runtime import Predictor
from vit_edge.runtime.errors import ConfigError, InputError, ModelFileError, ProviderError
from vit_edge.runtime.manifest import METADATA_KEY, ExternalData
from vit_edge.runtime.onnxfile import content_sha256
from vit_edge.runtime.preprocess import prepare


@pytest.fixture
def predictor(write_model):
    return Predictor(write_model(), threads=1)


@pytest.fixture(scope="module")
def pixels():
    """(N, H, W, 3) uint8: images whose answers differ."""
    return np.random.default_rng(3).integers(0, 256, size=(6, 8, 8, 3), dtype=np.uint8)


def png(pixels):
    stream = BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def softmax(logits):
    powers = np.exp(logits.astype(np.longdouble))
    return powers / powers.sum()


def test_every_kind_of_image_gives_the_same(tiny, predictor, pixels, tmp_path):
    path = tmp_path / "image.png"
    path.write_bytes(png(pixels[0]))
    x = prepare(Image.fromarray(pixels[0]), tiny.manifest.input.preprocess)[None]
    expected = tiny.expected(x)[0]
    for image in (path, str(path), png(pixels[0]), Image.fromarray(pixels[0]), pixels[0]):
        prediction = predictor(image)
        assert prediction.logits.dtype == np.float32
        np.testing.assert_allclose(prediction.logits, expected, rtol=0, atol=1e-4)
        assert prediction.best(1)[0].index == int(expected.argmax())


def test_top_is_sorted_named_and_sums_to_one(tiny, predictor, pixels):
    prediction = predictor(pixels[0])
    top = prediction.top
    assert [label.name for label in top] == [tiny.manifest.labels[label.index] for label in top]
    assert sorted(label.index for label in top) == [0, 1, 2, 3, 4]
    assert [label.score for label in top] == sorted((label.score for label in top), reverse=True)
    for label in top:
        assert label.score == pytest.approx(float(softmax(prediction.logits)[label.index]), rel=1e-12)
    assert prediction.best(2) == top[:2]
    assert predictor.labels == tiny.manifest.labels
    assert predictor.manifest == tiny.manifest


def test_batch_keeps_order_whatever_the_chunks(predictor, pixels):
    single = np.stack([predictor(image).logits for image in pixels])
    assert single.std(axis=0).min() > 0.1, "answers that hardly vary would prove nothing"
    for batch_size in (1, 4, 16):
        together = predictor.batch(iter(pixels), batch_size=batch_size)
        np.testing.assert_allclose([p.logits for p in together], single, rtol=0, atol=1e-5)
    assert predictor.batch([]) == []


def test_batch_is_bounded(predictor, pixels, monkeypatch):
    sizes = []
    logits = Predictor.logits
    monkeypatch.setattr(Predictor, "logits", lambda self, x: sizes.append(len(x)) or logits(self, x))
    predictor.batch(np.concatenate([pixels] * 6))
    assert sizes == [16, 16, 4]
    with pytest.raises(ConfigError, match="got batch_size 0"):
        predictor.batch(pixels, batch_size=0)


def test_logits(tiny, predictor):
    x = np.random.default_rng(1).standard_normal((7, 3, 8, 8)).astype(np.float32)
    logits = predictor.logits(x)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, tiny.expected(x), rtol=0, atol=1e-4)
    strided = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(predictor.logits(strided), logits)


@pytest.mark.parametrize(
    ("x", "problem"),
    [
        (np.zeros((1, 3, 8, 8)), r"got float64 .*convert it with"),
        (np.zeros((1, 3, 8, 8), np.uint8), r"got uint8 .*expected float32 \(N, 3, 8, 8\)"),
        (np.zeros((3, 8, 8), np.float32), r"got float32 \(3, 8, 8\), expected float32 \(N, 3, 8, 8\)"),
        (np.zeros((1, 8, 8, 3), np.float32), r"got float32 \(1, 8, 8, 3\), expected"),
        (np.zeros((1, 3, 16, 16), np.float32), r"expected float32 \(N, 3, 8, 8\): this model takes no other"),
        (np.zeros((0, 3, 8, 8), np.float32), r"got float32 \(0, 3, 8, 8\)"),
        (np.full((1, 3, 8, 8), np.nan, np.float32), "got NaN or infinity"),
        (np.full((1, 3, 8, 8), -np.inf, np.float32), "got NaN or infinity"),
        ([[0.0]], "got a list, expected float32"),
    ],
)
def test_wrong_arrays(predictor, x, problem):
    with pytest.raises(InputError, match=problem):
        predictor.logits(x)


def test_wrong_image(predictor, tmp_path):
    path = tmp_path / "text.jpg"
    path.write_text("no image")
    with pytest.raises(InputError, match=r"text\.jpg"):
        predictor(path)


def test_threads_may_share_it(predictor, pixels):
    expected = [predictor(image).logits for image in pixels]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            got = [prediction.logits for prediction in pool.map(predictor, pixels)]
            np.testing.assert_array_equal(got, expected)


# Files that must not pass


def test_canary_changed_weight(tiny, tmp_path):
    """With the content hash recomputed, as by someone who edits a file, the golden images still tell."""
    weight = tiny.weight.copy()
    weight[100, 2] *= 1.01
    proto = onnx.ModelProto()
    proto.CopyFrom(tiny.proto)
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "weight"))
    bare = proto.SerializeToString(deterministic=True)
    path = tmp_path / "changed.onnx"

    def write(manifest):
        helper.set_model_props(proto, {METADATA_KEY: manifest.sealed().to_json()})
        path.write_bytes(proto.SerializeToString(deterministic=True))

    write(tiny.manifest)
    with pytest.raises(ModelFileError, match=r"changed\.onnx: its graph or weights are not those"):
        Predictor(path)
    write(replace(tiny.manifest, content_sha256=content_sha256(bare)))
    with pytest.raises(ModelFileError, match=r"changed\.onnx: golden check failed: .* off.*the file is damaged"):
        Predictor(path)
    assert Predictor(path, check=False).manifest.model.name == "tiny"


@pytest.mark.parametrize(
    "change",
    [
        lambda whole: whole["labels"].__setitem__(0, "aunt"),
        lambda whole: whole["input"]["preprocess"].__setitem__("interpolation", "bicubic"),
        lambda whole: whole["input"]["preprocess"]["mean"].__setitem__(0, 0.50001),
        lambda whole: whole["golden"].__setitem__("tolerance", 0.9),
        lambda whole: whole["session"].clear(),
        lambda whole: whole["provenance"].__setitem__("vit-edge", "9"),
        lambda whole: whole.__setitem__("manifest_sha256", "0" * 64),
    ],
)
def test_a_changed_manifest_is_noticed(tiny, tmp_path, change):
    """The golden images pass by preprocessing and labels, so that the manifest has a hash of its own."""
    whole = json.loads(tiny.manifest.to_json())
    change(whole)
    proto = onnx.ModelProto()
    proto.CopyFrom(tiny.proto)
    helper.set_model_props(proto, {METADATA_KEY: json.dumps(whole)})
    path = tmp_path / "changed.onnx"
    path.write_bytes(proto.SerializeToString(deterministic=True))
    with pytest.raises(ModelFileError, match=r"changed\.onnx: its manifest .* was changed or damaged"):
        Predictor(path)


def test_canary_swapped_mean_and_std(tiny, write_model):
    spec = tiny.manifest.input.preprocess
    swapped = replace(tiny.manifest.input, preprocess=replace(spec, mean=spec.std, std=spec.mean))
    with pytest.raises(ModelFileError, match="golden check failed"):
        Predictor(write_model(input=swapped))


def test_damaged_golden_outputs(tiny, write_model):
    golden = tiny.manifest.golden
    first = (golden.outputs[0][0] + 0.01, *golden.outputs[0][1:])
    with pytest.raises(ModelFileError, match="golden check failed"):
        Predictor(write_model(golden=replace(golden, outputs=(first, *golden.outputs[1:]))))


def test_plain_onnx_file(tiny, tmp_path):
    path = tmp_path / "plain.onnx"
    path.write_bytes(tiny.proto.SerializeToString())
    with pytest.raises(ModelFileError, match="is a plain ONNX file without a vit-edge manifest"):
        Predictor(path)


@pytest.mark.parametrize("mode", ["uint8", "image"])
def test_input_modes_to_come(tiny, write_model, mode):
    with pytest.raises(ModelFileError, match=f"takes '{mode}' input, which this vit-edge cannot feed yet"):
        Predictor(write_model(input=replace(tiny.manifest.input, mode=mode)))


def test_manifest_of_another_graph(tiny, write_model):
    spec = tiny.manifest.input.preprocess
    bigger = replace(spec, size=(16, 16), resize_to=(16, 16))
    changes = [
        (
            {"input": replace(tiny.manifest.input, name="pixels")},
            r"speaks of 'pixels', the graph has \['x'\]",
        ),
        ({"output": replace(tiny.manifest.output, name="y")}, r"speaks of 'y', the graph has \['logits'\]"),
        ({"input": replace(tiny.manifest.input, preprocess=bigger)}, r"takes float32 .*says .* 16, 16\)"),
        (
            {
                "output": replace(tiny.manifest.output, classes=2),
                "labels": (),
                "golden": replace(tiny.manifest.golden, outputs=((1.0, 2.0),) * 3),
            },
            r"gives float32 .*says float32 \(N, 2\)",
        ),
    ]
    for change, problem in changes:
        with pytest.raises(ModelFileError, match=problem):
            Predictor(write_model(**change))


def test_newer_runtime_needed(write_model, monkeypatch):
    monkeypatch.setattr(onnxruntime, "__version__", "1.20.1")
    with pytest.raises(ModelFileError, match=r"tiny\.onnx: needs onnxruntime >= 1\.23, 1\.20\.1 is installed"):
        Predictor(write_model(minimum_runtime="1.23"))


def test_session_entries_of_the_file(write_model):
    with pytest.raises(ModelFileError, match=r"session entry 'ep\.context_file_path'"):
        Predictor(write_model(session={"ep.context_file_path": "/tmp/x"}))


def test_missing_provider(write_model):
    with pytest.raises(ProviderError, match="NopeExecutionProvider"):
        Predictor(write_model(), providers=["NopeExecutionProvider"])


def test_output_that_is_not_finite(predictor):
    with pytest.raises(ModelFileError, match="output is not finite"):
        predictor.logits(np.full((1, 3, 8, 8), 3e38, np.float32))


def test_external_data(tiny, tmp_path):
    path, data = tmp_path / "big.onnx", tmp_path / "big.onnx.data"
    proto = onnx.ModelProto()
    proto.CopyFrom(tiny.proto)
    onnx.save(proto, path, save_as_external_data=True, location=data.name, size_threshold=100)
    info = ExternalData(file=data.name, bytes=data.stat().st_size, sha256=hashlib.sha256(data.read_bytes()).hexdigest())
    proto = onnx.load(path, load_external_data=False)
    content = content_sha256(proto.SerializeToString())

    def write(external_data):
        manifest = replace(tiny.manifest, external_data=external_data, content_sha256=content)
        helper.set_model_props(proto, {METADATA_KEY: manifest.sealed().to_json()})
        path.write_bytes(proto.SerializeToString())

    write(info)
    x = np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype(np.float32)
    np.testing.assert_allclose(Predictor(path).logits(x), tiny.expected(x), rtol=0, atol=1e-4)
    write(None)
    with pytest.raises(ModelFileError, match=r"keeps weights in \['big\.onnx\.data'\], its manifest says other"):
        Predictor(path)
    write(info)
    content_before = data.read_bytes()
    data.write_bytes(content_before[:-1] + b"\x01")
    with pytest.raises(ModelFileError, match=r"big\.onnx\.data is damaged: its sha256 is not"):
        Predictor(path)
    data.write_bytes(content_before + b"\x00")
    with pytest.raises(ModelFileError, match=r"big\.onnx\.data has 3841 bytes, expected 3840"):
        Predictor(path)
    data.unlink()
    with pytest.raises(ModelFileError, match=r"'big\.onnx\.data', which is missing beside it"):
        Predictor(path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda predictor: predictor.batch([], batch_size=1.5), "got batch_size 1.5, expected a whole number, 1..4096"),
        (lambda predictor: predictor.batch([], batch_size=10**9), "got batch_size 1000000000"),
        (lambda predictor: predictor.batch("cat.jpg"), "got one str, expected several images"),
        (lambda predictor: predictor.batch(np.zeros((8, 8, 3), np.uint8)), "got one ndarray, expected several"),
        (lambda predictor: predictor.batch(5), "got one int, expected several images"),
        (lambda predictor: predictor(np.zeros((8, 8, 3), np.uint8)).best(1.5), "got k = 1.5"),
        (lambda predictor: Predictor(None), "got a NoneType, expected the path"),
        (lambda predictor: Predictor(b"model"), "got a bytes, expected the path"),
    ],
)
def test_arguments_that_are_something_else(write_model, call, message):
    with pytest.raises((ConfigError, InputError), match=message):
        call(Predictor(write_model()))
