"""The wheel: the checkout's folders as one package, `yiwen`.

    pip wheel --no-deps --wheel-dir dist .

flows/, tasks/, models/, kg/ and infra/ become yiwen/flows/ and so on, with all their tables, presets and templates and
with prefect.yaml, so that an installation claims a single top-level name. While the files are copied, imports of these
folders get the prefix (`from infra.errors import …` becomes `from yiwen.infra.errors import …`), as do names of classes
that are imported later, and the commands that messages name become the installed one (`python -m flows run …` becomes
`yiwen run …`). The rest is in pyproject.toml.
"""

import re
import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

FOLDERS = ("flows", "tasks", "models", "kg", "infra")
ALONGSIDE = ("prefect.yaml", "LICENSE", "NOTICE")
IMPORT = re.compile(
    rf"^(?P<start>\s*(?:from|import) )(?P<name>(?:{'|'.join(FOLDERS)})(?:\.[\w.]+)?)(?= |$)", re.MULTILINE
)
"""`from infra.errors import UserError`, `    import models.smedbert`"""
REFERENCE = re.compile(rf'(?<=")(?=(?:{"|".join(FOLDERS)})\.[\w.]+:\w+")')
"""`"models.objectives.bert.objective:Bert"`, which is imported when it is asked for."""
COMMAND = re.compile(r"(?:\.venv/bin/)?python -m flows\b|\.venv/bin/yiwen\b")
"""`python -m flows run`, `.venv/bin/yiwen run`"""
ITSELF = "yiwen.py"
"""The module that is `yiwen` in a checkout; it becomes the package's own."""
COMMAND_LINE = (
    '"""The command line: `python -m yiwen` is `yiwen`."""\n\nfrom yiwen.flows.__main__ import main\n\nmain()\n'
)


def mapped(source: str) -> str:
    """Return a module's source as it is below `yiwen`."""
    return COMMAND.sub("yiwen", REFERENCE.sub("yiwen.", IMPORT.sub(r"\g<start>yiwen.\g<name>", source)))


class BuildBelowYiwen(build_py):
    """Copies the packages below `yiwen`, rewritten by `mapped`, and what else the folders contain."""

    def run(self) -> None:
        super().run()
        package = Path(self.build_lib) / "yiwen"
        for folder in FOLDERS:
            for file in Path(folder).rglob("*"):
                if file.is_file() and "__pycache__" not in file.parts:
                    target = package / file
                    target.parent.mkdir(parents=True, exist_ok=True)
                    if file.suffix == ".py":
                        target.write_text(mapped(file.read_text(encoding="utf-8")), encoding="utf-8")
                    else:
                        shutil.copy2(file, target)
        for name in ALONGSIDE:
            shutil.copy2(name, package / name)
        itself = mapped(Path(ITSELF).read_text(encoding="utf-8"))
        (package / "__init__.py").write_text(itself, encoding="utf-8")
        (package / "__main__.py").write_text(COMMAND_LINE, encoding="utf-8")


if __name__ == "__main__":
    setup(
        packages=[f"yiwen.{name}" for name in find_packages(include=[f"{folder}*" for folder in FOLDERS])],
        package_dir={f"yiwen.{folder}": folder for folder in FOLDERS},
        cmdclass={"build_py": BuildBelowYiwen},
    )
