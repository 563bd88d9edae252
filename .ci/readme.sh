#!/usr/bin/env bash
# Runs the commands that the documentation shows: every ```sh block of README.md, CONTRIBUTING.md and docs/.
#
# The blocks of a page are one script, run in an empty directory with the debug build of terret on PATH. A block
# that cannot run says so in its first line, with the reason: ```sh no-run (needs a key)
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --quiet -p terret-cli
bin=$(cd "${CARGO_TARGET_DIR:-target}/debug" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if grep -rnE '^```sh +[^ ]' --include='*.md' README.md CONTRIBUTING.md docs | grep -vE '```sh no-run \(.+\)$'; then
    echo "error: a block is either \`sh\` or \`sh no-run (reason)\`"
    exit 1
fi

ran=0
while read -r page; do
    blocks=$(awk '/^```sh$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$page")
    if [ -z "$blocks" ]; then continue; fi
    echo "$page"
    mkdir -p "$scratch/$ran/work" "$scratch/$ran/home"
    if ! (
        cd "$scratch/$ran/work"
        env -i PATH="$bin:$PATH" HOME="$scratch/$ran/home" TERRET_HOME="$scratch/$ran/home/terret" LANG=C.UTF-8 \
            bash -euo pipefail -x -c "$blocks" </dev/null >"$scratch/$ran/out" 2>&1
    ); then
        cat "$scratch/$ran/out"
        echo "error: a command of $page failed"
        exit 1
    fi
    ran=$((ran + 1))
done < <(ls README.md CONTRIBUTING.md; find docs -name '*.md' | sort)
echo "the commands of $ran pages ran"
