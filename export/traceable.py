"""The model as it is traced: same weights and names as the reference, attention in the form that exports best.

The reference model stays free of export concerns; what tracing needs is done on this copy. Both attention forms
are bit-equal to the reference in eager PyTorch up to the order of additions inside the matrix products.
"""

import copy
import math

import torch
from torch import Tensor, nn

from vit_edge.attention import Attention, rotate

__all__ = ["ATTENTION_OPSET", "traceable"]

ATTENTION_OPSET = 23  # the first ONNX opset with an Attention operator


class _TraceableAttention(nn.Module):
    """The layers of an attention module, under the same names."""

    cos: Tensor
    sin: Tensor

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.heads = attention.heads
        self.head_width = attention.q.out_features // attention.heads
        self.q, self.k, self.v = attention.q, attention.k, attention.v
        self.norm, self.proj = attention.norm, attention.proj
        self.rotary = attention.rotary
        if self.rotary:
            self.register_buffer("cos", attention.cos[:, None], persistent=False)  # (N, 1, K)
            self.register_buffer("sin", attention.sin[:, None], persistent=False)

    def projections(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, N, D) -> queries, keys and values (B, N, D), turned where positions are rotary."""
        q, k, v = self.q(x), self.k(x), self.v(x)
        if self.rotary:
            q, k = (rotate(self.split(t), self.cos, self.sin).flatten(2) for t in (q, k))
        return q, k, v

    def split(self, x: Tensor) -> Tensor:
        """(B, N, D) -> (B, N, H, K)."""
        return x.unflatten(2, (self.heads, self.head_width))


class _OnnxAttention(_TraceableAttention):
    """One ONNX `Attention` node on (B, N, D) queries, keys and values: no reshape or transpose around it."""

    def forward(self, x: Tensor) -> Tensor:  # (B, N, D)
        q, k, v = self.projections(x)
        mixed = torch.onnx.ops.attention(q, k, v, q_num_heads=self.heads, kv_num_heads=self.heads)[0]
        return self.proj(self.norm(mixed))  # (B, N, D)


class _DecomposedAttention(_TraceableAttention):
    """MatMul, Softmax, MatMul, for opsets and runtimes without an attention operator."""

    def forward(self, x: Tensor) -> Tensor:  # (B, N, D)
        q, k, v = self.projections(x)
        q, k, v = (self.split(t).transpose(1, 2) for t in (q * (1 / math.sqrt(self.head_width)), k, v))
        scores = torch.matmul(q, k.transpose(2, 3))  # (B, H, N, N)
        mixed = torch.matmul(scores.softmax(dim=-1), v)  # (B, H, N, K)
        return self.proj(self.norm(mixed.transpose(1, 2).flatten(2)))  # (B, N, D)


def traceable(model: nn.Module, *, opset: int) -> nn.Module:
    """Copy a model for tracing; the copy shares no module with the original.

    Args:
        model: a ViT, or any module; every `vit_edge.attention.Attention` inside is replaced.
        opset: the ONNX opset that the graph is to have.

    Returns:
        A module in eval mode with the same parameter names.
    """
    made = copy.deepcopy(model)
    form = _OnnxAttention if opset >= ATTENTION_OPSET else _DecomposedAttention
    for name, module in list(made.named_modules()):
        if isinstance(module, Attention):
            made.set_submodule(name, form(module))
    return made.eval()
