"""The page: whole, alone, and right in a browser."""

import json
import re
import shlex
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

import fino
from fino.evaluation.evaluate import evaluate
from fino.recipe.recipe import read_recipe
from fino.report.page import report, scene_of
from fino.report.words import describe_verdict, describe_worth, train_command


class Reader(HTMLParser):
    """What a page asks for, and whether its elements close."""

    VOID = frozenset({"meta", "link", "input", "br", "img", "line", "path", "use", "hr"})

    def __init__(self):
        super().__init__()
        self.open, self.asked, self.words = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)
        self.asked += [v for k, v in attributes if k in ("src", "href", "xlink:href", "srcset")]

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def read(path):
    reader = Reader()
    reader.feed(path.read_text())
    assert not reader.open
    return reader


@pytest.fixture(scope="module")
def line(make_run_in, make_waves, tmp_path_factory):
    """A run on a line, scored and reported, its data with a title that wants to be markup."""
    data = make_waves(title="<script>alert(1)</script>", flaws=("a < b & c",))
    folder = make_run_in(tmp_path_factory.mktemp("line"), data=data, training=True)
    scores = evaluate(folder)
    written = report(folder, movie=folder / "out.gif")
    return folder, scores, written


def test_a_run_becomes_one_page_that_needs_nothing_else(line):
    folder, _, written = line
    page = read(folder / "report.html")
    assert all(address.startswith(("data:", "#")) for address in page.asked)
    text = " ".join(" ".join(page.words).split())
    for words in (
        "fino on",
        "The rollout",
        "Scores",
        "Truth, prediction, error",
        "The whole history at once",
        "How the error grows",
        "Energy at each wavenumber",
        "Training",
        "What the model is",
        "learned time step",
        "The data",
        "How to get this again",
        "data SHA-256",
        f"fino {fino.__version__}",
    ):
        assert words in text, words
    figures = {path.name for path in (folder / "figures").iterdir()}
    assert {"fields-u.png", "fields-u.svg", "error-over-time.svg", "training.png"} <= figures
    assert (folder / "out.gif").is_file()
    assert set(written) == {"page", "figures", "movie"}


def test_the_numbers_on_the_page_are_those_of_the_scores(line):
    folder, scores, _ = line
    text = (folder / "report.html").read_text()
    for score in scores.metrics.values():
        assert f"{score.value:.3g}" in text
    assert scores.model["sha256"] in text and scores.data["sha256"] in text
    assert describe_verdict(scores) in text


def test_words_from_the_data_cannot_become_markup(line):
    text = (line[0] / "report.html").read_text()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text and "a &lt; b &amp; c" in text


def test_the_commands_on_the_page_are_whole(line):
    folder = line[0]
    text = (folder / "report.html").read_text()
    train = re.search(r"fino train (.*)", text).group(1)
    path = json.loads((folder / "data.json").read_text())["path"]
    assert f"--data {path}" in train and "--set model.width=4" in train
    assert "--set model.levels=0" in train and "--set train.minutes=1.0" in train
    assert f"fino evaluate {folder}" in text


def read_command(text):
    """The settings of a `fino train` command."""
    words = shlex.split(text)
    return read_recipe(None, [words[i + 1] for i, word in enumerate(words) if word == "--set"])


def test_the_training_command_leads_to_the_same_model(line):
    folder, scores, _ = line
    recipe = read_command(train_command("waves.h5", scores.model, folder))
    again = fino.build("fino", fino.Run(folder).data, **recipe.model)
    assert again.network.settings.model_dump(mode="json") == scores.model["network"]
    assert again.settings.model_dump(mode="json") == scores.model["emulator"]
    assert recipe.train == {"minutes": 1.0}


@pytest.mark.parametrize(
    ("drawn", "trained", "said"), [(1, 1, None), (1, 0, 1), (0, 2, 0), (None, 2, None)]
)
def test_the_training_command_draws_the_same_first_weights(line, drawn, trained, said):
    folder, scores, _ = line
    emulator = {k: v for k, v in scores.model["emulator"].items() if k != "seed"}
    model = {
        **scores.model,
        "emulator": emulator if drawn is None else {**emulator, "seed": drawn},
        "training": {**scores.model["training"], "seed": trained},
    }
    recipe = read_command(train_command("waves.h5", model, folder))
    assert recipe.model.get("seed") == said
    assert recipe.seeds == (trained,)


def test_planes_with_channels_and_rivals_have_a_page_too(make_run, make_waves):
    data = make_waves(points=(8, 8), channels=2)
    folders = [make_run(name, data=data, width=width) for name, width in (("a", 4), ("b", 6))]
    for folder in folders:
        evaluate(folder)
    report(folders[0], rivals=folders[1:])
    text = (folders[0] / "report.html").read_text()
    assert 'class="player maps"' in text and "Truth, prediction, error: v" in text
    assert "Beside its rivals" in text and "fino width=6" in text
    assert "Error against the cost of a step" in text
    other = make_run("c", data=make_waves(seed=3))
    evaluate(other)
    with pytest.raises(ValueError, match="not scored on the same data"):
        report(folders[0], rivals=[other])


def test_where_the_equation_is_known_the_solver_is_on_the_page(tmp_path):
    data = fino.generate("advection", 6, points=32, frames=6, duration=0.1)
    model = fino.build("fino", data, history=1, width=4, levels=0)
    run = fino.fit(model, data, steps=1, out=tmp_path / "run", threads=1)
    evaluate(run)
    report(run)
    text = (tmp_path / "run" / "report.html").read_text()
    said = describe_worth(fino.Run(tmp_path / "run").scores)
    assert said and said in unescape(text)
    assert "Beside the classical solver" in text and 'id="worth"' in text
    assert "fino, 16 at once" in unescape(text)


def test_a_steady_run_that_was_not_scored_is_scored_first(make_run, make_waves):
    folder = make_run("steady", data=make_waves(points=(8, 8), frames=2, steady=True))
    report(folder)
    text = (folder / "report.html").read_text()
    assert "The rollout" not in text and "find u" in text
    assert (folder / "scores.json").is_file()


def test_parameters_masks_and_values_outside_of_the_trained_range_are_shown(make_run, make_waves):
    outside = np.zeros((8, 8), dtype=bool)
    outside[2:4, 2:5] = True
    nu = np.linspace(0.1, 0.3, 12)
    conditions = {"points": (8, 8), "mask": outside, "walls": "dirichlet"}
    folder = make_run("given", data=make_waves(parameters={"nu": nu}, **conditions))
    other = make_waves(parameters={"nu": 3 * nu}, **conditions).with_split(test=range(12))
    scores = evaluate(folder, other, out=folder / "scores.json")
    trained = scores.over_parameters["nu"]["trained"]
    assert trained[0] >= 0.099 and trained[1] <= 0.301  # of the training, not of the other data
    scene = scene_of(fino.find_run(folder, other), 1)
    assert np.isnan(scene.truth[:, :, outside]).all() and np.isfinite(scene.truth).any()
    report(folder, other)
    text = (folder / "report.html").read_text()
    assert "Test sample 0, nu = 0.3. Blank cells lie outside of the domain (masked)." in text
    assert "trajectories lie outside of it, with a median nRMSE of" in text
    assert "varying parameters" in text and "cells left out, dirichlet at their edge" in text


def test_a_sample_that_is_not_there_is_refused(make_run):
    with pytest.raises(ValueError, match="The test part has samples 0 to 0, not 7"):
        report(make_run(), sample=7)


#: Runs before the page's own script and leaves what it saw in the title.
WITNESS = """<script>
const messages = [], times = new Set();
setInterval(() => times.add(document.getElementById("time").textContent), 50);
addEventListener("error", (e) => messages.push("error " + e.message), true);
addEventListener("securitypolicyviolation", (e) => messages.push("asked " + e.blockedURI));
for (const name of ["error", "warn"])
  console[name] = (...words) => messages.push(words.join(" "));
setTimeout(() => {
  const loaded = performance.getEntriesByType("resource").map((e) => e.name);
  const asked = loaded.filter((a) => !a.startsWith("data:"));
  document.title = JSON.stringify({messages, asked, times: [...times]});
}, 1500);
</script>"""


@pytest.mark.browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium")
@pytest.mark.parametrize("points", [(16,), (8, 8)])
def test_the_page_opens_without_a_request_or_an_error(make_run, make_waves, tmp_path, points):
    folder = make_run(data=make_waves(points=points))
    report(folder)
    page, picture = tmp_path / "page.html", tmp_path / "page.png"
    text = (folder / "report.html").read_text()
    page.write_text(text.replace("<meta charset", WITNESS + "<meta charset", 1))
    words = [
        *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
        *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
        *("--disable-sync", "--enable-logging=stderr", "--virtual-time-budget=4000"),
        "--window-size=800,3000",
    ]
    for extra, address in (
        ("--dump-dom", page),
        (f"--screenshot={picture}", folder / "report.html"),
    ):
        fresh = f"--user-data-dir={tmp_path / extra[2:6]}"
        said = subprocess.run(
            [*words, fresh, extra, f"file://{address}"], capture_output=True, text=True, timeout=120
        )
        assert "CONSOLE" not in said.stderr
        if extra == "--dump-dom":
            title = unescape(re.search(r"<title>(.*?)</title>", said.stdout).group(1))
            seen = json.loads(title)
            assert seen["messages"] == [] and seen["asked"] == []
            # The player moves.
            assert {"t = 0.4", "t = 0.7"} <= set(seen["times"])
    assert picture.stat().st_size > 20_000


#: Presses the button of every field in turn and leaves what the player then shows in the title.
PRESSES = """<script>
addEventListener("load", () => {
  const seen = [...document.querySelectorAll("[data-field]")].map((button) => {
    button.click();
    const ends = [...document.querySelectorAll("[data-end]")].map((e) => e.textContent);
    const pictures = [...document.querySelectorAll(".screen")].map((s) => s.style.backgroundImage);
    const plots = [...document.querySelectorAll(".plot polyline")];
    const lines = plots.map((line) => line.getAttribute("points"));
    const pressed = document.querySelectorAll("[aria-pressed=true]").length;
    return {name: button.textContent, ends, drawn: [...pictures, ...lines], pressed};
  });
  const axes = [...document.querySelectorAll(".across")].map((p) => p.textContent);
  const wide = document.documentElement.scrollWidth > innerWidth;
  document.title = JSON.stringify({seen, axes, wide});
});
</script>"""


@pytest.mark.browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium")
@pytest.mark.parametrize("points", [(16,), (12, 8)])
def test_the_player_shows_the_field_that_is_chosen_with_its_own_scale(
    make_run, make_waves, tmp_path, points
):
    folder = make_run(data=make_waves(points=points, channels=2))
    report(folder)
    text = (folder / "report.html").read_text()
    policy = re.search(r'<meta http-equiv="Content-Security-Policy"[^>]*>', text)
    text = text.replace(policy.group(0), "") if policy else text
    page = tmp_path / "page.html"
    page.write_text(text.replace("<meta charset", PRESSES + "<meta charset", 1))
    words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    words += ["--disable-background-networking", f"--user-data-dir={tmp_path / 'profile'}"]
    words += ["--window-size=500,900", "--virtual-time-budget=3000", "--dump-dom"]
    said = subprocess.run([*words, f"file://{page}"], capture_output=True, text=True, timeout=120)
    found = json.loads(unescape(re.search(r"<title>(.*?)</title>", said.stdout).group(1)))
    first, second = found["seen"]
    assert [first["name"], second["name"]] == ["u", "v"]
    assert first["pressed"] == second["pressed"] == 1
    assert len(first["drawn"]) == 3 and all(first["drawn"])
    assert all(a != b for a, b in zip(first["drawn"], second["drawn"], strict=True))
    assert first["name"] in first["ends"] and second["name"] in second["ends"]
    assert first["ends"] != second["ends"]
    assert all(axis.startswith("0") and "x" in axis for axis in found["axes"]) and found["axes"]
    assert not found["wide"]


@pytest.mark.browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium")
def test_the_witness_sees_a_page_that_misbehaves(tmp_path):
    page = tmp_path / "page.html"
    rules = "default-src 'none'; script-src 'unsafe-inline'"
    policy = f'<meta http-equiv="Content-Security-Policy" content="{rules}">'
    page.write_text(
        f"<head>{WITNESS}{policy}</head><body><p id='time'>t</p>"
        "<img src='https://example.org/a.png'><script>nothing()</script>"
    )
    words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    words += ["--disable-background-networking", f"--user-data-dir={tmp_path / 'profile'}"]
    words += ["--virtual-time-budget=4000", "--dump-dom", f"file://{page}"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=120)
    title = unescape(re.search(r"<title>(.*?)</title>", said.stdout).group(1))
    messages = " ".join(json.loads(title)["messages"])
    assert "nothing is not defined" in messages and "example.org" in messages
