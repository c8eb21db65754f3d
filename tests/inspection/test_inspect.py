"""The whole look inside: any model of the table, in words, as JSON, as pictures, as a section."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import fino
from fino.inspection.inspect import Inspection
from fino.inspection.layers import gate_reports, layer_report
from fino.inspection.stability import StabilityPlan
from fino.report.inspection_page import inspection_section, write_inspection
from fino.report.inspection_words import (
    describe_missing,
    inspection_json,
    inspection_sections,
)

QUICK = StabilityPlan(trajectories=2, buffers=2, iterations=6, looks=(1,), longer=2)
SMALL = {
    "fino": {"width": 4, "levels": 1},
    "plain": {"width": 4, "levels": 1},
    "unet": {"width": 2, "levels": 1},
    "cnext-unet": {"width": 2, "levels": 1, "blocks": 1, "radius": 1},
    "dilated-resnet": {"width": 4, "blocks": 1, "dilations": (1, 2, 1)},
    "percnn": {"width": 4},
    "fno": {"width": 4, "modes": 3, "layers": 1, "head": 4},
    "ufno": {"width": 4, "modes": 3},
    "ffno": {"width": 4, "modes": 3, "layers": 1},
    "local-fno": {"width": 4, "modes": 3, "layers": 1},
    "transolver": {"width": 8, "layers": 1, "heads": 2, "slices": 4},
}


@pytest.fixture(scope="module")
def line():
    """Waves that travel one cell a step on a periodic line of 16 cells."""
    x = np.arange(16) / 16
    phases = np.random.default_rng(0).uniform(0, 6.28, (12, 1, 1, 1))
    t = np.arange(12).reshape(1, -1, 1, 1)
    u = np.sin(2 * np.pi * (x - t / 16) + phases)
    return fino.from_array(u, 0.1, (0, 1), "periodic", speed=0.625)


def inspection_text(found: Inspection) -> str:
    """Every title and sentence."""
    sections = inspection_sections(found)
    return "\n".join(line for section in sections for line in (section.title, *section.lines))


def inspected(name: str, data, **settings) -> Inspection:
    model = fino.build(name, data, history=2, **{**SMALL.get(name, {}), **settings})
    return fino.inspect(model, data, plan=QUICK)


@pytest.mark.parametrize("name", fino.MODELS)
def test_every_model_of_the_table_can_be_inspected(name: str, line) -> None:
    found = inspected(name, line)
    text = inspection_text(found)
    for title in ("Does it see far enough?", "What did it learn?", "Will it stay stable?"):
        assert title in text
    assert found.stability is not None
    assert inspection_json(found)["stability"]["bound"]["verdict"] in ("useful", "vacuous")
    assert "evidence, not a proof" in text
    assert ("It sees the whole field" in text) == (not found.is_local)
    json.dumps(inspection_json(found))
    assert "Lipschitz constant, C" in str(found)


def test_the_inside_of_fino_is_told_in_numbers(line) -> None:
    found = inspected("fino", line)
    assert found.reach.enough is True
    assert list(found.time_steps.values()) == pytest.approx([0.1] * 3)
    assert {gate.channels for gate in found.gates} == {4}
    assert {layer.spacing for layer in found.layers} == {(1 / 16,), (1 / 8,)}
    stable = found.stability
    assert stable.layers is not None
    assert stable.constant <= stable.layers.constant
    assert stable.epsilon >= stable.epsilon_mean > 0
    assert stable.bound.bound[0] == pytest.approx(stable.epsilon)
    assert found.amplification.points == (16,)


def test_a_walled_domain_is_analysed_far_from_its_walls() -> None:
    u = np.random.default_rng(0).standard_normal((10, 8, 2, 8, 8))
    data = fino.from_array(u, 0.1, (0, 1), "neumann", speed=1.0)
    model = fino.build("fino", data, history=1, width=4, levels=1)
    found = fino.inspect(model, data, plan=QUICK)
    assert model.settings.edges
    assert found.amplification is not None
    assert found.amplification.wavenumbers.shape[1] == 2
    assert found.stability.notes["true_constant"] == "no solver"
    assert "no solver for array" in describe_missing(found)["true_constant"]


def test_without_data_the_weights_still_speak(line) -> None:
    model = fino.build("fino", line, history=2, **SMALL["fino"])
    found = fino.inspect(model)
    assert found.layers
    assert found.amplification is not None
    assert found.stability is None
    assert "pass data" in inspection_text(found)


def test_a_steady_problem_has_no_stability() -> None:
    u = np.random.default_rng(0).standard_normal((6, 2, 1, 8, 8))
    data = fino.from_array(u, 1.0, (0, 1), "dirichlet", steady=True, name="darcy")
    found = fino.inspect(fino.build("fino", data, width=4, levels=1), data)
    assert found.stability is None
    assert "A steady problem is answered in one step" in inspection_text(found)
    assert "no reach is enough" in inspection_text(found)


def test_a_classical_stencil_inside_a_network_is_found(line) -> None:
    """Set every stencil of one layer to ∂x: the report must say so, and not of the others."""
    model = fino.build("fino", line, history=2, **SMALL["fino"])
    layer = model.network.encoder[0][0].operator.stencil
    strength = torch.rand(*layer.weight.shape[:2], 1)
    with torch.no_grad():
        layer.weight.copy_(strength * torch.tensor([-0.5, 0.0, 0.5]) * 16)
    found = {layer.name: layer for layer in fino.inspect(model).layers}
    report = found.pop("encoder.0.0.operator.stencil")
    assert report.nearest == {"∂x central, order 2": pytest.approx(1.0)}
    assert report.is_classical
    assert report.strongest[0].report.operator == "∂x"
    assert report.strongest[0].report.order == 2
    assert not all(layer.is_classical for layer in found.values())


def test_a_stencil_counts_by_what_it_is_applied_to() -> None:
    weights = np.zeros((1, 2, 3))
    weights[0, 0], weights[0, 1] = (-0.5, 0, 0.5), (1, -2, 1)
    report = layer_report("layer", weights, (1.0,), size=np.array([100.0, 0.01]))
    assert next(iter(report.nearest)) == "∂x central, order 2"
    assert report.strongest[0].input == 0


def test_gates_that_are_forced_open_are_always_open(line) -> None:
    model = fino.build("fino", line, history=2, **SMALL["fino"])
    with torch.no_grad():
        for name, value in model.network.named_parameters():
            if "gate.bias" in name:
                value.fill_(50.0 if "encoder" in name else -50.0)
    reports = gate_reports(model, line.test.read([0], 0, 2))
    opened = {report.block: report.average_open for report in reports}
    assert opened.pop("encoder.0.0.operator") == 1.0
    assert set(opened.values()) == {0.0}


def test_an_inspection_leaves_numbers_pictures_and_a_section(line, tmp_path: Path) -> None:
    found = inspected("fino", line)
    assert inspection_section(tmp_path) is None
    folder = write_inspection(found, tmp_path / "inspection")
    names = {path.name for path in folder.iterdir()}
    pictures = {f"{name}.png" for name in ("stencils", "gates", "bound", "waves")}
    assert names == {*pictures, "inspection.json", "section.json"}
    assert json.loads((folder / "inspection.json").read_text())["model"] == "fino"
    section = inspection_section(tmp_path)
    assert section is not None
    assert [p["address"][:22] for p in section["pictures"]] == ["data:image/png;base64,"] * 4
    assert "Proposition 1" in str(section["sections"])
    (folder / "section.json").write_text("{}")
    with pytest.raises(ValueError, match="its section cannot be read"):
        inspection_section(tmp_path)


def test_a_place_where_nothing_is_gets_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"There is no run, model or shipped model '.*nowhere'\. "):
        fino.inspect(tmp_path / "nowhere")


def test_a_model_folder_can_be_inspected(line, tmp_path: Path) -> None:
    fino.save(fino.build("fino", line, history=2, **SMALL["fino"]), tmp_path / "m")
    assert fino.inspect(tmp_path / "m").parameters > 0
    with pytest.raises(ValueError, match=r"a run or model folder, .* got int"):
        fino.inspect(3)
