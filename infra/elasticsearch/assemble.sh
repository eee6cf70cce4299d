#!/usr/bin/env bash
# Assemble an Elasticsearch server from Maven Central: infra/elasticsearch/assemble.sh [FOLDER]
#
# FOLDER (default .cache/elasticsearch-VERSION of the checkout) gets lib, modules and the compiled launcher, about 43 MB.
# Assembled once: a folder that is there is kept. Its path is printed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(sed -n 's:.*<elasticsearch.version>\(.*\)</elasticsearch.version>.*:\1:p' "$here/pom.xml")
folder=${1:-$here/../../.cache/elasticsearch-$version}
mkdir -p "$(dirname "$folder")"
folder=$(cd "$(dirname "$folder")" && pwd)/$(basename "$folder")
exec 9>"$folder.lock"
flock 9

if [[ ! -d $folder ]]; then
    missing=()
    command -v javac >/dev/null || missing+=(default-jdk-headless)
    command -v mvn >/dev/null || missing+=(maven)
    if ((${#missing[@]})); then
        echo "Missing on this machine: ${missing[*]}. Install with:" >&2
        echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
        exit 3
    fi
    unfinished=$folder.unfinished
    rm -rf "$unfinished"
    if ! mvn --batch-mode --quiet --file "$here/pom.xml" -Dfolder="$unfinished" package >&2; then
        echo "The jars of Elasticsearch $version could not be had from Maven Central; see above." >&2
        exit 3
    fi
    descriptor=META-INF/es-plugins/transport-netty4/plugin-descriptor.properties
    # Without a name as a Java module it is loaded from its jars like an older plugin, which works on a class path.
    grep -v '^modulename=' "$unfinished/descriptor/$descriptor" >"$unfinished/modules/transport-netty4/${descriptor##*/}"
    mkdir "$unfinished/config"
    javac -d "$unfinished/classes" -cp "$unfinished/lib/*" "$here/Launcher.java"
    mv "$unfinished" "$folder"
fi
echo "$folder"
