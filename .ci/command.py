"""Writes the command `yiwen` of this checkout into its environment: `python .ci/command.py .venv`.

It runs the code of the checkout, with the environment's Python, from any working folder.
"""

import shlex
import sys
from pathlib import Path

# A shell reads the second line as a command, and Python as a text: the path of an interpreter after #! may contain no
# spaces and is cut off after some hundred characters.
COMMAND = """\
#!/bin/sh
'''exec' {python} "$0" "$@"
' '''
import sys

sys.path[0] = {checkout!r}

from flows.__main__ import main

if __name__ == "__main__":  # workers of the service import this file, too
    main()
"""


def write_command(environment: Path, checkout: Path) -> Path:
    """Write the command into an environment, and return its file."""
    folder = environment.absolute() / "bin"
    command = folder / "yiwen"
    python = shlex.quote(str(folder / "python"))
    command.write_text(COMMAND.format(python=python, checkout=str(checkout)), encoding="utf-8")
    command.chmod(0o755)
    return command


if __name__ == "__main__":
    write_command(Path(sys.argv[1]), Path(__file__).resolve().parent.parent)
