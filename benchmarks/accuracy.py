"""What quantization costs, ours and others', on the same real images: the table of docs/accuracy.md.

    python benchmarks/accuracy.py fp32.onnx --data imagenet_val --calibration 200

FILE is a model file that vit-edge exported, DATA has images and labels.csv. The first `--calibration` files, by name,
calibrate every candidate; all others judge. Candidates are ours (three calibration subsets for int8), onnxruntime's
own static and dynamic quantizers with their defaults, its dynamic one as Optimum's command line calls it (MatMul only,
one scale a channel), and, where openvino and nncf are installed, NNCF's transformer preset in OpenVINO.

Expected wall time for ViT-Tiny on two cores: 10 minutes for 800 images.
"""

import argparse
import csv
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vit_edge.accuracy import compare
from vit_edge.runtime.errors import ModelFileError
from vit_edge.runtime.images import decode
from vit_edge.runtime.manifest import Manifest, read_manifest
from vit_edge.runtime.onnxfile import read
from vit_edge.runtime.preprocess import prepare
from vit_edge.runtime.session import open_session

Array = npt.NDArray[np.float32]
Run = Callable[[Array], Array]


class Reader:
    """Calibration images as onnxruntime's quantizer wants them."""

    def __init__(self, name: str, images: Sequence[Array]) -> None:
        self.left = iter([{name: image[None]} for image in images])

    def get_next(self) -> dict[str, Array] | None:
        """The next feed, or None behind the last."""
        return next(self.left, None)


def session_of(path: Path) -> Run:
    """A file in onnxruntime."""
    session = open_session(path)
    name = session.get_inputs()[0].name
    return lambda x: session.run(None, {name: x})[0]


def ours(fp32: Path, paths: Sequence[Path], folder: Path) -> Iterator[tuple[str, Path]]:
    """Every scheme; int8 with all calibration images and with three thirds of them."""
    from vit_edge.export import W8A16, Fp16, Int4, Int8, Int8Dynamic, Int8Qdq, quantize

    for scheme in (Int8(), Int8Dynamic(), Int8Qdq(), W8A16(), Int4(), Fp16()):
        yield f"vit-edge {scheme.name}", quantize(fp32, folder / f"{scheme.name}.onnx", scheme, images=paths).path
    for part in range(3):
        images = paths[part::3]
        path = quantize(fp32, folder / f"int8-{part}.onnx", images=images).path
        yield f"vit-edge int8, {len(images)} of these images ({part + 1})", path


def onnxruntimes(fp32: Path, images: Sequence[Array], folder: Path) -> Iterator[tuple[str, Path]]:
    """onnxruntime's own quantizers, on the graph as they want it."""
    from onnxruntime.quantization import QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared, name = folder / "prepared.onnx", session_input(fp32)
    try:
        quant_pre_process(fp32, prepared, skip_symbolic_shape=True)
    except Exception as error:  # what it cannot prepare it still quantizes
        print(f"onnxruntime's pre-processing fails: {error}")
        prepared = fp32
    path = folder / "ort-static.onnx"
    quantize_static(prepared, path, Reader(name, images))
    yield "onnxruntime static, defaults", path
    path = folder / "ort-static-matmul.onnx"
    quantize_static(prepared, path, Reader(name, images), op_types_to_quantize=["MatMul", "Gemm"], per_channel=True)
    yield "onnxruntime static, MatMul and Gemm, per channel", path
    path = folder / "ort-dynamic.onnx"
    quantize_dynamic(prepared, path)
    yield "onnxruntime dynamic, defaults", path
    path = folder / "optimum.onnx"
    quantize_dynamic(prepared, path, op_types_to_quantize=["MatMul"], per_channel=True, weight_type=QuantType.QInt8)
    yield "as Optimum's command line: dynamic, MatMul, per channel", path


def session_input(path: Path) -> str:
    """The name of the one input."""
    return read_manifest(read(path)).input.name


def openvino(fp32: Path, images: Sequence[Array]) -> Run:
    """NNCF's transformer preset, run by OpenVINO in its own default precision."""
    import nncf
    import openvino as ov

    model = ov.convert_model(str(fp32))
    quantized = nncf.quantize(
        model,
        nncf.Dataset([image[None] for image in images]),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(images),
    )
    compiled = ov.compile_model(quantized, "CPU")
    return lambda x: next(iter(compiled(x).values()))


def scored(run: Run, images: Sequence[Array]) -> Array:
    """(n, classes), one image at a time."""
    return np.stack([run(image[None]).ravel() for image in images])


def row(name: str, path: Path | None, baseline: Array, outputs: Array, labels: npt.NDArray[np.int64]) -> str:
    """One line of the table."""
    found = compare(baseline, outputs, labels)
    assert found.paired is not None
    low, high = found.paired.interval
    size = f"{path.stat().st_size / 1e6:.1f}" if path else "-"
    drop = f"{found.paired.drop:+.2f} ({low:+.2f} … {high:+.2f})"
    near = found.agreement
    return f"| {name} | {size} | {drop} | {100 * near.argmax:.2f} % | {near.relative_l2:.3f} |"


def row_of_file(name: str, path: Path, baseline: Array, test: Sequence[Array], labels: npt.NDArray[np.int64]) -> str:
    """One line of the table, also for a file that onnxruntime made and does not load."""
    try:
        run = session_of(path)
    except ModelFileError as error:
        return f"| {name} | {path.stat().st_size / 1e6:.1f} | not loaded: {str(error)[:80]} | | |"
    return row(name, path, baseline, scored(run, test), labels)


def data_of(folder: Path) -> list[tuple[Path, int]]:
    """Images and labels, by name."""
    with (folder / "labels.csv").open(newline="", encoding="utf-8") as file:
        rows = sorted((each["file"], int(each["label"])) for each in csv.DictReader(file))
    return [(next(p for p in (folder / name, folder / "images" / name) if p.is_file()), label) for name, label in rows]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fp32", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--calibration", type=int, default=200)
    parser.add_argument("--only", choices=["ours", "onnxruntime", "openvino"], action="append")
    options = parser.parse_args()
    data = data_of(options.data)
    manifest: Manifest = read_manifest(read(options.fp32))
    pixels = [prepare(decode(path), manifest.input.preprocess) for path, _ in data]
    paths = [path for path, _ in data[: options.calibration]]
    calibration, test = pixels[: options.calibration], pixels[options.calibration :]
    labels = np.array([label for _, label in data[options.calibration :]], np.int64)
    baseline = scored(session_of(options.fp32), test)
    top1 = 100 * (baseline.argmax(axis=1) == labels).mean()
    print(f"{len(paths)} images calibrate, {len(test)} judge; fp32 top-1 {top1:.2f} %\n", flush=True)
    print("| file | MB | drop in points (95 % interval) | same class as fp32 | relative L2 |\n|---|---|---|---|---|")
    wanted = options.only or ["ours", "onnxruntime", "openvino"]
    with tempfile.TemporaryDirectory() as folder:
        if "ours" in wanted:
            for name, path in ours(options.fp32, paths, Path(folder)):
                print(row(name, path, baseline, scored(session_of(path), test), labels), flush=True)
        if "onnxruntime" in wanted:
            for name, path in onnxruntimes(options.fp32, calibration, Path(folder)):
                print(row_of_file(name, path, baseline, test, labels), flush=True)
        if "openvino" in wanted:
            outputs = scored(openvino(options.fp32, calibration), test)
            print(row("OpenVINO + NNCF, transformer preset", None, baseline, outputs, labels), flush=True)


if __name__ == "__main__":
    main()
