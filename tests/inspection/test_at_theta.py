"""A look inside models that are given parameters, known fields, forcing and a mask."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import fino
from fino.cli.results import inspect as inspect_verb
from fino.given import Given
from fino.inspection.amplification import step_amplification
from fino.inspection.held import Held, average_conditions, theta_at
from fino.inspection.layers import gate_reports
from fino.inspection.operator_norm import layer_bound
from fino.inspection.stability import StabilityPlan
from fino.model.fused import plain_blocks
from fino.report.inspection_page import write_inspection
from fino.report.inspection_words import inspection_json, inspection_sections
from fino.report.words import describe_sample

POINTS, FRAMES, N = (16, 8), 8, 12
QUICK = StabilityPlan(trajectories=2, iterations=4, looks=(1,))


def world(**less: bool) -> fino.data.dataset.Dataset:
    """A field between walls with everything that a trajectory may be given."""
    draw = np.random.default_rng(0)
    u = draw.normal(size=(N, FRAMES, 1, *POINTS)).cumsum(axis=1)
    outside = np.zeros(POINTS, dtype=bool)
    outside[4:6, 2:4] = True
    facts = {
        "parameters": {"nu": np.geomspace(1e-3, 1.0, N), "speed": np.linspace(1, 2, N)},
        "known": {"depth": draw.uniform(1, 2, (N, *POINTS))},
        "forcing": {"wind": draw.normal(size=(N, FRAMES, *POINTS)), "tide": np.arange(FRAMES)},
        "mask": outside,
        "walls": "dirichlet",
    }
    facts = {key: value for key, value in facts.items() if key not in less}
    return fino.from_array(u, 0.1, ((0, 2), (0, 1)), ("neumann", "periodic"), history=2, **facts)


def modulated(data: fino.data.dataset.Dataset, **size: object) -> fino.model.emulator.Emulator:
    """A FINO whose blocks depend on θ far more than at their first draw."""
    size = {"width": 4, "levels": 1, "activation": "gelu", **size}
    model = fino.build("fino", data, predict="increment", **size).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("film.linear.weight"):
                weight.mul_(30)
    return model


def test_theta_is_the_middle_of_the_trained_range_unless_told() -> None:
    model = modulated(world())
    low, high = 1e-3, 1.0
    found = theta_at(model)
    assert (
        found.trained["nu"] == pytest.approx((low, high), rel=1e-6) or found.trained["nu"][0] > low
    )
    ends = found.trained["nu"]
    assert found.values["nu"] == pytest.approx(math.sqrt(ends[0] * ends[1]), rel=1e-5)
    assert found.values["speed"] == pytest.approx(sum(found.trained["speed"]) / 2, rel=1e-5)
    assert theta_at(model, {"nu": 0.03}).values["nu"] == pytest.approx(0.03)


def test_a_parameter_that_is_unknown_or_far_outside_is_said() -> None:
    model = modulated(world())
    with pytest.raises(ValueError, match=r"not given parameters 'mu'\. Did you mean 'nu'\?"):
        fino.inspect(model, parameters={"mu": 0.1})
    with pytest.warns(UserWarning, match="nu = 50 lies outside of the range"):
        theta_at(model, {"nu": 50.0})
    plain = fino.build("fino", world(parameters=False), width=4, levels=0)
    with pytest.raises(ValueError, match="It takes no parameters"):
        theta_at(plain, {"nu": 0.1})


def test_time_steps_and_stencils_are_those_at_theta() -> None:
    data = world()
    model = modulated(data)
    found = [fino.inspect(model, parameters={"nu": nu}) for nu in (0.005, 0.5)]
    block = model.network.bottleneck[0]
    for one in found:
        given = average_conditions(model, one.theta, POINTS)
        film = block.film(model.network.embed(model.conditioning.theta(given)))
        assert one.time_steps["bottleneck.0"] == pytest.approx(block.dt(film.dt).item(), rel=1e-6)
        layer = next(x for x in one.layers if x.name == "bottleneck.0.operator.stencil")
        strong = layer.strongest[0]
        weight = block.operator.stencil.weight[strong.output, strong.input].detach()
        expected = weight * (1 + film.scale[0, strong.output].item())
        np.testing.assert_allclose(strong.report.weights, expected.numpy(), rtol=1e-5)
    assert found[0].time_steps != found[1].time_steps
    over = found[0].time_steps_over["nu"]
    assert len(over["values"]) == len(over["time_steps"]["bottleneck.0"]) == 9


def test_waves_are_those_of_the_step_at_theta() -> None:
    """A small wave on a constant state comes back as the factor found for it at that θ."""
    u = np.random.default_rng(0).normal(size=(N, FRAMES, 1, 16)).cumsum(axis=1)
    theta = {"nu": np.linspace(0, 1, N)}
    data = fino.from_array(u, 0.1, (0, 1), "periodic", history=1, parameters=theta)
    model = modulated(data, levels=0).double()
    state, factors = model.input_mean.detach().clone(), []
    x = torch.arange(16).double() / 16
    for nu in (0.2, 0.8):
        found = step_amplification(model, state, (16,), theta_at(model, {"nu": nu}))
        assert found is not None
        held = Held(model, Given(u, parameters=torch.tensor([[nu]])))
        wave = 1e-6 * torch.cos(2 * math.pi * 3 * x)
        with torch.no_grad():
            change = held((state + wave).view(1, 1, 1, -1)) - held(
                (state + 0 * x).view(1, 1, 1, -1)
            )
        answer = torch.fft.fft(change[0, 0])[3] / torch.fft.fft(wave)[3]
        factors.append(found.modes_of(3)[0])
        assert abs(complex(answer) - factors[-1]) < 1e-4
    assert abs(factors[0] - factors[1]) > 1e-3


def test_a_step_held_at_its_conditions_is_the_step() -> None:
    data = world()
    model = modulated(data)
    given = data.test.begin([0], model.history)[0].for_one_step()
    held = Held(model, given)
    torch.testing.assert_close(held(given.history), model(given))
    two = given.history.repeat(2, 1, 1, 1, 1)
    torch.testing.assert_close(held(two)[1:], model(given))


def test_gates_and_the_bound_from_layers_know_theta() -> None:
    data = world()
    model = modulated(data)
    given = data.test.begin([0], model.history)[0].for_one_step()
    (first, *_) = gate_reports(model, given)
    block = model.network.encoder[0][0]
    seen = {}
    block.operator.fuse.register_forward_hook(lambda m, i, o: seen.update(gated=i[0]))
    block.operator.gate.register_forward_hook(lambda m, i, o: seen.update(s=i[0]))
    with torch.no_grad(), plain_blocks():  # the fused block calls no modules
        model(given)
    opening = (seen["gated"] / seen["s"])[seen["s"].abs() > 1e-3]
    assert first.largest == pytest.approx(float(opening.max()), rel=1e-3)
    gates = {gate.block: (gate.largest, gate.sensitivity) for gate in gate_reports(model, given)}
    free, at_theta = layer_bound(model, gates), layer_bound(model, gates, given)
    assert free is not None and at_theta is not None and free.constant != at_theta.constant


def test_everything_is_measured_on_data_with_conditions() -> None:
    data = world()
    found = fino.inspect(modulated(data), data, plan=QUICK)
    assert found.stability is not None and found.amplification is not None
    assert found.stability.bounded.steps == FRAMES - 2  # the forcing ends with the data
    assert found.stability.constant < found.stability.layers.constant
    text = "\n".join(line for part in inspection_sections(found) for line in part.lines)
    assert "Δt, stencils and waves are those at nu = " in text
    assert inspection_json(found)["theta"]["trained"]["speed"][0] == pytest.approx(1.0, abs=0.6)


def test_every_kind_of_model_can_be_looked_into() -> None:
    data = world(forcing=False)
    for name, size in (("unet", {"width": 2, "levels": 1}), ("fno", {"width": 4, "modes": 2})):
        model = fino.build(name, data, predict="increment", **size)
        found = fino.inspect(model, data, plan=QUICK, parameters={"nu": 0.1})
        assert found.theta.values["nu"] == pytest.approx(0.1)
        assert found.stability.bounded.steps == 10 * (FRAMES - 2)


def test_trajectories_of_unequal_length_are_measured_to_the_shortest() -> None:
    draw = np.random.default_rng(0)
    u = [draw.normal(size=(6 + i % 3, 1, 8)) for i in range(8)]
    data = fino.from_array(u, 0.1, (0, 1), "periodic", history=1)
    found = fino.inspect(fino.build("fino", data, width=2, levels=0), data, plan=QUICK)
    assert len(found.stability.bound.bound) == 5


def test_the_solver_that_knows_theta_is_asked_at_theta() -> None:
    """Advection slides by β Δt: the true factor of a wave turns with the speed asked for."""
    data = fino.generate(
        "advection", samples=8, points=16, frames=5, duration=0.05, vary={"beta": "0.5:2"}
    )
    model = fino.build("fino", data, width=2, levels=0, history=1, predict="increment")
    phases = {}
    for beta in (0.7, 1.6):
        found = fino.inspect(model, data, parameters={"beta": beta}, plan=QUICK)
        (factor,) = found.stability.true_amplification.modes_of(1)
        phases[beta] = -np.angle(factor) / (2 * math.pi * data.dt)
    assert phases[0.7] == pytest.approx(0.7, rel=0.1)
    assert phases[1.6] == pytest.approx(1.6, rel=0.1)


def test_the_verb_takes_parameters_and_the_page_shows_them(tmp_path: Path, capsys) -> None:
    data = world()
    model = modulated(data)
    fino.save(model, tmp_path / "model")
    inspect_verb(tmp_path / "model", parameters=("nu=0.03",), figures=tmp_path / "pictures")
    assert "nu = 0.03 (trained on" in capsys.readouterr().out
    assert (tmp_path / "pictures" / "time-steps-nu.png").is_file()
    with pytest.raises(ValueError, match=r"should be NAME=NUMBER, such as nu=0\.03, got 'nu'"):
        inspect_verb(tmp_path / "model", parameters=("nu",))
    page = write_inspection(fino.inspect(model), tmp_path / "inspection") / "section.json"
    assert "The learned Δt of every block over the trained range" in page.read_text()


def test_a_sample_is_named_with_its_parameters_and_its_mask() -> None:
    assert describe_sample(3, {"nu": 0.03}, True) == (
        "Test sample 3, nu = 0.03. Blank cells lie outside of the domain (masked)."
    )
