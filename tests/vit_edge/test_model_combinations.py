"""Every option together with every other, against a second implementation written for clarity alone."""

import itertools
import random

import pytest
import torch
import torch.nn.functional as F

from vit_edge.config import ViTConfig
from vit_edge.positions import sincos_positions
from vit_edge.runtime.errors import ConfigError

OPTIONS = {
    "token_kinds": ["class", "distilled", "two heads", "mean", "no class token"],
    "patches": ["tiles", "scanlines"],
    "positions": ["learned", "learned_patches", "sincos"],
    "norm_place": ["pre", "post", "res_post"],
    "norm_axes": ["width", "tokens_and_width"],
    "activation": ["gelu", "relu"],
    "mlp": ["expand", "single"],
    "qkv_bias": [True, False],
    "layer_scale": [False, True],
    "final_norm": ["tokens", "pooled", "none"],
}
TOKEN_KINDS = {
    "class": {},
    "distilled": {"distillation_token": True},
    "two heads": {"distillation_token": True, "distillation_head": True},
    "mean": {"pool": "mean"},
    "no class token": {"pool": "mean", "class_token": False},
}
SAMPLES = 120


def drawn():
    """Seeded random combinations; the impossible ones are left out."""
    source, found = random.Random(0), []
    while len(found) < SAMPLES:
        choice = {name: source.choice(values) for name, values in OPTIONS.items()}
        distilled = choice["token_kinds"] in ("distilled", "two heads")
        if not (distilled and choice["positions"] == "learned_patches"):
            found.append(choice)
    return found


def arguments(choice):
    rest = {name: value for name, value in choice.items() if name != "token_kinds"}
    mlp_width = 12 if choice["mlp"] == "single" else 20
    return {"width": 12, "heads": 3, "mlp_width": mlp_width, **TOKEN_KINDS[choice["token_kinds"]], **rest}


class Plain:
    """A ViT as the papers write it: one image, float64, no batch, a loop over heads."""

    def __init__(self, model):
        self.config: ViTConfig = model.config
        self.w = {name: tensor.double() for name, tensor in model.state_dict().items()}

    def linear(self, x, name):
        y = x @ self.w[f"{name}.weight"].T
        return y + self.w[f"{name}.bias"] if f"{name}.bias" in self.w else y

    def norm(self, x, name):
        if f"{name}.weight" not in self.w:
            return x
        axes = (0, 1) if self.w[f"{name}.weight"].dim() == 2 else (-1,)
        centred = x - x.mean(dim=axes, keepdim=True)
        scaled = centred / (centred.square().mean(dim=axes, keepdim=True) + self.config.norm_eps).sqrt()
        return scaled * self.w[f"{name}.weight"] + self.w[f"{name}.bias"]

    def attention(self, x, name):
        q, k, v = (self.linear(x, f"{name}.{layer}") for layer in "qkv")
        width, parts = self.config.head_width, []
        for head in range(self.config.heads):
            own = slice(head * width, (head + 1) * width)
            parts.append(torch.softmax(q[:, own] @ k[:, own].T / width**0.5, dim=-1) @ v[:, own])
        return self.linear(torch.cat(parts, dim=-1), f"{name}.proj")

    def mlp(self, x, name):
        x = self.linear(x, f"{name}.fc1")
        x = x * 0.5 * (1 + torch.erf(x / 2**0.5)) if self.config.activation == "gelu" else x.clamp(min=0)
        return self.linear(x, f"{name}.fc2") if self.config.mlp == "expand" else x

    def block(self, x, name):
        for norm, branch, scale in (("norm1", self.attention, "ls1"), ("norm2", self.mlp, "ls2")):
            layer = f"{name}.{'attn' if norm == 'norm1' else 'mlp'}"
            gamma = self.w.get(f"{name}.{scale}.gamma", 1.0)
            if self.config.norm_place == "pre":
                x = x + branch(self.norm(x, f"{name}.{norm}"), layer) * gamma
            elif self.config.norm_place == "post":
                x = self.norm(x + branch(x, layer) * gamma, f"{name}.{norm}")
            else:
                x = x + self.norm(branch(x, layer), f"{name}.{norm}") * gamma
        return x

    def embed(self, image):
        (high, wide), rows = self.config.patch_size, []
        if self.config.patches == "scanlines":
            rows = list(image.flatten().chunk(self.config.grid[0] * self.config.grid[1]))
        for top, left in itertools.product(range(self.config.grid[0]), range(self.config.grid[1])):
            if self.config.patches == "tiles":
                rows.append(image[:, top * high : (top + 1) * high, left * wide : (left + 1) * wide].flatten())
        weight = self.w["patch_embed.proj.weight"].flatten(1)
        patches = torch.stack(rows) @ weight.T + self.w["patch_embed.proj.bias"]
        front = [self.w[name][0] for name in ("cls_token", "dist_token") if name in self.w]
        if self.config.positions == "learned_patches":
            return torch.cat([*front, patches + self.w["pos_embed"][0]])
        table = sincos_positions(self.config.tokens, self.config.width).double()
        return torch.cat([*front, patches]) + self.w.get("pos_embed", table)[0]

    def logits(self, image):
        x = self.embed(image)
        for index in range(self.config.depth):
            x = self.block(x, f"blocks.{index}")
        x = self.norm(x, "norm")
        pooled = x[self.config.prefix_tokens :].mean(dim=0) if self.config.pool == "mean" else x[0]
        logits = self.linear(self.norm(pooled, "fc_norm"), "head")
        if not self.config.distillation_head:
            return logits
        return (logits + self.linear(self.norm(x[1], "fc_norm"), "head_dist")) / 2


@pytest.mark.parametrize("choice", drawn(), ids=lambda choice: "-".join(map(str, choice.values())))
def test_model_computes_what_the_plain_one_does(choice, make_model, make_images):
    model = make_model(**arguments(choice))
    images = make_images(model.config, count=2).double()
    expected = torch.stack([Plain(model).logits(image) for image in images])
    assert (expected[0] - expected[1]).abs().max() > 1e-6  # the images matter
    assert expected.std(dim=1).min() > 1e-2  # and so do the classes
    if model.config.positions == "sincos":
        model.pos_embed = model.pos_embed.double()
    # float64 throughout: rounding alone, some 1e-15 for each of a few hundred steps
    torch.testing.assert_close(model.double()(images), expected, rtol=1e-9, atol=1e-10)


def test_every_possible_pair_of_options_is_drawn(make_config):
    seen = {pair for choice in drawn() for pair in itertools.combinations(choice.items(), 2)}
    for (one, these), (other, those) in itertools.combinations(OPTIONS.items(), 2):
        for pair in itertools.product([(one, value) for value in these], [(other, value) for value in those]):
            if pair not in seen:
                plain = {name: values[0] for name, values in OPTIONS.items()}
                with pytest.raises(ConfigError):
                    make_config(**arguments({**plain, **dict(pair)}))


def test_gelu_is_the_exact_one(make_model):
    x = torch.linspace(-4, 4, 101)
    exact, tanh = F.gelu(x), F.gelu(x, approximate="tanh")
    act = make_model().blocks[0].mlp.act
    torch.testing.assert_close(act(x), exact, rtol=0, atol=0)
    assert (act(x) - tanh).abs().max() > 1e-4
