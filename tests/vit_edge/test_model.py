"""The reference model against torch's own layers and against the papers' formulas."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vit_edge.config import ViTConfig
from vit_edge.model import Attention, Block, LayerScale, PatchEmbed, ViT
from vit_edge.presets import find_preset

# float64 computations of the same formula in another order differ by rounding alone: some 1e-15 relative for each
# of the few hundred summed terms.
EXACT = {"rtol": 1e-11, "atol": 1e-12}


def parameters(preset_name):
    args = find_preset(preset_name).args
    config = ViTConfig(
        image_size=(args["img_size"],) * 2,
        patch_size=(args["patch_size"],) * 2,
        width=args["embed_dim"],
        depth=args["depth"],
        heads=args["num_heads"],
        mlp_width=4 * args["embed_dim"],
    )
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in ViT(config).parameters())


@pytest.mark.parametrize(
    ("preset_name", "expected"),
    [
        ("vit_base_patch16_224", 86_567_656),
        ("vit_tiny_patch16_224", 5_717_416),
        ("vit_large_patch16_224", 304_326_632),
        ("vit_b_16", 86_567_656),
        ("vit_b_32", 88_224_232),  # torchvision's ViT_B_32_Weights, "num_params"
    ],
)
def test_parameter_counts_are_the_published_ones(preset_name, expected):
    assert parameters(preset_name) == expected


def into_torch_layer(block, layer):
    """Copy a block's weights into torch's encoder layer; its packed in_proj is q, k and v one after another."""
    attention = block.attn
    pairs = {
        layer.self_attn.in_proj_weight: torch.cat([attention.q.weight, attention.k.weight, attention.v.weight]),
        layer.self_attn.in_proj_bias: torch.cat([attention.q.bias, attention.k.bias, attention.v.bias]),
    }
    same = [
        *((layer.self_attn.out_proj, attention.proj), (layer.norm1, block.norm1), (layer.norm2, block.norm2)),
        *((layer.linear1, block.mlp.fc1), (layer.linear2, block.mlp.fc2)),
    ]
    for theirs, ours in same:
        pairs |= {theirs.weight: ours.weight, theirs.bias: ours.bias}
    with torch.no_grad():
        for theirs, ours in pairs.items():
            theirs.copy_(ours)
    return layer


@pytest.mark.parametrize(
    ("place", "activation"), [("post", "relu"), ("pre", "gelu"), ("post", "gelu"), ("pre", "relu")]
)
def test_block_is_torchs_encoder_layer(make_config, randomise, place, activation):
    config = make_config(norm_place=place, activation=activation, norm_eps=1e-5, heads=4)
    block = randomise(Block(config).double())
    layer = nn.TransformerEncoderLayer(
        d_model=config.width,
        nhead=config.heads,
        dim_feedforward=config.mlp_width,
        dropout=0.0,
        activation=activation,
        layer_norm_eps=config.norm_eps,
        batch_first=True,
        norm_first=place == "pre",
        dtype=torch.float64,
    )
    layer = into_torch_layer(block, layer)  # in training mode: without its fused fast path
    x = torch.randn(3, 5, config.width, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = layer(x).detach()
    assert expected.std() > 0.5
    torch.testing.assert_close(block(x), expected, **EXACT)


@pytest.mark.parametrize("heads", [1, 2, 4, 16])
def test_attention_is_softmax_of_scaled_products_for_each_head(make_config, randomise, heads):
    config = make_config(heads=heads)
    attention = randomise(Attention(config).double())
    x = torch.randn(2, 5, config.width, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    q, k, v = (x @ layer.weight.T + layer.bias for layer in (attention.q, attention.k, attention.v))
    width, parts = config.width // heads, []
    for head in range(heads):
        own = slice(head * width, (head + 1) * width)
        scores = q[..., own] @ k[..., own].transpose(1, 2) / math.sqrt(width)
        parts.append(scores.exp() / scores.exp().sum(dim=-1, keepdim=True) @ v[..., own])
    expected = torch.cat(parts, dim=-1) @ attention.proj.weight.T + attention.proj.bias
    assert expected.std(dim=1).min() > 1e-3
    torch.testing.assert_close(attention(x), expected, **EXACT)


def test_number_of_heads_changes_the_result(make_model, make_images):
    """Canary: nothing in the weights tells the number, so a test that passed with any would be worth nothing."""
    two, four = make_model(heads=2), make_model(heads=4)
    images = make_images(two.config)
    assert (two(images) - four(images)).abs().max() > 1e-2


def test_tiles_are_squares_cut_row_by_row(make_config, randomise):
    config = make_config()
    embed = randomise(PatchEmbed(config).double())
    images = torch.randn(2, 3, 16, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    weight, expected = embed.proj.weight.reshape(config.width, -1), []
    for top in range(0, 16, 4):
        for left in range(0, 24, 8):
            tile = images[:, :, top : top + 4, left : left + 8].reshape(2, -1)
            expected.append(tile @ weight.T + embed.proj.bias)
    torch.testing.assert_close(embed(images), torch.stack(expected, dim=1), **EXACT)


def test_scanlines_are_runs_of_pixels(make_config, randomise):
    config = make_config(patches="scanlines")
    embed = randomise(PatchEmbed(config).double())
    images = torch.randn(2, 3, 16, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    run = 3 * 4 * 8
    expected = torch.stack([images.flatten(1)[:, i * run : (i + 1) * run] for i in range(12)], dim=1)
    expected = expected @ embed.proj.weight.T + embed.proj.bias
    torch.testing.assert_close(embed(images), expected, **EXACT)


def test_tokens_stand_in_front_and_get_their_positions(make_model, make_images):
    model = make_model(distillation_token=True)
    images = make_images(model.config)
    tokens, patches = model.embed(images), model.patch_embed(images)
    expected = torch.cat([model.cls_token, model.dist_token], dim=1) + model.pos_embed[:, :2]
    torch.testing.assert_close(tokens[:, :2], expected.expand(3, -1, -1), rtol=0, atol=0)
    torch.testing.assert_close(tokens[:, 2:], patches + model.pos_embed[:, 2:], rtol=0, atol=0)


def test_learned_patch_positions_leave_the_class_token_alone(make_model, make_images):
    model = make_model(positions="learned_patches")
    images = make_images(model.config)
    assert model.pos_embed.shape == (1, 12, 16)
    torch.testing.assert_close(model.embed(images)[:, :1], model.cls_token.expand(3, -1, -1), rtol=0, atol=0)


def test_sincos_positions_are_on_every_token_and_not_in_the_state(make_model, make_images):
    model = make_model(positions="sincos")
    assert "pos_embed" not in model.state_dict()
    first = model.embed(make_images(model.config))[:, 0] - model.cls_token[:, 0]
    expected = torch.tensor([0.0, 1.0] * 8).expand(3, -1)  # sin 0, cos 0, ...
    torch.testing.assert_close(first, expected, rtol=0, atol=1e-6)  # one rounding of float32 numbers of size 1


def test_distillation_averages_both_heads(make_model, make_images):
    model = make_model(distillation_token=True, distillation_head=True)
    images = make_images(model.config)
    tokens = model.norm(model.blocks(model.embed(images)))
    expected = (model.head(tokens[:, 0]) + model.head_dist(tokens[:, 1])) / 2
    assert (model.head(tokens[:, 0]) - expected).abs().max() > 0.1
    torch.testing.assert_close(model(images), expected, rtol=0, atol=0)


def test_mean_pooling_leaves_the_class_token_out(make_model, make_images):
    model = make_model(pool="mean", final_norm="pooled")
    images = make_images(model.config)
    tokens = model.blocks(model.embed(images))
    pooled = F.layer_norm(tokens[:, 1:].mean(dim=1), (16,), model.fc_norm.weight, model.fc_norm.bias, 1e-6)
    expected = pooled @ model.head.weight.T + model.head.bias
    torch.testing.assert_close(model(images), expected, rtol=1e-5, atol=1e-5)  # float32, sums of 16 terms


def test_layer_scale_multiplies_each_channel(make_config, randomise):
    scale = randomise(LayerScale(make_config()))
    assert scale.gamma.std() > 0.1
    x = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(scale(x), torch.einsum("bnd,d->bnd", x, scale.gamma), rtol=0, atol=0)


def test_layer_scale_of_zero_takes_the_branches_out(make_model, make_images):
    model = make_model(layer_scale=True)
    for block in model.blocks:
        block.ls1.gamma.zero_()
        block.ls2.gamma.zero_()
    images = make_images(model.config)
    tokens = model.embed(images)
    torch.testing.assert_close(model.blocks(tokens), tokens, rtol=0, atol=0)


def test_an_image_gives_the_same_logits_whatever_its_batch_mates(make_model, make_images):
    model = make_model()
    images = make_images(model.config, count=7)
    alone = torch.cat([model(image[None]) for image in images])
    torch.testing.assert_close(model(images), alone, rtol=1e-5, atol=1e-5)  # other matrix kernels for other batches
