"""The traceable copy computes what the reference computes, in both attention forms."""

import pytest
import torch

from vit_edge.checkpoints import Checkpoint
from vit_edge.export.parity import Reference
from vit_edge.export.traceable import ATTENTION_OPSET, traceable


@pytest.mark.parametrize("opset", [17, ATTENTION_OPSET])
@pytest.mark.parametrize("batch", [1, 3])
def test_equals_the_reference_in_eager(opset: int, batch: int, checkpoint: Checkpoint, ref: Reference) -> None:
    model = checkpoint.model
    copy = traceable(model, opset=opset)
    images = torch.from_numpy(ref.images[:batch])
    torch.testing.assert_close(copy(images), model(images), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(copy.double()(images.double()), model.double()(images.double()), rtol=1e-13, atol=1e-13)
    model.float()


def test_forms_differ(checkpoint: Checkpoint) -> None:
    forms = {opset: type(traceable(checkpoint.model, opset=opset).get_submodule("blocks.0.attn")) for opset in (22, 23)}
    assert len({*forms.values(), type(checkpoint.model.blocks[0].attn)}) == 3


def test_copy_has_the_same_parameters_and_shares_none(checkpoint: Checkpoint) -> None:
    model, copy = checkpoint.model, traceable(checkpoint.model, opset=23)
    assert list(copy.state_dict()) == list(model.state_dict())
    assert not copy.training
    with torch.no_grad():
        copy.get_parameter("blocks.1.attn.q.weight").zero_()
    assert model.get_parameter("blocks.1.attn.q.weight").std() > 0
    assert not set(map(id, copy.modules())) & set(map(id, model.modules()))
