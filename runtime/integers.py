"""Integer products as this CPU really computes them.

Without VNNI, x86 CPUs add two products of uint8 and int8 in 16 bits, where 255 * 127 + 255 * 127 does not fit: the
sum saturates and int8 models go wrong, though no error is raised. onnxruntime computes them exactly where the session
is told to. Which CPUs need it is not guessed from names: one small product is computed and compared with what it is.
"""

import base64
from collections.abc import Mapping
from functools import cache

import numpy as np
import onnxruntime

__all__ = ["exact_products", "integer_entries"]

_EXACT = {"session.x64quantprecision": "1"}

# y (N, 4) int32 = MatMulInteger(x (N, 8) uint8, 127 everywhere (8, 4) int8), opset 10; tests/runtime/test_integers.py
# makes the same bytes with the onnx package.
_MODEL = base64.b64decode(
    "CAUSADp9ChgKAXgKAXcSAXkiDU1hdE11bEludGVnZXISCHByb2R1Y3RzKisICAgEEANCAXdKIH9/f39/f39/f39/f39/f39/f39/"
    "f39/f39/f39/f39/WhQKAXgSDwoNCAISCQoDEgFOCgIICGIUCgF5Eg8KDQgGEgkKAxIBTgoCCARCBAoAEAo="
)
_SHAPE = (1, 8)


def exact_products(entries: Mapping[str, str]) -> bool:
    """Whether products of uint8 and int8 at the ends of their range are exact here.

    Args:
        entries: session configuration entries.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    session = onnxruntime.InferenceSession(_MODEL, options, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": np.full(_SHAPE, 255, np.uint8)})
    return bool((y == 255 * 127 * _SHAPE[1]).all())


@cache
def integer_entries() -> dict[str, str]:
    """The session entries that make integer products exact on this CPU, found out once a process (about 1 ms).

    Empty where they are exact anyway, and where no entry that is known helps: then the golden check of an int8 file
    decides whether it may run.
    """
    return dict(_EXACT) if not exact_products({}) and exact_products(_EXACT) else {}
