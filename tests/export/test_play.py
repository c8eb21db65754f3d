"""The page to play with: the same step as torch's, one file, honest about itself."""

import base64
import hashlib
import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from node import needs_node, run_script
from random_models import EVERYTHING, random_given, random_model

import fino
from fino.cli.play import play
from fino.export.page import write_page
from fino.model.rollout import rollout
from fino.training.run import Run

SCRIPTS = ["solvers", "kernel", "network", "world"]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages by name, each written once."""
    folder, written = tmp_path_factory.mktemp("pages"), {}

    def page(name):
        if name not in written:
            written[name] = write_page(fino.PRETRAINED[name], folder / f"{name}.html")
        return written[name].read_text(encoding="utf-8")

    return page


def facts_of(text):
    found = re.search(r'<script type="application/json" id="facts">(.*?)</script>', text, re.DOTALL)
    return json.loads(found.group(1))


def page_facts(model, folder, **run):
    return facts_of(write_page(Run(model=model, **run), folder / "page.html").read_text("utf-8"))


STEPS = """
decodeProgram(facts.program);
const found = [];
for (const Engine of [PlainEngine, FastEngine]) {
  const engine = new Engine(facts.program, points);
  engine.setScalars(scalars);
  engine.setMask(mask);
  engine.load(history);
  for (let step = 0; step < steps; step++) found.push(Array.from(await engine.step()));
}
return found;
"""


def assert_steps_alike(model, folder, space=None, steps=10):
    """Ten steps in JavaScript and with WebAssembly are those of torch."""
    lift, given = [1] * (2 - model.grid.dims), random_given(model, space)
    expected = rollout(model, given, steps)[0].numpy()
    found = run_script(
        SCRIPTS,
        STEPS,
        folder,
        facts=page_facts(model, folder),
        points=[*lift, *given.space],
        history=given.history[0].flatten(1).tolist(),
        scalars=[] if given.parameters is None else given.parameters[0].tolist(),
        mask=None if given.mask is None else given.mask.flatten().tolist(),
        steps=steps,
    )
    found = np.array(found).reshape(2, *expected.shape)
    assert np.abs(found - expected).max() < 2e-5 * np.abs(expected).max()


@needs_node
@pytest.mark.parametrize("boundary", ["periodic", "dirichlet", "neumann", "reflect"])
def test_ten_steps_are_those_of_torch_for_every_boundary(tmp_path, boundary):
    fields = {"fields": ("u", "v"), "width": 5, "levels": 1, "activation": "gelu"}
    plane = random_model(points=(8, 12), boundary=boundary, predict="linear", **fields)
    assert_steps_alike(plane, tmp_path, (10, 6))
    line = random_model(points=(16,), boundary=boundary, predict="stencil", **fields)
    assert_steps_alike(line, tmp_path, (14,))


@needs_node
@pytest.mark.parametrize(
    "settings",
    [
        {"levels": 2, "blocks": (1, 2, 1), "growth": 2.0, "activation": "silu", "points": (16, 8)},
        {"radius": (2, 1), "levels": 1, "upsample": "linear", "activation": "tanh"},
        {"gate": False, "levels": 0, "dt": "fixed", "predict": "increment", "coordinates": True},
        {"gate_radius": 1, "fuse_radius": 1, "levels": 1, "predict": "frame"},
        {"patch": 2, "levels": 1, "fields": ("u", "v"), "points": (16, 8)},
    ],
)
def test_ten_steps_are_those_of_torch_for_every_setting(tmp_path, settings):
    assert_steps_alike(random_model(boundary=("neumann", "reflect"), width=3, **settings), tmp_path)


@needs_node
@pytest.mark.parametrize("walls", ["neumann", "dirichlet"])
@pytest.mark.parametrize("condition", ["film", "channels"])
def test_ten_steps_with_parameters_and_obstacles_are_those_of_torch(tmp_path, condition, walls):
    beside = {"parameters": ("nu", "speed"), "logs": (True, False), "walls": walls}
    beside["condition"] = condition
    model = random_model(boundary=("reflect", "periodic"), beside=beside, width=3, levels=1)
    model.conditioning.theta_low.fill_(0.5)
    model.conditioning.theta_high.fill_(1.5)
    assert_steps_alike(model, tmp_path)


@needs_node
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("plain", {"width": 3, "levels": 1}),
        ("dilated-resnet", {"width": 3, "blocks": 1, "dilations": (1, 3)}),
        ("percnn", {"width": 3}),
    ],
)
def test_other_networks_of_stencils_play_too(tmp_path, name, settings):
    assert_steps_alike(random_model(name, boundary=("neumann", "periodic"), **settings), tmp_path)


@needs_node
@pytest.mark.parametrize("name", ["diffusion-reaction-2d", "shallow-water", "advection"])
def test_a_page_passes_its_own_check_and_a_changed_weight_does_not(pages, tmp_path, name):
    code = "decodeProgram(facts.program); return (await checkEngine(facts, PlainEngine)).error;"
    facts = facts_of(pages(name))
    assert run_script(SCRIPTS, code, tmp_path, facts=facts) < 1e-5
    code = "facts.program.scale[0] *= 1.5; " + code
    assert run_script(SCRIPTS, code, tmp_path, facts=facts) > facts["check"]["tolerance"]


@needs_node
def test_a_world_gives_the_model_its_history_and_then_lets_it_go_alone(pages, tmp_path):
    code = """
    decodeProgram(facts.program);
    const world = new World(facts, (points) => new PlainEngine(facts.program, points));
    Object.assign(world.settings, {points: [16, 24], seed: 5});
    await world.begin();
    const given = [], seen = [];
    for (let step = 0; step < 12; step++) {
      given.push(world.isGiven);
      await world.advance();
      seen.push(world.learned.every((x, i) => x === world.truth[i]));
    }
    const last = world.errors[world.errors.length - 1];
    world.dab({x: 8, y: 12, radius: 4, tool: "paint", field: 0, value: 0.5});
    const painted = world.learned[8 * 24 + 12];
    return {given, seen, last, painted, again: world.isGiven, link: writeLink(world)};
    """
    facts = facts_of(pages("diffusion-reaction-2d"))
    found = run_script(SCRIPTS, code, tmp_path, facts=facts)
    assert found["given"] == [True] * 9 + [False] * 3
    assert found["seen"] == [True] * 9 + [False] * 3
    # The learned step is nearer to the fine solution than the solver on the same cells.
    assert found["last"]["learned"][0] < 0.01 < found["last"]["classical"][0]
    assert found["painted"] == pytest.approx(0.5, abs=1e-6) and found["again"]
    assert "size=16x24" in found["link"] and "step=12" in found["link"]


@needs_node
def test_a_link_brings_back_what_was_painted(tmp_path):
    code = """
    const dabs = [{step: 3, tool: "paint", field: 1, x: 8.25, y: 12.5, radius: 4.5, value: -0.25},
                  {step: 70, tool: "erase", field: 0, x: 1, y: 2, radius: 1, value: 1.5e-5}];
    const settings = {seed: 7, points: [64, 32], reference: "same", scalars: [0.1, 2]};
    const good = readLink(writeLink({settings, step: 90, dabs}, {field: 1}));
    const bad = "#seed=x&size=axb&step=-4&dabs=1.2.3_z&engine=abacus&parameters=a";
    return {good, bad: readLink(bad)};
    """
    found = run_script(SCRIPTS, code, tmp_path)
    good = found["good"]
    assert good["points"] == [64, 32] and good["seed"] == 7 and good["step"] == 90
    assert good["reference"] == "same" and good["scalars"] == [0.1, 2] and good["field"] == 1
    assert [d["step"] for d in good["dabs"]] == [3, 70]
    assert good["dabs"][0] == {
        "step": 3, "tool": "paint", "field": 1, "x": 8.25, "y": 12.5, "radius": 4.5, "value": -0.25
    }  # fmt: skip
    assert found["bad"] == {"dabs": []}


@needs_node
def test_the_light_names_what_is_unlike_the_training_data(pages, tmp_path):
    code = """
    decodeProgram(facts.program);
    const world = new World(facts, (points) => new PlainEngine(facts.program, points));
    world.settings.points = [16, 16];
    await world.begin();
    for (let step = 0; step < 9; step++) await world.advance();
    const say = () => world.unlike().map(({words}) => words);
    const calm = say();
    world.learned = world.learned.map((x, i) => (i === 3 ? 2.75 : x));
    const high = say();
    world.step = 200;
    return {calm, high, late: say()};
    """
    facts = facts_of(pages("shallow-water"))
    found = run_script(SCRIPTS, code, tmp_path, facts=facts)
    assert found["calm"] == []
    assert found["high"] == ["h = 2.75 is above 2.09"]
    assert "training trajectories end at t = 1" in found["late"]


@needs_node
def test_a_model_that_is_outrun_by_its_waves_is_said_to_work_on_one_size_only(pages, tmp_path):
    code = """
    decodeProgram(facts.program);
    const world = new World(facts, (points) => new PlainEngine(facts.program, points)), found = [];
    for (const cells of [128, 160]) {
      world.settings.points = [1, cells];
      await world.begin();
      for (let step = 0; step < 14; step++) await world.advance();
      const error = world.errors.at(-1).learned[0];
      found.push({error, words: world.unlike().map(({words}) => words).join()});
    }
    return found;
    """
    own, other = run_script(SCRIPTS, code, tmp_path, facts=facts_of(pages("advection")))
    assert own["error"] < 0.01 and own["words"] == ""
    assert other["error"] > 0.3
    assert "waves move 25.6 cells a step, farther than the model sees" in other["words"]
    assert "wrong on domains of another size" in pages("advection")


@needs_node
def test_a_poke_changes_no_cell_beyond_the_reach(pages, tmp_path):
    code = """
    decodeProgram(facts.program);
    const world = new World(facts, (points) => new PlainEngine(facts.program, points));
    world.settings.points = [24, 24];
    await world.begin();
    for (let step = 0; step < 9; step++) await world.advance();
    return Array.from(await world.lightCone(12, 10, 2));
    """
    facts = facts_of(pages("diffusion-reaction-2d"))
    first = np.array(run_script(SCRIPTS, code, tmp_path, facts=facts)).reshape(24, 24)
    i, j = np.indices(first.shape)
    away = np.maximum(np.abs(i - 12), np.abs(j - 10))
    assert (first[away <= 3] == 1).all()
    assert not (first[away > 4] == 1).any()
    assert not (first[away > 8] > 0).any() and (first == 2).any()


def test_a_page_is_one_file_that_may_fetch_nothing(pages):
    text = pages("shallow-water")
    policy = unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1))
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "'unsafe" not in policy and "http" not in policy and "*" not in policy
    addresses = re.findall(r'\b(?:src|href|action)="([^"]*)"', text)
    assert addresses == ["data:,"]
    for kind, tag in (("script", "script"), ("style", "style")):
        body = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL).group(1)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


@pytest.mark.parametrize("name", ["diffusion-reaction-2d", "shallow-water"])
def test_a_page_is_small_and_says_what_its_light_is_based_on(pages, name):
    text = pages(name)
    assert len(text.encode()) < 800_000
    assert "6 test trajectories of its data, solved again when this page was made" in text
    limit = fino.PRETRAINED[name].card["limits"][0]
    assert limit in unescape(text)


def test_the_light_takes_the_ranges_that_a_model_keeps(tmp_path):
    model = random_model(width=2, levels=0)
    assert "three standard deviations" in page_facts(model, tmp_path)["seen"]["basis"]
    alike = {"scale": [1.0], "frames": 1, "apart": [1], "law": None, "back": None, "mean": []}
    alike |= {"whiten": [], "low": [], "high": [0.0] * 20, "limit": [1.0, 1.0]}
    model.trust = {"seen": {"range": [[-7.0, 8.0]], **alike}}
    seen = page_facts(model, tmp_path)["seen"]
    assert seen["low"] == [-7.0] and seen["high"] == [8.0]
    assert seen["basis"] == "the range of the training data, which the model keeps"


def test_names_from_data_cannot_become_markup(tmp_path):
    model = random_model(width=2, levels=0)
    model.settings = model.settings.changed(fields=("<img src=x onerror=alert(1)>",))
    text = write_page(Run(model=model), tmp_path / "page.html").read_text("utf-8")
    assert "<img" not in text
    assert facts_of(text)["program"]["fields"] == ["<img src=x onerror=alert(1)>"]


def test_what_a_page_cannot_play_is_said_in_one_line(tmp_path):
    out = tmp_path / "page.html"
    with pytest.raises(ValueError, match=r"^'darcy' has no time: it maps an input to an answer"):
        write_page(fino.PRETRAINED["darcy"], out)
    cube = Run(model=random_model(points=(4, 4, 4), width=2, levels=0))
    with pytest.raises(ValueError, match=r"^'fino' has three dimensions: a page plays lines and"):
        write_page(cube, out)
    forced = Run(model=random_model(beside=EVERYTHING, width=2, levels=0))
    with pytest.raises(
        ValueError, match=r"^'fino' is given depth, wind, tide at every step, which"
    ):
        write_page(forced, out)
    whole = Run(model=random_model("fno", width=2, modes=2, layers=1))
    with pytest.raises(ValueError, match=r"^FNO sees the whole field \(radius inf\)"):
        write_page(whole, out)
    assert not out.exists()


def test_play_says_where_the_page_is_and_opens_it(tmp_path, capsys, monkeypatch):
    out, opened = tmp_path / "waves.html", []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address))
    play(Path("advection"), out=out, open=False)
    assert capsys.readouterr().out.startswith(f"{out}: 0.18 MB, without a network.")
    assert "Linear advection" in out.read_text("utf-8") and not opened
    with pytest.raises(ValueError, match=r"waves\.html exists already\."):
        play(Path("advection"), out=out)
    play(Path("advection"), out=tmp_path / "again.html")
    assert "There is no browser to open it with here" in capsys.readouterr().out
    assert opened == [(tmp_path / "again.html").as_uri()]
