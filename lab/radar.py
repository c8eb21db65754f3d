"""`python -m lab radar FOLDER`: the rain of the next hour, from images of weather radars.

Models learn from the first five hours of a folder of images, on crops, and predict the last two
and a half on the whole field, from every image on, 5 to 60 minutes ahead.  Beside them stand the
last image again, the last image moved by one shift for all, and two methods of pysteps that
forecasters use: extrapolation along the optical flow (Lucas and Kanade), and S-PROG, which blurs
what has become unpredictable.  They need `pip install -c constraints.txt ".[radar]"`.

Errors are those of log(1 + mm/h) inside the radars' range.  Nothing was chosen by the last hours:
`--held 16` trains on fewer images and scores the sixteen before the last hours instead, which is
what settings and the length of the training are chosen by.
What moves in from beyond the range is unknown to all: where a method has no value, it is given
zero or the last image, whichever makes its own score better at that lead time.
"""

from __future__ import annotations

import json as text
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import torch

from fino.cli.console import progress, say
from fino.data.dataset import Dataset, Part
from fino.data.open import open as open_data
from fino.inference.rollout import rollout
from fino.model.build import build
from fino.training.fit import fit, resume
from fino.training.run import Run
from lab.radar_page import draw_movie, draw_scores, write_page

__all__ = ["BASELINES", "MODELS", "TRAINING", "measure", "radar", "score"]

KEPT = Path(__file__).parent / "results" / "radar.json"

#: Frames of a stretch (four are shown), and frames at the end that are only predicted.
WINDOW, TEST = 16, 31
THRESHOLDS = (0.1, 1.0, 5.0)

#: FINO in the frame that moves along with the rain, each place by its own motion or all by one
#: shift, and a U-Net whose steps cost as much.
_FINO: dict[str, Any] = {"width": 32, "levels": 3, "activation": "gelu"}
MODELS: dict[str, dict[str, Any]] = {
    "fino": {**_FINO, "predict": "flow"},
    "fino-shift": {**_FINO, "predict": "moved"},
    "unet": {"width": 14, "predict": "flow"},
}
SHOWN: dict[str, Any] = {"history": 4, "edges": False}
#: Rollouts of a quarter of an hour from a fifth of the steps on, on pieces whose edge is the
#: radar's edge.
TRAINING: dict[str, Any] = {
    "batch": 1,
    "horizon": 3,
    "grow_from": 0.2,
    "crop": 192,
    "halo": False,
    "learning_rate": 3e-3,
    "validations": 1,
    "validation_samples": 1,
    "threads": 1,
}

#: (frames up to the present (t, y, x), inside of the mask, cells a step) → the next hour (12, y, x)
Forecast = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def radar(
    folder: Path | None = None,
    *,
    out: Path = Path("runs/radar"),
    steps: int = 900,
    members: int = 3,
    test: int = TEST,
    held: int = 0,
    keep: bool = False,
) -> None:
    """Train, predict and compare: `python -m lab radar FOLDER`, half an hour on one core.

    Parameters
    ----------
    folder
        Images of KNMI's or ODIM's layout; without it the page is built again from kept scores.
    out
        The runs; a training that was interrupted goes on.
    steps
        Of each training; a number of them and not of seconds, because five hours of rain are
        learned by heart, the sooner the faster the machine is.
    members
        FINOs of each kind, with other first weights and another order of the images; the mean of
        all their forecasts is a row of its own.
    test
        Images at the end that are only predicted.
    held
        Images before those that are not learned from either; if there are any, these are scored
        instead, to choose by.  16 gives five forecasts.
    keep
        Write the scores to lab/results, and the page with its figures to docs.
    """
    if held and keep:
        raise ValueError("what is held out is there to choose by: keep scores without --held.")
    if folder is not None:
        data = open_data(folder, window=WINDOW, test=test, validation=held)
        runs = {name: train(name, data, out / name, steps) for name in MODELS}
        others = [
            train(name, data, out / f"{name}-seed-{seed}", steps, seed)
            for name in runs
            for seed in range(1, members)
            if name.startswith("fino")
        ]
        found = measure(data, runs, others, out)
        (out / "scores.json").write_text(text.dumps(found, indent=1) + "\n")
        say(f"Written: {out / 'scores.json'}")
        if not keep:
            return
        KEPT.write_text(text.dumps(found, separators=(",", ":")) + "\n")
        draw_movie(last_hour(data, runs["fino"]), Path("docs/figures/radar.gif"))
    found = text.loads(KEPT.read_text())
    draw_scores(found, Path("docs/figures/radar-scores.png"))
    for page in write_page(found):
        say(f"Written: {page}")


def train(name: str, data: Dataset, folder: Path, steps: int, seed: int = 0) -> Run:
    """The run of a model: as it is if it is done, gone on with if it was stopped, else new."""
    with progress(f"training {name}") as show:
        if (folder / "settings.json").exists():
            return resume(folder, data, progress=lambda h: show(h.share), steps=steps)
        model = build(name.split("-")[0], data, seed=seed, **SHOWN, **MODELS[name])
        settings = {**TRAINING, "steps": steps, "seed": seed}
        return fit(model, data, out=folder, progress=lambda h: show(h.share), **settings)


def measure(
    data: Dataset, runs: Mapping[str, Run], others: Sequence[Run], out: Path
) -> dict[str, Any]:
    """The scores of all methods; those of pysteps are kept in `out` until something changes."""
    speed = shift_of(runs["fino"])
    part = data.validation if len(data.validation) else data.test
    kept = out / "baselines.json"
    if not kept.exists():
        found = {name: score_all(make, part, speed) for name, make in BASELINES.items()}
        kept.write_text(text.dumps({name: plain for name, (plain, _) in found.items()}) + "\n")
    methods: dict[str, Any] = text.loads(kept.read_text())
    for name, run in runs.items():
        methods[name], methods[f"{name}-matched"] = score_all(_of_run(run), part, speed)
    if others:
        finos = [run for name, run in runs.items() if name.startswith("fino")]
        together = _mean([_of_run(run) for run in (*finos, *others)])
        methods["fino-mean"], methods["fino-mean-matched"] = score_all(together, part, speed)
    return {
        "first": data.card.parameters["first"],
        "minutes": data.dt,
        "origins": len(part),
        "methods": methods,
        "weights": {name: run.model.parameters_count for name, run in runs.items()},
        "members": 0 if not others else len(others) + sum(n.startswith("fino") for n in runs),
        "steps": {name: run.settings.steps for name, run in runs.items()},
        "cpu_seconds": {name: run.metrics[-1]["cpu_seconds"] for name, run in runs.items()},
        "moved": [round(float(v), 3) for v in speed],
        "tiles": compare_tiles(runs["fino"], data),
    }


def score_all(make: Forecast, part: Part, speed: np.ndarray) -> list[dict[str, Any]]:
    """The scores of one method over all forecasts of a part, as it is and matched."""
    mask = inside_of(part.data)
    rows: list[list[dict[str, Any]]] = [[], []]
    with progress("predicting") as show:
        for number, sample in enumerate(part):
            past, truth = sample.history[:, 0].numpy(), sample.future[:, 0].numpy()
            made = make(past, mask, speed)
            for place, frames in enumerate((made, match(made, past[-1], mask))):
                rows[place].append(score(frames, truth, past[-1], mask))
            show((number + 1) / len(part))
    return [join(each) for each in rows]


def last_hour(data: Dataset, run: Run) -> dict[str, Any]:
    """What was seen, measured and predicted in the last hour, to be shown."""
    sample, mask = data.test[len(data.test) - 1], inside_of(data)
    past, truth = sample.history[:, 0].numpy(), sample.future[:, 0].numpy()
    makers = {"fino": _of_run(run), "extrapolation": extrapolate}
    made = {name: make(past, mask, shift_of(run)) for name, make in makers.items()}
    return {"inside": mask, "past": past, "truth": truth, "made": made}


def inside_of(data: Dataset) -> np.ndarray:
    mask = data.test.mask(0)
    assert mask is not None
    return mask.numpy()


def shift_of(run: Run) -> np.ndarray:
    """Cells that the rain moves in a step, as measured on the first hours."""
    prior: Any = run.model.prior
    return np.asarray(prior.velocity[0])


def _of_run(run: Run) -> Forecast:
    def forecast(past: np.ndarray, mask: np.ndarray, speed: np.ndarray) -> np.ndarray:
        history = torch.from_numpy(past)[None, :, None]
        with catch_warnings():  # of values below zero, which are cut off
            simplefilter("ignore", UserWarning)
            frames = rollout(run, history, steps=WINDOW - len(past), mask=~mask)[0, :, 0]
        return np.maximum(np.asarray(frames), 0.0)

    return forecast


def _mean(forecasts: Sequence[Forecast]) -> Forecast:
    """The mean of several forecasts."""
    return lambda past, mask, speed: np.mean([f(past, mask, speed) for f in forecasts], axis=0)


def compare_tiles(run: Run, data: Dataset, tile: int = 144) -> float:
    """The largest difference between the hour predicted in tiles and at once."""
    sample, steps = data.test[0], 3
    with catch_warnings():
        simplefilter("ignore", UserWarning)
        whole = rollout(run, sample, steps=steps)
        return float((rollout(run, sample, steps=steps, tile=tile) - whole).abs().max())


def score(
    frames: np.ndarray, truth: np.ndarray, last: np.ndarray, mask: np.ndarray
) -> dict[str, Any]:
    """Sums over the cells inside of the mask, at each time; unknown cells filled in two ways."""
    rows: dict[str, Any] = {"error": [], "size": [], "hits": [], "union": []}
    for frame, real in zip(frames, truth, strict=True):
        fills = [np.where(np.isfinite(frame), frame, fill)[mask] for fill in (0.0, last)]
        real = real[mask]
        rows["error"].append([float(np.square(f - real).sum()) for f in fills])
        rows["size"].append(float(np.square(real).sum()))
        rain, fell = [np.expm1(f) for f in fills], np.expm1(real)
        each = [[(f >= h, fell >= h) for f in rain] for h in THRESHOLDS]
        rows["hits"].append([[int((a & b).sum()) for a, b in pair] for pair in each])
        rows["union"].append([[int((a | b).sum()) for a, b in pair] for pair in each])
    rows["spectrum"] = [spectrum(f, mask) for f in (frames[5], frames[-1])]
    rows["truth"] = [spectrum(f, mask) for f in (truth[5], truth[-1])]
    return rows


def join(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Scores over all origins at each lead time; of two fills the better for the method."""
    error, size, hits, union = (
        np.array([row[key] for row in rows]) for key in ("error", "size", "hits", "union")
    )
    nrmse = np.sqrt(error / np.maximum(size, 1e-12)[..., None]).mean(axis=0).min(axis=-1)
    # Index: origin, lead, threshold, fill.
    csi = (hits.sum(axis=0) / np.maximum(union.sum(axis=0), 1)).max(axis=-1)
    mean = {key: np.mean([row[key] for row in rows], axis=0) for key in ("spectrum", "truth")}
    return {
        "nrmse": [round(float(v), 4) for v in nrmse],
        "csi": {
            f"{h:g}": [round(float(v), 4) for v in csi[:, i]] for i, h in enumerate(THRESHOLDS)
        },
        "spectra": {key: [[float(f"{v:.4g}") for v in line] for line in mean[key]] for key in mean},
    }


def spectrum(u: np.ndarray, mask: np.ndarray) -> list[float]:
    """The power at whole wavenumbers of the largest centred square inside, with a Hann window."""
    middle = [int(np.mean(np.flatnonzero(mask.any(axis=1 - axis)))) for axis in (0, 1)]
    half = min(middle)
    while half > 2 and not mask[_square(middle, half)].all():
        half -= 1
    piece = np.nan_to_num(u[_square(middle, half)])
    window = np.hanning(2 * half)
    power = np.abs(np.fft.fft2((piece - piece.mean()) * np.outer(window, window))) ** 2
    ways = np.fft.fftfreq(2 * half, 1 / (2 * half))
    wave = np.hypot(*np.meshgrid(ways, ways)).round().astype(int).ravel()
    return np.bincount(wave, power.ravel())[1:half].tolist()


def _square(middle: Sequence[int], half: int) -> tuple[slice, ...]:
    return tuple(slice(m - half, m + half) for m in middle)


def match(frames: np.ndarray, last: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Each frame with the values of the last image, in the order of its own (probability matching).

    It gives back the heavy rain that a mean-square loss blurs away, and makes errors of place
    count twice again.
    """
    values, out = np.sort(last[mask]), np.array(frames)
    for frame in out:
        order = np.argsort(frame[mask], kind="stable")
        ranked = np.empty_like(values)
        ranked[order] = values
        frame[mask] = ranked
    return out


def persist(past: np.ndarray, mask: np.ndarray, speed: np.ndarray) -> np.ndarray:
    """The last image again."""
    return np.repeat(past[-1:], WINDOW - len(past), axis=0)


def shift_all(past: np.ndarray, mask: np.ndarray, speed: np.ndarray) -> np.ndarray:
    """The last image moved by one shift for all, measured on the first hours."""
    from scipy.ndimage import shift

    known = np.where(mask, past[-1], np.nan)
    steps = range(1, WINDOW - len(past) + 1)
    return np.stack([shift(known, k * speed, order=1, cval=np.nan) for k in steps])


def extrapolate(past: np.ndarray, mask: np.ndarray, speed: np.ndarray) -> np.ndarray:
    """pysteps: the last image moved along the optical flow."""
    _, nowcasts, _ = _pysteps()
    rain = np.where(mask, np.expm1(past), np.nan)
    with redirect_stdout(StringIO()):
        made = nowcasts.get_method("extrapolation")(rain[-1], _flow(past, mask), WINDOW - len(past))
    return np.log1p(np.maximum(made, 0.0))


def sprog(past: np.ndarray, mask: np.ndarray, speed: np.ndarray) -> np.ndarray:
    """pysteps: moved along the flow, each scale blurred as it becomes unpredictable."""
    _, nowcasts, change = _pysteps()
    decibel = np.where(mask, _decibel(past, mask), _NO_RAIN)[-3:]
    with redirect_stdout(StringIO()):
        made = nowcasts.get_method("sprog")(
            decibel, _flow(past, mask), WINDOW - len(past), precip_thr=-10.0, n_cascade_levels=6
        )
    rain = change.dB_transform(made, threshold=-10.0, inverse=True)[0]
    return np.log1p(np.maximum(rain, 0.0))


#: What pysteps calls dry, in decibels, where 0.1 mm/h is −10.
_NO_RAIN = -15.0


def _pysteps() -> tuple[Any, Any, Any]:
    try:
        with redirect_stdout(StringIO()):
            from pysteps import motion, nowcasts
            from pysteps.utils import transformation
    except ImportError:
        raise ValueError('pysteps is missing: pip install -c constraints.txt ".[radar]".') from None
    return motion, nowcasts, transformation


def _decibel(past: np.ndarray, mask: np.ndarray) -> np.ndarray:
    rain = np.where(mask, np.expm1(past), np.nan).astype(float)
    change = _pysteps()[2]
    return change.dB_transform(rain, threshold=0.1, zerovalue=_NO_RAIN)[0]


def _flow(past: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Cells a step at every place, from the last images: (2, y, x)."""
    with redirect_stdout(StringIO()):
        return _pysteps()[0].get_method("lucaskanade")(_decibel(past, mask))


BASELINES: dict[str, Forecast] = {
    "persistence": persist,
    "shift": shift_all,
    "extrapolation": extrapolate,
    "sprog": sprog,
}
