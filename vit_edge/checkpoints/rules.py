"""From a library's tensors to ours: each rule names source tensors, target parameters and the exact operation.

A format's module lists its rules; `assemble` applies them and reports everything that does not fit at once.
Every operation also tells which source shapes the target shapes ask for, so that a wrong tensor is named with
the shape that was expected *in the user's file*.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from vit_edge.building import Config, build
from vit_edge.checkpoints.errors import CheckpointError

Shape = tuple[int, ...]
_SHOWN = 4  # groups of tensors in a message


class Operation(Protocol):
    """What turns source tensors into target parameters, and target shapes into source shapes."""

    def source_shapes(self, targets: Sequence[Shape]) -> list[Shape]:
        """The shapes the sources must have."""

    def apply(self, sources: Sequence[Tensor], targets: Sequence[Shape]) -> list[Tensor]:
        """The target parameters, in order."""


class Copy:
    """One tensor as it is; axes of length 1 in front may be missing."""

    def source_shapes(self, targets: Sequence[Shape]) -> list[Shape]:
        return list(targets)

    def apply(self, sources: Sequence[Tensor], targets: Sequence[Shape]) -> list[Tensor]:
        return [source.reshape(shape) for source, shape in zip(sources, targets, strict=True)]


class Split:
    """One tensor cut along its first axis: a packed qkv of (3 D, ...) into q, k and v."""

    def source_shapes(self, targets: Sequence[Shape]) -> list[Shape]:
        return [(sum(shape[0] for shape in targets), *targets[0][1:])]

    def apply(self, sources: Sequence[Tensor], targets: Sequence[Shape]) -> list[Tensor]:
        return list(sources[0].split([shape[0] for shape in targets]))


class Transpose:
    """A JAX kernel (in, out) to a Linear weight (out, in)."""

    def source_shapes(self, targets: Sequence[Shape]) -> list[Shape]:
        return [shape[::-1] for shape in targets]

    def apply(self, sources: Sequence[Tensor], targets: Sequence[Shape]) -> list[Tensor]:
        return [source.T for source in sources]


class ConvKernel:
    """A JAX convolution kernel (height, width, in, out) to (out, in, height, width)."""

    def source_shapes(self, targets: Sequence[Shape]) -> list[Shape]:
        return [(h, w, c, d) for d, c, h, w in targets]

    def apply(self, sources: Sequence[Tensor], targets: Sequence[Shape]) -> list[Tensor]:
        return [source.permute(3, 2, 0, 1) for source in sources]


@dataclass(frozen=True, slots=True)
class HeadsOut:
    """JAX's query/key/value: kernel (D, H, K) to (H K, D), bias (H, K) to (H K)."""

    heads: int

    def source_shapes(self, targets: Sequence[Shape]) -> list[Shape]:
        return [(*shape[1:], self.heads, shape[0] // self.heads) for shape in targets]

    def apply(self, sources: Sequence[Tensor], targets: Sequence[Shape]) -> list[Tensor]:
        return [source.flatten(-2).movedim(-1, 0) for source in sources]


@dataclass(frozen=True, slots=True)
class HeadsIn:
    """JAX's attention output: kernel (H, K, D) to (D, H K)."""

    heads: int

    def source_shapes(self, targets: Sequence[Shape]) -> list[Shape]:
        return [(self.heads, shape[1] // self.heads, shape[0]) for shape in targets]

    def apply(self, sources: Sequence[Tensor], targets: Sequence[Shape]) -> list[Tensor]:
        return [source.flatten(0, 1).T for source in sources]


@dataclass(frozen=True, slots=True)
class BlockDiagonal:
    """`heads` weights (K, K) on the diagonal of one (H K, H K): heads that see only their own slice."""

    heads: int

    def source_shapes(self, targets: Sequence[Shape]) -> list[Shape]:
        return [(targets[0][0] // self.heads, targets[0][1] // self.heads)] * self.heads

    def apply(self, sources: Sequence[Tensor], targets: Sequence[Shape]) -> list[Tensor]:
        return [torch.block_diag(*sources)]


@dataclass(frozen=True, slots=True)
class Join:
    """`parts` biases (K) one after another."""

    parts: int

    def source_shapes(self, targets: Sequence[Shape]) -> list[Shape]:
        return [(targets[0][0] // self.parts,)] * self.parts

    def apply(self, sources: Sequence[Tensor], targets: Sequence[Shape]) -> list[Tensor]:
        return [torch.cat(list(sources))]


class Zeros:
    """A bias that the source does not have."""

    def source_shapes(self, targets: Sequence[Shape]) -> list[Shape]:
        return []

    def apply(self, sources: Sequence[Tensor], targets: Sequence[Shape]) -> list[Tensor]:
        return [torch.zeros(shape) for shape in targets]


class Identity:
    """A projection that the source does not have: weight I and bias 0."""

    def source_shapes(self, targets: Sequence[Shape]) -> list[Shape]:
        return []

    def apply(self, sources: Sequence[Tensor], targets: Sequence[Shape]) -> list[Tensor]:
        return [torch.eye(shape[0]) if len(shape) == 2 else torch.zeros(shape) for shape in targets]


@dataclass(frozen=True, slots=True)
class Rule:
    """`sources` in the file become `targets` in the model through `operation`."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    operation: Operation


def copy(source: str, target: str) -> list[Rule]:
    """Rules for the weight and the bias of a layer that is the same in both."""
    return [Rule((f"{source}.{part}",), (f"{target}.{part}",), Copy()) for part in ("weight", "bias")]


def parameter_shapes(config: Config) -> dict[str, Shape]:
    """The parameters a model has, without taking memory for them."""
    with torch.device("meta"):
        return {name: tuple(tensor.shape) for name, tensor in build(config).state_dict().items()}


def assemble(
    rules: Iterable[Rule], tensors: Mapping[str, Tensor], shapes: Mapping[str, Shape], ignored: Sequence[str] = ()
) -> dict[str, Tensor]:
    """Apply the rules to a checkpoint's tensors.

    Args:
        rules: one for each parameter; rules whose targets the model does not have are left out.
        tensors: the checkpoint, under its own names.
        shapes: the model's parameters and their shapes.
        ignored: regular expressions of names that the model rightly does not use.

    Returns:
        The model's state_dict, float32.

    Raises:
        CheckpointError: tensors are missing, unexpected or of the wrong shape or type; all of them are listed.
    """
    rules = [rule for rule in rules if all(target in shapes for target in rule.targets)]
    used: set[str] = set()
    missing: list[str] = []
    wrong: list[str] = []
    for rule in rules:
        used.update(rule.sources)
        expected = zip(rule.sources, rule.operation.source_shapes(_targets(rule, shapes)), strict=True)
        missing += [name for name in rule.sources if name not in tensors]
        wrong += [_misfit(name, tensors[name], shape) for name, shape in expected if name in tensors]
    unexpected = [name for name in tensors if name not in used and not any(re.fullmatch(p, name) for p in ignored)]
    _report(missing, unexpected, [text for text in wrong if text])
    state: dict[str, Tensor] = {}
    for rule in rules:  # only now: an operation may make more numbers than a file that does not fit has
        made = rule.operation.apply([tensors[name] for name in rule.sources], _targets(rule, shapes))
        state.update(zip(rule.targets, (tensor.contiguous() for tensor in made), strict=True))
    return state


def _targets(rule: Rule, shapes: Mapping[str, Shape]) -> list[Shape]:
    return [shapes[target] for target in rule.targets]


def _misfit(name: str, tensor: Tensor, expected: Shape) -> str:
    """Empty when kind and shape fit; axes of length 1 in front do not matter."""
    if not tensor.is_floating_point():
        return f"{name}: got {str(tensor.dtype).removeprefix('torch.')}, expected floating point"
    got = tuple(tensor.shape)
    same = got == expected or (tensor.numel() == _numel(expected) and _core(got) == _core(expected))
    return "" if same else f"{name}: got {got}, expected {expected}"


def _core(shape: Shape) -> Shape:
    while shape and shape[0] == 1:
        shape = shape[1:]
    return shape


def _numel(shape: Shape) -> int:
    return torch.Size(shape).numel()


def _report(missing: Sequence[str], unexpected: Sequence[str], wrong: Sequence[str]) -> None:
    problems = [("missing", missing), ("unexpected", unexpected), ("wrongly shaped", wrong)]
    lines = [f"  {title}: {_some(_grouped(names))}" for title, names in problems if names]
    if lines:
        counts = ", ".join(f"{len(names)} {title}" for title, names in problems if names)
        raise CheckpointError(f"the checkpoint does not fit the model ({counts} tensors)\n" + "\n".join(lines))


def _some(groups: Sequence[str]) -> str:
    """The first few: with the wrong architecture every tensor differs."""
    more = f" and {len(groups) - _SHOWN} more like these" if len(groups) > _SHOWN else ""
    return ", ".join(groups[:_SHOWN]) + more


def _grouped(names: Sequence[str]) -> list[str]:
    """Fold names that differ in the block number alone: blocks.{0..11}.attn.qkv.weight."""
    numbers: dict[str, list[str]] = {}
    for name in names:
        numbers.setdefault(re.sub(r"(?<=[._])\d+(?=[./])", "#", name, count=1), []).append(name)
    folded = []
    for pattern, members in numbers.items():
        if len(members) == 1:
            folded.append(members[0])
            continue
        found = [re.search(r"(?<=[._])(\d+)(?=[./])", name) for name in members]
        order = sorted(int(match.group(1)) for match in found if match)
        run = order == list(range(order[0], order[-1] + 1))
        which = f"{order[0]}..{order[-1]}" if run else ",".join(map(str, order))
        folded.append(pattern.replace("#", f"{{{which}}}"))
    return folded
