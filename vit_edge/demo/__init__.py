"""The small model and the images that `vit-edge demo` works on."""
