#!/usr/bin/env bash
# Start an Elasticsearch server on loopback: infra/elasticsearch/start.sh FOLDER [PORT]
#
# FOLDER gets its data, its log, its process id (pid) and its address (url). Without PORT it takes a free one. Prints
# the address once the server answers; where one runs from FOLDER already, prints that one's.
# ELASTICSEARCH_HEAP sets the heap (default 512m); JDK_JAVA_OPTIONS other options of Java, by default those that start
# fast: set it to -XX:+UseG1GC, say, for a server that runs long.
set -euo pipefail

seconds_to_start=180
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if (($# < 1 || $# > 2)) || [[ ! ${2:-0} =~ ^[0-9]+$ ]]; then
    echo "Usage: $0 FOLDER [PORT]" >&2
    exit 2
fi
mkdir -p "$1"
folder=$(cd "$1" && pwd)
port=${2:-0}
home=$("$here/assemble.sh")
source "$here/process.sh"
exec 9>"$folder/lock"
flock 9

if ! runs "$folder"; then
    rm -f "$folder/url" "$folder/pid"
    mkdir -p "$folder/tmp"
    heap=${ELASTICSEARCH_HEAP:-512m}
    export JDK_JAVA_OPTIONS=${JDK_JAVA_OPTIONS:--XX:+UseSerialGC -XX:TieredStopAtLevel=1}
    options=(-Xms"$heap" -Xmx"$heap" -Djava.io.tmpdir="$folder/tmp"
        -Djna.tmpdir="$folder/tmp" -Dfile.encoding=UTF-8 -XX:+ExitOnOutOfMemoryError)
    # In a session of its own, so that an interrupt at the keyboard does not reach it.
    setsid java "${options[@]}" -cp "$home/lib/*:$home/classes" Launcher "$home" "$folder" "$port" \
        >"$folder/log" 2>&1 </dev/null 9>&- &
    echo $! >"$folder/pid"
fi

for ((tenth = 0; tenth < 10 * seconds_to_start; tenth++)); do
    if [[ -s $folder/url ]]; then
        cat "$folder/url"
        exit 0
    fi
    if ! kill -0 "$(<"$folder/pid")" 2>/dev/null; then
        echo "The server ended while it started. The end of $folder/log, without where in the code:" >&2
        { grep -Ev '^\s*(at |\.\.\. )' "$folder/log" || true; } | tail -n 10 >&2
        rm -f "$folder/pid"
        exit 1
    fi
    sleep 0.1
done
echo "The server did not answer within $seconds_to_start seconds; see $folder/log. Stop it with: $here/stop.sh $folder" >&2
exit 1
