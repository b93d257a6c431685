import pytest
import torch

from vit_edge.intermediates import intermediates


def test_every_module_is_named_in_order_of_execution(make_model, make_images):
    model = make_model()
    outputs = intermediates(model, make_images(model.config))
    assert set(outputs) == {name for name, _ in model.named_modules()}
    order = [
        "patch_embed.proj",
        "patch_embed",
        "blocks.0.norm1",
        "blocks.0.attn.q",
        "blocks.0.attn.proj",
        "blocks.0.attn",
    ]
    order += ["blocks.0.mlp.fc1", "blocks.0", "blocks.1.norm1", "blocks.1", "blocks", "norm", "head", ""]
    names = [name for name in outputs if name in order]
    assert names == order


def test_values_are_those_of_the_forward_pass(make_model, make_images):
    model = make_model()
    images = make_images(model.config)
    outputs = intermediates(model, images)
    torch.testing.assert_close(outputs[""], model(images), rtol=0, atol=0)
    torch.testing.assert_close(outputs["blocks"], model.blocks(model.embed(images)), rtol=0, atol=0)
    assert outputs["blocks.0.attn"].std() > 0.1


def test_no_hook_stays_behind_even_after_an_error(make_model, make_images):
    model = make_model()
    intermediates(model, make_images(model.config))
    with pytest.raises(RuntimeError):
        intermediates(model, torch.zeros(1, 3, 5, 5))
    assert not any(module._forward_hooks for module in model.modules())


def test_a_changed_weight_shows_first_in_its_own_layer(make_model, make_images):
    model, other = make_model(), make_model()
    other.blocks[1].mlp.fc1.weight[3, 5] += 1.0
    images = make_images(model.config)
    ours, theirs = intermediates(model, images), intermediates(other, images)
    differing = [name for name in ours if not torch.equal(ours[name], theirs[name])]
    assert differing[0] == "blocks.1.mlp.fc1"
