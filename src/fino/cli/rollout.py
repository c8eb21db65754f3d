"""`fino rollout`: predict as far as you like, on fields as large as you like."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

__all__ = ["rollout"]


def rollout(
    run: Path,
    *,
    steps: int | None = None,
    history: str | None = None,
    data: Path | None = None,
    sample: int = 0,
    tile: int | None = None,
    region: str | None = None,
    every: int = 1,
    out: Path | None = None,
    movie: Path | None = None,
    mesh: str | None = None,
    device: str = "cpu",
    why: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Roll a model out: `fino rollout runs/swe --steps 500 --tile 512 --movie out.gif`.

    A pretrained model goes by its name, `fino rollout shallow-water --movie swe.gif`, and starts
    from a test sample that is solved again.

    On many processes: `torchrun --nproc-per-node 4 -m fino rollout … --out out.npy`.  Tiles,
    regions and processes do not change the numbers.

    Parameters
    ----------
    run
        A run folder, a model folder, or the name of a pretrained model.
    steps
        How many frames to predict; as many as the data have after the first, if not given.
    history
        A .npy or .h5 file (t, c, *space) to start from; a domain of any size.
    data
        A data file to take the start from; the run's own if not given.
    sample
        Which test sample of the data to start from.
    tile
        Cells along each axis that are computed at a time, to bound the memory.
    region
        Predict only these cells, as start:stop for each axis, such as 40:60,0:32.
    every
        Keep every n-th frame.
    out
        A .npy or .h5 file for the frames.
    movie
        A GIF of the frames.
    mesh
        Processes along each axis, such as 2x2; chosen if not given.
    device
        `cpu`, or `cuda` for one device a process.
    why
        Print every way to cut the work that was weighed, and its cost.
    json
        Print what was done as JSON.
    """
    from fino.allocator import keep_freed_memory
    from fino.inference.processes import is_launched

    if movie is not None and movie.suffix != ".gif":
        raise ValueError(f"a movie of a rollout should end in .gif, got '{movie.name}'.")
    keep_freed_memory()
    model, start, length = _model_and_start(run, history, data, sample)
    model = model.to(_device(device))
    steps = length if steps is None else steps
    if steps is None:
        raise ValueError("--history does not say how far to go: add --steps.")
    request = {"steps": steps, "tile": tile, "every": every, "out": out}
    if is_launched():
        if region is not None or (movie is not None and out is None):
            raise ValueError(
                "With several processes, --region is not possible and --movie needs --out."
            )
        done = _together(model, start, request, mesh, _lines(why, json))
    else:
        if mesh is not None:
            raise ValueError("--mesh is for several processes: start them with torchrun.")
        done = _alone(model, start, request, _region(region), _lines(why, json))
    if done is not None:
        _tell(done, model.grid.dims, out, movie, quiet=json)


def _alone(
    model: Any, start: Any, request: dict[str, Any], region: Any, lines: int | None
) -> dict[str, Any]:
    import fino
    from fino.cli.console import progress, say
    from fino.inference.disk import is_on_disk, open_film
    from fino.inference.local import local_stepper
    from fino.inference.region import cone_work
    from fino.inference.rollout import plan_rollout

    film, _ = open_film(start, model.grid.dims)
    samples, _, channels, *points = film.shape
    said: list[str] = []
    if region is not None:
        work = cone_work(model, region, request["steps"], points)
        share = f"{work.share:.1%} of the cells of a full run"
        said.append(f"Only the region's light cone is computed: {share}.")
    if request["tile"] is not None:
        on_disk = request["out"] is not None or is_on_disk(start)
        step = local_stepper(model, points)
        size, steps = request["tile"], request["steps"]
        request["tile"] = plan_rollout(step, size, steps, channels, samples, on_disk=on_disk)
        said += request["tile"].reasons
    if lines != 0:
        size = " × ".join(map(str, points))
        say(f"{request['steps']} steps of {channels} fields on {size} cells.")
        for line in said[:lines]:
            say(f"  {line}")
    begin = time.perf_counter()
    with progress("rolling out", quiet=lines == 0) as show:
        frames = fino.rollout(model, start, region=region, progress=show, **request)
    seconds = time.perf_counter() - begin
    return {"frames": frames, "shape": tuple(frames.shape), "seconds": seconds, "plan": said}


def _together(
    model: Any, start: Any, request: dict[str, Any], mesh: str | None, lines: int | None
) -> dict[str, Any] | None:
    """All ranks of a job; only the first one speaks."""
    from fino.cli.console import progress, say
    from fino.inference.decomposed import plan_company, rollout_share
    from fino.inference.disk import as_array, open_film
    from fino.inference.local import local_stepper
    from fino.inference.processes import joined

    shape = None if mesh is None else _mesh(mesh)
    on_device = next(model.parameters()).device.type != "cpu"
    with joined("nccl" if on_device else "gloo") as company:
        lines = lines if company.rank == 0 else 0
        film, _ = open_film(start, model.grid.dims)
        step = local_stepper(model, film.shape[3:])
        plan = plan_company(company, step, film, request["steps"], shape)
        for line in plan.reasons[:lines]:
            say(f"  {line}")
        with progress("rolling out", quiet=lines == 0) as show:
            share = rollout_share(company, model, start, plan=plan, progress=show, **request)
    if company.rank != 0:
        return None
    frames = share.frames if request["out"] is None else as_array(request["out"])
    assert frames is not None
    return {
        "frames": frames,
        "shape": tuple(frames.shape),
        "seconds": share.seconds,
        "halo_share": share.halo_share,
        "plan": list(plan.reasons),
    }


def _lines(why: bool, quiet: bool) -> int | None:
    """How many of a plan's reasons are printed: the first ones, all (None) or none."""
    return 0 if quiet else None if why else 2


def _tell(
    done: dict[str, Any], dims: int, out: Path | None, movie: Path | None, quiet: bool
) -> None:
    from fino.cli.console import say, say_json

    frames = done.pop("frames")
    if movie is not None:
        from fino.report.movie import write_prediction_movie

        write_prediction_movie(frames if len(frames.shape) == dims + 2 else frames[0], movie)
    if quiet:
        say_json({**done, "out": out, "movie": movie})
        return
    shape = " × ".join(map(str, done["shape"]))
    halo = f", {done['halo_share']:.1%} of it waiting for halos" if "halo_share" in done else ""
    say(f"{shape} (time × channel × space) in {done['seconds']:.1f} s{halo}.")
    for path in (out, movie):
        if path is not None:
            say(f"  {path}: {path.stat().st_size / 1e6:.1f} MB")


def _model_and_start(
    run: Path, history: str | None, data: Path | None, sample: int
) -> tuple[Any, Any, int | None]:
    """The model, the frames to start from, and the frames that the data have after them."""
    import fino
    from fino.evaluation.runs import data_of_run
    from fino.model.pretrained import PRETRAINED, on_shelf
    from fino.settings import did_you_mean

    shelved = on_shelf(run)
    is_run = (run / "model").is_dir()
    if shelved is not None:
        model = shelved.load()
    elif not run.exists():
        hint = did_you_mean(str(run), list(PRETRAINED))
        raise ValueError(f"There is no run, model or pretrained model '{run}'. {hint}")
    else:
        model = fino.load(run / "model" if is_run else run).eval()
    if history is not None:
        return model, history, None
    if data is not None:
        source = fino.open(data)
    elif shelved is not None:
        source = shelved.test_data(sample + 1)
    elif is_run:
        source = data_of_run(run)
    else:
        raise ValueError(
            f"{run} is a model, not a run: say where to start with --history or --data."
        )
    start = source.test.read([sample], 0, model.history)[0]
    return model, start, source.frames - model.history


def _device(name: str) -> str:
    """This process's own device: cuda → cuda:3."""
    import os

    import torch

    if name == "cpu":
        return name
    if name != "cuda" or not torch.cuda.is_available():
        raise ValueError(f"--device should be cpu, or cuda where there is one, got '{name}'.")
    own = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    torch.cuda.set_device(own)
    return own


def _region(words: str | None) -> tuple[tuple[int, int], ...] | None:
    """'40:60,0:32' → ((40, 60), (0, 32))."""
    if words is None:
        return None
    try:
        pairs = [part.split(":") for part in words.split(",")]
        return tuple((int(start), int(stop)) for start, stop in pairs)
    except ValueError:
        raise ValueError(
            f"--region should be start:stop for each axis, such as 40:60,0:32, got '{words}'."
        ) from None


def _mesh(words: str) -> tuple[int, ...]:
    """'2x2' → (2, 2)."""
    try:
        return tuple(int(count) for count in words.split("x"))
    except ValueError:
        raise ValueError(f"--mesh should be counts such as 2x2, got '{words}'.") from None
