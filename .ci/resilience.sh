#!/usr/bin/env bash
# A server that fails on purpose, and judges by rules that are not ours what its client makes of it: whether it waits
# as long as it was told, backs off, gives up in time, and takes no half stream for an answer.
set -euo pipefail
cd "$(dirname "$0")/.."
source .ci/peers.sh

venv resilience llmock
below[anthropic-messages]=/anthropic
mkdir "$scratch/work"

# Without a pause a whole answer is in the socket before we can hang up on it, and the judge takes it for read.
judge() {
    serve "$peers/resilience/bin/llmock" serve --port 0 --stream-chunk-delay-ms 10 "$@"
}

control() {
    curl --silent --show-error --fail --output "$scratch/control" "$@"
}

# The next requests get these: each kind of trouble in this order, and an error before all others.
script() {
    control "$url/_llmock/scenario" --data "{\"behaviors\": [$1]}"
}

# Nine attempts at most: the judge calls eleven a storm.
run() {
    ask "$1" "look around" --model peer/any --tools shell --set max_retries=8
    proven
    "$terret" log latest >"$scratch/log"
}

# The run ended with this exit code, after this many failures, and a tool was run or none was.
came_to() {
    local failed
    failed=$(grep -c 'request/failed' "$scratch/log" || true)
    if [ "$code" != "$1" ] || [ "$failed" != "$2" ] || { [ "$1" = 0 ] && ! grep -q 'tool/result .* Ok' "$scratch/log"; }; then
        cat "$scratch/stderr" "$scratch/log"
        fail "exit code $code after $failed failures, wanted $1 after $2"
    fi
}

# Its warnings count as well.
verdict() {
    control "$url/_llmock/verdict?format=text"
    echo "-- $1"
    cat "$scratch/control"
    "$peers/resilience/bin/llmock" report --strict --url "$url" >"$scratch/control" ||
        fail "$1: the judge found something"
}

call='"text": "I look.", "tool_calls": [{"name": "shell", "arguments": {"command": "ls"}}]'

judge
for wire in "${wires[@]}"; do
    control -X POST "$url/_llmock/reset"
    script '{"type": "fail", "status": 429, "retry_after": 1.5}, {"type": "fail", "status": 503},
        {"type": "stream_fault", "kind": "truncate", "after_chunks": 3},
        {"type": "stream_fault", "kind": "disconnect", "after_chunks": 3},
        {"type": "reply", "times": 3, '"$call"'}'
    run "$wire"
    came_to 0 4
    script '{"type": "stream_fault", "kind": "malformed", "after_chunks": 3}, {"type": "reply", "times": 2, '"$call"'}'
    run "$wire"
    came_to 0 1
    script '{"type": "fail", "status": 400}'
    run "$wire"
    came_to 1 1
    verdict "$wire, as scripted"
done
stop

judge --error-rate 429=0.2 --stream-fault truncate=0.2
for wire in "${wires[@]}"; do
    control -X POST "$url/_llmock/reset"
    for _ in 1 2 3 4; do run "$wire"; done
    verdict "$wire, by chance"
done
echo "resilience: passed over ${wires[*]}"
