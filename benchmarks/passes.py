"""What the graph passes do to a checkpoint, and what that is worth in onnxruntime: the tables of docs/passes.md.

    python benchmarks/passes.py vit_tiny_patch16_224.safetensors --arch vit_tiny_patch16_224

Three graphs an opset: as traced, simplified, and plain, which is what `torch.onnx.export(dynamo=True, optimize=True)`
makes of the same model. `--ablate OPSET` adds graphs with one pass left out, and one for which onnxsim runs all of its
optimizers. `--against FILE.onnx` adds graphs of the same model from elsewhere.

Every graph has a process of its own, because the worker threads of one session slow the next for a while. A round
visits all of them, every second one backwards; a visit opens a session, drops the first two runs and keeps the median
of the others. Ratios compare graphs within a round, so that what slows a whole round cancels out.

Expected wall time for ViT-Tiny on two cores: 1 minute of exports, 5 minutes of rounds.
"""

import argparse
import logging
import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vit_edge.runtime.session import Optimization, open_session

if TYPE_CHECKING:  # imported where it is used, so that the processes that are timed load onnxruntime only
    import onnx_ir as ir

    from vit_edge.checkpoints import Checkpoint
    from vit_edge.export.pipeline import PassRecord

BASELINE = "plain, opset 20"  # torch's default
THREADS, RUNS, DROPPED = 2, 20, 2  # the first runs of a session still allocate
PAUSE = 0.1  # seconds until the threads of the session before sleep
SAME = 2e-5  # of the largest output, as in the parity gate

Graph = tuple[str, Path, int]  # name, file, number of nodes
Images = npt.NDArray[np.float32]


def ablations(traced: "ir.Model") -> "dict[str, ir.Model]":
    """The graph without one of `SIMPLIFY`; and with all of onnxsim's optimizers, which then need the weights inside."""
    import onnx_ir as ir
    import onnxsim

    from vit_edge.export.passes import OnnxSim
    from vit_edge.export.pipeline import SIMPLIFY, run_passes

    made = {}
    for one in SIMPLIFY:
        others = [each for each in SIMPLIFY if each is not one]
        made[f"without {type(one).__name__}"] = run_passes(traced.clone(), others)[0]
    whole = ir.from_proto(onnxsim.simplify(ir.to_proto(traced), check_n=0)[0])
    made["all of onnxsim"] = run_passes(whole, [each for each in SIMPLIFY if not isinstance(each, OnnxSim)])[0]
    return made


def make_graphs(
    checkpoint: "Checkpoint", opset: int, folder: Path, ablate: bool
) -> "tuple[list[Graph], list[PassRecord]]":
    """Trace, prepare and simplify as `vit_edge.export.export` does; and export plainly."""
    import torch

    from vit_edge.export.model_file import save
    from vit_edge.export.pipeline import PREPARE, run_passes, simplification
    from vit_edge.export.traceable import traceable
    from vit_edge.export.tracing import trace

    model = checkpoint.model
    shape = (model.config.channels, *model.config.image_size)
    traced, records = run_passes(trace(traceable(model, opset=opset), shape, opset=opset), PREPARE)
    simplified, more = run_passes(traced.clone(), simplification(traced, opset))
    example, dynamic = (torch.zeros(2, *shape),), ({0: torch.export.Dim("batch")},)
    plain = torch.onnx.export(
        model, example, dynamo=True, optimize=True, opset_version=opset, dynamic_shapes=dynamic, verbose=False
    )
    assert plain is not None
    stages = {"traced": traced, "simplified": simplified, "plain": plain.model}
    if ablate:
        stages |= ablations(traced)
    made = [
        (f"{key}, opset {opset}", save(g, folder / f"{key}{opset}.onnx"), len(g.graph)) for key, g in stages.items()
    ]
    return made, [*records, *more]


def visits(path: Path, level: Optimization, connection: "Connection[object, object]") -> None:
    """A process: for every image that arrives, send back the seconds to load and to run, and the outputs."""
    while True:
        try:
            image, ticks = connection.recv(), [time.perf_counter()]
        except EOFError:  # the measurement is over
            return
        session = open_session(path, threads=THREADS, optimization=level)
        ticks.append(time.perf_counter())
        for _ in range(DROPPED + RUNS):
            (outputs,) = session.run(None, {session.get_inputs()[0].name: image})
            ticks.append(time.perf_counter())
        load, *times = np.diff(ticks)
        connection.send((load, np.median(times[DROPPED:]), outputs))
        del session


def measure(graphs: Sequence[Graph], image: Images, rounds: int, level: Optimization) -> npt.NDArray[np.float64]:
    """Seconds (rounds, graphs, 2) to load and to run."""
    context, ends = multiprocessing.get_context("spawn"), []
    for _, path, _ in graphs:
        here, there = context.Pipe()
        context.Process(target=visits, args=(path, level, there), daemon=True).start()
        there.close()  # so that the end of a process is noticed
        ends.append(here)
    seconds, expected = np.zeros((1 + rounds, len(graphs), 2)), None
    for number, row in enumerate(seconds):
        for index in range(len(graphs))[:: -1 if number % 2 else 1]:
            time.sleep(PAUSE)
            ends[index].send(image)
            *row[index], outputs = ends[index].recv()
            expected = outputs if expected is None else expected
            if np.abs(outputs - expected).max() > SAME * np.abs(expected).max():
                raise SystemExit(f"error: {graphs[index][0]} computes something else")
    return seconds[1:]  # the first round reads files from the disk


def print_nodes(made: "dict[int, list[PassRecord]]") -> None:
    """Nodes after each pass; with `*` the number is as before, but the pass did something."""
    print(f"| nodes | {' | '.join(f'opset {opset}' for opset in made)} |\n|---|{'---|' * len(made)}")
    print(f"| as traced | {' | '.join(str(records[0].nodes_before) for records in made.values())} |")
    columns = [{record.name: record for record in records} for records in made.values()]
    for name in {name: None for column in columns for name in column}:
        found = [column.get(name) for column in columns]
        cells = [f"{r.nodes_after}{'*' * (r.modified and r.nodes_after == r.nodes_before)}" if r else "" for r in found]
        print(f"| {name} | {' | '.join(cells)} |")


def print_times(graphs: Sequence[Graph], seconds: npt.NDArray[np.float64]) -> None:
    """How many times as fast as `BASELINE` (else as the first graph), and milliseconds."""
    base = next((i for i, (name, *_) in enumerate(graphs) if name == BASELINE), 0)
    print(f"\nRatios to {graphs[base][0]}, above 1 is faster: median of {len(seconds)} rounds (p10 to p90).\n")
    print("| graph | nodes | run | load | ms a run | ms to load |\n|---|---|---|---|---|---|")
    ratios = np.percentile(seconds[:, base, None] / seconds, [10, 50, 90], axis=0)  # (3, graphs, 2)
    ms = 1000 * np.median(seconds, axis=0)
    for index, (name, _, nodes) in enumerate(graphs):
        load, run = ("{1:.2f} ({0:.2f} to {2:.2f})".format(*ratios[:, index, i]) for i in range(2))
        print(f"| {name} | {nodes} | {run} | {load} | {ms[index, 1]:.1f} | {ms[index, 0]:.0f} |")


def main() -> None:
    """Make the graphs, print both tables in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("checkpoint", help="as `vit-edge export` takes it")
    parser.add_argument("--arch", help="the architecture of bare weights")
    parser.add_argument("--opsets", type=int, nargs="+", default=[23, 20, 18, 17])
    parser.add_argument("--ablate", type=int, nargs="+", default=[], metavar="OPSET", help="18 or newer")
    parser.add_argument("--against", type=Path, nargs="+", default=[], metavar="FILE.onnx")
    parser.add_argument("--optimization", choices=["all", "none"], default="all", help="of onnxruntime")
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()

    import onnx_ir as ir

    from vit_edge.checkpoints import LoadOptions, load_checkpoint

    logging.captureWarnings(True)
    logging.disable(logging.WARNING)  # the exporter's notices are about packages of its own
    checkpoint = load_checkpoint(options.checkpoint, LoadOptions(arch=options.arch))
    config = checkpoint.model.config
    image = np.random.default_rng(0).standard_normal((1, config.channels, *config.image_size), dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        made = {
            opset: make_graphs(checkpoint, opset, Path(folder), opset in options.ablate) for opset in options.opsets
        }
        print_nodes({opset: records for opset, (_, records) in made.items()})
        foreign = [(path.name, path, len(ir.load(path).graph)) for path in options.against]
        graphs = [*(graph for group, _ in made.values() for graph in group), *foreign]
        print_times(graphs, measure(graphs, image, options.rounds, options.optimization))


if __name__ == "__main__":
    main()
