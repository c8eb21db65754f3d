"""Tables, figures, movies and sentences; `fino.report(run)` writes one page that shows them all.

The room has the name of its front-door function, so calling the room writes the page.
"""

import sys
from types import ModuleType
from typing import Any


class _Report(ModuleType):
    """This package as a module that can be called."""

    def __call__(self, run: Any, data: Any = None, **options: Any) -> dict[str, str]:
        """Write the page of a run; see `fino.report.page.report` for every option."""
        from fino.report.page import report

        return report(run, data, **options)


sys.modules[__name__].__class__ = _Report
