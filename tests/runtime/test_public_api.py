"""What `vit_edge.runtime` exports is what `__all__` lists."""

import types

import vit_edge.runtime


def test_all_is_what_is_importable():
    from vit_edge.runtime import Predictor  # imported when it is asked for

    assert Predictor.__name__ in vars(vit_edge.runtime)
    importable = {
        name
        for name, value in vars(vit_edge.runtime).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType) and name not in ("TYPE_CHECKING", "Any")
    }
    assert sorted(vit_edge.runtime.__all__) == sorted(importable)


def test_all_is_sorted_and_documented():
    assert vit_edge.runtime.__all__ == sorted(vit_edge.runtime.__all__)
    for name in vit_edge.runtime.__all__:
        assert getattr(vit_edge.runtime, name).__doc__
