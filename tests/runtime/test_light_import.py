"""A device has neither torch nor onnx, and the runtime must not even try to import them."""

import subprocess
import sys

SCRIPT = """
import sys

blocked = ("torch", "onnx", "onnx_ir", "onnxscript", "safetensors", "vit_edge.export", "vit_edge.checkpoints")

class Block:
    def find_spec(self, name, path=None, target=None):
        if any(name == top or name.startswith(top + ".") for top in blocked):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Block())
import vit_edge.runtime
import vit_edge.runtime.predictor
import vit_edge.runtime.golden
import vit_edge.runtime.onnxfile
print("\\n".join(sys.modules))
"""
FORBIDDEN = {
    "PIL",
    "click",
    "dask",
    "jax",
    "jinja2",
    "matplotlib",
    "onnx",
    "onnx_ir",
    "onnxscript",
    "onnxsim",
    "pandas",
    "safetensors",
    "scipy",
    "torch",
    "torchvision",
}


def test_runtime_imports_without_the_heavy_packages():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert "vit_edge.runtime.predictor" in modules
    assert FORBIDDEN.isdisjoint(module.split(".")[0] for module in modules)
    assert "vit_edge.export" not in modules


def test_the_block_works():
    script = SCRIPT.replace("import vit_edge.runtime\n", "import onnx\n")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "onnx is blocked" in done.stderr
