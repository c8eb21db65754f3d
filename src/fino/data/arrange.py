"""What the named arrays of a file mean: which are fields, which axis is which, where the grid lies.

    arrange(variables, "mine", array="u", axes="sample time x", dt=0.01, extent="0:1",
            boundary="periodic")

What the file says itself (names of axes, coordinates) is taken from it, what is said here comes
first, and what follows from the shapes alone is a guess that the card repeats.  What nothing says
is asked for in one line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fino.data.arrays import check_rounding, hold, make_dataset, read_names
from fino.data.dataset import Dataset
from fino.data.frames import (
    ArrayFrames,
    FieldFrames,
    Frames,
    GuardedFrames,
    View,
    as_text,
    find_axis,
    find_clock,
)
from fino.data.readers import Variable
from fino.settings import did_you_mean

__all__ = ["OPTIONS", "arrange"]

#: Options of `arrange` that a user can give for any file.
OPTIONS = (
    *("array", "inputs", "axes", "dt", "extent", "boundary", "fields"),
    *("parameters", "known", "forcing", "mask", "walls", "name", "history"),
    *("symmetries", "directions"),
)

#: What axes are called; any other name is an axis of space.
_NAMES = {
    "s": (
        *("sample", "samples", "batch", "trajectory", "trajectories", "simulation", "sim", "run"),
        *("member", "ensemble", "realization", "case", "number", "n", "b", "s"),
    ),
    "t": ("time", "times", "t", "step", "steps", "frame", "frames", "valid_time", "tspan"),
    "c": ("channel", "channels", "field", "fields", "variable", "component", "feature", "c"),
}
_LETTERS = {name: letter for letter, names in _NAMES.items() for name in names}

#: Names of coordinates where a file does not tie them to its arrays.
_LINES = {
    "t": (*_NAMES["t"][:3], "t-coordinate", "t_coordinate"),
    "x": ("x", "xs", "x-coordinate", "x_coordinate", "grid_x"),
    "y": ("y", "ys", "y-coordinate", "y_coordinate", "grid_y"),
    "z": ("z", "zs", "z-coordinate", "z_coordinate", "grid_z"),
}

#: Pairs of names that people give to the question and the answer of a steady problem.
_PAIRS = (
    *(("x", "y"), ("a", "u"), ("input", "output"), ("inputs", "outputs"), ("coeff", "sol")),
    *(("X", "Y"), ("x", "u"), ("nu", "u")),
)

#: Channels that an axis without a name may have to be taken for one of channels.
_FEW = 4

#: Bytes of single precision that are read at once; of larger arrays frames are read on demand.
_AT_ONCE = 2**28

Variables = Mapping[str, Variable]


def arrange(
    variables: Variables,
    place: str,
    path: Path | None = None,
    *,
    array: Any = None,
    inputs: Any = None,
    axes: Any = None,
    dt: Any = None,
    extent: Any = None,
    boundary: Any = None,
    fields: Any = None,
    parameters: Any = None,
    known: Any = None,
    forcing: Any = None,
    mask: Any = None,
    symmetries: Any = None,
    directions: Any = None,
    usual: Mapping[str, Any] | None = None,
    **facts: Any,
) -> Dataset:
    """A data set of named arrays; `fino.open` explains the options.  `place` is a name for them."""
    usual = usual or {}
    if array is None and inputs is None:
        array, inputs = usual.get("array"), usual.get("inputs")
    axes = usual.get("axes") if axes is None else axes
    fields = usual.get("fields") if fields is None else fields
    beside = {"parameters": parameters, "known": known, "forcing": forcing, "mask": mask}
    beside = {kind: usual.get(kind) if given is None else given for kind, given in beside.items()}
    named = [word for value in (inputs, *beside.values()) for word in read_names(value)]
    asked, answers, guesses = _choose(variables, read_names(array), read_names(inputs), named)
    steady = bool(asked)
    words = " ".join(read_names(axes)).split()
    letters = _find_axes(variables, [*answers, *asked], words, steady, guesses)
    views = {name: variables[name].view(letters[name]) for name in letters}
    frames = FieldFrames(tuple(views[n] for n in answers), tuple(views[n] for n in asked))
    _check_alike(views)
    first = answers[0]
    lines = _find_lines(variables, first, letters[first])
    guesses += _find_unused(variables, letters[first], frames.shape[0], [*letters, *named])
    told = {"dt": dt, "extent": extent, "boundary": boundary}
    facts |= _find_grid(lines, frames.shape, steady, told, usual)
    facts |= {
        "name": facts.get("name", place),
        "fields": read_names(fields) or _labels(views, answers),
    }
    named_axes = words if len(words) == len(letters[first]) else variables[first].dims
    facts["axes"] = _name_axes(named_axes, letters[first])
    facts["symmetries"] = tuple(read_names(symmetries))
    facts["directions"] = _find_directions(directions, facts["axes"], frames.shape[3:])
    facts["units"] = _find_units(variables, views, answers)
    if not steady and dt is None:
        facts["time_unit"] = _find_time_unit(variables, first, letters[first])
    facts["guesses"] = tuple(guesses)
    found = _find_beside(variables, beside, letters[first], frames.shape[0])
    if asked:
        frames, facts["inputs"], more = _split_inputs(frames, _labels(views, asked))
        found["known"] = {**more, **found["known"]}
    facts |= {"steady": steady, "path": path}
    outside = found.pop("mask")
    return _build(frames, found, outside, facts)


def _build(frames: FieldFrames, beside: Any, outside: Any, facts: dict[str, Any]) -> Dataset:
    """Hold what is small in memory, where cells without numbers become a mask; read the rest."""
    samples, *rest = frames.shape
    everywhere = (slice(None),) * (len(rest) - 2)
    source: Frames = frames
    if 4 * samples * math.prod(rest) <= _AT_ONCE:
        numbers = np.stack([frames.read_one(i, slice(None), everywhere) for i in range(samples)])
        held, outside, _ = hold(numbers, outside, facts["fields"], facts["steady"])
        source = ArrayFrames(held)
    else:
        some = np.stack([frames.read_one(i, slice(None), everywhere) for i in (0, samples - 1)])
        check_rounding(some, some.astype(np.float32))
        if outside is not None:
            outside = outside[None] if outside.ndim == len(everywhere) else outside
    path = facts["path"]
    return make_dataset(GuardedFrames(source, path or Path("the data")), beside, outside, **facts)


def _split_inputs(
    frames: FieldFrames, names: tuple[str, ...]
) -> tuple[FieldFrames, tuple[str, ...], dict[str, np.ndarray]]:
    """The inputs that fit into a frame of the answer's channels; the others are known fields."""
    channels = [
        View(view.array, tuple(channel if axis == "c" else axis for axis in view.axes))
        for view in frames.inputs
        for channel in range(view.size("c"))
    ]
    room, every = frames.shape[2], (slice(None),) * (len(frames.shape) - 3)
    more = {
        name: np.stack([view.read(i, slice(None), every)[0, 0] for i in range(frames.shape[0])])
        for name, view in zip(names[room:], channels[room:], strict=True)
    }
    return FieldFrames(frames.fields, tuple(channels[:room])), names[:room], more


def _choose(
    variables: Variables, array: list[str], inputs: list[str], named: Sequence[str]
) -> tuple[list[str], list[str], list[str]]:
    """The inputs of a steady problem (none if it moves), the fields to predict, and guesses."""
    for name in (*array, *inputs, *named):
        _check_name(variables, name)
    if array:
        return inputs, array, []
    inside = [
        name
        for name, v in variables.items()
        if v.is_number and 0 not in v.shape and sum(size > 1 for size in v.shape) > 1
    ]
    free = [n for n in inside if n not in named]
    if not free:
        held = ", ".join(f"{n} {v.shape}" for n, v in list(variables.items())[:8]) or "nothing"
        odd = [n for n, v in variables.items() if v.kind == "c"]
        hint = f" {odd[0]} is complex: save its real and imaginary parts." if odd else ""
        raise ValueError(f"it has no array of trajectories in it. It holds {held}.{hint}")
    for question, answer in () if inputs else _PAIRS:
        if question in free and answer in free:
            if variables[question].shape == variables[answer].shape:
                words = f"steady, {question} → {answer} (inputs, array)"
                return [question], [answer], [words]
            break
    axes = max(len(variables[n].shape) for n in free)
    most = [n for n in free if len(variables[n].shape) == axes]
    shapes = {variables[n].shape for n in most}
    if len(shapes) > 1:
        held = ", ".join(f"{n} {variables[n].shape}" for n in most[:6])
        raise ValueError(f"which array? It holds {held}: say array=… (--array {most[0]}).")
    unused = [n for n in inside if n not in most and n not in named]
    words = f"predicted: {', '.join(most)} (array)"
    words += f"; not used: {', '.join(unused)}" if unused else ""
    return inputs, most, [words] if len(inside) > 1 else []


def _check_name(variables: Variables, name: str) -> None:
    if name not in variables:
        held = ", ".join(f"{n} {v.shape}" for n, v in list(variables.items())[:8]) or "nothing"
        hint = did_you_mean(name, list(variables)) if variables else ""
        hint = hint if hint.startswith("Did") else f"It holds {held}."
        raise ValueError(f"it has no array '{name}'. {hint}")
    kind = variables[name].kind
    if kind == "c":
        raise ValueError(f"'{name}' is complex: save its real and imaginary parts as two arrays.")
    if not variables[name].is_number and kind != "M":
        raise ValueError(f"'{name}' should hold numbers, but does not.")
    if 0 in variables[name].shape:
        raise ValueError(f"'{name}' is empty: its shape is {variables[name].shape}.")


def _find_axes(
    variables: Variables, names: list[str], words: list[str], steady: bool, guesses: list[str]
) -> dict[str, tuple[str | int, ...]]:
    """The axes of every array as letters: as told, by the file's own names, or guessed."""
    found: dict[str, tuple[str | int, ...]] = {}
    for name in names:
        variable = variables[name]
        shape = variable.shape
        if words and (len(words) == len(shape) or not found):
            if len(words) != len(shape):
                raise ValueError(
                    f"axes should name each of the {len(shape)} axes of '{name}' {shape}, such as "
                    f"'{_spelt(_templates(shape, steady)[0])}', got '{' '.join(words)}'."
                )
            found[name] = _letters(words, shape)
        elif variable.dims and not any("dim_" in dim for dim in variable.dims):
            found[name] = _letters(variable.dims, shape)
        else:
            choices = _templates(shape, steady)
            fits = [c for c in choices if _fits(variables, name, c, shape)]
            found[name] = tuple((fits or choices)[0])
            guesses.append(f"axes of {name} {shape}: {_spelt(found[name])} (axes)")
        space = [a for a in found[name] if isinstance(a, str) and a in "xyz"]
        if not 1 <= len(space) <= 3:
            raise ValueError(
                f"'{name}' {shape} should have one to three axes of space, got "
                f"'{_spelt(found[name])}'. Say what each is: axes='sample time x' (--axes)."
            )
        if not steady and "t" not in found[name]:
            raise ValueError(
                f"'{name}' {shape} has no axis of time: '{_spelt(found[name])}'. Say which it is "
                "with axes (--axes 'sample time x'), or name the inputs of a steady problem "
                "(--inputs a)."
            )
    return found


def _letters(words: Sequence[str], shape: Sequence[int]) -> tuple[str | int, ...]:
    """One letter for each named axis; an axis of space that has a single point is left out."""
    letters: list[str | int] = []
    space = iter("xyz?")
    for word, size in zip(words, shape, strict=True):
        letter = _LETTERS.get(word.lower())
        if letter is None:
            letter = next(space, "?") if size > 1 else None
        letters.append(0 if letter is None else letter)
    if "?" in letters or any(letters.count(a) > 1 for a in "stc"):
        raise ValueError(
            f"axes should name sample, time and channel at most once and one to three axes of "
            f"space, got '{' '.join(words)}'."
        )
    return tuple(letters)


def _templates(shape: Sequence[int], steady: bool) -> list[str]:
    """The orders of axes that so many may have, the likeliest first."""
    count, few = len(shape), lambda axis: -len(shape) <= axis < len(shape) and shape[axis] <= _FEW
    lead = "s" if steady else "st"
    bare = [] if steady else ["t"]
    found = []
    for begin in (lead, *bare):
        space = "xyz"[: count - len(begin)]
        channels = "xyz"[: count - len(begin) - 1]
        with_channel = [f"{begin}c{channels}"] if channels and few(len(begin)) else []
        with_channel += [f"{begin}{channels}c"] if channels and few(-1) else []
        found += [*with_channel, begin + space] if space else []
    if not steady and count > 2:
        found.append(f"s{'xyz'[: count - 2]}t")
    return [order for order in found if len(order) == count] or ["stxyzc"[:count]]


def _fits(variables: Variables, name: str, order: str, shape: Sequence[int]) -> bool:
    """Whether the coordinates beside an array agree with an order of its axes."""
    lines = {
        letter: _line(variables, _LINES[letter], name, None) for letter in "txyz" if letter in order
    }
    return all(
        line is None or len(line) == shape[order.index(letter)] for letter, line in lines.items()
    )


def _spelt(letters: Sequence[str | int]) -> str:
    names = {"s": "sample", "t": "time", "c": "channel"}
    return " ".join(names.get(str(a), str(a)) for a in letters)


def _check_alike(views: Mapping[str, View]) -> None:
    """All arrays have the same samples, times and points."""
    shapes = {n: (*v.shape[:2], *v.shape[3:]) for n, v in views.items()}
    if len(set(shapes.values())) > 1:
        held = ", ".join(f"{n} {s}" for n, s in shapes.items())
        raise ValueError(f"its arrays should have the same samples, times and points, got {held}.")


def _find_lines(
    variables: Variables, name: str, letters: Sequence[str | int]
) -> dict[str, np.ndarray | None]:
    """The coordinates of the axes of time and space; None where there are none."""
    variable = variables[name]
    dims = variable.dims or ("",) * len(letters)
    return {
        letter: _line(variables, (dim, *_LINES[letter]), name, size)
        for letter, dim, size in zip(letters, dims, variable.shape, strict=True)
        if isinstance(letter, str) and letter in "txyz"
    }


def _line(
    variables: Variables, names: Sequence[str], owner: str, size: int | None
) -> np.ndarray | None:
    """The first array of those names that is a list of coordinates, of that length if given."""
    for name in names:
        variable = variables.get(name)
        if variable is None or name == owner or max(variable.shape, default=1) < 2:
            continue
        length = math.prod(variable.shape)
        if length != max(variable.shape) or length > 2**20 or size not in (None, length):
            continue
        if variable.is_number or variable.kind == "M":
            values = variable.load().reshape(-1)
            if variable.kind == "M":
                values = (values - values[0]) / np.timedelta64(1, "h")
            return np.asarray(values, dtype=np.float64)
    return None


def _find_grid(
    lines: Mapping[str, np.ndarray | None],
    shape: Sequence[int],
    steady: bool,
    told: Mapping[str, Any],
    usual: Mapping[str, Any],
) -> dict[str, Any]:
    """Time step, edges and boundary: as told, else by the coordinates, as usual, or asked for."""
    found: dict[str, Any] = dict(told)
    clock = lines.get("t")
    if not steady and found["dt"] is None and clock is not None:
        start, step = find_clock(clock, shape[1])
        found |= {"start": start, "dt": step}
        steps = np.diff(clock)
        if not np.allclose(steps, step, rtol=1e-2):
            raise ValueError(
                f"its times are not evenly spaced: frames are {steps.min():.6g} to "
                f"{steps.max():.6g} apart. To take them as evenly spaced, add dt={step:g} "
                f"(--dt {step:g})."
            )
    if found["extent"] is None and all(lines[a] is not None for a in lines if a != "t"):
        axes = [find_axis(lines[a], n) for a, n in zip("xyz", shape[3:], strict=False)]
        if not all(even for _, _, even in axes):
            raise ValueError(
                "its coordinates are not evenly spaced. Give extent=… (--extent) to take them so."
            )
        found |= {"extent": [e for e, _, _ in axes], "offset": tuple(o for _, o, _ in axes)}
    ask = {
        "dt": ("the time between two frames", "--dt 0.01"),
        "extent": ("the edges of the domain", "--extent 0:1"),
        "boundary": ("what lies beyond them", "--boundary periodic"),
    }
    found |= {key: usual.get(key) for key in ask if found[key] is None}
    missing = [k for k in ask if found[k] is None and not (steady and k == "dt")]
    if missing:
        what = " and ".join(
            filter(None, (", ".join(ask[k][0] for k in missing[:-1]), ask[missing[-1]][0]))
        )
        what = "what lies beyond the edges of the domain" if missing == ["boundary"] else what
        sides = ""
        if "boundary" in missing:
            sides = "; a boundary is periodic, dirichlet, neumann or reflect, or one for each axis"
        raise ValueError(
            f"it does not say {what}. Add {' '.join(ask[k][1] for k in missing)} with your own "
            f"values (the same words are keywords in Python{sides})."
        )
    if steady:
        found["dt"] = None
    return found


def _labels(views: Mapping[str, View], names: Sequence[str]) -> tuple[str, ...]:
    """A name for each channel of some arrays, without the folders that they lie in."""
    short = [name.rsplit("/")[-1].strip() for name in names]
    short = short if len(set(short)) == len(short) else [name.replace("/", "_") for name in names]
    labels: list[str] = []
    for name, label in zip(names, short, strict=True):
        count = views[name].size("c")
        labels += [label] if count == 1 else [f"{label}{i}" for i in range(count)]
    return tuple(labels)


def _name_axes(words: Sequence[str], letters: Sequence[str | int]) -> tuple[str, ...]:
    """What the axes of space are called, where the file or the user has names for them."""
    if not words or any("dim_" in word for word in words):
        return ()
    pairs = zip(words, letters, strict=True)
    return tuple(w.rsplit("/")[-1] for w, a in pairs if isinstance(a, str) and a in "xyz")


def _find_directions(
    directions: Any, axes: Sequence[str], points: Sequence[int]
) -> tuple[int | None, ...]:
    """'-,x,y' → (None, 0, 1): the axis that each field points along, by name or number."""
    if not isinstance(directions, str):
        return tuple(directions or ())
    names = list(axes) or list("xyz")[: len(points)]
    known = {"-": None} | {str(i): i for i in range(len(points))}
    known |= {name: i for i, name in enumerate(names)}
    words = read_names(directions)
    for word in words:
        if word not in known:
            raise ValueError(
                f"directions should be '-' for a scalar or one of {', '.join(names)} for each "
                f"field, such as '-,{','.join(names)}', got '{word}'."
            )
    return tuple(known[word] for word in words)


def _find_units(
    variables: Variables, views: Mapping[str, View], names: Sequence[str]
) -> tuple[str, ...]:
    """The unit of each channel, if the file has one for every field."""
    found = [as_text(variables[name].attributes.get("units", "")).strip() for name in names]
    if not all(found):
        return ()
    pairs = zip(names, found, strict=True)
    return tuple(unit for name, unit in pairs for _ in range(views[name].size("c")))


def _find_time_unit(variables: Variables, name: str, letters: Sequence[str | int]) -> str:
    """What time is counted in: "days" of "days since 2020-01-01"; "" if nothing says it."""
    dims = variables[name].dims
    own = [dim for dim, letter in zip(dims, letters, strict=False) if letter == "t"]
    for line in (*own, *_LINES["t"]):
        if (variable := variables.get(line)) is not None:
            if variable.kind == "M":
                return "hours"  # as `_line` counts dates
            return as_text(variable.attributes.get("units", "")).split(" since ")[0].strip()
    return ""


def _find_unused(
    variables: Variables, letters: Sequence[str | int], samples: int, used: Sequence[str]
) -> list[str]:
    """A guess that names the arrays of one number for each sample that models are not given."""
    if samples < 2:
        return []
    first = variables[used[0]]
    along = {first.dims[i] for i, letter in enumerate(letters) if letter == "s" and first.dims}
    lines = {name for names in _LINES.values() for name in names} | {*first.dims}
    free = [
        name
        for name, v in variables.items()
        if v.is_number and math.prod(v.shape) == max(v.shape, default=0) == samples
        if name not in {*used, *lines} and (not along or not along.isdisjoint(v.dims))
    ]
    words = f"not given to models: {', '.join(free[:6])}, one number for each sample (parameters)"
    return [words] if free else []


def _find_beside(
    variables: Variables, wanted: Mapping[str, Any], letters: Sequence[str | int], samples: int
) -> dict[str, Any]:
    """Parameters, known fields, forcing and mask: by the names of arrays, or as arrays by name."""
    found: dict[str, Any] = {}
    for kind, value in wanted.items():
        if isinstance(value, Mapping):
            found[kind] = dict(value)
            continue
        names = read_names(value)
        found[kind] = {n.rsplit("/")[-1]: _in_order(variables[n], letters) for n in names}
        if kind == "parameters":
            found[kind] = {n: np.squeeze(v) for n, v in found[kind].items()}
            found[kind] = {n: v if v.ndim else float(v) for n, v in found[kind].items()}
        if kind == "mask" and not names:
            found[kind] = {} if value is None else {"mask": np.asarray(value)}
    masks = list(found["mask"].values())
    found["mask"] = masks[0].astype(bool) if masks else None
    return found


def _in_order(variable: Variable, letters: Sequence[str | int]) -> np.ndarray:
    """An array with its axes in the order sample, time, space, where their names are known."""
    values = variable.load()
    if not variable.dims:
        return values
    own = [_LETTERS.get(dim.lower(), "x") for dim in variable.dims]
    return values.transpose(sorted(range(len(own)), key=lambda i: "stcx".index(own[i])))
