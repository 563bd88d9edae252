#!/usr/bin/env bash
# A mock server of other people, asked over every wire from one fixture file (.ci/aimock.json): a whole tool loop, and
# the ways in which a server can let one down. See docs/reference/real-servers.md for what was seen.
set -euo pipefail
cd "$(dirname "$0")/.."
source .ci/peers.sh

package=@copilotkit/aimock@1.43.0
command -v npm >/dev/null || fail "this stage needs npm"
npm install --prefix "$peers/aimock" --ignore-scripts --no-audit --no-fund --loglevel error "$package" ||
    fail "this stage needs $package, and npm cannot install it here"
# `--strict`: what no fixture answers is a failure, and no friendly text.
serve "$peers/aimock/node_modules/.bin/llmock" --port 0 --fixtures .ci/aimock.json --validate-on-load --strict

mkdir "$scratch/work"
echo "words of the file" >"$scratch/work"/seen.txt

# What the server says it received: a line for each request, with its digest, its size, and the ids of the calls and
# of the results in it. Whatever the wire, the journal has one form for messages.
received() {
    curl --silent --show-error --fail "$url/__aimock/journal?testId=$1" | python3 -c '
import hashlib, json, sys
for entry in json.load(sys.stdin):
    messages = (entry["body"] or {}).get("messages", [])
    calls = [call["id"] for message in messages for call in message.get("tool_calls") or []]
    results = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    digest = hashlib.sha256(json.dumps(entry["body"]).encode()).hexdigest()
    print(digest, entry["headers"]["content-length"], "calls:", *calls, "results:", *results)'
}

# One case over one wire: the model names the fixture. `$3` requests must arrive, the exit code must be `$4`, and
# stdout exactly `$5`; the rest goes to `terret run`.
expect() {
    local wire=$1 model=$2 requests=$3 exit_code=$4 answer=$5
    shift 5
    ask "$wire" "look around" --model "peer/$model" --set "providers.peer.headers.x-test-id=$wire.$model" "$@"
    received "$wire.$model" >"$scratch/received"
    "$terret" log latest >"$scratch/log"
    if [ "$code" != "$exit_code" ] || [ "$(cat "$scratch/stdout")" != "$answer" ] ||
        [ "$(wc -l <"$scratch/received")" != "$requests" ]; then
        cat "$scratch/stdout" "$scratch/stderr" "$scratch/received" "$scratch/log"
        fail "$wire, $model: exit code $code, wanted $exit_code and $requests requests and the answer \`$answer\`"
    fi
    proven
    echo "$wire, $model: exit code $code after $requests requests: $(sed -n '/^ended\|^done/p' "$scratch/stderr")"
}

# The last case's log has this line.
logged() {
    grep -qE "$1" "$scratch/log" || { cat "$scratch/log"; fail "the log has no line like \`$1\`"; }
}

unlogged() {
    ! grep -qE "$1" "$scratch/log" || { cat "$scratch/log"; fail "the log has a line like \`$1\`"; }
}

# Every retry sent the same.
same() {
    [ "$(sort -u "$scratch/received" | wc -l)" = 1 ] ||
        { cat "$scratch/received"; fail "a retry sent something else"; }
}

for wire in "${wires[@]}"; do
    expect "$wire" tools 2 0 "One file, seen.txt."
    keep_bodies "$wire" aimock
    # Both calls and both results arrive, in their order and under the ids the server gave; and the bodies are as
    # long as the log says.
    cut -d' ' -f2- "$scratch/received" >"$scratch/got"
    cat >"$scratch/wanted" <<LINES
$(wc -c <"$peers/bodies/$wire.aimock.1.1#1.json") calls: results:
$(wc -c <"$peers/bodies/$wire.aimock.1.2#1.json") calls: call_ls call_read results: call_ls call_read
LINES
    diff "$scratch/wanted" "$scratch/got" || fail "$wire: the server received something else"
    "$terret" log latest --json >"$scratch/log"
    logged '"usage":\{"input_tokens":1200,.*"output_tokens":34'

    # A stream that is cut is asked for again, and its beginning does not count.
    expect "$wire" cut-once 2 0 "The second answer is whole."
    logged 'assistant/chunk +"This "'
    same
    expect "$wire" cut-always 3 1 "" --set max_retries=2
    same
    expect "$wire" cut-call 3 1 "" --set max_retries=2
    unlogged 'tool/call'
    same

    expect "$wire" short 1 4 "The output limit ends this in the"
    expect "$wire" denied 1 1 ""
    logged 'request/failed +AUTH'

    while read -r fault failure; do
        expect "$wire" "$fault" 2 1 "" --set max_retries=1 --set "providers.peer.headers.x-aimock-chaos-$fault=1"
        logged "request/failed +$failure"
        same
    done <<'FAULTS'
drop SERVER
malformed MALFORMED_RESPONSE
disconnect TRANSPORT
ratelimit RATE_LIMIT
FAULTS
done
echo "aimock: passed over ${wires[*]}"
