"""The errors of vit-edge. Every message says what was got, what was expected and what to do.

::

    VitEdgeError
    ├── ConfigError        an option, a configuration or a preset that cannot be used
    ├── ModelFileError     an .onnx that is not a vit-edge model file, is damaged, or fails its golden check
    ├── InputError         an image or an array that cannot be predicted on
    ├── ProviderError      an execution provider that is not available here
    ├── CheckpointError    a checkpoint that cannot be read or does not fit     (vit_edge.checkpoints)
    └── ExportError        a model that cannot be exported                      (vit_edge.export)
        ├── PassError          a graph pass that failed
        └── ParityError        a graph whose numbers differ from the model's
"""

from typing import ClassVar

from vit_edge.runtime.text import printable, shortened

__all__ = ["ConfigError", "InputError", "ModelFileError", "ProviderError", "VitEdgeError"]


_LONGEST = 2000  # characters of a message: it may quote names of any length


class VitEdgeError(Exception):
    """The root of all errors a user of vit-edge can act on. Its text is safe to print, whatever names it quotes."""

    several_lines: ClassVar[bool] = False  # whether messages of this class are more than one line

    def __str__(self) -> str:
        text = super().__str__()
        return printable(text, keep="\n") if self.several_lines else printable(shortened(text, _LONGEST))


class ConfigError(VitEdgeError):
    """An option, a configuration or a preset cannot be used."""


class ModelFileError(VitEdgeError):
    """A file is not a vit-edge model file, is damaged, or fails its golden check."""


class InputError(VitEdgeError):
    """An image or an array cannot be predicted on."""


class ProviderError(VitEdgeError):
    """An execution provider is not available in the installed onnxruntime."""
