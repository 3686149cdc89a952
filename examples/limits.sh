#!/bin/sh
# Limits end a program with a verdict of their own, and a script can tell them apart by the exit code.
set -eu
ringfence=${RINGFENCE:-ringfence}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export RINGFENCE_HOME="$folder/home"

expect() {
  expected=$1
  shift
  code=0
  "$@" >out.txt 2>err.txt || code=$?
  echo "exit $code: $(head -1 err.txt)"
  test "$code" -eq "$expected"
}

echo 'while (true) {}' >loop.ts
expect 124 "$ringfence" run loop.ts --timeout 300ms

echo 'const a: string[] = []; while (true) a.push(a.length + "x".repeat(1 << 20));' >hog.ts
expect 137 "$ringfence" run hog.ts --set proc.mem_limit=64MiB

expect 126 "$ringfence" run loop.ts --set 'fs.mounts=[{ path: /mine, access: rw, from: . }]'
expect 127 "$ringfence" exec -- no-such-program
