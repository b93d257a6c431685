"""The whole search on one page: divide, search, front, pick, write."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vit_edge import __version__
from vit_edge.accuracy import open_model, read_dataset
from vit_edge.accuracy.paired import check_budget
from vit_edge.accuracy.writing import write_text
from vit_edge.bench.machine import this_machine
from vit_edge.runtime.errors import ConfigError
from vit_edge.runtime.onnxfile import file_sha256
from vit_edge.tune.errors import TuneError
from vit_edge.tune.front import Point, front
from vit_edge.tune.halving import Found, halve, rungs
from vit_edge.tune.images import divide
from vit_edge.tune.making import Source, write_chosen
from vit_edge.tune.page import render
from vit_edge.tune.pick import Pick, pick
from vit_edge.tune.record import to_json
from vit_edge.tune.space import BASE, candidates, variants
from vit_edge.tune.state import State, digest, open_state
from vit_edge.tune.workbench import RealBench

__all__ = ["Tuned", "Wish", "tune"]

_SHARES = (6 / 7, 5 / 7)  # of the model's own side: 192 and 160 of 224
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is asked for.

    Attributes:
        max_drop: points of top-1.
        max_latency: milliseconds of one image.
        minutes: for all of it.
        checkpoint: of the model: other resolutions are tried, too.
        arch: of the checkpoint, where it does not tell.
        heads: the same.
    """

    max_drop: float | None = None
    max_latency: float | None = None
    minutes: float = 15.0
    checkpoint: str | None = None
    arch: str | None = None
    heads: int | None = None

    def __post_init__(self) -> None:
        if self.max_drop is not None:
            check_budget(self.max_drop)


@dataclass(frozen=True, slots=True)
class Tuned:
    """What `tune` found; `problem` says why there is no pick."""

    found: Found
    front: tuple[Point, ...]
    pick: Pick | None
    files: dict[str, str]
    notes: tuple[str, ...]
    problem: str = ""


def tune(
    model: Path, data: Path, output: Path, wish: Wish, calibration: Path | None = None,
    progress: Progress = lambda step: None,
) -> Tuned:  # fmt: skip
    """Search on this machine, and write `pareto.json`, `index.html` and the files of the front.

    Args:
        model: an fp32 model file that vit-edge wrote, and that gives class scores.
        data: labelled images, as `vit-edge eval` takes them.
        output: a folder, made if it is absent; what an earlier, interrupted search did there is not done again.
        wish: what is asked for.
        calibration: images to quantize with; without them a part of `data`.
        progress: called with each step.

    Raises:
        TuneError: nothing could be measured.
        ConfigError: the model or the folder cannot be used.
        DataError: the images cannot be used.
    """
    manifest = open_model(model).manifest
    if manifest.model.precision != "fp32" or manifest.external_data:
        raise ConfigError(f"{model}: expected an fp32 model file of less than 2 GiB, in one file")
    images = divide(read_dataset(data, manifest.output.classes, manifest.labels), calibration)
    source = Source(model, manifest, wish.checkpoint, wish.arch, wish.heads)
    work = _folder(output)
    keys = {
        "model": file_sha256(model),
        "data": images.data_hash,
        "calibration images": images.calibration_hash,
        "machine": digest(str(this_machine())),
        "settings": digest(__version__, str((wish.checkpoint, wish.arch, wish.heads))),
    }
    state, told = open_state(output / "state.json", keys)
    _forget_changed(state, work)
    bench = RealBench(source, work, images, state, wish.minutes, progress)
    everything = candidates(variants(_sizes(source)))
    found = halve(everything, rungs(len(images.paths)), bench, state, progress)
    best = front(found.points)
    files = _write_files(best, bench, output)
    chosen, problem = None, ""
    try:
        chosen = pick(best, wish.max_drop, wish.max_latency)
    except TuneError as error:  # front and page are written all the same
        problem = str(error)
    about = {"model": model.name, "machine": dataclasses.asdict(this_machine()), "wish": dataclasses.asdict(wish)}
    write_text(output / "pareto.json", to_json(found, best, chosen, files, about))
    write_text(output / "index.html", render(found, best, chosen, problem, model.name, this_machine().cpu))
    return Tuned(found, best, chosen, files, tuple(filter(None, (images.note, told))), problem)


def _folder(output: Path) -> Path:
    """The folder of the results, and in it the one of all files that are made."""
    work = output / "made"
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{output}: cannot be made: {error.strerror}") from error
    return work


def _forget_changed(state: State, work: Path) -> None:
    """Files that are gone or were changed are made again, and measured again."""
    for name, known in list(state.made.items()):
        path = work / f"{name}.onnx"
        if name != BASE.name and (not path.is_file() or file_sha256(path) != known):
            del state.made[name]
            state.right.pop(name, None)
            state.times.clear()


def _sizes(source: Source) -> tuple[int, ...]:
    """Other sides of the image: whole 16s or 14s or whatever the patch is, in square images only."""
    if source.checkpoint is None:
        return ()
    from vit_edge.checkpoints import LoadOptions, load_checkpoint

    config = load_checkpoint(source.checkpoint, LoadOptions(arch=source.arch, heads=source.heads)).model.config
    height, width = source.manifest.input.preprocess.size
    patch = getattr(config, "patch_size", None)
    if height != width or patch is None:
        raise ConfigError(f"{source.checkpoint}: other resolutions are tried of square images and plain ViTs alone")
    sides = {max(1, round(height * share / patch[0])) * patch[0] for share in _SHARES} - {height}
    return tuple(sorted(sides, reverse=True))


def _write_files(best: tuple[Point, ...], bench: RealBench, output: Path) -> dict[str, str]:
    files = {}
    for place, each in enumerate(best, 1):
        name = f"{place}-{each.candidate.variant.name}.onnx"
        write_chosen(each.candidate, bench.path(each.candidate.variant), output / name)
        files[each.candidate.name] = name
    return files
