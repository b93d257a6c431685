"""What this machine is good for, and where a model file can run. Needs what the runtime needs.

Example:
    >>> from vit_edge.doctor import verdicts
    >>> [verdict.target for verdict in verdicts("model.onnx") if verdict.status == "runs"]  # doctest: +SKIP
    ['cpu', 'wasm']
"""

from vit_edge.doctor.importing import Onnxruntime, import_onnxruntime
from vit_edge.doctor.machine import Machine, this_machine
from vit_edge.doctor.targets import Verdict, verdicts

__all__ = ["Machine", "Onnxruntime", "Verdict", "import_onnxruntime", "this_machine", "verdicts"]
