"""Which trajectories are for training, for validation and for the test: three disjoint parts.

The default follows PDEBench's single-file convention: the first tenth is the test part.  Its
multi-file convention, the last tenth, is the rule "last".  PDEBench chooses checkpoints on the
test part itself; here a tenth of what remains is put aside for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from pydantic import model_validator

from fino.settings import Settings, did_you_mean

__all__ = ["Split", "split_by_rule", "split_by_share", "split_in_time"]

_PARTS = ("train", "validation", "test")

_RULES = {
    "first": "test = first 10 %, validation = next 10 %, train = rest",
    "last": "test = last 10 %, validation = the 10 % before it, train = rest",
}

Ranges = tuple[tuple[int, int], ...]


class Split(Settings):
    """Three disjoint sets of samples, each as [start, stop) ranges: ((0, 80), (90, 100))."""

    rule: str = "chosen by hand"
    """How the parts were chosen, in words."""
    train: Ranges = ()
    """Samples that the weights are fitted to, and the only ones that scaling looks at."""
    validation: Ranges = ()
    """Samples that the checkpoint is chosen by."""
    test: Ranges = ()
    """Samples that the final scores are measured on."""

    @model_validator(mode="after")
    def _check_disjoint(self) -> Split:
        owners = sorted((a, b, part) for part in _PARTS for a, b in getattr(self, part))
        for start, stop, part in owners:
            if start < 0 or stop <= start:
                raise ValueError(f"the {part} part has an empty range ({start}, {stop}).")
        for (_, stop, left), (start, _, right) in pairwise(owners):
            if start < stop:
                raise ValueError(
                    f"sample {start} is in the {left} part and in the {right} part; "
                    "train, validation and test should be disjoint."
                )
        return self

    @classmethod
    def of(cls, rule: str, **parts: Iterable[int]) -> Split:
        """A split from plain sample numbers: Split.of("by year", train=…, test=…)."""
        return cls(rule=rule, **{name: _ranges(parts.get(name, ()), name) for name in _PARTS})

    @property
    def stop(self) -> int:
        """One more than the largest sample in any part."""
        return max((b for part in _PARTS for _, b in getattr(self, part)), default=0)

    def samples(self, part: str) -> tuple[int, ...]:
        """The sample numbers of a part, in order."""
        return tuple(i for a, b in getattr(self, part) for i in range(a, b))

    def chosen(self, samples: Sequence[int]) -> Split:
        """The same parts after only `samples` are kept, renumbered in their order."""
        owner = {i: part for part in _PARTS for i in self.samples(part)}
        kept = {
            part: [new for new, old in enumerate(samples) if owner.get(old) == part]
            for part in _PARTS
        }
        return Split.of(self.rule, **kept)

    def describe(self) -> str:
        """The rule and the size of each part, in a line."""
        sizes = ", ".join(f"{part} {sum(b - a for a, b in getattr(self, part))}" for part in _PARTS)
        return f"{self.rule} ({sizes})"


def split_by_rule(samples: int, rule: str = "first") -> Split:
    """The conventional split of `samples` trajectories: a tenth, a tenth of the rest, the rest.

    Two samples make a train and a test part, a single one is all train.
    """
    if rule not in _RULES:
        raise ValueError(f"Unknown split '{rule}'. {did_you_mean(rule, tuple(_RULES))}")
    tests = max(1, samples // 10) if samples > 1 else 0
    checks = max(1, (samples - tests) // 10) if samples > 2 else 0
    ends = {
        "test": (0, tests),
        "validation": (tests, tests + checks),
        "train": (tests + checks, samples),
    }
    if rule == "last":
        ends = {part: (samples - stop, samples - start) for part, (start, stop) in ends.items()}
    return Split(rule=_RULES[rule], **{p: (ends[p],) for p in _PARTS if ends[p][0] < ends[p][1]})


def split_by_share(samples: int, **wanted: int | float | Iterable[int] | None) -> Split:
    """A split by counts (80), shares (0.8) or sample numbers ([0, 1, 5]) for each part by name.

    Parts given as counts or shares are laid out in the order test, validation, train; a part that
    is not given is empty, except that train takes what remains.
    """
    parts: dict[str, list[int]] = {
        name: [int(i) for i in value]
        for name, value in wanted.items()
        if value is not None and not isinstance(value, int | float)
    }
    taken = {i for numbers in parts.values() for i in numbers}
    free = [i for i in range(samples) if i not in taken]
    for name in reversed(_PARTS):
        value = wanted.get(name)
        if isinstance(value, int | float):
            if isinstance(value, bool) or value < 0 or (isinstance(value, float) and value > 1):
                raise ValueError(
                    f"the {name} part should be a count, a share between 0 and 1, or sample "
                    f"numbers, got {value!r}."
                )
            count = value if isinstance(value, int) else round(value * samples)
            if count > len(free):
                raise ValueError(
                    f"the {name} part wants {count} samples but only {len(free)} of {samples} "
                    "are left. Ask for fewer."
                )
            parts[name], free = free[:count], free[count:]
    parts.setdefault("train", free)
    for name, numbers in parts.items():
        if numbers and not 0 <= min(numbers) <= max(numbers) < samples:
            raise ValueError(
                f"the {name} part should hold sample numbers from 0 to {samples - 1}, "
                f"got {min(numbers)} … {max(numbers)}."
            )
    return Split.of("chosen by hand", **parts)


def split_in_time(
    frames: int,
    window: int,
    shown: int,
    test: int | float | None = None,
    validation: int | float | None = None,
) -> Split:
    """The stretches of `window` frames, `shown` first, of one trajectory: the last frames test.

    A stretch is for the part in which the frames lie that it has to predict; those shown may lie
    in the part before.  What would predict frames of two parts is in none.
    """
    ends = {"test": test, "validation": validation}
    usual = max(round(0.1 * frames), window - shown)  # room for one stretch at least
    kept = {k: usual if n is None else _count(n, frames, k) for k, n in ends.items()}
    stop = {"test": frames, "validation": frames - kept["test"]}
    stop["train"] = stop["validation"] - kept["validation"]
    begin = {"train": shown, "validation": stop["train"], "test": stop["validation"]}
    parts = {
        part: range(max(0, begin[part] - shown), max(0, stop[part] - window + 1)) for part in stop
    }
    for part in ("train", "test"):
        if not parts[part]:
            raise ValueError(
                f"the {part} part has no room for a window of {window} frames: it has the frames "
                f"{begin[part]} to {stop[part]} to predict. Use a shorter window or other parts."
            )
    rule = f"by time: the last {kept['test']} frames test, {kept['validation']} before validate"
    return Split.of(rule, **parts)


def _count(value: int | float, frames: int, part: str) -> int:
    """Frames of a part, from a count (30) or a share (0.3)."""
    count = round(value * frames) if value < 1 else int(value)
    if value < 0 or count >= frames:
        raise ValueError(
            f"the {part} part should be a count of frames below {frames}, or a share, got {value}."
        )
    return count


def _ranges(samples: Iterable[int], name: str) -> Ranges:
    ordered = sorted(int(i) for i in samples)
    ranges: list[tuple[int, int]] = []
    for i in ordered:
        if ranges and i < ranges[-1][1]:
            raise ValueError(f"sample {i} is listed twice in the {name} part.")
        if ranges and i == ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], i + 1)
        else:
            ranges.append((i, i + 1))
    return tuple(ranges)
