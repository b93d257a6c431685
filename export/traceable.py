"""The model as it is traced: same weights and names as the reference, attention in the form that exports best.

The reference model stays free of export concerns; what tracing needs is done on this copy. Both attention forms
are bit-equal to the reference in eager PyTorch up to the order of additions inside the matrix products.
"""

import copy
import math

import torch
from torch import Tensor, nn

from vit_edge.model import Attention

__all__ = ["ATTENTION_OPSET", "traceable"]

ATTENTION_OPSET = 23  # the first ONNX opset with an Attention operator


class _OnnxAttention(nn.Module):
    """One ONNX `Attention` node on (B, N, D) queries, keys and values: no reshape or transpose around it."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.heads = attention.heads
        self.q, self.k, self.v, self.proj = attention.q, attention.k, attention.v, attention.proj

    def forward(self, x: Tensor) -> Tensor:  # (B, N, D)
        q, k, v = self.q(x), self.k(x), self.v(x)
        mixed = torch.onnx.ops.attention(q, k, v, q_num_heads=self.heads, kv_num_heads=self.heads)[0]
        return self.proj(mixed)  # (B, N, D)


class _DecomposedAttention(nn.Module):
    """MatMul, Softmax, MatMul, for opsets and runtimes without an attention operator."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.heads = attention.heads
        self.head_width = attention.q.out_features // attention.heads
        self.q, self.k, self.v, self.proj = attention.q, attention.k, attention.v, attention.proj

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.heads, self.head_width)).transpose(1, 2)  # (B, H, N, K)

    def forward(self, x: Tensor) -> Tensor:  # (B, N, D)
        q = self._split(self.q(x) * (1 / math.sqrt(self.head_width)))
        scores = torch.matmul(q, self._split(self.k(x)).transpose(2, 3))  # (B, H, N, N)
        mixed = torch.matmul(scores.softmax(dim=-1), self._split(self.v(x)))  # (B, H, N, K)
        return self.proj(mixed.transpose(1, 2).flatten(2))  # (B, N, D)


def traceable(model: nn.Module, *, opset: int) -> nn.Module:
    """Copy a model for tracing; the copy shares no module with the original.

    Args:
        model: a ViT, or any module; every `vit_edge.model.Attention` inside is replaced.
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
