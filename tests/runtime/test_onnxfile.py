"""The reader says what onnx says, and nothing a file holds can make it do anything but that or raise."""

import hashlib
import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vit_edge.runtime import onnxfile
from vit_edge.runtime.errors import ConfigError, ModelFileError


@pytest.fixture
def write(tmp_path):
    def write_bytes(content, name="m.onnx"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write_bytes


def test_reads_what_was_written(tiny, write_model):
    path = write_model()
    file = onnxfile.read(path)
    assert file.path == path
    assert file.nbytes == path.stat().st_size
    assert file.ir_version == 8
    assert file.opsets == {"": 17}
    assert file.metadata == {"vit_edge": tiny.manifest.to_json()}
    assert file.op_counts == {"Flatten": 1, "MatMul": 1, "Add": 1}
    assert file.inputs == (onnxfile.ValueInfo(name="x", dtype="float32", shape=("batch", 3, 8, 8)),)
    assert file.outputs == (onnxfile.ValueInfo(name="logits", dtype="float32", shape=("batch", 5)),)
    assert file.weights == (
        onnxfile.Weight(name="weight", dtype="float32", shape=(192, 5), nbytes=3840),
        onnxfile.Weight(name="bias", dtype="float32", shape=(5,), nbytes=20),
    )
    assert file.external == ()
    assert file.content_sha256 == tiny.manifest.content_sha256


def test_domains_dtypes_unknown_shapes_and_listed_initializers(write):
    weights = [
        helper.make_tensor("a", TensorProto.INT4, [3], [1, -2, 3]),
        helper.make_tensor("b", TensorProto.INT64, [2], [1, 2]),
        helper.make_tensor("c", TensorProto.STRING, [1], [b"text"]),
        numpy_helper.from_array(np.zeros((2, 0), np.float16), "d"),
        numpy_helper.from_array(np.float64(3), "e"),
    ]
    nodes = [
        helper.make_node("Identity", ["x"], ["y"]),
        helper.make_node("Gelu", ["y"], ["z"], domain="com.microsoft"),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.UINT8, ["batch", None, 3]),
        helper.make_tensor_value_info("b", TensorProto.INT64, [2]),
    ]
    outputs = [helper.make_tensor_value_info("z", TensorProto.BFLOAT16, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    file = onnxfile.read(write(helper.make_model(graph, opset_imports=opsets).SerializeToString()))
    assert file.opsets == {"": 21, "com.microsoft": 1}
    assert file.op_counts == {"Identity": 1, "com.microsoft::Gelu": 1}
    assert file.inputs == (onnxfile.ValueInfo(name="x", dtype="uint8", shape=("batch", "?", 3)),)
    assert file.outputs == (onnxfile.ValueInfo(name="z", dtype="bfloat16", shape=()),)
    found = [(weight.dtype, weight.shape, weight.nbytes) for weight in file.weights]
    assert found == [
        ("int4", (3,), 2),
        ("int64", (2,), 16),
        ("string", (1,), 0),
        ("float16", (2, 0), 0),
        ("float64", (), 8),
    ]


def test_every_dtype_of_onnx_is_named(write):
    for name, code in TensorProto.DataType.items():
        value = helper.make_tensor_value_info("x", code, [1])
        graph = helper.make_graph([], "g", [value], [value])
        (found,) = onnxfile.read(write(helper.make_model(graph).SerializeToString())).inputs
        if found.dtype != f"type{code}":
            bare = name.lower().replace("float8_", "float8")
            assert found.dtype == {"float": "float32", "double": "float64"}.get(bare, bare)
        else:
            assert name in ("UNDEFINED", "FLOAT6E2M3", "FLOAT6E3M2")


def test_content_hash_leaves_out_the_metadata_alone(tiny):
    bare = tiny.proto.SerializeToString(deterministic=True)
    assert onnxfile.content_sha256(bare) == hashlib.sha256(bare).hexdigest()
    assert onnxfile.content_sha256(tiny.bytes()) == hashlib.sha256(bare).hexdigest()
    assert onnxfile.content_sha256(b"\x72\x03\n\x01k" + bare) == hashlib.sha256(bare).hexdigest()


def test_content_hash_sees_one_bit_of_one_weight(tiny, write):
    content = bytearray(tiny.bytes())
    content[content.index(tiny.weight.tobytes()) + 1234] ^= 1
    file = onnxfile.read(write(content))
    assert file.metadata == {"vit_edge": tiny.manifest.to_json()}
    assert file.content_sha256 != tiny.manifest.content_sha256


def test_missing_folder_and_empty(tmp_path, write):
    with pytest.raises(ModelFileError, match=r"no\.onnx does not exist$"):
        onnxfile.read(tmp_path / "no.onnx")
    with pytest.raises(ModelFileError, match=r"cannot be read: File name too long$"):
        onnxfile.read("x" * 5000)
    with pytest.raises(ModelFileError, match=r"is a folder, not a file$"):
        onnxfile.read(tmp_path)
    with pytest.raises(ModelFileError, match=r"m\.onnx is empty$"):
        onnxfile.read(write(b""))


def test_what_is_no_file_is_named(tmp_path):
    os.mkfifo(tmp_path / "pipe.onnx")
    (tmp_path / "dead.onnx").symlink_to("nowhere")
    (tmp_path / "loop.onnx").symlink_to("loop.onnx")
    for path, problem in (
        (tmp_path / "pipe.onnx", "is a pipe, not a file"),
        ("/dev/null", "is a device, not a file"),
        (tmp_path / "dead.onnx", "is a link to a file that does not exist"),
        (tmp_path / "loop.onnx", "cannot be read: Too many levels of symbolic links"),
        ("a\0b", "is no name of a file"),
    ):
        with pytest.raises(ModelFileError, match=problem):
            onnxfile.read(path)
    with pytest.raises(ConfigError, match=r"^https://host/m\.onnx is a URL, expected a file: download it first$"):
        onnxfile.read("https://host/m.onnx")


def external(name, location):
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return tensor


def graph_of(nodes=(), weights=()):
    return helper.make_graph(list(nodes), "g", [], [], list(weights))


def model_bytes(graph, **more):
    return helper.make_model(graph, **more).SerializeToString()


@pytest.mark.parametrize(
    "location",
    [
        "/etc/passwd",
        "../m.onnx.data",
        "a/m.onnx.data",
        "..\\m.onnx.data",
        "..",
        "",
        "other.bin",
        "m.onnx.data\0",
    ],
)
def test_external_paths_are_refused(write, location):
    path = write(model_bytes(graph_of(weights=[external("w", location)])))
    path.with_name("m.onnx.data").write_bytes(bytes(8))
    with pytest.raises(ModelFileError, match=r"only 'm\.onnx\.data' beside it is accepted"):
        onnxfile.read(path)


def test_external_file_beside_the_model(write):
    path = write(model_bytes(graph_of(weights=[external("w", "m.onnx.data")])))
    with pytest.raises(ModelFileError, match=r"keeps its weights in 'm\.onnx\.data', which is missing"):
        onnxfile.read(path)
    path.with_name("m.onnx.data").write_bytes(bytes(8))
    file = onnxfile.read(path)
    assert file.external == ("m.onnx.data",)
    assert file.weights[0].nbytes == 8


def hiding_places():
    bad = external("w", "/etc/passwd")
    constant = helper.make_node("Constant", [], ["c"], value=bad)
    branch = helper.make_node("If", ["x"], ["y"], then_branch=graph_of([constant]))
    deeper = helper.make_node("If", ["x"], ["y"], then_branch=graph_of([branch]))
    sparse = onnx.SparseTensorProto(values=bad, dims=[4])
    function = helper.make_function("d", "F", [], ["c"], [constant], [helper.make_opsetid("", 17)])
    with_sparse = graph_of()
    with_sparse.sparse_initializer.append(sparse)
    unlocated = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2])
    unlocated.external_data.add(key="location", value="/etc/passwd")
    return {
        "constant": model_bytes(graph_of([constant])),
        "subgraph": model_bytes(graph_of([branch])),
        "two deep": model_bytes(graph_of([deeper])),
        "subgraph's weight": model_bytes(
            graph_of([helper.make_node("If", ["x"], ["y"], then_branch=graph_of(weights=[bad]))])
        ),
        "sparse": model_bytes(with_sparse),
        "function": model_bytes(graph_of(), functions=[function]),
        "no data_location": model_bytes(graph_of(weights=[unlocated])),
    }


@pytest.mark.parametrize("place", hiding_places())
def test_external_paths_are_found_wherever_they_hide(write, place):
    with pytest.raises(ModelFileError, match="keeps weights in '/etc/passwd'"):
        onnxfile.read(write(hiding_places()[place]))
