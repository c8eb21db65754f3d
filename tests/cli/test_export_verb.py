"""`fino export`, as a user calls it."""

import json
import shutil
import subprocess
import sys

import pytest
from random_models import random_model

import fino
from fino.cli.export import export

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("fino.export.library._FLAGS", ("-O0", "-march=native", "-shared", "-fPIC"))
    fino.save(random_model(width=2, levels=1), tmp_path / "little")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@needs_compiler
def test_c_is_one_file_and_a_header_and_agrees_with_torch(folder, capsys):
    export(folder / "little", to="c")
    said = capsys.readouterr().out
    assert "little.c: " in said and "little.h: " in said
    assert "It runs on height at least 2 and a multiple of 2, width at least 2" in said
    assert "A step on random numbers differs from torch by" in said
    assert "int fino_step(const float *history" in (folder / "little.h").read_text()
    with pytest.raises(ValueError, match=r"^little\.c exists already\. Choose another name"):
        export(folder / "little", to="c")
    export(folder / "little", to="c", overwrite=True)


def test_onnx_answers_machines_in_json(folder, capsys):
    pytest.importorskip("onnxruntime")
    export(folder / "little", to="onnx", out=folder / "deep" / "step.onnx", json=True)
    answer = json.loads(capsys.readouterr().out)
    assert answer["files"] == [str(folder / "deep" / "step.onnx")]
    assert 0 <= answer["difference"] < 1e-5 and answer["sizes"].startswith("height at least 2")


def test_without_a_compiler_c_is_written_and_it_says_that_nothing_was_compared(
    folder, capsys, monkeypatch
):
    monkeypatch.setenv("CC", "no-such-compiler")
    export(folder / "little", to="c")
    assert "No C compiler was found, so the code was not compared" in capsys.readouterr().out
    assert (folder / "little.c").exists()


def test_mistakes_are_one_line_each(folder):
    with pytest.raises(ValueError, match=r"^Unknown target 'onx'\. Did you mean 'onnx'\?"):
        export(folder / "little", to="onx")
    with pytest.raises(ValueError, match=r"^a file for c should end in \.c, got 'step\.onnx'"):
        export(folder / "little", to="c", out=folder / "step.onnx")
    fino.save(random_model("fno", width=2, modes=2, layers=1), folder / "global")
    command = [sys.executable, "-m", "fino", "export", "global", "--to", "c"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == (
        "fino: FNO sees the whole field (radius inf), so it is not a list of stencils and cannot "
        "be exported. Use a local model, such as fino.\n"
    )
    assert not (folder / "global.c").exists()
