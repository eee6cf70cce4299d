#!/bin/bash
# Creates the virtual environment with the pinned packages: infra/setup.sh PYTHON FOLDER
set -euo pipefail
python=$1
venv=$2

missing=()
command -v "$python" >/dev/null || missing+=(python3.11)
if command -v "$python" >/dev/null && ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    missing+=(python3.11-venv)
fi
command -v git >/dev/null || missing+=(git)
if ((${#missing[@]})); then
    echo "Missing on this machine: ${missing[*]}. Install with:" >&2
    echo "    sudo apt-get update && sudo apt-get install -y ${missing[*]}" >&2
    exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
    echo "$python is $("$python" --version); Yiwen needs Python 3.11. Use another interpreter: make PYTHON=/path/to/python3.11" >&2
    exit 1
fi

[[ -x $venv/bin/python ]] || "$python" -m venv "$venv"
echo "Installing pinned packages into $venv (about 6 GB, torch with its CUDA libraries among them) …"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt pip
mapfile -t packages < <("$venv/bin/python" .ci/requirements.py)
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "${packages[@]}"
"$venv/bin/python" .ci/command.py "$venv"
