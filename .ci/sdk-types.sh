#!/usr/bin/env bash
# Request bodies against the request types of the official SDKs, with nothing beside them allowed: the golden ones, and
# those the stages with foreign servers really sent.
set -euo pipefail
cd "$(dirname "$0")/.."
source .ci/peers.sh

venv sdk openai anthropic
shopt -s nullglob
sent=("$peers"/bodies/*.json)
[ ${#sent[@]} -gt 0 ] || fail "no bodies were kept: .ci/real-model.sh and .ci/aimock.sh come first"
"$peers/sdk/bin/python" .ci/sdk_types.py crates/terret/tests/wire/requests/*.json "${sent[@]}"
