"""The page's scripts in node: what a browser would compute, without one."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import fino

__all__ = ["needs_node", "run_script", "scripts"]

BROWSER = Path(fino.__file__).parent / "export" / "browser"

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no node")


def scripts(*names: str) -> str:
    return "\n".join((BROWSER / f"{name}.js").read_text() for name in names)


def run_script(names, code, folder, **given):
    """What the body of an async function returns, given `given` by name, after the page's scripts.

    The engines of the page's facts are decoded by the code itself.
    """
    body = f"(async () => {{ const {{{', '.join(given)}}} = handed; {code} }})()"
    lines = [
        scripts(*names),
        "const handed = JSON.parse(require('fs').readFileSync(0, 'utf8'));",
        f"{body}.then((found) => console.log(JSON.stringify(found)));",
    ]
    script = folder / "script.js"
    script.write_text("\n".join(lines))
    done = subprocess.run(
        ["node", str(script)], input=json.dumps(given), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
