"""Writing: the same bytes every time, hashes of what is in the file, and never half a file."""

import dataclasses
import errno
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from vit_edge.checkpoints import Checkpoint
from vit_edge.export import ExportReport, export, exporter, model_file
from vit_edge.export.errors import ExportError
from vit_edge.export.model_file import save, staging_folder, write_manifest
from vit_edge.runtime import Predictor
from vit_edge.runtime.errors import ModelFileError
from vit_edge.runtime.onnxfile import read

TEXT = """
<ir_version: 11, opset_import: ["" : 20]>
net (float[batch, 3] x) => (float[batch, 3] out) <float[3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}> { out = MatMul (x, w) }
"""


@pytest.fixture
def external(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights go outside whatever their size."""
    monkeypatch.setattr(model_file, "_ONE_FILE_LIMIT", 0)


@pytest.mark.parametrize(("opset", "version"), [(17, 8), (18, 8), (19, 9), (20, 9), (21, 10), (23, 10), (24, 10)])
def test_ir_version_is_as_old_as_the_opset_allows(opset: int, version: int, tmp_path: Path) -> None:
    model = ir.from_onnx_text(TEXT.replace(": 20]", f": {opset}]"))
    path = save(model, tmp_path / "m.onnx")
    assert read(path).ir_version == version
    onnx.checker.check_model(onnx.load(path), full_check=True)


@pytest.mark.slow
def test_export_again_gives_the_same_bytes(checkpoint: Checkpoint, report: ExportReport, tmp_path: Path) -> None:
    export(checkpoint, tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == report.path.read_bytes()


def test_nothing_of_this_machine_is_in_the_file(report: ExportReport) -> None:
    data = report.path.read_bytes()
    for trace in (b"/root", b"/home", b"/tmp", b"site-packages", b".py", b"pkg.torch", str(Path.cwd()).encode()):
        assert trace not in data, trace


@pytest.mark.slow
def test_other_process_folder_and_hash_seed_give_the_same_bytes(
    checkpoint_file: Path, report: ExportReport, tmp_path: Path
) -> None:
    code = (
        "import sys\n"
        "from vit_edge.checkpoints import load_checkpoint\n"
        "from vit_edge.export import export\n"
        "export(load_checkpoint(sys.argv[1]), 'other.onnx')\n"
    )
    command = [sys.executable, "-c", code, str(checkpoint_file)]
    subprocess.run(command, cwd=tmp_path, env={"PYTHONHASHSEED": "7"}, check=True, timeout=120)
    assert (tmp_path / "other.onnx").read_bytes() == report.path.read_bytes()


def test_content_hash_is_that_of_the_graph_alone(report: ExportReport, tmp_path: Path) -> None:
    path = tmp_path / "copy.onnx"
    path.write_bytes(report.path.read_bytes())
    renamed = dataclasses.replace(report.manifest, model=dataclasses.replace(report.manifest.model, name="other"))
    written = write_manifest(path, renamed)
    assert written.model.name == "other"
    assert written.content_sha256 == report.manifest.content_sha256 == read(path).content_sha256
    assert path.read_bytes() != report.path.read_bytes()
    assert len(onnx.load(path).metadata_props) == 1


def test_large_models_keep_their_weights_beside(
    external: None, quick: None, checkpoint: Checkpoint, report: ExportReport, tmp_path: Path
) -> None:
    """Gates, manifest, loader and damage, with the limit lowered; the real size is a slow test of the exporter."""
    made = export(checkpoint, tmp_path / "big.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["big.onnx", "big.onnx.data"]
    data = tmp_path / "big.onnx.data"
    assert made.manifest.external_data is not None
    assert (made.manifest.external_data.file, made.manifest.external_data.bytes) == (data.name, data.stat().st_size)
    images = np.random.default_rng(0).standard_normal((2, 3, 24, 16)).astype(np.float32)
    np.testing.assert_array_equal(Predictor(made.path).logits(images), Predictor(report.path).logits(images))

    whole = data.read_bytes()
    data.write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
    with pytest.raises(ModelFileError, match=r"big\.onnx\.data is damaged"):
        Predictor(made.path)
    data.write_bytes(whole[:-4])
    with pytest.raises(ModelFileError, match=r"big\.onnx\.data has \d+ bytes, expected \d+"):
        Predictor(made.path)
    data.unlink()
    with pytest.raises(ModelFileError, match=r"'big\.onnx\.data', which is missing"):
        Predictor(made.path)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """An output that exists already, with its weights beside it."""
    (tmp_path / "m.onnx").write_bytes(b"old")
    (tmp_path / "m.onnx.data").write_bytes(b"old data")
    return tmp_path / "m.onnx"


def listing(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def fail_inside(output: Path, error: BaseException) -> None:
    with staging_folder(output) as folder:
        assert folder.parent == output.parent
        assert folder.name.startswith(".")
        (folder / "m.onnx").write_bytes(b"half")
        (folder / "stage").write_bytes(b"rest")
        raise error


@pytest.mark.parametrize("error", [ExportError("no"), KeyboardInterrupt(), SystemExit(143), ValueError("no")])
def test_failure_leaves_nothing_and_touches_nothing(error: BaseException, output: Path) -> None:
    before = listing(output.parent)
    with pytest.raises(type(error)):
        fail_inside(output, error)
    assert listing(output.parent) == before


def test_success_moves_file_and_weights(output: Path) -> None:
    with staging_folder(output) as folder:
        (folder / "m.onnx").write_bytes(b"new")
        (folder / "m.onnx.data").write_bytes(b"new data")
        (folder / "stage").write_bytes(b"rest")
        assert output.read_bytes() == b"old"
    assert listing(output.parent) == {"m.onnx": b"new", "m.onnx.data": b"new data"}


def test_full_disk_is_one_line_and_leaves_nothing(output: Path) -> None:
    before = listing(output.parent)
    with pytest.raises(ExportError, match=r"m\.onnx: cannot be written: No space left on device"):
        fail_inside(output, OSError(errno.ENOSPC, "No space left on device"))
    assert listing(output.parent) == before


def _refused(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder.onnx").mkdir()
    yield tmp_path / "m", r"must end in \.onnx"
    yield tmp_path / "m.ONNX.txt", r"must end in \.onnx"
    yield tmp_path / "none" / "m.onnx", "no such folder; create it first"
    yield tmp_path / "file" / "m.onnx", "no such folder"
    yield tmp_path / "folder.onnx", "is a folder, expected a file name"
    yield tmp_path / ("n" * 300 + ".onnx"), "cannot be written: File name too long"


def test_outputs_that_cannot_be_written_are_refused_before_any_work(tmp_path: Path) -> None:
    for path, message in _refused(tmp_path):
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(ExportError, match=message), staging_folder(path):
            pytest.fail("the work must not begin")
        assert sorted(tmp_path.rglob("*")) == before


def test_folder_without_permission_is_refused_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raised by hand: root may write anywhere."""

    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(model_file, "TemporaryDirectory", refuse)
    with pytest.raises(ExportError, match="cannot be written: Permission denied"), staging_folder(tmp_path / "m.onnx"):
        pytest.fail("the work must not begin")


@pytest.mark.parametrize("write", ["save", "write_manifest"])
def test_disk_full_during_an_export_leaves_the_old_file(
    write: str, quick: None, checkpoint: Checkpoint, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original: Callable[..., object] = getattr(exporter, write)

    def full(*arguments: object, **options: object) -> None:
        original(*arguments, **options)
        raise OSError(errno.ENOSPC, "No space left on device")

    before = listing(output.parent)
    monkeypatch.setattr(exporter, write, full)
    with pytest.raises(ExportError, match="No space left on device"):
        export(checkpoint, output)
    assert listing(output.parent) == before
