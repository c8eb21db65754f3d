"""Networks of the neuraloperator library behind the same promise, for runs of parity.

They need the `peers` extra; importing this module puts them into `MODELS`:

    neuralop-fno         its FNO
    neuralop-local-no    its LocalNO, the original of LocalFNO; in the plane it needs
                         torch-harmonics, in one dimension it has the differential part alone

`fno_from_neuralop` turns one of its FNOs into ours, weights and all.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from pydantic import Field as Setting
from torch import Tensor, nn

from fino.locality import Locality
from fino.model import MODELS
from fino.model.fno import FNO
from fino.model.network import NetworkSettings, check_field
from fino.shapes import Field

__all__ = ["NeuralopFNO", "NeuralopLocalNO", "PeerSettings", "fno_from_neuralop"]

_PADDING_MODE = {"periodic": "periodic", "dirichlet": "zeros", "neumann": "zeros"}


class PeerSettings(NetworkSettings):
    """What we set of a neuraloperator network; the rest is the library's default.

    `modes` counts frequencies on each side of zero, as in our FNO.  `padding` is the share of
    the domain added where it is not periodic.  `points` is the grid that LocalNO is told about.
    """

    width: int = Setting(20, ge=1)
    modes: int = Setting(12, ge=1)
    layers: int = Setting(4, ge=1)
    padding: float = Setting(0.0625, ge=0)
    points: int = Setting(64, ge=2)

    @property
    def n_modes(self) -> tuple[int, ...]:
        """As the library counts: both sides of zero, and the last axis halved plus one."""
        return (*(2 * self.modes for _ in range(self.dims - 1)), 2 * (self.modes - 1) or 1)

    @property
    def domain_padding(self) -> float | None:
        walls = any(name != "periodic" for name in self.boundaries)
        return self.padding or None if walls else None


class Guest(nn.Module):
    """A network of the library, kept where its habits do not harm ours.

    Its complex weights would lose their imaginary part in `.to(torch.float32)`, and its state
    holds settings and the same tensor twice, which our files refuse.
    """

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, u: Field) -> Field:
        return self.inner(u)

    def _apply(self, fn: Any, recurse: bool = True) -> Guest:
        def on_parts(tensor: Tensor) -> Tensor:
            if not tensor.is_complex():
                return fn(tensor)
            return torch.view_as_complex(fn(torch.view_as_real(tensor)).contiguous())

        return super()._apply(on_parts, recurse)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        state = super().state_dict(*args, **kwargs)
        for key in list(state):
            if isinstance(state[key], Tensor):
                state[key] = state[key].clone()
            else:
                del state[key]
        return state


class NeuralopFNO(nn.Module):
    """neuraloperator's FNO: (b, inputs, *space) → (b, outputs, *space)."""

    paper: ClassVar[str] = "Li et al. 2021, as the neuraloperator library builds it (2.0, 2025)"
    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "small": {"width": 12, "modes": 8, "layers": 3},
        "paper": {"width": 20, "modes": 12, "layers": 4},
        "large": {"width": 40, "modes": 16, "layers": 4},
    }

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = s = PeerSettings(**settings)
        from neuralop.models import FNO as Theirs

        self.guest = Guest(
            Theirs(
                n_modes=s.n_modes,
                in_channels=s.inputs,
                out_channels=s.outputs,
                hidden_channels=s.width,
                n_layers=s.layers,
                domain_padding=s.domain_padding,
                positional_embedding=None,
            )
        )

    @property
    def locality(self) -> Locality:
        return Locality.everywhere(self.settings.dims)

    def forward(self, u: Field) -> Field:
        check_field(u, self.settings, "neuraloperator's FNO")
        return self.guest(u)


class NeuralopLocalNO(nn.Module):
    """neuraloperator's LocalNO: (b, inputs, *space) → (b, outputs, *space)."""

    paper: ClassVar[str] = (
        "Liu-Schiaffini et al. 2024, as the neuraloperator library builds it (2.0, 2025)"
    )
    sizes: ClassVar[dict[str, dict[str, Any]]] = NeuralopFNO.sizes

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = s = PeerSettings(**settings)
        from neuralop.models import LocalNO as Theirs

        modes = {_PADDING_MODE.get(name) for name in s.boundaries}
        if len(modes) > 1 or None in modes:
            raise ValueError(
                f"neuraloperator's LocalNO takes one boundary for all axes, periodic, dirichlet "
                f"or neumann, got {s.boundary}."
            )
        self.guest = Guest(
            Theirs(
                n_modes=s.n_modes,
                in_channels=s.inputs,
                out_channels=s.outputs,
                hidden_channels=s.width,
                n_layers=s.layers,
                default_in_shape=(s.points,) * s.dims,
                disco_layers=s.dims == 2,
                conv_padding_mode=modes.pop(),
                domain_padding=s.domain_padding,
                positional_embedding=None,
            )
        )

    @property
    def locality(self) -> Locality:
        return Locality.everywhere(self.settings.dims)

    def forward(self, u: Field) -> Field:
        check_field(u, self.settings, "neuraloperator's LocalNO")
        return self.guest(u)


def fno_from_neuralop(theirs: Any, boundary: str = "periodic") -> FNO:
    """Our FNO with the shape and the weights of one of neuraloperator's.

    It must have neither positional embedding nor domain padding nor norm, and an even number of
    modes.  Without a channel network the library applies its activation twice, so such a
    network is the same as ours only where twice is once, as for ReLU.
    """
    weights = dict(theirs.named_parameters())
    dims, width = len(theirs.n_modes), theirs.hidden_channels
    if theirs.positional_embedding is not None or theirs.domain_padding is not None:
        raise ValueError(
            "fno_from_neuralop takes an FNO without positional embedding and domain padding."
        )
    if any(n % 2 for n in theirs.n_modes):
        raise ValueError(f"n_modes should be even on every axis, got {theirs.n_modes}.")
    mlp = weights.get("fno_blocks.channel_mlp.0.fcs.0.weight")
    lift_is_deep = "lifting.fcs.1.weight" in weights
    ours = FNO(
        dims=dims,
        inputs=theirs.in_channels,
        outputs=theirs.out_channels,
        boundary=boundary,
        width=width,
        modes=(*(n // 2 for n in theirs.n_modes[:-1]), theirs.n_modes[-1] // 2 + 1),
        layers=theirs.n_layers,
        head=len(weights["projection.fcs.0.weight"]),
        padding=0,
        activation="relu" if theirs.non_linearity is torch.nn.functional.relu else "gelu",
        lift=len(weights["lifting.fcs.0.weight"]) if lift_is_deep else 0,
        channel_mlp=0.0 if mlp is None else len(mlp) / width,
    )
    ours.load_state_dict(_renamed(weights, ours))
    return ours


def _renamed(weights: dict[str, Tensor], ours: FNO) -> dict[str, Tensor]:
    """neuraloperator's weights under our names and in our order of axes."""
    state: dict[str, Tensor] = {}

    def matrices(name: str, stem: str, count: int) -> None:
        for index, part in enumerate(("first", "last")[2 - count :]):
            state[f"{name}.{part}.weight"] = weights[f"{stem}.fcs.{index}.weight"][..., 0]
            state[f"{name}.{part}.bias"] = weights[f"{stem}.fcs.{index}.bias"]

    matrices("lift", "lifting", 2 if ours.settings.lift else 1)
    matrices("project", "projection", 2)
    for layer in range(ours.settings.layers):
        spectral = weights[f"fno_blocks.convs.{layer}.weight.tensor"]
        # Theirs begin with the most negative frequency, ours with zero.
        for axis, modes in enumerate(ours.settings.modes_per_axis[:-1], start=2):
            spectral = spectral.roll(-modes, axis)
        spectral = spectral.movedim((0, 1), (-2, -1))
        name, stem = f"layers.{layer}", "fno_blocks"
        state[f"{name}.spectral.weight"] = torch.stack([spectral.real, spectral.imag])
        state[f"{name}.local.weight"] = weights[f"{stem}.fno_skips.{layer}.conv.weight"][..., 0]
        state[f"{name}.local.bias"] = weights[f"{stem}.convs.{layer}.bias"].flatten()
        if ours.settings.channel_mlp:
            matrices(f"{name}.mlp", f"{stem}.channel_mlp.{layer}", 2)
            state[f"{name}.gate"] = weights[f"{stem}.channel_mlp_skips.{layer}.weight"][0]
    return state


MODELS.setdefault("neuralop-fno", NeuralopFNO)
MODELS.setdefault("neuralop-local-no", NeuralopLocalNO)
