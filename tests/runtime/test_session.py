"""Threads follow affinity and quotas; sessions are what was asked for, or an error says why not."""

import os

import numpy as np
import onnxruntime
import pytest

from vit_edge.runtime import session as session_module
from vit_edge.runtime.errors import ConfigError, ModelFileError, ProviderError
from vit_edge.runtime.session import check_runtime_version, one_line, open_session
from vit_edge.runtime.threads import usable_threads


@pytest.fixture
def cgroup(tmp_path):
    """Lay out /proc/self/cgroup and the cgroup mount; return how many threads of 16 CPUs are usable."""

    def threads(lines, files, affinity=16):
        proc = tmp_path / "proc"
        proc.write_text(lines)
        for name, content in files.items():
            path = tmp_path / "mount" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return usable_threads(affinity=affinity, proc_cgroup=proc, cgroup_root=tmp_path / "mount")

    return threads


V2 = "0::/a/b\n"
V1 = "5:memory:/x\n4:cpu,cpuacct:/docker/1\n"


@pytest.mark.parametrize(
    ("lines", "files", "expected"),
    [
        (V2, {}, 16),
        ("", {}, 16),
        (V2, {"a/b/cpu.max": "400000 100000\n"}, 4),
        (V2, {"a/b/cpu.max": "390000 100000\n"}, 3),
        (V2, {"a/b/cpu.max": "50000 100000\n"}, 1),
        (V2, {"a/b/cpu.max": "max 100000\n"}, 16),
        (V2, {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "200000 100000\n"}, 2),
        (V2, {"a/b/cpu.max": "800000 100000\n", "cpu.max": "300000 100000\n"}, 3),
        (V2, {"a/b/cpu.max": "9900000 100000\n"}, 16),
        (V2, {"a/b/cpu.max": "nonsense"}, 16),
        (V2, {"a/b/cpu.max": "1 0"}, 16),
        (V2, {"unified/a/cpu.max": "500000 100000\n"}, 5),
        ("0::/../../outside\n", {"cpu.max": "200000 100000\n"}, 2),
        (V2, {"c/cpu.max": "100000 100000\n"}, 16),
        (
            V1,
            {f"cpu,cpuacct/{d}cpu.cfs_{k}_us": v for d in ("", "docker/1/") for k, v in (("quota", "-1"),)},
            16,
        ),
        (
            V1,
            {"cpu/docker/1/cpu.cfs_quota_us": "250000\n", "cpu/docker/1/cpu.cfs_period_us": "100000\n"},
            2,
        ),
        (V1, {"cpu,cpuacct/cpu.cfs_quota_us": "700000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 7),
        (V1, {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 16),
        ("5:cpuset:/x\n", {"cpuset/x/cpu.max": "100000 100000\n"}, 16),
    ],
)
def test_quotas(cgroup, lines, files, expected):
    assert cgroup(lines, files) == expected


def test_affinity_is_the_upper_bound(cgroup):
    assert cgroup(V2, {"a/b/cpu.max": "400000 100000\n"}, affinity=2) == 2


def test_affinity_of_this_process(tmp_path, monkeypatch):
    nothing = {"proc_cgroup": tmp_path / "none", "cgroup_root": tmp_path}
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2, 5}, raising=False)
    assert usable_threads(**nothing) == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_threads(**nothing) == 1


def test_this_machine():
    assert 1 <= usable_threads() <= (os.cpu_count() or 1)


def test_opens_and_runs(tiny, write_model):
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    for model in (write_model(), str(write_model()), tiny.bytes()):
        session = open_session(model, threads=1, entries={"session.intra_op.allow_spinning": "0"})
        assert session.get_providers() == ["CPUExecutionProvider"]
        assert session.get_session_options().intra_op_num_threads == 1
        np.testing.assert_allclose(session.run(None, {"x": x})[0], tiny.expected(x), rtol=0, atol=1e-4)


def test_threads_default_to_the_usable_ones(tiny, monkeypatch):
    monkeypatch.setattr(session_module, "usable_threads", lambda: 2)
    assert open_session(tiny.bytes()).get_session_options().intra_op_num_threads == 2


@pytest.mark.parametrize("providers", [[], "CPUExecutionProvider", [""], [5], 5])
def test_providers_that_are_no_list_of_names(tiny, providers):
    with pytest.raises(ConfigError, match="expected a list such as"):
        open_session(tiny.bytes(), providers=providers)


def test_provider_that_is_not_there(tiny):
    with pytest.raises(ProviderError, match=r"has no NopeExecutionProvider, only .*CPUExecutionProvider"):
        open_session(tiny.bytes(), providers=["CPUExecutionProvider", "NopeExecutionProvider"])


def test_provider_that_does_not_start(tiny, monkeypatch):
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["NopeExecutionProvider", "CPUExecutionProvider"]
    )
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *a, **k: _CpuOnly())
    with pytest.raises(ProviderError, match="did not start NopeExecutionProvider, only CPUExecutionProvider"):
        open_session(tiny.bytes(), providers=["NopeExecutionProvider"])


class _CpuOnly:
    def get_providers(self):
        return ["CPUExecutionProvider"]


def test_session_entries_are_an_allow_list(tiny):
    with pytest.raises(ModelFileError, match=r"session entry 'session\.load_model_format', which"):
        open_session(tiny.bytes(), entries={"session.load_model_format": "ORT"})


@pytest.mark.parametrize("value", ["", "abc", "-1", "99999999999999999999", "1\n", "٣"])
def test_session_entries_are_small_numbers(tiny, value):
    with pytest.raises(ModelFileError, match=r"sets the session entry 'session\.dynamic_block_base' to "):
        open_session(tiny.bytes(), entries={"session.dynamic_block_base": value})


def test_load_failures_are_one_line(tiny, tmp_path):
    unknown_op = tiny.bytes().replace(b"Flatten", b"Flattex")
    for model in (b"no model", unknown_op, tmp_path / "missing.onnx"):
        with pytest.raises(ModelFileError, match=r"^onnxruntime cannot load it: ") as caught:
            open_session(model)
        assert "\n" not in str(caught.value)


def test_one_line():
    assert one_line(ValueError("[ONNXRuntimeError] : 1 : FAIL : it\n broke")) == "it broke"
    assert len(one_line(ValueError("x" * 1000))) == 300


def test_runtime_version(monkeypatch):
    monkeypatch.setattr(onnxruntime, "__version__", "1.20.1")
    for minimum in ("1.20", "1.20.1", "1.9", "1.20.0.0", "1"):
        check_runtime_version(minimum)
    message = (
        r"^needs onnxruntime >= 1\.23, 1\.20\.1 is installed: "
        r"pip install -U onnxruntime, or export with --opset 17\.\.22$"
    )
    with pytest.raises(ModelFileError, match=message):
        check_runtime_version("1.23")
    monkeypatch.setattr(onnxruntime, "__version__", "1.24.0.dev20251101")
    check_runtime_version("1.24")


@pytest.mark.parametrize("threads", [0, -1, 1025, 10**30, 1.5, "2", True])
def test_threads_are_bounded(tiny, tmp_path, threads):
    path = tmp_path / "tiny.onnx"
    path.write_bytes(tiny.bytes())
    with pytest.raises(ConfigError, match=r"got .* threads, expected 1\.\.1024"):
        open_session(path, threads=threads)
