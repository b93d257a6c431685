"""From a float model file to a quantized one: which layers, with what remedies, at what cost."""
