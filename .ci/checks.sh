#!/usr/bin/env bash
# The checks anyone can run by hand, run by a machine: bash, coreutils, the scripted model, no network.
#
#   .ci/checks.sh [PATH OF THE BINARY]        (default: target/debug/terret)
set -euo pipefail

terret=$(realpath "${1:-target/debug/terret}")
top=$(mktemp -d)
started=()

cleanup() {
  for pid in ${started[@]+"${started[@]}"}; do kill -9 "$pid" 2>/dev/null || true; done
  if [ "${failed:-no}" = yes ]; then echo "kept: $top" >&2; else rm -rf "$top"; fi
}
trap cleanup EXIT

fail() {
  failed=yes
  echo "FAILED $check: $*" >&2
  for file in "$top/$check"/*.err; do
    if [ -s "$file" ]; then sed "s|^|  ${file##*/}: |" "$file" >&2; fi
  done
  exit 1
}

# Each check has a directory of its own: a home, a place to work, no other variables that could matter.
begin() {
  check=$1
  mkdir -p "$top/$check/work"
  cd "$top/$check/work"
  export TERRET_HOME="$top/$check/home"
  unset NO_COLOR
  err=$top/$check
}
ok() { echo "ok $check: $*"; }
# Runs a command and leaves its exit code in $code.
run() {
  code=0
  "$@" || code=$?
}
log_path() { echo "$TERRET_HOME"/sessions/*/log.jsonl; }
# Waits until a command succeeds, at most 20 seconds.
until_true() {
  local n=0
  until "$@" 2>/dev/null; do
    n=$((n + 1))
    [ $n -lt 400 ] || fail "waited in vain for: $*"
    sleep 0.05
  done
}
gone() { ! kill -0 "$1"; }
has_text() { grep -q "$1" "$(log_path)"; }
mtime_and_sum() { stat -c %Y.%y "$1" && cksum <"$1"; }
same_start() { cmp -s -n "$(stat -c %s "$1")" "$1" "$2"; }

# ------------------------------------------------------------------------------------------------------------
begin 1
"$terret" run -m script:demo "hi" </dev/null 2>"$err/a.err" | cat >a.out
"$terret" run -m script:demo "hi" </dev/null 2>/dev/null | cat >b.out
cmp a.out b.out || fail "2>/dev/null changes stdout"
[ "$(wc -l <a.out)" = 2 ] || fail "stdout is more than the answer: $(cat a.out)"
[ "$(head -c 5 a.out)" = "Done:" ] || fail "stdout is not the answer: $(cat a.out)"
head -n 1 "$err/a.err" | grep -q '^session ' || fail "the first line on stderr does not name the session"
ok "stdout is the answer and nothing else"

# ------------------------------------------------------------------------------------------------------------
begin 2
"$terret" run -m script:demo --json "hi" </dev/null 2>"$err/run.err" | tee a.jsonl >/dev/null
"$terret" log latest --json 2>"$err/log.err" | cmp - a.jsonl || fail "the log is not what was shown"
cmp a.jsonl "$(log_path)" || fail "the file is not what was shown"
tail -n 1 a.jsonl | grep -q '"type":"writer/idle"' || fail "the last line is not writer/idle"
ok "--json is the log, byte for byte"

# ------------------------------------------------------------------------------------------------------------
begin 3
cat >s.script <<'END'
say I will do something slow.
call shell {"command": "echo $$ >tool.pid; echo once >>ran; exec sleep 60"}
---
say Going on.
END
"$terret" run -m script:s.script "start" </dev/null >/dev/null 2>"$err/killed.err" &
pid=$!
started+=("$pid")
disown "$pid" # bash would say that it was killed
until_true test -s ran
kill -9 "$pid"
until_true gone "$pid"
started+=("$(cat tool.pid)")
kill -9 "$(cat tool.pid)"
cp "$(log_path)" before.jsonl
run "$terret" run -c "go on" </dev/null >out 2>"$err/again.err"
[ "$code" = 0 ] || fail "going on exits $code"
grep -q '^closed turn 1 ' "$err/again.err" || fail "stderr does not say what was closed"
[ "$(cat out)" = "Going on." ] || fail "the answer is: $(cat out)"
same_start before.jsonl "$(log_path)" || fail "bytes before the cut differ"
[ "$(wc -l <ran)" = 1 ] || fail "the tool ran again"
has_text '"outcome":"unknown"' || fail "the lost call is not marked unknown"
"$terret" verify latest >/dev/null 2>"$err/verify.err" || fail "verify exits $?"
ok "kill -9 during a tool, then going on"

# ------------------------------------------------------------------------------------------------------------
begin 4
"$terret" run -m script:demo "hi" </dev/null >/dev/null 2>"$err/run.err"
log=$(log_path)
truncate -s -20 "$log"
tail -n 1 "$log" >cut
cp "$log" damaged.jsonl
"$terret" show latest >show.out 2>"$err/show.err" || fail "show exits $?"
grep -q "^warning: .* $(stat -c %s cut) bytes " "$err/show.err" || fail "show does not name the byte count"
cmp "$log" damaged.jsonl || fail "show changed the file"
run "$terret" run -c "go on" </dev/null >/dev/null 2>"$err/again.err"
[ "$code" = 0 ] || fail "going on exits $code"
cmp cut "$(dirname "$log")"/torn-* || fail "the cut bytes are not kept"
"$terret" show latest >/dev/null 2>"$err/quiet.err" || fail "show exits $?"
[ ! -s "$err/quiet.err" ] || fail "show still warns"
"$terret" verify latest >/dev/null 2>"$err/verify.err" || fail "verify exits $?"
ok "a torn line is warned about, kept aside, and then it is quiet"

# ------------------------------------------------------------------------------------------------------------
begin 5
cat >s.script <<'END'
restart prompt
pace 150
say one two three four five six seven eight nine ten
END
"$terret" run -m script:s.script "start" </dev/null >/dev/null 2>"$err/start.err"
"$terret" run -c "go on" </dev/null >/dev/null 2>"$err/a.err" &
a=$!
"$terret" run -c "go on" </dev/null >/dev/null 2>"$err/b.err" &
b=$!
started+=("$a" "$b")
run wait "$a"
a_code=$code
run wait "$b"
b_code=$code
case "$a_code $b_code" in
  "0 6") refused=$err/b.err winner=$a ;;
  "6 0") refused=$err/a.err winner=$b ;;
  *) fail "two runs at once exit $a_code and $b_code" ;;
esac
grep -q "^error: .*pid $winner," "$refused" || fail "the refusal does not name pid $winner"
"$terret" verify latest >/dev/null 2>"$err/verify.err" || fail "verify exits $?"
ok "two runs at once: one is refused and told who has it"

# ------------------------------------------------------------------------------------------------------------
begin 6
"$terret" run -m script:demo "hi" </dev/null >/dev/null 2>"$err/run.err"
"$terret" verify latest >verify.out 2>"$err/verify.err" || fail "verify exits $?"
log=$(log_path)
# One digit of the time in the middle line.
lines=$(wc -l <"$log")
line=$((lines / 2))
seq=$((line - 2))
at=$(($(head -n $((line - 1)) "$log" | wc -c) + 8))
old=$(dd if="$log" bs=1 skip="$at" count=1 status=none)
if [ "$old" = x ]; then new=y; else new=x; fi
printf %s "$new" | dd of="$log" bs=1 seek="$at" conv=notrunc status=none
before=$(mtime_and_sum "$log")
run "$terret" verify latest >verify.out 2>"$err/verify.err"
[ "$code" = 5 ] || fail "verify exits $code"
grep -q "seq $seq\b" verify.out || fail "verify does not name seq $seq: $(cat verify.out)"
[ "$(mtime_and_sum "$log")" = "$before" ] || fail "verify changed the file"
ok "one changed byte is found and named"

# ------------------------------------------------------------------------------------------------------------
begin 7
cat >s.script <<'END'
pace 100
say <<TEXT
one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
TEXT
END
"$terret" run -m script:s.script "count" </dev/null >out 2>"$err/run.err" &
pid=$!
started+=("$pid")
until_true has_text '"text":"three "'
sent=$(date +%s%3N)
kill -INT "$pid"
run wait "$pid"
[ "$code" = 130 ] || fail "Ctrl-C exits $code"
end=$("$terret" log latest --json --type turn/end | tail -n 1)
case $end in *'"reason":{"type":"aborted"'*) ;; *) fail "the turn ends with: $end" ;; esac
ended=${end#*\"time\":}
ended=${ended%%,*}
[ $((ended - sent)) -lt 1000 ] || fail "the turn ended after $((ended - sent)) ms"
"$terret" log latest --json --type assistant/message | grep -q '"interrupted":true' || fail "no interrupted message"
head -n 1 out | grep -q '^one two three' || fail "the partial text is lost: $(cat out)"
grep -q '^go on with: terret run -r ' "$err/run.err" || fail "no line to resume with"
ok "Ctrl-C in a stream: aborted after $((ended - sent)) ms, partial text kept"

# ------------------------------------------------------------------------------------------------------------
begin 8
"$terret" run -m script:demo "hi" </dev/null >/dev/null 2>"$err/run.err"
"$terret" sessions >a.out 2>"$err/a.err"
NO_COLOR=1 "$terret" sessions >b.out 2>"$err/b.err"
cmp a.out b.out || fail "NO_COLOR changes what is said"
if grep -q $'\033' b.out; then fail "colour in spite of NO_COLOR"; fi
grep -q ' idle .* done .* hi$' b.out || fail "state, ending or title is not in words: $(cat b.out)"
ok "the list of sessions says everything without colour"

# ------------------------------------------------------------------------------------------------------------
begin 9
"$terret" run -m script:demo "hi" </dev/null >/dev/null 2>"$err/run.err"
"$terret" show latest >mine.out 2>"$err/mine.err"
mkdir "$top/elsewhere"
cp "$(log_path)" "$top/elsewhere/some-file.jsonl"
cd "$top/elsewhere"
for verb in show log verify; do
  env -i "$terret" $verb some-file.jsonl >$verb.out 2>"$err/$verb.err" || fail "$verb exits $?"
done
cmp show.out "$top/9/"work/mine.out || fail "the transcript differs"
grep -q '^OK ' verify.out || fail "verify says: $(cat verify.out)"
ok "a file from a colleague: no configuration, no key, no network"
