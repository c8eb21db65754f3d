"""Von Neumann's question for a learned step: by what factor does each wave grow?

Linearised about a constant state on a periodic grid, a step that commutes with shifts by s
cells maps Bloch waves to Bloch waves: u(s·m + p) = v_p e^{iφ·m} with one number v_p for each
cell p of a block of s cells.  For each φ the step is a small matrix A(φ); with a history of K
frames the eigenvalues λ of the companion matrix

    ⎡ 0   1          ⎤
    ⎢      ⋱         ⎥        (A_k(φ) acts on frame k)
    ⎣ A₁  A₂  …  A_K ⎦

are the amplification factors.  |λ| > 1 grows.  For a plain stencil s = 1 and this is the
textbook's g(θ).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from fino.given import Given
from fino.inspection.growth import BufferStep
from fino.inspection.held import Held, Theta, average_conditions, theta_at
from fino.model.emulator import Emulator
from fino.model.rollout import AnyStepper, take_step

__all__ = ["Amplification", "amplification", "step_amplification"]

#: Companion matrices up to this size are solved whole; larger ones for their largest eigenvalues.
_WHOLE = 420
#: Factors found of a large matrix, and kept for each wave.
_KEPT = 12
#: Bloch waves looked at on a grid of several dimensions, before only axes and diagonal are.
_MANY = 150
_CHUNK = 32


@dataclass(frozen=True, eq=False)
class Amplification:
    """The amplification factors of each wave.

    `wavenumbers` (n, dims) counts waves over the domain; `modes` holds, for each of them, its
    complex factors, the largest first: a history of K frames gives a wave up to K of them.
    `points` are the cells of the domain and `state` the constant it was linearised about.
    """

    wavenumbers: np.ndarray
    modes: tuple[np.ndarray, ...]
    points: tuple[int, ...]
    state: tuple[float, ...]
    tolerance: float = 1e-3

    @property
    def factors(self) -> np.ndarray:
        """The largest factor of each wave."""
        return np.array([values[0] for values in self.modes])

    @property
    def growth(self) -> np.ndarray:
        return np.abs(self.factors)

    @property
    def radius(self) -> float:
        """The spectral radius: the growth a step of the wave that grows most."""
        return float(self.growth.max())

    @property
    def unstable(self) -> list[tuple[tuple[int, ...], float]]:
        """The waves that grow, the fastest first, with their |λ|."""
        growth = self.growth
        order = [i for i in np.argsort(-growth, kind="stable") if growth[i] > 1 + self.tolerance]
        return [(tuple(self.wavenumbers[i].tolist()), float(growth[i])) for i in order]

    def modes_of(self, *wavenumber: int) -> np.ndarray:
        """All factors of one wave, none if it was not looked at."""
        found = np.flatnonzero((self.wavenumbers == np.array(wavenumber)).all(axis=1))
        return self.modes[found[0]] if len(found) else np.empty(0, dtype=complex)

    def along(self, axis: int) -> tuple[np.ndarray, np.ndarray]:
        """Wavenumbers and factors of the waves that run along one axis."""
        plane = (np.delete(self.wavenumbers, axis, axis=1) == 0).all(axis=1)
        k, factors = self.wavenumbers[plane, axis], self.factors[plane]
        order = np.argsort(k)
        return k[order], factors[order]


def amplification(
    stepper: AnyStepper,
    state: Tensor,
    points: Sequence[int],
    history: int,
    stride: Sequence[int] | None = None,
) -> Amplification:
    """The factors of a stepper linearised about a constant `state` (c,) on `points` cells."""
    points, stride = tuple(points), tuple(stride or [1] * len(points))
    if any(n % s for n, s in zip(points, stride, strict=True)):
        raise ValueError(f"a grid of {points} cells should be a multiple of the stride {stride}.")
    blocks = _symbols(stepper, state, points, history, stride)
    # eigenvalues to more digits than the step has would take longer and say no more
    precision = np.complex64 if state.dtype == torch.float32 else np.complex128
    modes: dict[tuple[int, ...], list[complex]] = {}
    for bloch in _bloch_waves(points, stride):
        values, newest = _eigenpairs(blocks[bloch].astype(precision), history)
        waves = _dominant_waves(newest, bloch, points, stride, len(state))
        for value, (wave, turned) in zip(values, waves, strict=True):
            modes.setdefault(wave, []).append(complex(np.conj(value) if turned else value))
    found = sorted(modes)
    return Amplification(
        np.array(found, dtype=int).reshape(-1, len(points)),
        tuple(np.array(sorted(modes[wave], key=abs, reverse=True)[:_KEPT]) for wave in found),
        points,
        tuple(state.tolist()),
    )


def _symbols(
    stepper: AnyStepper,
    state: Tensor,
    points: tuple[int, ...],
    history: int,
    stride: tuple[int, ...],
) -> np.ndarray:
    """A_k(φ) for every Bloch wave: (*blocks, K, c·block out, c·block in).

    The next frame at the cells of one block, differentiated by every cell of the history, is all
    of the step: other blocks answer alike, shifted.  One backward pass a cell and channel finds it.
    """
    channels, dims = len(state), len(points)
    counts = [n // s for n, s in zip(points, stride, strict=True)]
    cells = list(product(range(channels), *(range(s) for s in stride)))
    constant = state.view(-1, *[1] * dims).expand(history, channels, *points)
    step, rows = BufferStep(stepper, torch.ones(channels)), []
    for first in range(0, len(cells), _CHUNK):
        some = cells[first : first + _CHUNK]
        _, backward = step.linearised(constant.expand(len(some), *constant.shape).contiguous())
        asked = torch.zeros(len(some), history, channels, *points, dtype=state.dtype)
        for row, place in enumerate(some):
            asked[(row, -1, *place)] = 1.0
        rows.append(backward(asked).detach())
    split = [length for n, s in zip(counts, stride, strict=True) for length in (n, s)]
    response = torch.cat(rows).double().numpy().reshape(len(cells), history, channels, *split)
    # Σ_m response(m) e^{iφm} over the blocks m: the inverse transform, unscaled.
    over_blocks = [3 + 2 * axis for axis in range(dims)]
    symbol = np.fft.ifftn(response, axes=over_blocks) * math.prod(counts)
    ordered = symbol.transpose([*over_blocks, 1, 0, 2, *(axis + 1 for axis in over_blocks)])
    return ordered.reshape(*counts, history, len(cells), len(cells))


def step_amplification(
    emulator: Emulator, state: Tensor, points: Sequence[int], theta: Theta | None = None
) -> Amplification | None:
    """The factors of an emulator far from any wall, at θ and otherwise average conditions.

    None for a step that does not commute with shifts: waves are not its eigenvectors.
    """
    history, stride = emulator.history, emulator.locality.stride
    points = tuple(-(-n // s) * s for n, s in zip(points, stride, strict=True))
    given = average_conditions(emulator, theta or theta_at(emulator), points)
    # position channels are held at zero: the middle of the domain, away from every wall
    positions = torch.zeros(len(emulator.positions()), *points)
    twin = Held(_periodic_twin(emulator), replace(given, positions=positions))
    if not is_equivariant(twin, state, points, history, stride):
        return None
    return amplification(twin, state, points, history, stride)


def _periodic_twin(emulator: Emulator) -> Emulator:
    """The same weights on a domain without edges."""
    if all(emulator.grid.is_periodic):
        return emulator
    settings = {**cast(Any, emulator.network.settings).model_dump(), "boundary": "periodic"}
    grid = replace(emulator.grid, boundary=("periodic",) * emulator.grid.dims)
    twin = Emulator(type(emulator.network)(**settings), emulator.settings, grid)
    twin = twin.to(next(emulator.parameters()).dtype).eval()
    twin.load_state_dict(emulator.state_dict())
    return twin


def is_equivariant(
    stepper: AnyStepper, state: Tensor, points: Sequence[int], history: int, stride: Sequence[int]
) -> bool:
    """Whether shifting what goes in by one stride shifts what comes out, on a periodic grid."""
    generator = torch.Generator().manual_seed(0)
    u = torch.randn(1, history, len(state), *points, generator=generator, dtype=state.dtype)
    u = u + state.view(-1, *[1] * len(points))
    with torch.no_grad():
        here = take_step(stepper, Given(u))
        for axis, shift in enumerate(stride):
            there = take_step(stepper, Given(torch.roll(u, shift, dims=axis + 3)))
            back = torch.roll(there, -shift, dims=axis + 2)
            if float((here - back).abs().max()) > 1e-4 * float(here.abs().max() + 1e-12):
                return False
    return True


def _bloch_waves(points: tuple[int, ...], stride: tuple[int, ...]) -> list[tuple[int, ...]]:
    """One of each pair φ, −φ; of very many, those along the axes and the diagonal."""
    counts = [n // s for n, s in zip(points, stride, strict=True)]
    waves = [
        wave
        for wave in np.ndindex(*counts)
        if wave <= tuple(-k % n for k, n in zip(wave, counts, strict=True))
    ]
    if len(waves) <= _MANY or len(points) == 1:
        return waves
    return [w for w in waves if sum(k > 0 for k in w) <= 1 or len(set(w)) == 1]


def _eigenpairs(matrices: np.ndarray, history: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of the companion matrix and the newest frame of each eigenvector (n, m)."""
    n, row = matrices.shape[1], np.concatenate(list(matrices), axis=1)
    whole = n * history
    if whole <= _WHOLE:
        companion = np.eye(whole, k=n, dtype=row.dtype)
        companion[-n:] = row
        # torch rather than numpy, whose threads nobody here could stop from waiting for one another
        values, vectors = torch.linalg.eig(torch.from_numpy(companion))
        return values.numpy(), vectors[-n:].numpy()

    def times(v: np.ndarray) -> np.ndarray:
        return np.concatenate([v.ravel()[n:], row @ v.ravel()])

    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs

    operator = LinearOperator((whole, whole), matvec=times, dtype=row.dtype)
    start = np.random.default_rng(0).standard_normal(whole)
    try:
        values, vectors = eigs(operator, k=_KEPT, which="LM", v0=start, tol=1e-6)
    except ArpackNoConvergence as partly:
        values, vectors = partly.eigenvalues, partly.eigenvectors
    return values, vectors[-n:]


def _dominant_waves(
    newest: np.ndarray,
    bloch: tuple[int, ...],
    points: tuple[int, ...],
    stride: tuple[int, ...],
    channels: int,
) -> list[tuple[tuple[int, ...], bool]]:
    """For each eigenvector the wave of the fine grid that it contains most of.

    A Bloch wave φ holds the waves (φ + 2πl)/s, l = 0 … s − 1; the largest share names it.  Of the
    waves k and −k, whose factors are conjugate, the one that counts upward stands for both; True
    says that it was turned round.
    """
    if newest.shape[1] == 0:
        return []
    dims = len(points)
    v = newest.T.reshape(-1, channels, *stride)
    for axis, (k, n, s) in enumerate(zip(bloch, points, stride, strict=True), start=2):
        phase = np.exp(-2j * math.pi * k / n * np.arange(s))
        v = v * phase.reshape([-1 if a == axis else 1 for a in range(dims + 2)])
    share = (np.abs(np.fft.fftn(v, axes=range(2, dims + 2))) ** 2).sum(axis=1)
    flat = share.reshape(len(share), -1).argmax(axis=1)
    waves = []
    for harmonic in zip(*np.unravel_index(flat, stride), strict=True):
        wave = []
        for k, n, s, index in zip(bloch, points, stride, harmonic, strict=True):
            fine = (k + int(index) * (n // s)) % n
            wave.append(fine - n if fine > n // 2 else fine)
        turned = next((k for k in wave if k), 0) < 0
        if turned:
            wave = [k if 2 * k == n else -k for k, n in zip(wave, points, strict=True)]
        waves.append((tuple(wave), turned))
    return waves
