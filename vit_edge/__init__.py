"""vit-edge: from a trained Vision Transformer to one verified file on a device.

``vit_edge`` holds the reference model, the checkpoint readers and the command line;
``vit_edge.export`` turns a model into a verified ``.onnx``; ``vit_edge.runtime`` runs that file
with numpy, onnxruntime and Pillow alone. Importing this package loads neither torch nor onnx.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
