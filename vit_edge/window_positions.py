"""Relative positions inside a window: which entry of the bias table a pair has, and tables of other windows."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["relative_index", "resample_bias_table"]

Size: TypeAlias = tuple[int, int]


def relative_index(window: Size) -> Tensor:
    """The row of the bias table for each pair of cells in a window.

    A table has one row for each offset: (2 h - 1) down times (2 w - 1) across, in scan order.

    Returns:
        (N, N) int64 with N = h * w; row i, column j is for the query in cell i and the key in cell j.
    """
    height, width = window
    down, across = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    down, across = down.flatten(), across.flatten()  # (N,) each
    rows = down[:, None] - down[None, :] + height - 1
    columns = across[:, None] - across[None, :] + width - 1
    return rows * (2 * width - 1) + columns


def resample_bias_table(table: Tensor, old: Size, new: Size) -> Tensor:
    """Resample a bias table to another window, as timm's `resize_rel_pos_bias_table` does.

    Near offsets matter most, so the old table's entries are taken to lie on a geometric grid that spans the new
    offsets, dense in the middle; between them the values are interpolated linearly, beyond them the last one holds.
    A smaller window thus keeps the middle of the table, almost unchanged.

    Args:
        table: ((2 old[0] - 1) * (2 old[1] - 1), heads) float32.
        old: height and width of the window the table was trained for.
        new: height and width of the window that is wanted.

    Returns:
        ((2 new[0] - 1) * (2 new[1] - 1), heads) float32.
    """
    if old == new:
        return table
    down, across = (_weights(2 * a - 1, 2 * b - 1) for a, b in zip(old, new, strict=True))
    grid = table.double().reshape(2 * old[0] - 1, 2 * old[1] - 1, -1)
    resampled = torch.einsum("iy,jx,yxh->ijh", torch.from_numpy(down), torch.from_numpy(across), grid)
    return resampled.flatten(0, 1).float()


def _weights(old: int, new: int) -> npt.NDArray[np.float64]:
    """(new, old): how much of each old entry goes into each new one, along one axis; not quite 1 where old is new."""
    places = _geometric_grid(old // 2, new // 2)
    wanted = np.arange(-(new // 2), new // 2 + 1)
    return np.stack([np.interp(wanted, places, unit) for unit in np.eye(old)], axis=1)


def _geometric_grid(steps: int, reach: int) -> npt.NDArray[np.float64]:
    """Places of 2 `steps` + 1 entries around 0, whose distances grow by a ratio q until they span `reach`."""
    low, high = 1.01, 1.5
    q = low
    while high - low > 1e-6:  # timm's bisection, with its bounds and its precision
        q = (low + high) / 2
        if (1 - q**steps) / (1 - q) > reach:
            high = q
        else:
            low = q
    right = np.cumsum(q ** np.arange(steps))
    return np.concatenate([-right[::-1], [0.0], right])
