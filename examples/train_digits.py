"""Train the small Vision Transformer that ships with vit-edge, on MNIST.

    python examples/train_digits.py --data mnist.npz --output digits.safetensors

Expected wall time: about 15 minutes on one core (AVX2) of a server CPU; it took 17 on a busy machine.
Expected accuracy: 99.2 % of the 5,000 validation images and 99.27 % of the 10,000 test images.

`mnist.npz` holds x_train (60000, 28, 28) uint8, y_train, x_test and y_test. 5,000 training images are held out, and
every choice in `Recipe` was made on them; the test images are looked at once, after the last step. The same seed,
thread count and torch version on the same kind of processor give the same weights bit by bit. The shipped file was
made with the defaults, one thread among them.
"""

import argparse
import dataclasses
import math
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_edge.checkpoints.native import save_checkpoint
from vit_edge.config import ViTConfig
from vit_edge.model import ViT
from vit_edge.runtime.preprocess import Preprocess

DEMO = Path(__file__).resolve().parents[1] / "vit_edge" / "demo" / "digits.safetensors"
HELD_OUT = 5_000  # training images for validation
SPLIT_SEED = 0  # which ones; the same whatever the seed of the training
LABELS = tuple("0123456789")

CONFIG = ViTConfig(
    image_size=(28, 28),
    patch_size=(7, 7),  # 16 patches: three times as fast as the 49 of 4x4, and good enough for digits
    channels=1,
    width=64,
    depth=4,
    heads=4,
    mlp_width=256,
    classes=len(LABELS),
)
PREPROCESS = Preprocess(
    size=(28, 28),
    resize="exact",
    resize_to=(28, 28),
    interpolation="bilinear",
    fill=(0,),
    mean=(0.1307,),  # of all training pixels
    std=(0.3081,),
    channels=1,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How the model is trained."""

    epochs: int = 20
    batch: int = 128
    learning_rate: float = 3e-3  # at the end of the warm-up; falls to zero along a cosine
    warm_up: float = 0.05  # share of all steps
    weight_decay: float = 0.05
    label_smoothing: float = 0.02
    rotation: float = 10.0  # degrees at most, either way
    scale: float = 0.1  # factor 1 - scale ... 1 + scale for each axis
    shear: float = 0.1
    shift: float = 1.5  # pixels
    seed: int = 0
    threads: int = 1  # sums depend on how many threads share them


@dataclasses.dataclass(frozen=True, slots=True)
class Images:
    """Grey images (N, 28, 28) uint8, 0..255, and their classes (N,) int64."""

    pixels: Tensor
    classes: Tensor

    def __len__(self) -> int:
        return len(self.classes)

    def __getitem__(self, which: slice | Tensor) -> "Images":
        return Images(self.pixels[which], self.classes[which])


def _read(pixels: npt.NDArray[np.uint8], classes: npt.NDArray[np.integer], shuffle: np.random.Generator) -> Images:
    order = shuffle.permutation(len(classes))
    return Images(torch.from_numpy(pixels[order]), torch.from_numpy(classes[order].astype(np.int64)))


def load(path: Path, limit: int | None) -> tuple[Images, Images, Images]:
    """Read training, validation and test images; `limit` caps how many of each are used.

    Both parts are shuffled before anything is cut off: some copies of MNIST are sorted by class, and their last
    5,000 images are all nines.
    """
    shuffle = np.random.default_rng(SPLIT_SEED)
    with np.load(path, allow_pickle=False) as file:
        train, test = (_read(file[f"x_{part}"], file[f"y_{part}"], shuffle) for part in ("train", "test"))
    held_out = min(HELD_OUT, len(train) // 4)
    return train[:-held_out][:limit], train[-held_out:][:limit], test[:limit]


def normalised(pixels: Tensor) -> Tensor:
    """(B, 28, 28), 0..255 -> (B, 1, 28, 28) float32, as PREPROCESS does it."""
    return ((pixels.float() / 255 - PREPROCESS.mean[0]) / PREPROCESS.std[0]).unsqueeze(1)


def augmented(pixels: Tensor, recipe: Recipe) -> Tensor:
    """Turn, scale, shear and shift each image on its own; what comes in from outside is black.

    Args:
        pixels: (B, 28, 28) uint8, 0..255.
        recipe: how much of each.

    Returns:
        (B, 28, 28) float32, 0..255.
    """
    B, height, _ = pixels.shape
    turn, scale_x, scale_y, shear, shift_x, shift_y = torch.rand(6, B) * 2 - 1  # (B,) each, -1..1
    turn, shear = turn * math.radians(recipe.rotation), shear * recipe.shear
    scale_x, scale_y = 1 + scale_x * recipe.scale, 1 + scale_y * recipe.scale
    cos, sin = turn.cos(), turn.sin()
    to_unit = 2 * recipe.shift / height  # grid_sample's coordinates run from -1 to 1
    rows = [
        torch.stack([cos * scale_x, (shear * cos - sin) * scale_y, shift_x * to_unit], dim=1),
        torch.stack([sin * scale_x, (shear * sin + cos) * scale_y, shift_y * to_unit], dim=1),
    ]
    theta = torch.stack(rows, dim=1)  # (B, 2, 3): rotation x shear x scale, and the shift
    images = pixels.float().unsqueeze(1)  # (B, 1, height, width)
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False).squeeze(1)


def rate_factor(step: int, steps: int, warm_up: float) -> float:
    """Linear from 0 to 1 over the warm-up, then a cosine down to 0."""
    rising = max(1, round(steps * warm_up))
    if step < rising:
        return (step + 1) / rising
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising)))


def accuracy(model: ViT, images: Images) -> float:
    """Share of the images whose largest logit is the right one."""
    model.eval()
    with torch.inference_mode():
        right = sum(
            int((model(normalised(pixels)).argmax(1) == classes).sum())
            for pixels, classes in zip(images.pixels.split(500), images.classes.split(500), strict=True)
        )
    return right / len(images)


def fresh_model() -> ViT:
    """A ViT with Xavier weights: at width 64 the usual std of 0.02 takes several epochs longer to get going."""
    model = ViT(CONFIG)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
    return model


def optimiser_of(model: ViT, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW; weight decay on matrices only, not on biases, norms, tokens and positions."""
    matrices = [p for name, p in model.named_parameters() if name.endswith("weight") and p.ndim > 1]
    others = [p for name, p in model.named_parameters() if not (name.endswith("weight") and p.ndim > 1)]
    groups = [
        {"params": matrices, "weight_decay": recipe.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.99))


def train(train_images: Images, validation: Images, recipe: Recipe) -> ViT:
    """Train from scratch and print a line an epoch."""
    torch.manual_seed(recipe.seed)
    model = fresh_model()
    optimiser = optimiser_of(model, recipe)
    per_epoch = -(-len(train_images) // recipe.batch)
    steps = recipe.epochs * per_epoch
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rate_factor(step, steps, recipe.warm_up))
    start = time.perf_counter()
    for epoch in range(1, recipe.epochs + 1):
        model.train()
        total = 0.0
        for which in torch.randperm(len(train_images)).split(recipe.batch):
            batch = train_images[which]
            logits = model(normalised(augmented(batch.pixels, recipe)))
            loss = F.cross_entropy(logits, batch.classes, label_smoothing=recipe.label_smoothing)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            total += loss.item() * len(batch)
        print(
            f"epoch {epoch:2d} of {recipe.epochs}   loss {total / len(train_images):.4f}   "
            f"validation accuracy {accuracy(model, validation):.4f}   {time.perf_counter() - start:.0f} s",
            flush=True,
        )
    return model


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train the small ViT that ships with vit-edge, on MNIST.")
    parser.add_argument("--data", type=Path, required=True, help="mnist.npz")
    parser.add_argument("--output", type=Path, default=DEMO, help="the .safetensors file to write")
    parser.add_argument("--limit", type=int, help="use only that many images of each part, for a quick try")
    for name in ("epochs", "seed", "threads"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Recipe(), name), help="default: %(default)s")
    return parser.parse_args()


def main() -> None:
    """Train, measure once on the test images, save."""
    args = arguments()
    recipe = Recipe(epochs=args.epochs, seed=args.seed, threads=args.threads)
    torch.set_num_threads(recipe.threads)
    torch.use_deterministic_algorithms(True)
    train_images, validation, test = load(args.data, args.limit)
    model = train(train_images, validation, recipe)
    about = {
        "data": "MNIST",
        "train_images": len(train_images),
        "test_accuracy": accuracy(model, test),
        "test_images": len(test),
        "seed": recipe.seed,
        "epochs": recipe.epochs,
    }
    save_checkpoint(model, args.output, name="digits", preprocess=PREPROCESS, labels=LABELS, about=about)
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{parameters:,} parameters, test accuracy {about['test_accuracy']:.4f} on {len(test):,} images")
    print(f"written: {args.output} ({args.output.stat().st_size:,} bytes)")


if __name__ == "__main__":
    main()
