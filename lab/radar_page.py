"""The page of the radar rain: its tables and figures from kept scores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from PIL import Image

from fino.report.look import drawn, logarithmic, save
from lab.readme import fill

__all__ = ["draw_movie", "draw_scores", "headline", "tables", "write_page"]

#: What each method is called, in the order of the tables.
NAMES = {
    "persistence": "the last image again",
    "shift": "one shift for all",
    "extrapolation": "pysteps, extrapolation",
    "sprog": "pysteps, S-PROG",
    "unet": "U-Net of equal cost",
    "fino-shift": "FINO, one shift for all",
    "fino": "FINO",
    "fino-matched": "FINO, matched",
    "fino-mean": "FINO, mean of {}",
    "fino-mean-matched": "FINO, mean of {}, matched",
}
_MEMBERS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 8: "eight"}
#: Lead times of the tables, as places among the frames.
LEADS = {5: 0, 15: 2, 30: 5, 60: 11}

Found = Mapping[str, Any]


def write_page(
    found: Found, page: Path = Path("docs/radar.md"), readme: Path = Path("README.md")
) -> list[Path]:
    """Put the tables between the marks of the page, and the line into the README."""
    return [fill(page, "scores", tables(found)), fill(readme, "radar", headline(found))]


def tables(found: Found) -> str:
    """Errors, hits and ratios as Markdown."""
    methods = {name: found["methods"][name] for name in NAMES if name in found["methods"]}
    ahead = " | ".join(f"{minutes} min" for minutes in LEADS)
    lines = [f"| nRMSE | {ahead} |", "| --- |" + " --- |" * len(LEADS)]
    best = [min(m["nrmse"][i] for m in methods.values()) for i in LEADS.values()]
    for name, scores in methods.items():
        cells = [_cell(scores["nrmse"][i], b) for i, b in zip(LEADS.values(), best, strict=True)]
        lines.append(f"| {_name(found, name)} | {' | '.join(cells)} |")
    for threshold in ("0.1", "1", "5"):
        lines += ["", f"| CSI at {threshold} mm/h | {ahead} |", "| --- |" + " --- |" * len(LEADS)]
        values = {n: [m["csi"][threshold][i] for i in LEADS.values()] for n, m in methods.items()}
        top = np.max(list(values.values()), axis=0)
        for name, row in values.items():
            cells = [_cell(v, t) for v, t in zip(row, top, strict=True)]
            lines.append(f"| {_name(found, name)} | {' | '.join(cells)} |")
    lines += ["", *_sentences(found)]
    return "\n".join(lines)


def _name(found: Found, name: str) -> str:
    """The name of a method with the number of members, where it has some."""
    return NAMES[name].format(_MEMBERS.get(found.get("members", 0), found.get("members", 0)))


def _cell(value: float, best: float) -> str:
    return f"**{value:.3f}**" if value == best else f"{value:.3f}"


def ratios(found: Found, other: str, ours: str = "fino") -> list[float]:
    """FINO's nRMSE as a share of another method's, at the lead times of the tables."""
    mine, theirs = (found["methods"][name]["nrmse"] for name in (ours, other))
    return [mine[i] / theirs[i] for i in LEADS.values()]


def _sentences(found: Found) -> list[str]:
    flow, blurred = (_list(ratios(found, other)) for other in ("extrapolation", "sprog"))
    spectra = found["methods"]["fino"]["spectra"]
    fine = {}
    for name in ("fino", "fino-matched", "extrapolation", "sprog"):
        own = found["methods"][name]["spectra"]
        fine[name] = 100 * _fine(own["spectrum"][1]) / _fine(spectra["truth"][1])
    same = f"to {found['tiles']:.1g}" if found["tiles"] else "bit for bit"
    trained = [
        f"{_name(found, name)} has {found['weights'][name] / 1e3:.0f} k weights and learned for "
        f"{found['steps'][name]} steps, {found['cpu_seconds'][name] / 60:.1f} CPU-minutes."
        for name in found["weights"]
    ]
    mean = ""
    if "fino-mean" in found["methods"]:
        shares = [_list(ratios(found, other, "fino-mean")) for other in ("extrapolation", "sprog")]
        own = _name(found, "fino-mean")
        mean = f" {own}, has {shares[0]} of the one and {shares[1]} of the other."
    return [
        f"FINO's error is {flow} of extrapolation's at 5, 15, 30 and 60 minutes, and {blurred} of "
        f"S-PROG's.{mean} {found['origins']} forecasts, one after every image. "
        f"{' '.join(trained)} In tiles the forecast is the same {same}.",
        "",
        "Structures of 8 to 20 km have, an hour ahead, "
        f"{fine['fino']:.0f} % of the measured power in FINO's forecast, "
        f"{fine['sprog']:.0f} % in S-PROG's, {fine['extrapolation']:.0f} % in extrapolation's and "
        f"{fine['fino-matched']:.0f} % in FINO's after matching.",
    ]


def _fine(power: list[float]) -> float:
    """The power at wavelengths of 8 to 20 cells of a square with 2 (n + 1) cells a side."""
    side = 2 * (len(power) + 1)
    return float(np.sum(power[side // 20 : side // 8]))


def _list(values: list[float]) -> str:
    words = [f"{value:.2f}" for value in values]
    return ", ".join(words[:-1]) + " and " + words[-1]


def headline(found: Found) -> str:
    """The rows of the README."""
    methods, row = found["methods"], []
    kinds = ("persistence", "extrapolation", "sprog", "unet", "fino", "fino-mean")
    shown = [name for name in kinds if name in methods]
    best = [min(methods[name]["nrmse"][i] for name in shown) for i in LEADS.values()]
    for name in shown:
        values = [methods[name]["nrmse"][i] for i in LEADS.values()]
        cells = [_cell(v, b) for v, b in zip(values, best, strict=True)]
        row.append(f"| {_name(found, name)} | {' | '.join(cells)} |")
    head = "| nRMSE of the rain ahead | " + " | ".join(f"{m} min" for m in LEADS) + " |"
    return "\n".join([head, "| --- |" + " --- |" * len(LEADS), *row])


def draw_scores(found: Found, path: Path) -> Path:
    """Errors and hits over the lead time, and the spectra after an hour."""
    methods = {n: found["methods"][n] for n in NAMES if n in found["methods"]}
    minutes = found["minutes"] * np.arange(1, len(methods["fino"]["nrmse"]) + 1)
    with drawn(10.0, 3.4) as figure:
        error, hits, power = figure.subplots(1, 3)
        for number, (name, scores) in enumerate(methods.items()):
            look: dict[str, Any] = {"color": f"C{number}", "lw": 2.4 if name == "fino" else 1.2}
            error.plot(minutes, scores["nrmse"], label=_name(found, name), **look)
            hits.plot(minutes, scores["csi"]["1"], **look)
            line = scores["spectra"]["spectrum"][1]
            side = 2 * (len(line) + 1)
            power.loglog(side / np.arange(1, len(line) + 1), line, **look)
        power.loglog(
            side / np.arange(1, len(line) + 1),
            methods["fino"]["spectra"]["truth"][1],
            "k--",
            lw=1.2,
            label="measured",
        )
        error.set(xlabel="minutes ahead", ylabel="nRMSE of log(1 + mm/h)", ylim=(0, None))
        hits.set(xlabel="minutes ahead", ylabel="critical success index, 1 mm/h", ylim=(0, 1))
        power.set(xlabel="wavelength, km", ylabel="power after an hour")
        power.invert_xaxis()
        logarithmic(power, "x")
        logarithmic(power, "y")
        figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    return save(figure, path)


def draw_movie(hour: Mapping[str, Any], path: Path) -> Path:
    """The last hour: measured, FINO and the extrapolation side by side, as a small GIF."""
    inside, past, truth, made = (hour[key] for key in ("inside", "past", "truth", "made"))
    panels = {
        "measured": truth,
        "FINO": made["fino"],
        "pysteps, extrapolation": made["extrapolation"],
    }
    colors = ListedColormap(np.vstack([[1, 1, 1, 1], _rain_colors()]))
    pictures = []
    with drawn(9.0, 3.35) as figure:
        canvas, shown = FigureCanvasAgg(figure), []
        figure.set_dpi(80)
        for axes, name in zip(figure.subplots(1, 3), panels, strict=True):
            shown.append(axes.imshow(past[-1], cmap=colors, vmin=0, vmax=2.4))
            axes.set_title(name, fontsize=10)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.contour(inside, [0.5], colors="0.6", linewidths=0.6)
        bar = figure.colorbar(shown[-1], ax=figure.axes, shrink=0.8, pad=0.01)
        ticks = (0.1, 0.5, 1, 2, 5, 10)
        bar.set_ticks(list(np.log1p(ticks)), labels=[f"{t:g}" for t in ticks])
        bar.set_label("mm/h", fontsize=8)
        for step in range(-len(past) + 1, len(truth) + 1):
            for image, frames in zip(shown, panels.values(), strict=True):
                frame = past[step - 1] if step <= 0 else frames[step - 1]
                image.set_data(np.where(inside & np.isfinite(frame), frame, np.nan))
            figure.suptitle("seen" if step <= 0 else f"{5 * step} minutes ahead", fontsize=11)
            canvas.draw()
            figure.set_layout_engine("none")
            pictures.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy()))
    small = [p.quantize(64, dither=Image.Dither.NONE) for p in pictures]
    times = [300] * (len(small) - 1) + [1500]
    path.parent.mkdir(parents=True, exist_ok=True)
    small[0].save(path, save_all=True, append_images=small[1:], duration=times, loop=0)
    return path


def _rain_colors() -> np.ndarray:
    from matplotlib import colormaps

    return np.asarray(colormaps["YlGnBu"](np.linspace(0.08, 1, 47)))
