"""How far information moves in one step of the data: what a local model has to see.

    cells = speed · dt / spacing

The speed comes from the card where it is known, otherwise from the data alone: along each axis
the lowest waves of a field are followed from frame to frame by the linear map that takes one to
the next.  Its eigenvalues turn as the waves travel and shrink as they spread.

    λ = exp(−i k c dt)      moved by c dt           λ = exp(−k² D dt)      spread over 2√(2 D dt)

A wave as long as the domain turns less than half a circle unless it moves half the domain, so
that large steps are told apart as well as small ones.  Steady problems have no such number: every
point of the answer depends on every point of the question.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from fino.data.dataset import Dataset

__all__ = ["LightCone", "light_cone"]

#: Trajectories, and numbers in all, that the estimate looks at; the share of trajectories that
#: may be faster than it says.
_SAMPLES = 128
_NUMBERS = 2**26
_FASTER = 0.01

#: An eigenvalue counts if it carries this share of a wave's energy and keeps this much a step.
_SHARE = 0.05
_KEPT = 0.6

#: A wave is followed where it has this share of a trajectory's energy.
_STRONG = 0.1

#: The waves see the mean speed on their way.  Where they do not follow a linear map to this
#: precision, speeds differ from place to place, and the fastest place is about a fifth faster.
_LINEAR = 1e-6
_FASTEST_PLACE = 1.2

#: The linear map of a wave from frame to frame: its eigenvalues, their shares of the energy, and
#: the share that the map leaves unexplained.
Fit = tuple[np.ndarray, np.ndarray, float]


@dataclass(frozen=True)
class LightCone:
    """The reach of the data in one step.

    cells      for each axis; inf if steady
    length     the largest reach of any axis, in units of length
    source     how it is known: "card", "estimated" or "steady"
    """

    cells: tuple[float, ...]
    length: float
    source: str


def light_cone(data: Dataset, estimate: bool = False) -> LightCone:
    """How far the data move in a step: by the card's speed, else estimated; no limit if steady.

    `estimate` looks at the data even if the card knows.
    """
    spacing = data.grid.spacing
    if data.steady:
        return LightCone((math.inf,) * len(spacing), math.inf, "steady")
    if data.card.speed is not None and not estimate:
        length = data.card.speed * data.dt
        return LightCone(tuple(length / s for s in spacing), length, "card")
    if data not in _ESTIMATED:
        own = bool(data.parameters)
        cells = tuple(_reach(lines, p, own) for lines, p in _lines(data))
        length = max(n * s for n, s in zip(cells, spacing, strict=True))
        _ESTIMATED[data] = LightCone(cells, length, "estimated")
    return _ESTIMATED[data]


#: What was estimated before: building, the plan and the report all ask for it.
_ESTIMATED: WeakKeyDictionary[Dataset, LightCone] = WeakKeyDictionary()


def _lines(data: Dataset) -> list[tuple[np.ndarray, bool]]:
    """For each axis, the field averaged over the other axes: (sample, time, channel, points).

    A wave that crosses the plane moves along each axis of such an average as it would alone.
    """
    part = data.train.samples or tuple(range(len(data)))
    each = int(np.prod(data.shape[1:], dtype=object))
    count = max(1, min(len(part), _SAMPLES, _NUMBERS // each))
    chosen = [part[i] for i in np.linspace(0, len(part) - 1, count).astype(int)]
    dims = data.grid.dims
    averages: list[list[np.ndarray]] = [[] for _ in range(dims)]
    squares = np.zeros(data.channels)
    for sample in chosen:
        u = data.read([sample])[0].double().numpy()
        squares += u.var(axis=tuple(a for a in range(u.ndim) if a != 1))
        for axis in range(dims):
            others = tuple(2 + a for a in range(dims) if a != axis)
            averages[axis].append(u.mean(axis=others) if others else u)
    size = np.sqrt(squares / len(chosen))
    size[size == 0] = 1.0
    return [
        (np.stack(lines) / size[:, None], periodic)
        for lines, periodic in zip(averages, data.grid.is_periodic, strict=True)
    ]


def _reach(lines: np.ndarray, periodic: bool, own: bool = False) -> float:
    """Cells that information moves in a step along one line.

    With `own`, trajectories spread at rates of their own, as parameters may make them.
    """
    points = lines.shape[-1]
    if not periodic:
        # Fourier waves need equal ends: take away the ramp between them.
        ramp = (np.arange(points) + 0.5) / points
        lines = lines - (lines[..., :1] * (1 - ramp) + lines[..., -1:] * ramp)
    waves = np.moveaxis(np.fft.rfft(lines, axis=-1), -1, 0)[1:]
    if lines.shape[1] < 3 or not np.abs(waves).max(initial=0.0) > 1e-6 * np.abs(lines).max():
        return 0.0
    depth = _depth(waves)
    moved, linear = _moved(waves, depth, 1)
    turn, lag = 2 * math.pi * (moved / points), 1
    if turn < 0.1:
        # A slow wave is followed over as many frames as it takes to turn visibly, but not around.
        lag = int(np.clip(round(0.3 / max(turn, 1e-6)), 1, max(1, lines.shape[1] // 8)))
        moved, linear = _moved(waves, depth, lag)
    if own:
        each = [_spread(waves[:, i : i + 1], depth) for i in range(lines.shape[0])]
        spread = float(np.quantile(each, 1 - _FASTER))
    else:
        spread = _spread(waves, depth)
    # Waves move in proportion to time, smearing goes with its root: ask who wins in the long run.
    long_run = max(lag, lines.shape[1] // 4)
    if moved * long_run > spread * math.sqrt(long_run):
        spread = 0.0
    reach = max(moved * (1.0 if linear else _FASTEST_PLACE), spread)
    return float(min(reach, points / 2 if periodic else points))


def _depth(waves: np.ndarray) -> int:
    """Past frames that the linear map needs: two where one hides the momentum, else one."""
    left = {}
    for depth in (1, 2):
        if waves.shape[2] < 3 * depth:
            return 1
        left[depth] = np.median([rest for _, _, (_, _, rest) in _each(waves, depth, 1)])
    return 2 if left[1] > 1e-4 and left[2] < 0.02 * left[1] else 1


def _moved(waves: np.ndarray, depth: int, lag: int) -> tuple[float, bool]:
    """Cells a step that the fast trajectories move, and whether they do so linearly."""
    points = 2 * len(waves)
    fastest: dict[int, float] = {}
    left = []
    for wave, sample, (values, share, rest) in _each(waves, depth, lag):
        counts = (share > _SHARE) & (np.abs(values) > _KEPT)
        turns = np.abs(np.angle(values[counts])) / (2 * math.pi * wave)
        fastest[sample] = max([fastest.get(sample, 0.0), *(turns * points / lag)])
        left.append(rest)
    if not fastest:
        return 0.0, True
    speed = float(np.quantile(list(fastest.values()), 1 - _FASTER))
    return speed, bool(np.median(left) < _LINEAR)


def _spread(waves: np.ndarray, depth: int) -> float:
    """Cells over which a step smears a point: two standard deviations of the heat kernel."""
    points = 2 * len(waves)
    numbers, decays = [], []
    for wave, z in enumerate(waves[: max(2, points // 4 - 1)], start=1):
        if not np.abs(z).max() > 1e-5 * np.abs(waves).max():
            continue
        values, share, left = _fit(z, depth, 1)
        if left < 0.5:
            rates = -np.log(np.clip(np.abs(values), 1e-6, None))
            numbers.append((2 * math.pi * wave / points) ** 2)
            decays.append(float((share * rates).sum()))
    if len(numbers) < 2:
        return 0.0
    slopes = (np.array(decays[1:]) - decays[0]) / (np.array(numbers[1:]) - numbers[0])
    return 2 * math.sqrt(2 * max(0.0, float(np.median(slopes))))


def _each(waves: np.ndarray, depth: int, lag: int) -> list[tuple[int, int, Fit]]:
    """(wave, trajectory, fit) for each trajectory of the two longest waves that matter.

    The longer a wave, the farther it can move before it is mistaken for another.  If frames are
    few, all trajectories are fitted together.
    """
    frames, channels = waves.shape[2:]
    energy = (np.abs(waves) ** 2).sum(axis=(2, 3))
    share = energy / np.maximum(energy.sum(axis=0), 1e-300)
    longest = np.flatnonzero(energy.sum(axis=1) > 1e-3 * energy.sum())[:2]
    enough = frames - depth * lag >= 2 * depth * channels
    fits = []
    for wave in longest:
        if not enough:
            fits.append((int(wave) + 1, 0, _fit(waves[wave], depth, lag)))
            continue
        # A weak wave may be the echo of two others and run at their pace, not at its own.
        for i in np.flatnonzero(share[wave] > min(_STRONG, 0.5 * share[wave].max())):
            fits.append((int(wave) + 1, int(i), _fit(waves[wave, i : i + 1], depth, lag)))
    return fits


def _fit(z: np.ndarray, depth: int, lag: int) -> Fit:
    """Least squares over (sample, time, channel): the next frame from `depth` past ones."""
    _, frames, channels = z.shape
    rows = frames - depth * lag
    past = [z[:, (depth - 1 - j) * lag : (depth - 1 - j) * lag + rows] for j in range(depth)]
    x = np.concatenate(past, axis=2).reshape(-1, depth * channels)
    y = z[:, depth * lag : depth * lag + rows].reshape(-1, channels)
    gram = x.conj().T @ x
    gram += 1e-9 * max(np.trace(gram).real, 1e-300) / len(gram) * np.eye(len(gram))
    step = np.linalg.solve(gram, x.conj().T @ y).T
    left = float((np.abs(y - x @ step.T) ** 2).sum() / max((np.abs(y) ** 2).sum(), 1e-300))
    whole = np.zeros((depth * channels,) * 2, dtype=complex)
    whole[:channels] = step
    whole[channels:, : (depth - 1) * channels] = np.eye((depth - 1) * channels)
    values, vectors = np.linalg.eig(whole)
    amplitudes = np.linalg.lstsq(vectors, x.T, rcond=None)[0]
    energy = (np.abs(vectors[:channels]) ** 2).sum(axis=0) * (np.abs(amplitudes) ** 2).mean(axis=1)
    return values, energy / max(float(energy.sum()), 1e-300), left
