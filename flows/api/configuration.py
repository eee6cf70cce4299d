"""Settings of a Python session: given here, or by the environment as everywhere else (infra/settings.py)."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infra.console.progress import Display
    from infra.settings import Settings

PROGRESS = "YIWEN_PROGRESS"
"""`off`: calls from Python show neither bars nor what each stage did; warnings are shown all the same."""
_VARIABLES = {"home": "YIWEN_HOME", "workers": "YIWEN_WORKERS", "corpus": "YIWEN_CORPUS", "progress": PROGRESS}
_SHOWN = {True: "on", False: "off"}


class Configuration:
    """Settings in force, which a notebook shows; as a context manager it puts the former ones back at its end."""

    def __init__(self, before: dict[str, str | None], settings: Settings) -> None:
        self._before = before
        self.settings = settings
        """As read from the environment."""

    @property
    def home(self) -> str:
        """Root of the artifact store."""
        return self.settings.home

    def __enter__(self) -> Configuration:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _restore(self._before)

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {value}" for name, value in self._rows())

    def _repr_html_(self) -> str:
        from infra.console.displayed import table

        return table(("setting", "value"), self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        where = "" if os.environ.get("YIWEN_HOME") else " (YIWEN_HOME is not set)"
        own = self.settings
        return [
            ("artifacts", f"{own.home}{where}"),
            ("workers", f"{own.workers} ({own.executor})"),
            ("text by default", own.corpus or "articles templated from the facts of CMeKG"),
            ("progress", "shown" if _shows_progress() else "not shown"),
        ]


def configure(
    *,
    home: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    corpus: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    **unknown: Any,
) -> Configuration:
    """Set where a session works and what it shows, and return the settings in force; without arguments, look at them.

    What is not given stays as the environment has it. The settings hold for this process and those that it starts,
    until they are set anew or the block ends: `with yiwen.configure(home="try/"): …`.

    Args:
        home: root of the artifact store (YIWEN_HOME), a folder or a URI; by default `artifacts` in the checkout or, of
            an installation, in the current folder.
        workers: processes that stages may use at once (YIWEN_WORKERS).
        corpus: text for flows that are given none (YIWEN_CORPUS).
        progress: False to show neither bars nor what each stage did (YIWEN_PROGRESS=off); warnings are always shown.

    Raises:
        UserError: an unknown setting, or a value that cannot be used.
    """
    from infra.errors import UserError
    from infra.keywords import nearest
    from infra.settings import Settings

    for name in unknown:
        raise UserError(f"There is no setting {name!r}{nearest(name, _VARIABLES)}; there are {', '.join(_VARIABLES)}.")
    shown = None if progress is None else _SHOWN[progress]
    given = {"home": home, "workers": workers, "corpus": corpus, "progress": shown}
    before = {variable: os.environ.get(variable) for variable in _VARIABLES.values()}
    _restore({_VARIABLES[name]: os.fspath(value) if isinstance(value, os.PathLike) else str(value)
              for name, value in given.items() if value is not None})  # fmt: skip
    try:
        settings = Settings.from_environment()
    except UserError:
        _restore(before)
        raise
    return Configuration(before, settings)


def current_display() -> Display:
    """Return where progress is shown: in a notebook's cell, in the terminal, or nowhere if it is switched off."""
    if not _shows_progress():
        return "none"
    return "notebook" if _in_notebook() else "terminal"


def _shows_progress() -> bool:
    return os.environ.get(PROGRESS) != _SHOWN[False]


def _in_notebook() -> bool:
    """Return whether a kernel runs this code: its shell has one, that of a terminal has none."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None


def _restore(values: dict[str, str | None] | dict[str, str]) -> None:
    for variable, value in values.items():
        if value is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = value
