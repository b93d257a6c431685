"""Options of an export: what the checkpoint fills in, and what does not fit."""

import dataclasses

import pytest

from vit_edge.checkpoints import Checkpoint
from vit_edge.export import ExportOptions
from vit_edge.export.options import settled
from vit_edge.preprocessing import named
from vit_edge.runtime.errors import ConfigError


def test_checkpoint_fills_in_what_is_not_given(checkpoint: Checkpoint) -> None:
    options = settled(checkpoint, ExportOptions())
    assert options.preprocess == checkpoint.preprocess
    assert options.preprocess_origin == "the checkpoint's header"
    assert options.labels == ("ant", "bee", "cat", "dog", "eel")
    assert options.output == "logits"
    assert options.opset == 23


def test_what_is_given_wins(checkpoint: Checkpoint) -> None:
    spec, labels = named("half", (24, 16)), ("a", "b", "c", "d", "e")
    given = ExportOptions(preprocess=spec, preprocess_origin="given", labels=labels, output="probabilities", opset=18)
    assert settled(checkpoint, given) == given
    assert settled(checkpoint, ExportOptions(labels=())).labels == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ExportOptions(opset=16), "opset 16: expected 17 to 24"),
        (ExportOptions(opset=25), "opset 25: expected 17 to 24"),
        (ExportOptions(labels=("a", "b")), "got 2 labels, the model has 5 classes"),
        (ExportOptions(labels=("a",) * 5, output="features"), "labels do not go with features"),
        (ExportOptions(preprocess=named("half", (24, 24))), r"gives 3 x \(24, 24\), the model takes 3 x \(24, 16\)"),
        (ExportOptions(preprocess=named("unit", (24, 16), 1)), r"gives 1 x \(24, 16\), the model takes 3 x \(24, 16\)"),
    ],
)
def test_what_does_not_fit_is_refused(options: ExportOptions, message: str, checkpoint: Checkpoint) -> None:
    with pytest.raises(ConfigError, match=message):
        settled(checkpoint, options)


def test_preprocessing_has_to_come_from_somewhere(checkpoint: Checkpoint) -> None:
    silent = dataclasses.replace(checkpoint, preprocess=None)
    with pytest.raises(ConfigError, match="does not tell its preprocessing"):
        settled(silent, ExportOptions())
    assert settled(silent, ExportOptions(preprocess=checkpoint.preprocess)).preprocess == checkpoint.preprocess


def test_features_take_no_labels_along(checkpoint: Checkpoint) -> None:
    assert settled(checkpoint, ExportOptions(output="features")).labels == ()
