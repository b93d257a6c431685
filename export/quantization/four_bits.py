"""Write 4-bit weights into a graph: GPTQ, onnxruntime's MatMulNBits, float activations.

GPTQ rounds a weight matrix input channel by input channel and lets the channels that are still to come make up for
each error, as far as the activations of the calibration images allow: Frantar et al., "GPTQ: Accurate Post-Training
Quantization for Generative Pre-trained Transformers", 2022, algorithm 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge.export.quantization.graph import add_behind, add_constant, take_over
from vit_edge.export.quantization.linears import Linear, find_sites
from vit_edge.export.quantization.observation import Observation
from vit_edge.export.quantization.ranges import Range
from vit_edge.export.quantization.sensitivity import Writer

__all__ = ["Blocks", "gptq", "nearest", "write_blocks", "writer"]

Array = npt.NDArray[np.float32]

_LEVELS = 15
_DAMPING = 0.1  # of the mean squared activation; the paper's 0.01 is up to 5 % worse with samples of 2,000 rows
_SHRINKS = np.linspace(1.0, 0.7, 13)  # of a block's range; a narrower one rounds finer and clips its ends


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """A weight matrix (K, N) in 4 bits: w = (q - zero_point) * scale.

    Attributes:
        q: 0 ... 15, (K, N) uint8.
        scale: (blocks, N) float32; a block is `size` input channels of one output channel.
        zero_point: 0 ... 15, (blocks, N) uint8.
        size: of a block.
    """

    q: npt.NDArray[np.uint8]
    scale: Array
    zero_point: npt.NDArray[np.uint8]
    size: int

    def weight(self) -> Array:
        """(K, N) float32."""
        rows = np.arange(len(self.q)) // self.size
        made: Array = (self.q.astype(np.float32) - self.zero_point[rows]) * self.scale[rows]
        return made


def _grid(block: Array, importance: Array) -> tuple[Array, Array]:
    """Scale and zero point (N,) of a block (k, N): the shrunken range that rounds with the least weighted error."""
    low, high = np.minimum(block.min(axis=0), 0), np.maximum(block.max(axis=0), 0)
    best = np.full(block.shape[1], np.inf)
    scale, zero = np.ones(block.shape[1], np.float32), np.zeros(block.shape[1], np.float32)
    for shrink in _SHRINKS:
        tried = np.maximum((high - low) * shrink / _LEVELS, 1e-12).astype(np.float32)
        offset = np.clip(np.rint(-low * shrink / tried), 0, _LEVELS).astype(np.float32)
        off = (np.clip(np.rint(block / tried) + offset, 0, _LEVELS) - offset) * tried - block
        error = importance @ np.square(off)
        better = error < best
        best[better], scale[better], zero[better] = error[better], tried[better], offset[better]
    return scale, zero


def nearest(weight: Array, size: int) -> Blocks:
    """Round to nearest, from a block's extremes: what GPTQ is compared with."""
    q, scales, zeros = np.empty(weight.shape, np.uint8), [], []
    for start in range(0, len(weight), size):
        block = weight[start : start + size]
        low, high = np.minimum(block.min(axis=0), 0), np.maximum(block.max(axis=0), 0)
        scale = np.maximum((high - low) / _LEVELS, 1e-12).astype(np.float32)
        zero = np.rint(-low / scale)
        q[start : start + size] = np.clip(np.rint(block / scale) + zero, 0, _LEVELS)
        scales.append(scale)
        zeros.append(zero)
    return Blocks(q, np.stack(scales), np.stack(zeros).astype(np.uint8), size)


def gptq(weight: Array, rows: Array, size: int) -> Blocks:
    """Quantize a weight matrix so that its products with these rows change little.

    Args:
        weight: (K, N) float32.
        rows: (R, K) float32, what the layer reads.
        size: of a block.
    """
    upper = _inverse_cholesky(rows)
    left = weight.astype(np.float64)
    importance = np.square(rows, dtype=np.float64).mean(axis=0)
    importance = importance + _DAMPING * importance.mean() + 1e-12
    q, scales, zeros = np.empty(weight.shape, np.uint8), [], []
    for start in range(0, len(weight), size):
        end = min(start + size, len(weight))
        scale, zero = _grid(left[start:end].astype(np.float32), importance[start:end])
        errors = np.empty((end - start, weight.shape[1]))
        for k in range(start, end):
            q[k] = np.clip(np.rint(left[k] / scale) + zero, 0, _LEVELS)
            errors[k - start] = (left[k] - (q[k] - zero) * scale) / upper[k, k]
            left[k + 1 : end] -= np.outer(upper[k, k + 1 : end], errors[k - start])
        left[end:] -= upper[start:end, end:].T @ errors
        scales.append(scale)
        zeros.append(zero)
    return Blocks(q, np.stack(scales), np.stack(zeros).astype(np.uint8), size)


def _inverse_cholesky(rows: Array) -> npt.NDArray[np.float64]:
    """The upper Cholesky factor of the inverse of the rows' damped second moments, (K, K)."""
    wide = rows.astype(np.float64)
    moments = wide.T @ wide / len(wide)
    moments += np.eye(len(moments)) * (_DAMPING * np.trace(moments) / len(moments) + 1e-12)
    upper: npt.NDArray[np.float64] = np.linalg.cholesky(np.linalg.inv(moments)).T
    return upper


def writer(seen: Mapping[str, Observation], size: int) -> Writer:
    """What puts 4-bit layers into a graph; each layer is quantized once.

    Args:
        seen: what the calibration images showed, by site name.
        size: of a block.
    """
    done: dict[str, Blocks] = {}

    def write(model: ir.Model, ranges: Mapping[str, Range], corrections: Mapping[str, np.ndarray]) -> ir.Model:
        for site in find_sites(model.graph):
            for linear in site.linears if site.name in ranges else ():
                if linear.name not in done:
                    done[linear.name] = gptq(linear.weight, seen[site.name].rows, size)
        chosen = {linear.name for site in find_sites(model.graph) if site.name in ranges for linear in site.linears}
        return write_blocks(model, {name: blocks for name, blocks in done.items() if name in chosen})

    return write


def write_blocks(model: ir.Model, blocks: Mapping[str, Blocks]) -> ir.Model:
    """Layers with blocks -> `com.microsoft.MatMulNBits`; the others stay.

    Args:
        model: not changed.
        blocks: by layer name.
    """
    made = model.clone()
    for site in find_sites(made.graph):
        for linear in site.linears:
            if linear.name in blocks:
                _replace(made.graph, linear, blocks[linear.name])
    made.opset_imports["com.microsoft"] = 1
    return made


def _replace(graph: ir.Graph, linear: Linear, blocks: Blocks) -> None:
    """As the operator wants it: (N, blocks, size / 2) and (N, blocks) with two zero points a byte, low half first."""
    depth, width = blocks.q.shape
    count = len(blocks.scale)
    padded = np.zeros((count * blocks.size, width), np.uint8)
    padded[:depth] = blocks.q
    q = padded.T.reshape(width, count, blocks.size)
    zero = np.full((width, count + count % 2), 8, np.uint8)
    zero[:, :count] = blocks.zero_point.T
    name = linear.name
    inputs = [
        linear.source,
        add_constant(graph, f"{name}.weight_int4", q[..., ::2] | q[..., 1::2] << 4),
        add_constant(graph, f"{name}.weight_scale", np.ascontiguousarray(blocks.scale.T)),
        add_constant(graph, f"{name}.weight_zero_point", zero[:, ::2] | zero[:, 1::2] << 4),
    ]
    attributes = {"K": depth, "N": width, "bits": 4, "block_size": blocks.size}
    node = ir.node("MatMulNBits", inputs, attributes, domain="com.microsoft", name=linear.nodes[0].name)
    take_over(graph, linear, node)
    if linear.bias is not None:
        bias = add_constant(graph, f"{name}.bias_float", linear.bias)
        add_behind(graph, node, bias, f"{name}/bias")
