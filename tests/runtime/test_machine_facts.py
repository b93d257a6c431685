"""CPU features and memory, from files as kernels write them."""

import pytest

from vit_edge.runtime.cpu import cpu_features
from vit_edge.runtime.memory import memory


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("flags\t\t: fpu avx avx2 avx512_vnni amx_int8\n", {"avx", "avx2", "avx512_vnni", "amx_int8"}),
        ("Features\t: fp asimd asimdhp asimddp i8mm\n", {"neon", "fp16", "dotprod", "i8mm"}),
        ("Features : asimd asimddp\nFeatures : asimd\n", {"neon"}),
        ("model name : none\n", set()),
    ],
)
def test_cpu_features(tmp_path, text, expected):
    (tmp_path / "cpuinfo").write_text(text)
    assert cpu_features(tmp_path / "cpuinfo") == expected


def test_no_cpuinfo(tmp_path):
    assert cpu_features(tmp_path / "none") == frozenset()


@pytest.mark.parametrize(
    ("cgroup", "files", "limit"),
    [
        ("0::/a\n", {"a/memory.max": "536870912\n", "memory.max": "max\n"}, 512 << 20),
        ("0::/a\n", {"a/memory.max": "max\n"}, None),
        ("4:memory:/x\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, None),
        ("4:memory:/x\n", {"memory/x/memory.limit_in_bytes": "1048576\n"}, 1 << 20),
        ("4:cpu:/x\n", {"cpu/memory.limit_in_bytes": "1048576\n"}, None),
    ],
)
def test_memory(tmp_path, cgroup, files, limit):
    (tmp_path / "cgroup").write_text(cgroup)
    (tmp_path / "meminfo").write_text("MemTotal:        2000000 kB\nMemAvailable:    1000000 kB\n")
    for name, text in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    places = {"proc_cgroup": tmp_path / "cgroup", "cgroup_root": tmp_path / "mount"}
    found = memory(meminfo=tmp_path / "meminfo", **places)
    assert (found.total, found.available, found.limit) == (2_048_000_000, 1_024_000_000, limit)
    assert found.usable == (limit or found.total)
