"""The C engine: the same rollout, compiled once, and never a silent change of numbers."""

from __future__ import annotations

import re
import shutil

import pytest
import torch
from random_models import random_given, random_model

import fino
from fino.export import engine, library
from fino.export.engine import CompiledStep, choose_engine, compile_step
from fino.export.program import describe

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
    pytest.mark.usefixtures("quick"),
]


@pytest.fixture(scope="module")
def model():
    return random_model(width=4, levels=1, boundary=("neumann", "periodic"), points=(24, 16))


@pytest.fixture(scope="module")
def history(model):
    return random_given(model, batch=2).history


def test_a_rollout_by_the_engine_is_that_of_torch(model, history):
    by_torch = fino.rollout(model, history, steps=20, engine="torch")
    by_c = fino.rollout(model, history, steps=20, engine="c")
    assert by_c.dtype == by_torch.dtype
    torch.testing.assert_close(by_c, by_torch, rtol=0, atol=1e-5)
    assert not torch.equal(by_c, by_torch)  # it did not run on torch


def test_tiles_and_regions_of_the_engine_are_its_whole_rollout(model, history, tmp_path):
    whole = fino.rollout(model, history, steps=6, engine="c")
    assert torch.equal(fino.rollout(model, history, steps=6, tile=8, engine="c"), whole)
    region = fino.rollout(model, history, steps=6, region=((3, 9), (12, 20)), engine="c")
    columns = [i % 16 for i in range(12, 20)]
    assert torch.equal(region, whole[:, :, :, 3:9][..., columns])
    fino.rollout(model, history, steps=6, out=tmp_path / "out.npy", engine="c")
    assert (tmp_path / "out.npy").exists()


def test_positions_of_a_window_are_those_of_the_domain():
    model = random_model(width=3, levels=0, boundary="neumann", coordinates=True, points=(16, 12))
    history = random_given(model).history
    whole = fino.rollout(model, history, steps=3, engine="c")
    assert torch.equal(fino.rollout(model, history, steps=3, tile=8, engine="c"), whole)


def test_a_model_is_compiled_once_and_again_when_its_weights_change(model, monkeypatch):
    compiled = []
    original = library.subprocess.run

    def run(command, **options):
        compiled.extend(word for word in command if word.endswith("fino.c"))
        return original(command, **options)

    other = random_model(width=4, levels=1, seed=5)
    monkeypatch.setattr(library.subprocess, "run", run)
    compile_step(other)
    compile_step(other)
    assert len(compiled) == 1
    with torch.no_grad():
        next(other.network.parameters()).add_(0.1)
    compile_step(other)
    assert len(compiled) == 2


def test_a_library_that_computes_something_else_is_refused(model, monkeypatch):
    other = random_model(width=4, levels=1, seed=6)
    original = library.c_source
    monkeypatch.setattr(
        library, "c_source", lambda *a: original(*a).replace("SHIFT[c]", "(SHIFT[c] + 0.01f)")
    )
    with pytest.raises(ValueError, match=r"^The compiled step differs from torch by \d\.\de-\d\d"):
        compile_step(other)


def test_without_a_compiler_one_line_says_so_and_the_default_is_torch(model, history, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ValueError, match=r"^No C compiler was found: neither \$CC, cc, gcc nor"):
        fino.rollout(model, history, steps=1, engine="c")
    monkeypatch.setattr(engine, "_WORTH_COMPILING", 0.0)
    assert choose_engine(model, None, 1, (24, 16), 100) is model


def test_a_compiler_that_fails_is_quoted_in_one_line(model, history, monkeypatch, tmp_path):
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho 'cannot find float.h' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(ValueError, match=r"^The C compiler failed: cannot find float\.h\. Use"):
        fino.rollout(model, history, steps=1, engine="c")
    monkeypatch.setattr(engine, "_WORTH_COMPILING", 0.0)
    with pytest.warns(UserWarning, match=r"cannot find float\.h.* goes on with torch\."):
        assert choose_engine(model, None, 1, (24, 16), 100) is model


def test_mistakes_are_answered_in_one_line(model, history):
    with pytest.raises(ValueError, match=r"^Unknown engine 'C'\. "):
        fino.rollout(model, history, steps=1, engine="C")
    with pytest.raises(ValueError, match=r"^FNO sees the whole field \(radius inf\)"):
        compile_step(random_model("fno", width=2, modes=2, layers=1))
    with pytest.raises(ValueError, match=r"^The C engine computes in float32, and this model is"):
        compile_step(random_model(width=2, levels=0).double())
    message = "grid (24, 15) does not fit: this model runs on height at least 2"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        fino.rollout(model, history[..., :15], steps=1, engine="c")


def test_the_default_compiles_long_rollouts_and_takes_what_is_measured_faster(monkeypatch):
    model = random_model(width=4, levels=0, seed=7)
    assert choose_engine(model, None, 1, (12, 8), 100) is model  # not worth compiling
    work = describe(model).multiply_adds * 12 * 8 * 100
    monkeypatch.setattr(engine, "_WORTH_COMPILING", 0.9 * work)
    seconds = {CompiledStep: 1.0, type(model): 2.0}
    monkeypatch.setattr(engine, "_seconds", lambda step, start: seconds[type(step)])
    assert isinstance(choose_engine(model, None, 1, (12, 8), 100), CompiledStep)
    monkeypatch.setattr(engine, "_WORTH_COMPILING", 2 * work)
    assert isinstance(choose_engine(model, None, 1, (12, 8), 100), CompiledStep)  # it is there now
    assert choose_engine(model, None, 1, (12, 8), 2) is model  # too short to matter
    seconds[CompiledStep] = 3.0
    assert choose_engine(model, None, 1, (16, 8), 100) is model  # measured slower
