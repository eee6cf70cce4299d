#!/usr/bin/env bash
# Stop the server of a folder: infra/elasticsearch/stop.sh FOLDER. Its data stay; where none runs nothing happens.
set -euo pipefail

seconds_to_stop=30
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if (($# != 1)); then
    echo "Usage: $0 FOLDER" >&2
    exit 2
fi
[[ -d $1 ]] || exit 0
folder=$(cd "$1" && pwd)
source "$here/process.sh"
exec 9>"$folder/lock"
flock 9

if runs "$folder"; then
    process=$(<"$folder/pid")
    kill -TERM "$process"
    for ((tenth = 0; tenth < 10 * seconds_to_stop; tenth++)); do
        runs "$folder" || break
        sleep 0.1
    done
    if runs "$folder"; then
        kill -KILL "$process"
    fi
fi
rm -f "$folder/pid" "$folder/url"
