#!/usr/bin/env bash
# Real disks that are full, read-only or pulled out, under the real binary: small file systems in memory, mounted
# where nobody else sees them. No root is needed, but a machine that lets a user make such a place.
#
#   .ci/disks.sh [PATH OF THE BINARY]        (default: target/debug/terret)
set -euo pipefail

terret=$(realpath "${1:-target/debug/terret}")
if [ "${DISKS_INSIDE:-}" != yes ]; then
  if ! unshare --map-root-user --mount mount -t tmpfs none /mnt 2>/dev/null; then
    echo "error: this machine lets nobody mount a file system of their own: \`unshare -rm mount -t tmpfs none /mnt\`" >&2
    echo "hint: as root, \`sysctl kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0\`" >&2
    exit 1
  fi
  DISKS_INSIDE=yes exec unshare --map-root-user --mount "$0" "$terret"
fi

top=$(mktemp -d)
started=()
cleanup() {
  for pid in ${started[@]+"${started[@]}"}; do kill -9 "$pid" 2>/dev/null || true; done
  cd /
  if [ "${failed:-no}" = yes ]; then echo "kept, but for what was mounted: $top" >&2; else rm -rf "$top" || true; fi
}
trap cleanup EXIT

fail() {
  failed=yes
  echo "FAILED $check: $*" >&2
  for file in "$top/$check"/place/*.err; do
    if [ -s "$file" ]; then sed "s|^|  ${file##*/}: |" "$file" >&2; fi
  done
  exit 1
}
ok() {
  echo "ok $check: $*"
  cd "$top"
  umount -l "$TERRET_HOME"
}
# Each check has a home on a disk of its own, and a place to work on another one.
begin() {
  check=$1
  mkdir -p "$top/$check/place" "$top/$check/home"
  cd "$top/$check/place"
  export TERRET_HOME="$top/$check/home"
  mount -t tmpfs -o "size=$2" none "$TERRET_HOME"
}
# Runs a command and leaves its exit code in $code.
run() {
  code=0
  "$@" || code=$?
}
until_true() {
  local n=0
  until "$@" 2>/dev/null; do
    n=$((n + 1))
    [ $n -lt 400 ] || fail "waited in vain for: $*"
    sleep 0.05
  done
}
log() { echo "$TERRET_HOME/sessions/s/log.jsonl"; }
has() { grep -q "$1" "$(log)"; }
# Takes all the room there is. A place that is full takes not one page more.
fill() {
  dd if=/dev/zero of="$TERRET_HOME/filler-$RANDOM" bs=4k status=none 2>/dev/null || true
  if dd if=/dev/zero of="$TERRET_HOME/more" bs=4k count=1 status=none 2>/dev/null; then fail "the disk is not full"; fi
  rm -f "$TERRET_HOME/more"
}
make_room() { rm "$TERRET_HOME"/filler*; }
whole() { "$terret" verify s >verify.out 2>verify.err || fail "verify exits $?: $(cat verify.out)"; }

# ------------------------------------------------------------------------------------------------------------
begin full-in-a-tool 512k
cat >s.script <<END
call shell {"command": "echo ran >>$PWD/ran; dd if=/dev/zero of=$TERRET_HOME/filler bs=4k; head -c 30000 /dev/zero | tr '\\\\\\\\0' x"}
---
say Going on.
END
run "$terret" run -m script:s.script --session-id s --json "start" </dev/null >shown.jsonl 2>run.err
[ "$code" = 1 ] || fail "a full disk exits $code"
grep -q 'disk is full' run.err || fail "it is not said that the disk is full"
"$terret" log s --json --type turn/end 2>end.err | grep -q '"code":"STORE_FULL"' || fail "the turn has no durable reason"
cmp -s shown.jsonl "$(log)" || fail "what was shown is not what is in the log"
whole
fill # what was kept for the closers, too
run "$terret" run -r s "more" </dev/null >full.out 2>full.err
[ "$code" = 1 ] || fail "a prompt on a full disk exits $code"
grep -q '^hint: free some space' full.err || grep -q 'disk is full' full.err || fail "the words do not say what to do"
make_room
run "$terret" run -r s "more" </dev/null >again.out 2>again.err
[ "$code" = 0 ] || fail "with room again it exits $code"
[ "$(cat again.out)" = "Going on." ] || fail "the answer is: $(cat again.out)"
[ "$(cat ran)" = ran ] || fail "the tool ran again: $(cat ran)"
cmp -s -n "$(stat -c %s shown.jsonl)" shown.jsonl "$(log)" || fail "an old line changed"
whole
ok "the result of a tool does not fit: a durable reason, and the tool does not run again"

# ------------------------------------------------------------------------------------------------------------
begin full-in-a-stream 512k
printf 'pace 30\nsay <<TEXT\n%s\nTEXT\n---\nsay Going on.\n' "$(seq -s ' ' 1 2000)" >s.script
"$terret" run -m script:s.script --session-id s --json "count" </dev/null >shown.jsonl 2>run.err &
pid=$!
started+=("$pid")
until_true has '"text":"5 "'
fill
run wait "$pid"
[ "$code" = 1 ] || fail "a full disk exits $code"
has '"code":"STORE_FULL"' || fail "the turn has no durable reason"
cmp -s shown.jsonl "$(log)" || fail "what was shown is not what is in the log"
whole
make_room
run "$terret" run -r s "more" </dev/null >again.out 2>again.err
[ "$code" = 0 ] || fail "with room again it exits $code"
whole
ok "no room for the next word: a durable reason, and it goes on after room is made"

# ------------------------------------------------------------------------------------------------------------
begin full-from-the-start 64k
fill
run "$terret" run -m script:demo --session-id s "hi" </dev/null >out 2>run.err
[ "$code" = 1 ] || fail "beginning on a full disk exits $code"
grep -qi '^error: .*\(no space left\|disk is full\)' run.err || fail "it is not said: $(cat run.err)"
[ ! -s out ] || fail "something was shown: $(cat out)"
make_room
"$terret" run -m script:demo --session-id s "hi" </dev/null >out 2>again.err || fail "with room it exits $?"
whole
ok "nothing begins on a full disk, and the same name is free afterwards"

# ------------------------------------------------------------------------------------------------------------
begin read-only 4m
printf 'say One.\n---\ncall shell {"command": "echo $$ >pid; while ! test -e go; do sleep 0.02; done"}\n---\nsay Two.\n' >s.script
"$terret" run -m script:s.script --session-id s "hi" </dev/null >one.out 2>one.err || fail "the first run exits $?"
"$terret" run -r s "more" </dev/null >two.out 2>two.err &
pid=$!
started+=("$pid")
until_true test -s pid
# The system keeps a disk writable as long as somebody has a file on it open to write. So a session that runs is
# never met by this, and goes on.
if mount -o remount,ro "$TERRET_HOME" 2>/dev/null; then fail "the session that runs has no file open"; fi
touch go
run wait "$pid"
[ "$code" = 0 ] && [ "$(cat two.out)" = "Two." ] || fail "it exits $code and says: $(cat two.out)"
mount -o remount,ro "$TERRET_HOME"
before=$(cksum <"$(log)")
for words in "show s" "show s@1.1 --request" "log s" "log s --json" "verify s" "verify --all" "sessions" "sessions --json" \
  "sessions show s" "queue s" "doctor --sessions" "doctor $TERRET_HOME"; do
  # shellcheck disable=SC2086 # the words are meant to be words
  "$terret" $words </dev/null >read.out 2>read.err || fail "\`terret $words\` exits $?"
  [ -s read.out ] || [ -s read.err ] || fail "\`terret $words\` says nothing"
done
for words in "run -r s more" "run -m script:demo new" "fork s" "sessions rm s"; do
  # shellcheck disable=SC2086
  run "$terret" $words </dev/null >write.out 2>write.err
  [ "$code" = 1 ] || fail "\`terret $words\` exits $code"
  grep -qi '^error: .*read-only' write.err || fail "\`terret $words\` does not say that it is read-only"
  [ ! -s write.out ] || fail "\`terret $words\` shows: $(cat write.out)"
done
[ "$(cksum <"$(log)")" = "$before" ] || fail "the log changed"
mount -o remount,rw "$TERRET_HOME"
"$terret" run -r s "more" </dev/null >three.out 2>three.err || fail "writable again, it exits $?"
whole
ok "on a read-only disk everything can be read, and writing is refused in words"

# ------------------------------------------------------------------------------------------------------------
begin pulled-out 4m
cat >s.script <<'END'
call shell {"command": "echo ran >>ran; echo $$ >pid; while ! test -e go; do sleep 0.02; done"}
---
say Going on.
END
mkdir "$top/$check/shelf"
mount --bind "$TERRET_HOME" "$top/$check/shelf"
"$terret" run -m script:s.script --session-id s --json "start" </dev/null >shown.jsonl 2>run.err &
pid=$!
started+=("$pid")
until_true test -s pid
umount -l "$TERRET_HOME"
touch go
run wait "$pid"
[ "$code" = 1 ] || fail "without its disk it exits $code"
grep -q '^error: .*the log is gone' run.err || fail "it is not said"
if grep -q '"type":"turn/end"' shown.jsonl; then fail "an end was acknowledged"; fi
mount --bind "$top/$check/shelf" "$TERRET_HOME"
cmp -s -n "$(stat -c %s shown.jsonl)" shown.jsonl "$(log)" || fail "what was shown is not in the log"
run "$terret" run -r s "more" </dev/null >again.out 2>again.err
[ "$code" = 0 ] && [ "$(cat again.out)" = "Going on." ] || fail "it exits $code and says: $(cat again.out)"
[ "$(cat ran)" = ran ] || fail "the tool ran again"
whole
umount -l "$top/$check/shelf"
ok "the disk is pulled out under a tool: nothing is acknowledged, and all is there when it is back"
