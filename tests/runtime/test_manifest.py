"""The manifest survives its JSON, and nothing that is not exactly a manifest gets through."""

import json
from dataclasses import replace

import pytest

from vit_edge.runtime import manifest as manifest_module
from vit_edge.runtime import onnxfile
from vit_edge.runtime.errors import ModelFileError
from vit_edge.runtime.manifest import ExternalData, Manifest, read_manifest


def edited(tiny, *path_and_value):
    """The manifest's JSON with one value replaced (or added)."""
    *path, last, value = path_and_value
    whole = json.loads(tiny.manifest.to_json())
    part = whole
    for key in path:
        part = part[key]
    part[last] = value
    return json.dumps(whole)


def test_round_trip(tiny):
    text = tiny.manifest.to_json()
    assert Manifest.from_json(text) == tiny.manifest
    assert Manifest.from_json(text).to_json() == text


def test_round_trip_with_external_data(tiny):
    data = ExternalData(file="m.onnx.data", bytes=3, sha256="ab" * 32)
    manifest = replace(tiny.manifest, external_data=data)
    assert Manifest.from_json(manifest.to_json()) == manifest


def test_json_is_canonical(tiny):
    text = tiny.manifest.to_json()
    assert "Élan" in text
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    shuffled = dict(reversed(json.loads(text).items()))
    assert Manifest.from_json(json.dumps(shuffled, indent=1)).to_json() == text


def test_schema_is_stable(tiny):
    whole = json.loads(tiny.manifest.to_json())
    assert whole["schema_version"] == 1
    assert sorted(whole) == [
        "batch_dependent",
        "content_sha256",
        "external_data",
        "golden",
        "input",
        "labels",
        "manifest_sha256",
        "minimum_runtime",
        "model",
        "output",
        "provenance",
        "schema_version",
        "session",
    ]


def test_optional_fields_may_be_absent(tiny):
    whole = json.loads(tiny.manifest.to_json())
    del whole["external_data"], whole["model"]["kept_float"]
    assert Manifest.from_json(json.dumps(whole)) == tiny.manifest


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("extra", 1), "the whole has the unknown 'extra'"),
        (("model", "extra", 1), "model has the unknown 'extra'"),
        (("model", []), "model is a list, expected an object"),
        (("model", "name", 1), "model.name is an integer, expected a text"),
        (("model", "parameters", True), "model.parameters is a boolean, expected an integer"),
        (("model", "parameters", 1.0), "model.parameters is a number, expected an integer"),
        (("model", "parameters", -1), "model.parameters is -1"),
        (("model", "source_sha256", "xyz"), "model.source_sha256 is 'xyz'"),
        (("model", "kept_float", ["a", None]), r"model.kept_float\[1\] is null, expected a text"),
        (("input", "mode", "audio"), "input.mode is 'audio', expected one of float, uint8, image"),
        (("input", "preprocess", "size", [8]), "preprocessing: size"),
        (("input", "preprocess", "extra", 1), "preprocessing: unknown extra"),
        (("output", "kind", 3), "output.kind is '3', expected one of"),
        (("output", "classes", 0), "output.classes is 0"),
        (("labels", ["a", "b"]), "2 labels for 5 classes"),
        (("labels", "abcde"), "labels is a text, expected a list"),
        (("labels", 0, "\ud800"), "which is not Unicode text"),
        (("golden", "count", 2), "3 golden outputs for 2 images"),
        (("golden", "count", 0), "golden.count is 0"),
        (("golden", "outputs", 1, [0.5]), "1 values for 5 classes"),
        (("golden", "outputs", 1, 2, "0.5"), r"golden.outputs\[1\]\[2\] is a text, expected a number"),
        (("golden", "outputs", 1, 2, 10**400), "too large a number"),
        (("golden", "tolerance", 0), "golden.tolerance is 0"),
        (("golden", "tolerance", 1.5), "golden.tolerance is 1.5"),
        (("session", "key", 4), "session.key is an integer, expected a text"),
        (("minimum_runtime", "new"), "minimum_runtime is 'new'"),
        (("content_sha256", "ABC"), "content_sha256 is 'ABC'"),
        (("external_data", {"file": "../x", "bytes": 1, "sha256": "0" * 64}), "not a plain file name"),
        (("external_data", {"file": "x", "bytes": -1, "sha256": "0" * 64}), "external_data.bytes is -1"),
        (("schema_version", 0), "schema_version is 0"),
        (("schema_version", "1"), "schema_version is a text"),
    ],
)
def test_wrong_values_are_named(tiny, change, problem):
    with pytest.raises(ModelFileError, match=problem) as caught:
        Manifest.from_json(edited(tiny, *change))
    assert "\n" not in str(caught.value)


def test_missing_key(tiny):
    whole = json.loads(tiny.manifest.to_json())
    del whole["golden"]
    with pytest.raises(ModelFileError, match="the whole lacks 'golden'"):
        Manifest.from_json(json.dumps(whole))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "the whole is a list, expected an object"),
        ("null", "the whole is null"),
        ("[" * 100_000, "not JSON"),
        ('{"labels":NaN}', "NaN is no finite number"),
        ('{"labels":-Infinity}', "-Infinity is no finite number"),
        ('{"labels":1e999}', "1e999 is no finite number"),
        ('{"labels":[],"model":1,"labels":[]}', "the key 'labels' appears twice"),
        ('{"labels":' + "9" * 5000 + "}", "not JSON"),
    ],
)
def test_wrong_text(text, problem):
    with pytest.raises(ModelFileError, match=problem):
        Manifest.from_json(text)


def test_newer_schema(tiny):
    with pytest.raises(ModelFileError, match=r"^written by a newer vit-edge: .* pip install -U vit-edge$"):
        Manifest.from_json(edited(tiny, "schema_version", 2))


def test_length_is_bounded(tiny, monkeypatch):
    monkeypatch.setattr(manifest_module, "_MAX_CHARACTERS", 100)
    with pytest.raises(ModelFileError, match="100 are allowed"):
        tiny.manifest.to_json()
    with pytest.raises(ModelFileError, match="100 are allowed"):
        Manifest.from_json(" " * 101)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}])
def test_what_json_cannot_hold(tiny, value):
    with pytest.raises(ModelFileError, match="holds what JSON cannot"):
        replace(tiny.manifest, provenance={"figure": value}).to_json()


def test_read_manifest(tiny, write_model):
    assert read_manifest(onnxfile.read(write_model())) == tiny.manifest


def test_plain_onnx_file(tiny, tmp_path):
    path = tmp_path / "plain.onnx"
    path.write_bytes(tiny.proto.SerializeToString())
    with pytest.raises(ModelFileError, match=r"plain\.onnx is a plain ONNX file without a vit-edge manifest"):
        read_manifest(onnxfile.read(path))


def test_damaged_manifest_names_the_file(tiny, tmp_path):
    path = tmp_path / "bad.onnx"
    path.write_bytes(tiny.bytes().replace(b'"schema_version":1', b'"schema_version":7'))
    with pytest.raises(ModelFileError, match=r"bad\.onnx: written by a newer vit-edge"):
        read_manifest(onnxfile.read(path))
