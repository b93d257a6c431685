"""The import contracts hold at run time, and the checker that guards them does fail on a violation."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

IMPORT_WITH_HEAVY_PACKAGES_BLOCKED = """
import sys
for name in ("torch", "onnx", "onnx_ir", "onnxscript", "onnxsim", "safetensors", "scipy", "matplotlib",
             "huggingface_hub",
             "vit_edge.export", "vit_edge.checkpoints", "vit_edge.cli", "vit_edge.model"):
    sys.modules[name] = None  # importing it now raises ImportError
import pkgutil, importlib, vit_edge.runtime
for module in pkgutil.walk_packages(vit_edge.runtime.__path__, "vit_edge.runtime."):
    importlib.import_module(module.name)
"""

LIGHT_IMPORTS = """
import sys
before = {name.partition(".")[0] for name in sys.modules}
import vit_edge
print(*sorted({name.partition(".")[0] for name in sys.modules} - before))
"""


def _python(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_runtime_can_be_imported_without_the_heavy_packages() -> None:
    _python(IMPORT_WITH_HEAVY_PACKAGES_BLOCKED)


def test_top_package_imports_nothing_else() -> None:
    assert set(_python(LIGHT_IMPORTS).split()) == {"vit_edge"}


VIOLATIONS = {
    "torch in the runtime": (
        "runtime/planted.py",
        "def f():\n    import torch\n",
        "numpy, onnxruntime and Pillow only",
    ),
    "runtime -> config": ("runtime/planted.py", "import vit_edge.config\n", "Layers"),
    "export -> cli": ("export/planted.py", "import vit_edge.cli\n", "Layers"),
    "checkpoints -> export": ("vit_edge/checkpoints/planted.py", "import vit_edge.export\n", "Layers"),
    "bare export": ("vit_edge/cli/planted.py", "import export\n", "are imported as"),
}


@pytest.mark.parametrize(("file", "code", "contract"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_planted_violation_breaks_the_contract(file: str, code: str, contract: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for folder in ("vit_edge", "export", "runtime"):
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / file).write_text(code, encoding="utf-8")
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    env = {**os.environ, "COLUMNS": "200"}
    run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    broken = [line for line in run.stdout.splitlines() if line.endswith("BROKEN")]
    assert run.returncode == 1
    assert len(broken) == 1, run.stdout
    assert contract in broken[0]
