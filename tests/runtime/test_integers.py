"""Integer products that saturate on x86 CPUs without VNNI are noticed and computed exactly."""

import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from vit_edge.runtime import integers
from vit_edge.runtime.integers import exact_products, integer_entries
from vit_edge.runtime.session import open_session


@pytest.fixture(autouse=True)
def _asked_anew():  # type: ignore[no-untyped-def]
    integer_entries.cache_clear()
    yield
    integer_entries.cache_clear()


def product_model(k: int, n: int) -> bytes:
    """y (N, n) = MatMulInteger(x (N, k), 127 everywhere)."""
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])],
        "products",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, ["N", k])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, ["N", n])],
        [numpy_helper.from_array(np.full((k, n), 127, np.int8), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=5, producer_name="")
    return model.SerializeToString(deterministic=True)


def vnni() -> bool:
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    return re.search(r"\b(avx512_vnni|avx_vnni)\b", flags) is not None


def test_the_model_is_what_its_comment_says() -> None:
    assert onnx.load_from_string(integers._MODEL) == onnx.load_from_string(product_model(8, 4))


@pytest.mark.parametrize("m", [1, 5, 64])
def test_sessions_compute_exact_products_on_this_cpu(m: int) -> None:
    session = open_session(product_model(96, 48), threads=1)
    (y,) = session.run(None, {"x": np.full((m, 96), 255, np.uint8)})
    assert (y == 255 * 127 * 96).all()


@pytest.mark.skipif(onnxruntime.get_device() != "CPU", reason="another build of onnxruntime")
def test_cpus_with_vnni_need_nothing() -> None:
    if not vnni():
        pytest.skip("this CPU has no VNNI")
    assert integer_entries() == {}


def test_what_saturates_is_made_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integers, "exact_products", bool)  # exact with any entry, not without
    assert integer_entries() == {"session.x64quantprecision": "1"}


def test_where_nothing_helps_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integers, "exact_products", lambda entries: False)
    assert integer_entries() == {}


def test_a_wrong_product_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert exact_products({"session.x64quantprecision": "1"})
    wrong = product_model(8, 4).replace(b"\x7f" * 32, b"\x7e" * 32)  # the check can fail
    monkeypatch.setattr(integers, "_MODEL", wrong)
    assert not exact_products({"session.x64quantprecision": "1"})
