#!/usr/bin/env bash
# The library with each feature alone and with none: it builds, its tests pass, and what was left out is not there.
set -euo pipefail
cd "$(dirname "$0")/.."

http="reqwest hyper-util rustls rustls-platform-verifier h2"
tools="globset grep-matcher grep-regex grep-searcher ignore"

tree() {
    cargo tree --quiet --package terret --edges normal --prefix none --no-default-features --features "$1"
}

# Fails if the library with feature $1 needs one of the crates behind it.
without() {
    local needed
    needed=$(tree "$1")
    shift
    for crate in "$@"; do
        if grep -q "^$crate v" <<<"$needed"; then
            echo "error: \`$crate\` was left out and is needed all the same" >&2
            return 1
        fi
    done
}

# The lists are of crates that are there otherwise: a name that changed would look like one that is gone.
present=$(tree http,tools)
for crate in $http $tools; do
    grep -q "^$crate v" <<<"$present" || { echo "error: \`$crate\` is in no build" >&2; exit 1; }
done
without "" $http $tools
without http $tools
without tools $http

for features in "" http tools; do
    cargo clippy --package terret --all-targets --no-default-features --features "$features" -- -D warnings
done
cargo test --package terret --no-default-features
