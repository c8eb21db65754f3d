"""The command line called inside this process, and what a polite answer to a mistake is."""

from __future__ import annotations

import contextlib
import io
import sys
import traceback
from dataclasses import dataclass
from typing import Any
from unittest import mock

from fino.cli.app import main


@dataclass(frozen=True)
class Answer:
    """What a command came to: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line that answers a mistake."""
        assert self.is_polite, f"exit {self.code}\n{self.err[-3000:]}"
        assert self.code == 2, f"exit {self.code}, expected a mistake to be answered\n{self.out}"
        return self.err.splitlines()[-1]

    @property
    def is_polite(self) -> bool:
        """Done, or exit 2 with one line; what a progress bar drew before it does not count."""
        if self.code == 0:
            return True
        said = [line for line in self.err.splitlines() if line.startswith("fino: ")]
        return self.code == 2 and len(said) == 1 and "Traceback" not in self.err


def fino(*words: Any) -> Answer:
    """`fino WORDS` in this process."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        mock.patch.object(sys, "argv", ["fino", *map(str, words)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
            code = 1
    return Answer(code, out.getvalue(), err.getvalue())
