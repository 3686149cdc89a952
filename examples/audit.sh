#!/bin/sh
# What happened is in the journal: read it, check its chains, export it.
set -eu
ringfence=${RINGFENCE:-ringfence}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export RINGFENCE_HOME="$folder/home"

"$ringfence" exec -- sh -c 'echo some work'
"$ringfence" audit tail
"$ringfence" audit verify
"$ringfence" audit export --heads >journal.jsonl
test "$(grep -c '"session_closed"' journal.jsonl)" -ge 1

id=$("$ringfence" session list --json | sed 's/.*"id":"\([^"]*\)".*/\1/')
"$ringfence" session show "$id"
