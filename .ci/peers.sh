# What the stages share that run terret against servers and types nobody here wrote. Sourced by them.
#
#   TERRET_BIN=FILE         another binary than the debug build
#   WIRES="openai-chat"     only these wires

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/peers"
target=$(cd "$target" && pwd)
terret=${TERRET_BIN:-$target/debug/terret}
# Packages of others, and the bodies that were sent to them; nothing of it is committed.
peers=$target/peers
read -ra wires <<<"${WIRES:-openai-chat openai-responses anthropic-messages}"
# Where a wire begins below a server: the last one's paths have their `/v1` themselves.
declare -A below=([openai-chat]=/v1 [openai-responses]=/v1 [anthropic-messages]="")

scratch=$(mktemp -d)
export TERRET_HOME=$scratch/home
server=
stop() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" || true
        server=
    fi
}
finish() {
    stop
    rm -rf "$scratch"
}
trap finish EXIT

fail() {
    echo "error: $*"
    exit 1
}

# A virtual environment NAME with these packages, at the versions of `constraints.txt`.
venv() {
    local name=$1
    shift
    if [ ! -x "$peers/$name/bin/pip" ]; then
        command -v python3 >/dev/null || fail "this stage needs python3"
        rm -rf "${peers:?}/$name"
        python3 -m venv "$peers/$name" || fail "this stage needs python3 with venv and pip"
    fi
    "$peers/$name/bin/pip" install --quiet --disable-pip-version-check --constraint .ci/constraints.txt "$@" ||
        fail "this stage needs packages that pip cannot install here: $*"
}

# Starts a server and waits until `url` finds its address in what it prints; leaves the address in `$url`.
serve() {
    # Before the server does it itself: no address of an earlier one is to be found here.
    : >"$scratch/server.log"
    "$@" >>"$scratch/server.log" 2>&1 &
    server=$!
    for _ in $(seq 300); do
        url=$(grep -m1 -oE 'http://127\.0\.0\.1:[1-9][0-9]*' "$scratch/server.log" || true)
        if [ -n "$url" ]; then return; fi
        kill -0 "$server" 2>/dev/null || { cat "$scratch/server.log"; fail "$1 did not start"; }
        sleep 0.2
    done
    fail "$1 does not say where it listens"
}

# One run over a wire: exit code in `$code`, stdout and stderr in files.
ask() {
    local wire=$1
    shift
    code=0
    "$terret" run --cwd "$scratch/work" --set "providers.peer.wire=$wire" \
        --set "providers.peer.base_url=$url${below[$wire]}" "$@" \
        </dev/null >"$scratch/stdout" 2>"$scratch/stderr" || code=$?
}

# What the harness owes whatever the other side does: each request can be proven.
proven() {
    "$terret" verify latest >"$scratch/verify" || { cat "$scratch/verify"; fail "the log does not verify"; }
}

# Keeps the bodies of the newest session for the stage that holds them against the SDKs' types.
keep_bodies() {
    local wire=$1 peer=$2 place
    mkdir -p "$peers/bodies"
    rm -f "$peers/bodies/$wire.$peer."*
    for place in $("$terret" log latest --type request/attempt | awk '{ print $4 }'); do
        # The line end is not part of the body.
        "$terret" show "latest@$place" --request 2>"$scratch/stderr" |
            head -c -1 >"$peers/bodies/$wire.$peer.$place.json"
    done
}
