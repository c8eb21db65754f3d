"""The page to play with, in headless Chromium: shaders in software, and without any."""

import json
import re

import numpy as np
import pytest
import torch
from chromium import Chromium, has_chromium
from random_models import random_given, random_model

import fino
from fino.export.page import write_page
from fino.model.rollout import rollout
from fino.training.run import Run

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not has_chromium(), reason="no chromium"),
]
READY = "document.documentElement.dataset.ready === 'yes'"
BESIDE = {"parameters": ("nu", "speed"), "logs": (True, False), "walls": "neumann"}
NAMES = ("diffusion-reaction-2d", "shallow-water", "advection")
STEPS = """(async () => {
  const engine = new %s(fino.facts.program, %s);
  engine.load(%s);
  const found = [];
  for (let step = 0; step < %d; step++) found.push(Array.from(await engine.step()));
  return JSON.stringify(found);
})()"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The pages by name, each written once."""
    folder = tmp_path_factory.mktemp("pages")
    return {name: write_page(fino.PRETRAINED[name], folder / f"{name}.html") for name in NAMES}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def browser_without_shaders(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("profile"), shaders=False) as browser:
        yield browser


def open_page(browser, path, hash="", **look):
    page = browser.open(path, hash, **look)
    page.wait(READY, seconds=180)
    return page


def said(page, id):
    return page.evaluate(f"document.getElementById('{id}').innerText")


def field(page):
    """The field that the page shows, as numbers."""
    return np.array(json.loads(page.evaluate("JSON.stringify(Array.from(fino.world.learned))")))


def middle(page, id="learned"):
    box = f"document.querySelector('#{id} canvas').getBoundingClientRect()"
    return page.evaluate(
        f"(() => {{ const b = {box}; return [b.x + b.width / 2, b.y + b.height / 2]; }})()"
    )


@pytest.mark.parametrize("engine", ["shader", "fast", "plain"])
@pytest.mark.parametrize("name", NAMES)
def test_a_page_opens_without_a_request_or_a_message_and_equals_torch(browser, files, name, engine):
    page = open_page(browser, files[name], f"#engine={engine}")
    word = {"shader": "WebGL2", "fast": "WebAssembly", "plain": "JavaScript"}[engine]
    assert said(page, "check").startswith(f"{word} equals torch")
    assert page.evaluate("fino.checked.passed && fino.checked.error < 1e-5")
    page.wait("fino.world.step > 0")
    model, data = fino.pretrained(name), fino.PRETRAINED[name].test_data(1)
    cut = (..., *[slice(0, 32)] * model.grid.dims)
    history = data.test.begin([0], model.history)[0].history[0][cut]
    expected = rollout(model, history[None], 10)[0].numpy()
    kind = f"{engine.capitalize()}Engine"
    points = [1] * (2 - model.grid.dims) + [32] * model.grid.dims
    numbers = json.dumps(history.flatten(1).tolist())
    found = json.loads(page.evaluate(STEPS % (kind, points, numbers, 10)))
    assert np.abs(np.array(found).reshape(expected.shape) - expected).max() < 1e-3
    assert page.messages == [] and page.requests == []


@pytest.mark.parametrize(
    "settings",
    [
        {
            "width": 3,
            "levels": 1,
            "boundary": "dirichlet",
            "upsample": "linear",
            "activation": "silu",
        },
        {
            "width": 40,
            "levels": 0,
            "boundary": "reflect",
            "activation": "tanh",
            "predict": "linear",
        },
        {"width": 3, "levels": 0, "gate_radius": 1, "fuse_radius": 1, "predict": "increment"},
        {"width": 3, "levels": 1, "beside": {**BESIDE, "condition": "film"}},
        {"width": 36, "levels": 0, "beside": {**BESIDE, "condition": "film", "walls": None}},
        {"width": 5, "levels": 1, "patch": 2, "fields": ("u", "v", "w"), "predict": "increment"},
        {"width": 3, "levels": 0, "beside": BESIDE, "fields": tuple("abcdef"), "coordinates": True},
    ],
)
def test_shaders_are_written_for_every_kind_of_network(browser, tmp_path, settings):
    model = random_model(**{"boundary": ("neumann", "periodic"), **settings})
    if settings.get("beside"):
        model.conditioning.theta_low.fill_(0.5)
        model.conditioning.theta_high.fill_(1.5)
    given = random_given(model)
    expected = rollout(model, given, 4)[0].numpy()
    page = open_page(browser, write_page(Run(model=model), tmp_path / "page.html"), "#step=1")
    scalars = [] if given.parameters is None else given.parameters[0].tolist()
    mask = "null" if given.mask is None else f"Float32Array.from({given.mask.flatten().tolist()})"
    before = f"engine.setScalars({scalars}); engine.setMask({mask});"
    numbers = json.dumps(given.history[0].flatten(1).tolist())
    code = STEPS % ("ShaderEngine", list(given.space), numbers, 4)
    found = json.loads(page.evaluate(code.replace("engine.load", f"{before} engine.load")))
    found = np.array(found).reshape(expected.shape)
    assert np.abs(found - expected).max() < 2e-5 * np.abs(expected).max()
    assert page.messages == []


def test_the_witness_sees_a_page_that_misbehaves(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("<img src='https://example.org/a.png'><script>nothing()</script>")
    page = browser.open(path)
    assert any("nothing is not defined" in message for message in page.messages)
    assert page.requests == ["https://example.org/a.png"]


def test_painting_and_erasing_change_the_field_where_they_are(browser, files):
    page = open_page(browser, files["shallow-water"], "#step=1&engine=fast")
    assert not page.evaluate("fino.playing")
    before = field(page).reshape(64, 64)
    x, y = middle(page)
    width = page.evaluate("document.querySelector('#learned canvas').clientWidth")
    page.drag((x + 0.25 * width, y), (x + 0.3 * width, y))
    page.wait("fino.world.dabs.length > 0")
    painted = field(page).reshape(64, 64)
    # Three quarters to the right: axis 0 runs to the right, axis 1 upwards.
    assert painted[48, 32] > before[48, 32] + 0.3
    assert (painted[:32] == before[:32]).all()
    page.evaluate("document.querySelector('input[value=erase]').click()")
    page.drag((x + 0.25 * width, y), (x + 0.3 * width, y))
    page.wait("fino.world.dabs.at(-1).tool === 'erase'")
    assert field(page).reshape(64, 64)[48, 32] == pytest.approx(1.0, abs=1e-6)
    assert "dabs=" in page.evaluate("location.hash")


def test_a_link_opens_at_the_same_state(browser, files):
    page = open_page(
        browser, files["diffusion-reaction-2d"], "#step=0&size=24x16&seed=9&engine=fast"
    )
    assert page.evaluate("fino.world.settings.points.join()") == "24,16"
    page.evaluate("fino.pause()")
    for _ in range(2):
        page.evaluate("fino.queue(() => fino.advance())")
    page.drag(middle(page))
    for _ in range(11):
        page.evaluate("fino.queue(() => fino.advance())")
    page.evaluate("document.getElementById('link').click()")
    page.wait("location.hash.includes('dabs')")
    there, hash = field(page), page.evaluate("location.hash")
    again = open_page(browser, files["diffusion-reaction-2d"], hash)
    assert again.evaluate("fino.world.step") == page.evaluate("fino.world.step") > 10
    assert (field(again) == there).all()


def test_the_keyboard_is_enough(browser, files):
    page = open_page(browser, files["advection"], "#step=1")
    page.key(" ", "Space")
    page.wait("fino.playing && fino.world.step > 5")
    page.key(" ", "Space")
    page.wait("!fino.playing")
    step = page.evaluate("fino.world.step")
    page.key("s")
    page.wait(f"fino.world.step === {step + 1}")
    page.evaluate("document.querySelector('#learned canvas').focus()")
    for _ in range(3):
        page.key("ArrowRight")
    page.key("Enter")
    page.wait("fino.world.dabs.length === 1")
    assert page.evaluate("fino.world.dabs[0].y") == 67
    page.key("n")
    page.wait("fino.world.settings.seed === 2 && fino.world.step === 0")


def test_another_size_starts_over_and_one_that_does_not_fit_is_rounded(browser, files):
    page = open_page(browser, files["shallow-water"], "#step=0&engine=fast")
    page.evaluate("fino.pause()")
    page.evaluate("document.getElementById('width').value = 30")
    page.evaluate("document.getElementById('width').dispatchEvent(new Event('change'))")
    page.wait("fino.world.engine?.points.join() === '32,64'")
    assert "in steps of 4" in said(page, "said")
    page.evaluate("fino.queue(() => fino.advance())")
    assert len(field(page)) == 32 * 64


def test_sliders_set_parameters_and_walls_take_cells_out_of_the_domain(browser, tmp_path):
    model = random_model(boundary="neumann", beside=BESIDE, width=3, levels=0, points=(24, 24))
    model.conditioning.theta_low.copy_(torch.tensor([0.01, 1.0]))
    model.conditioning.theta_high.copy_(torch.tensor([1.0, 3.0]))
    page = open_page(browser, write_page(Run(model=model), tmp_path / "page.html"), "#step=1")
    np.testing.assert_allclose(page.evaluate("fino.world.settings.scalars"), [0.1, 2.0], rtol=1e-3)
    move = "document.querySelector('[data-scalar=\"{}\"]')"
    for place in (0, 1):
        page.evaluate(f"{move.format(place)}.value = 1000")
        page.evaluate(f"{move.format(place)}.dispatchEvent(new Event('input'))")
    # A quarter of the range above its end: logarithmic for ν, which spans two decades.
    page.wait("fino.world.settings.scalars[1] === 3.5")
    assert page.evaluate("fino.world.settings.scalars[0]") == pytest.approx(10**0.5, rel=1e-3)
    assert "nu = 3.16 is outside of 0.01 … 1" in said(page, "light")
    page.evaluate("document.querySelector('input[value=wall]').click()")
    page.drag(middle(page))
    page.wait("fino.world.mask[12 * 24 + 12] === 0")
    page.key("s")
    page.wait("fino.world.step === 2")
    assert field(page).reshape(24, 24)[12, 12] == 0


def test_a_light_cone_stays_within_the_reach(browser, files):
    page = open_page(browser, files["diffusion-reaction-2d"], "#step=10&engine=fast")
    page.key("c")
    page.drag(middle(page))
    page.wait("document.getElementById('said').innerText.includes('Light cone')")
    words = said(page, "said")
    assert "The model sees 4 cells a step" in words and "no cell farther away changed" in words
    assert page.evaluate("document.querySelectorAll('#learned .reach').length") == 3


@pytest.mark.parametrize("hash", ["", "#engine=plain"])
def test_a_browser_without_webgl_computes_on_the_processor_and_says_so(
    browser_without_shaders, files, hash
):
    page = open_page(browser_without_shaders, files["diffusion-reaction-2d"], hash)
    word = "JavaScript" if hash else "WebAssembly"
    assert said(page, "check").startswith(f"{word} equals torch")
    if not hash:
        assert "WebGL2 is not used: this browser has no WebGL2" in said(page, "check")
    assert page.evaluate("fino.world.engine.name") == word
    page.wait("fino.world.step > 0")
    assert page.messages == [] and page.requests == []


def test_a_page_with_wrong_weights_says_so(browser, files, tmp_path):
    text = files["advection"].read_text("utf-8")
    path = tmp_path / "wrong.html"
    path.write_text(re.sub(r'"scale": \[', '"scale": [3.0, ', text, count=1), "utf-8")
    page = open_page(browser, path)
    assert "differs from torch" in said(page, "check") and "do not trust" in said(page, "check")
    assert page.evaluate("document.getElementById('check').className") == "light bad"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_without_scrolling_sideways(browser, files, scheme):
    look = {"width": 390, "height": 844, "scheme": scheme, "mobile": True}
    page = open_page(browser, files["shallow-water"], "#step=2&engine=fast", **look)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}[scheme]
    small = "[...document.querySelectorAll('button, select, .tools label')]"
    chosen = "filter((e) => e.id !== 'shown' && e.offsetParent)"
    tall = f"Math.min(...{small}.{chosen}.map((e) => e.offsetHeight))"
    assert page.evaluate(tall) >= 40
