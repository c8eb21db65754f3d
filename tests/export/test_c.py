"""The generated C code steps as torch does: in every dimension, at every boundary, with all that
a step can be given, with both compilers, and without touching memory that is not its own."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_models import EVERYTHING, random_given, random_model

import fino
from fino.export.c import c_header, c_source
from fino.export.check import relative_difference, worst_difference
from fino.export.engine import CompiledStep, compile_step
from fino.export.library import compile_library, find_compiler, load_library
from fino.export.program import describe
from fino.given import Given
from fino.grid import BOUNDARIES
from fino.model.rollout import rollout
from fino.trust.bands import calibrate
from fino.trust.guards import Diverged, Seen, Watch

EXAMPLES = Path(__file__).parents[2] / "examples" / "export"
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror")
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
both_compilers = pytest.mark.parametrize(
    "compiler",
    [
        pytest.param(name, marks=pytest.mark.skipif(not shutil.which(name), reason=f"no {name}"))
        for name in ("gcc", "clang")
    ],
)
pytestmark = needs_compiler


@pytest.mark.parametrize(
    ("points", "boundary"),
    [
        ((52,), "periodic"),
        ((20, 36), ("reflect", "neumann")),
        ((6, 8, 18), ("dirichlet", "periodic", "neumann")),
    ],
)
def test_a_step_in_c_is_the_step_of_torch(points, boundary, quick):
    model = random_model(points=points, boundary=boundary, width=5, levels=1, activation="gelu")
    step = compile_step(model)
    for space in (points, tuple(n + 2 for n in points)):
        assert worst_difference(step, model, random_given(model, space, batch=2)) < 1e-6


@pytest.mark.parametrize(
    ("points", "shape"),
    [
        ((48,), {"patch": 4}),
        ((16, 24), {"patch": 2, "boundary": ("reflect", "neumann")}),
        ((16, 24), {"patch": 2, "flux": True, "fields": ("u", "v")}),
        ((4, 8, 12), {"patch": 2, "levels": 0}),
    ],
)
def test_patches_of_cells_step_alike_in_c(points, shape, quick):
    model = random_model(points=points, width=5, **{"boundary": "periodic", "levels": 1, **shape})
    step = compile_step(model)
    for space in (points, tuple(n + 8 for n in points)):
        assert worst_difference(step, model, random_given(model, space, batch=2)) < 1e-6


def test_names_from_files_stay_in_comments():
    """A name that ended its comment would be compiled and run."""
    program = describe(random_model(beside=EVERYTHING, width=3, levels=1))
    hostile = "*/ int owned; /* ??/\n#error owned \\"
    for kind in ("fields", "known", "forcing"):
        names = tuple(f"{hostile}{name}" for name in getattr(program, kind))
        assert names, kind
        program = replace(program, **{kind: names})
    scalars = tuple(replace(scalar, name=hostile) for scalar in program.scalars)
    program = replace(program, scalars=scalars)
    for text in (c_source(program), c_header(program)):
        assert "owned" in text
        assert "owned" not in re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def test_limits_that_training_did_not_measure_are_numbers_in_c():
    program = describe(random_model(width=3, levels=0))
    limits = np.array([[-1.0, 2.0, np.inf, np.inf]] * len(program.fields))
    text = c_source(replace(program, limits=limits))
    assert "3.40282347e+38f" in text and "inf.0f" not in text


@pytest.mark.parametrize("walls", ["neumann", "dirichlet"])
def test_whatever_is_given_is_given_to_c_as_well(walls, quick):
    beside = {**EVERYTHING, "walls": walls, "condition": "film"}
    model = random_model(beside=beside, boundary=("neumann", "periodic"), width=3, levels=1)
    assert worst_difference(compile_step(model), model, random_given(model, batch=3)) < 1e-6


def test_the_header_says_what_is_given_and_which_sizes_fit():
    model = random_model(beside=EVERYTHING, width=2, levels=2, fields=("u", "v"))
    header = c_header(describe(model))
    assert "history     (2, 2, height, width): past frames of u, v, the newest last" in header
    assert "parameters  nu, speed" in header and "signals, known, forcing, mask" in header
    assert "It runs on height at least 4 and a multiple of 4, width at least 4" in header


@st.composite
def models(draw):
    dims = draw(st.integers(1, 3))
    levels = draw(st.integers(0, 2 if dims < 3 else 1))
    most = {1: 90, 2: 40, 3: 12}[dims] // 2**levels
    points = tuple(2**levels * draw(st.integers(2, most)) for _ in range(dims))
    condition = draw(st.sampled_from([None, "film", "channels"]))
    beside = None
    if condition:
        beside = {
            **EVERYTHING,
            "condition": condition,
            "walls": draw(st.sampled_from(["neumann", "dirichlet", None])),
        }
    return random_model(
        points=points,
        boundary=tuple(draw(st.sampled_from(BOUNDARIES)) for _ in range(dims)),
        fields=("u", "v")[: draw(st.integers(1, 2))],
        history=draw(st.integers(1, 3)),
        predict=draw(st.sampled_from(["frame", "increment", "linear", "stencil"])),
        coordinates=draw(st.booleans()),
        edges=draw(st.booleans()),
        beside=beside,
        width=draw(st.integers(1, 20)),
        levels=levels,
        blocks=draw(st.integers(1, 2)),
        activation=draw(st.sampled_from(["relu", "gelu", "silu", "tanh"])),
        upsample=draw(st.sampled_from(["nearest", "linear"])),
        seed=draw(st.integers(0, 3)),
    )


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(model=models(), batch=st.integers(1, 3))
def test_every_model_and_size_steps_alike_in_c(model, batch, quick):
    assert worst_difference(compile_step(model), model, random_given(model, batch=batch)) < 2e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("fino", {"gate_radius": 1, "fuse_radius": 1, "levels": 1, "dt": "one", "width": 17}),
        ("fino", {"gate": False, "radius": (2, 1), "levels": 0, "dt": "fixed", "width": 33}),
        ("fino", {"patch": 2, "levels": 1, "width": 17}),
        ("plain", {"width": 3, "levels": 1, "activation": "gelu"}),
        ("dilated-resnet", {"width": 3, "blocks": 1, "dilations": (1, 3)}),
        ("percnn", {"width": 3}),
    ],
)
@pytest.mark.parametrize("lanes", [1, 4, 8, None])
def test_other_networks_and_other_vectors_step_alike(name, shape, lanes, quick, monkeypatch):
    if lanes:
        flags = ("-O1", f"-DLANES={lanes}", "-shared", "-fPIC", "-Wall", "-Wextra", "-Wno-psabi")
        monkeypatch.setattr("fino.export.library._FLAGS", flags)
    model = random_model(name, boundary=("neumann", "periodic"), points=(12, 20), **shape)
    assert worst_difference(compile_step(model), model, random_given(model)) < 1e-6


MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "model.h"
int main(int count, char **words)
{
    const int n[3] = {atoi(words[1]), atoi(words[2]), atoi(words[3])}, steps = atoi(words[4]);
    const size_t cells = (size_t)n[0] * (size_t)n[1] * (size_t)n[2], frame = FIELDS * cells;
    const size_t bytes = fino_workspace(SIZES);
    float *history = malloc(HISTORY * frame * sizeof(float)), *out = malloc(frame * sizeof(float));
    void *workspace = malloc(bytes);
    if (count != 5 || !bytes || fread(history, 4, HISTORY * frame, stdin) != HISTORY * frame)
        return 1;
    for (int step = 0; step < steps; step++) {
        if (fino_step(history, out, SIZES, PARAMETERS, NULL, workspace))
            return 2;
        memmove(history, history + frame, (HISTORY - 1) * frame * sizeof(float));
        memcpy(history + (HISTORY - 1) * frame, out, frame * sizeof(float));
        fwrite(out, 4, frame, stdout);
    }
    free(history);
    free(out);
    free(workspace);
    return 0;
}
"""


def run_in_c(folder, model, given, steps, compiler, flags):
    """The frames that a C program of its own predicts: (steps, c, *space)."""
    history = given.history[0].numpy()
    theta = [] if given.parameters is None else given.parameters[0].tolist()
    program = describe(model)
    (folder / "model.h").write_text(c_header(program))
    (folder / "model.c").write_text(c_source(program, "model.h"))
    sizes = ", ".join(f"n[{axis}]" for axis in range(3 - program.dims, 3))
    numbers = ", ".join(map(repr, theta))
    known = (
        f"#define SIZES {sizes}",
        f"enum {{ FIELDS = {model.channels}, HISTORY = {model.history} }};",
        f"static const float parameters[] = {{{numbers}}};" if theta else "",
        f"#define PARAMETERS {'parameters' if theta else 'NULL'}",
    )
    (folder / "main.c").write_text("\n".join(known) + MAIN)
    command = [compiler, *flags, "main.c", "model.c", "-lm", "-o", "main"]
    subprocess.run(command, cwd=folder, check=True)
    space = history.shape[2:]
    words = [str(n) for n in (*[1] * (3 - len(space)), *space, steps)]
    done = subprocess.run(
        [folder / "main", *words], input=history.tobytes(), capture_output=True, check=True
    )
    assert done.stderr == b""
    return np.frombuffer(done.stdout, np.float32).reshape(steps, *history.shape[1:]).copy()


@pytest.mark.slow
@both_compilers
@pytest.mark.parametrize("name", sorted(fino.PRETRAINED))
def test_every_shipped_model_steps_alike_in_c_without_a_warning(
    name, compiler, tmp_path, real_start, allowed_difference
):
    model = fino.pretrained(name)
    times = 1 if model.settings.coordinates else 2
    given, steps = real_start(name, times), 1 if model.settings.steady else 20
    expected = rollout(model, given, steps)
    flags = ("-O3", "-march=native", *STRICT)
    got = run_in_c(tmp_path, model, given, steps, compiler, flags)
    allowed = allowed_difference(name, given, steps)
    assert relative_difference(torch.from_numpy(got), expected[0]) < allowed


@pytest.mark.slow
@both_compilers
@pytest.mark.parametrize("name", sorted(fino.PRETRAINED))
def test_every_shipped_model_keeps_to_its_memory(
    name, compiler, tmp_path, real_start, allowed_difference
):
    model = fino.pretrained(name)
    given = real_start(name)
    expected, allowed = rollout(model, given, 2)[0], allowed_difference(name, given, 2)
    for flags in ((*SANITIZED, *STRICT), (*SANITIZED, *STRICT, "-march=native")):
        got = run_in_c(tmp_path, model, given, 2, compiler, flags)
        assert relative_difference(torch.from_numpy(got), expected) < allowed


@pytest.mark.slow
@both_compilers
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("points", [(7,), (5, 19), (4, 6, 17)])
def test_edges_of_every_kind_keep_to_their_memory(points, boundary, compiler, tmp_path):
    model = random_model(points=points, boundary=boundary, width=3, levels=0, blocks=2)
    given = random_given(model)
    got = run_in_c(tmp_path, model, given, 2, compiler, (*SANITIZED, *STRICT))
    assert relative_difference(torch.from_numpy(got), rollout(model, given, 2)[0]) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("language", ["c", "fortran"])
def test_the_examples_roll_a_model_out(language, tmp_path, real_start):
    if language == "fortran" and shutil.which("gfortran") is None:
        pytest.skip("no gfortran")
    model = fino.pretrained("diffusion-reaction-2d")
    program = describe(model)
    (tmp_path / "fino.h").write_text(c_header(program))
    (tmp_path / "fino.c").write_text(c_source(program))
    source = EXAMPLES / ("rollout.c" if language == "c" else "rollout.f90")
    subprocess.run(["cc", "-O2", "-c", "fino.c"], cwd=tmp_path, check=True)
    compiler = ["cc", *STRICT, "-I."] if language == "c" else ["gfortran", "-Wall"]
    command = [*compiler, str(source), "fino.o", "-lm", "-o", "rollout"]
    subprocess.run(command, cwd=tmp_path, check=True)
    history = real_start("diffusion-reaction-2d").history[..., :48]
    history[0].numpy().tofile(tmp_path / "history.bin")
    words = ["history.bin", "frames.bin", "64", "48", "5"]
    subprocess.run(["./rollout", *words], cwd=tmp_path, check=True)
    got = np.fromfile(tmp_path / "frames.bin", dtype=np.float32).reshape(5, 2, 64, 48)
    assert relative_difference(torch.from_numpy(got), rollout(model, history, 5)[0]) < 1e-5


def test_a_batch_in_threads_is_each_sample_alone(quick):
    model = random_model(width=3, levels=0)
    step: CompiledStep = compile_step(model)
    start = random_given(model, batch=5)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        together = step(start)
    finally:
        torch.set_num_threads(before)
    alone = torch.cat([step(Given(start.history[[i]])) for i in range(5)])
    assert torch.equal(together, alone)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A calibrated model of waves with a parameter and a mask, and its check in C."""
    draw = torch.Generator().manual_seed(0)
    mask = np.ones((8, 12), dtype=bool)
    mask[2:4, 3:6] = False
    u = 1 + 0.1 * torch.randn(8, 8, 2, 8, 12, generator=draw).numpy() * mask
    data = fino.from_array(
        u,
        dt=0.1,
        extent=((0, 1), (0, 1)),
        boundary="neumann",
        fields=("h", "hu"),
        history=2,
        parameters={"nu": np.linspace(0.1, 1, 8)},
        mask=~mask,  # there, true is outside
    ).with_split(train=6, validation=2)
    model = fino.build("fino", data, width=3, levels=0, blocks=1).eval()
    model.trust = calibrate(model, data)
    path = tmp_path_factory.mktemp("guarded") / "model.so"
    compile_library(describe(model), find_compiler(), path)

    def check(frame, before=None, nu=0.5):
        """What C says of a frame (c, *space) after the one before: the code and the line."""
        line, function = ctypes.create_string_buffer(200), load_library(path).fino_check
        arrays = [
            None if u is None else np.ascontiguousarray(u, dtype=np.float32)
            for u in (frame, before, [nu], mask)
        ]
        first, second, theta, inside = (
            None if u is None else ctypes.c_void_p(u.ctypes.data) for u in arrays
        )
        beside = (ctypes.c_void_p * 5)(None, None, None, inside, None)
        size = ctypes.c_size_t(200)
        code = function(first, second, 8, 12, theta, beside, line, size)
        return code, line.value.decode()

    return model, data, check


def test_a_frame_that_leaves_the_range_of_training_is_named_in_c_as_in_python(guarded):
    model, data, check = guarded
    frame = data.train[0].history[-1].clone()
    assert check(frame) == (0, "")
    for value, code in ((1.9, 3), (300.0, 4), (torch.nan, 4), (-torch.inf, 4)):
        other = frame.clone()
        other[1, 5, 7] = value
        watch = Watch(model, 1, (8, 12), strict=True)
        with pytest.raises(Diverged) as stopped:
            watch(other[None], 0, [(0, ((0, 8), (0, 12)))])
        found, line = check(other)
        assert found == code
        assert line.startswith(f"hu is {value:.3g} at cell (5, 7)")
        if code == 3 or value == 300:
            low, high = Seen.of(model).range[1]
            assert line.endswith(f", training saw {low:.3g} to {high:.3g}.")
            assert line[:-1].split(" at ")[1].split(", training")[1] in str(stopped.value)


def test_gradients_and_changes_in_c_are_those_that_python_measures(guarded):
    """The limits are those of training, found where Python finds them."""
    model, data, check = guarded
    seen, given = Seen.of(model), data.train[0].given
    history = 1 + 0.8 * (given.history - 1)
    low, high = (end + inwards for end, inwards in zip(seen.range[0], (0.01, -0.01), strict=True))
    history[0, -1, 0, 6, 9], history[0, -1, 0, 6, 10] = low, high
    history[0, :, :, 2:4, 3:6] = 50.0  # cells outside of the mask do not count
    numbers, names = seen.measure(replace(given, history=history))
    of_h = {name: at for at, (field, name, _) in enumerate(names) if field == 0}
    steepest = 10 ** float(numbers[0, of_h["steep"]]) * seen.scale[0]
    row, column = names[of_h["steep"]][2][0].tolist()
    before, frame = history[0]
    code, line = check(frame, before)
    assert (code, (row, column)) == (3, (6, 9))
    assert line.startswith(f"neighbours differ in h by {steepest:.3g} at cell (6, 9), training saw")
    smooth = torch.ones_like(frame)
    code, line = check(high * smooth, low * smooth)
    assert code == 3 and line.startswith(f"h changes by {high - low:.3g} in a step at cell (0, 0)")
    assert check(smooth, smooth - 0.1) == (0, "")


def test_a_parameter_outside_of_training_is_told_in_the_words_of_python(guarded):
    model, data, check = guarded
    frame = data.train[0].history[-1]
    given = replace(data.train[0].given, parameters=torch.tensor([[3.0]]))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.conditioning.warn_outside(given)
    assert check(frame, nu=3.0) == (3, str(said[0].message))
    assert check(frame, nu=float("nan"))[0] == 3


def test_a_model_that_was_never_calibrated_checks_for_numbers_alone(tmp_path):
    model = random_model(width=3, levels=0)
    compile_library(describe(model), find_compiler(), tmp_path / "model.so")
    check = load_library(tmp_path / "model.so").fino_check
    frame = np.full((1, 12, 8), 1e9, dtype=np.float32)
    line = ctypes.create_string_buffer(20)

    def code():
        where = ctypes.c_void_p(frame.ctypes.data)
        return check(where, None, 12, 8, None, None, line, ctypes.c_size_t(20))

    assert code() == 0
    frame[0, 3, 4] = np.inf
    assert code() == 4 and line.value == b"u is inf at cell (3"  # cut, but never beyond its end
