"""A trained model as the start for other data.

model, kept = begin_from(fino.pretrained("shallow-water"), data)

With the same fields everything is kept, so that training begins at the trained model.  With other
fields the network is built for them with the same width and depth: weights of the same shape are
kept, those of the first and last layers are kept for the fields of the same name and drawn anew
for the others, and the scaling and the linear prior are those of the new data.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fino.data.dataset import Dataset
from fino.model.build import build
from fino.model.emulator import Emulator

__all__ = ["begin_from"]

#: Settings of a network that follow from the data.
_FROM_DATA = ("dims", "inputs", "outputs", "boundary", "parameters")


def begin_from(source: Emulator, data: Dataset, seed: int = 0) -> tuple[Emulator, str]:
    """A model for these data that begins with what another has learned, and what was kept."""
    told = source.settings
    if source.grid.dims != data.grid.dims or told.steady != data.steady:
        kind = {True: "steady", False: "moving"}
        raise ValueError(
            f"the model is for {source.grid.dims}D {kind[told.steady]} data, and {data.card.name} "
            f"is {data.grid.dims}D and {kind[data.steady]}. Train from scratch: leave out --from."
        )
    network = source.network.settings.model_dump(exclude=set(_FROM_DATA))  # type: ignore[operator, union-attr]
    same = told.fields == data.fields
    model = build(
        told.model,
        data,
        history=told.history,
        predict=told.predict if same else None,
        coordinates=told.coordinates,
        edges=told.edges,
        seed=seed,
        **network,
    )
    old, new = source.state_dict(), model.state_dict()
    if same and {n: t.shape for n, t in old.items()} == {n: t.shape for n, t in new.items()}:
        model.load_state_dict(old)
        return model, f"all {model.parameters_count:,} weights, the scaling and the linear prior"
    return model, _widen(source, model)


def _widen(source: Emulator, model: Emulator) -> str:
    """Copy what fits, channel by channel where the fields differ; how much was kept."""
    places = {"inputs": _inputs(source, model), "outputs": _outputs(source, model)}
    sizes = {
        "inputs": (source.settings.inputs(source.grid), model.settings.inputs(model.grid)),
        "outputs": (source.channels, model.channels),
    }
    kept = 0
    old = dict(source.network.named_parameters())
    with torch.no_grad():
        for name, new in model.network.named_parameters():
            before = old.get(name)
            if before is None or before.dim() != new.dim():
                continue
            if before.shape == new.shape:
                new.copy_(before)
                kept += new.numel()
                continue
            pairs = [_match(a, b, sizes) for a, b in zip(before.shape, new.shape, strict=True)]
            if None in pairs:
                continue
            index: list[tuple[Tensor, Tensor]] = []
            for pair, size in zip(pairs, new.shape, strict=True):
                whole = torch.arange(size)
                index.append((whole, whole) if pair in (None, "") else places[pair])
            theirs = torch.meshgrid(*[old for old, _ in index], indexing="ij")
            ours = torch.meshgrid(*[new for _, new in index], indexing="ij")
            new[ours] = before[theirs]
            kept += theirs[0].numel()
    fields = [f for f in model.settings.fields if f in source.settings.fields]
    return (
        f"{kept:,} of {model.parameters_count:,} weights; fields known from before: "
        f"{', '.join(fields) or 'none'}; scaling and linear prior are those of the new data"
    )


def _match(old: int, new: int, sizes: dict[str, tuple[int, int]]) -> str | None:
    """Which channels an axis of a weight counts: "" if it is alike, None if it does not fit."""
    if old == new:
        return ""
    return next((name for name, pair in sizes.items() if pair == (old, new)), None)


def _outputs(source: Emulator, model: Emulator) -> tuple[Tensor, Tensor]:
    """The places of the fields that both have, in the one and in the other."""
    old, new = source.settings.fields, model.settings.fields
    pairs = [(old.index(field), new.index(field)) for field in new if field in old]
    found = torch.tensor(pairs, dtype=torch.long).view(-1, 2)
    return found[:, 0], found[:, 1]


def _inputs(source: Emulator, model: Emulator) -> tuple[Tensor, Tensor]:
    """The same among the inputs: each frame of the history, then the positions."""
    fields = torch.stack(_outputs(source, model), dim=1)
    frames = torch.arange(model.history)[:, None, None]
    counts = torch.tensor([source.channels, model.channels])
    shown = (frames * counts + fields).flatten(0, 1)
    ends = [m.history * m.channels for m in (source, model)]
    rest = [m.positions().shape[0] for m in (source, model)]
    if rest[0] == rest[1]:
        beside = torch.arange(rest[0])[:, None] + torch.tensor(ends)
        shown = torch.cat([shown, beside])
    return shown[:, 0], shown[:, 1]
