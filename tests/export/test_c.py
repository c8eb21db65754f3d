"""The generated C code steps as torch does: in every dimension, at every boundary, with all that
a step can be given, with both compilers, and without touching memory that is not its own."""

from __future__ import annotations

import re
import shutil
import subprocess
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
from fino.export.program import describe
from fino.given import Given
from fino.grid import BOUNDARIES
from fino.model.rollout import rollout

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
def test_every_shipped_model_keeps_to_its_memory(name, compiler, tmp_path, real_start):
    model = fino.pretrained(name)
    given = real_start(name)
    for flags in ((*SANITIZED, *STRICT), (*SANITIZED, *STRICT, "-march=native")):
        got = run_in_c(tmp_path, model, given, 2, compiler, flags)
        assert relative_difference(torch.from_numpy(got), rollout(model, given, 2)[0]) < 1e-5


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
