#!/bin/sh
# A policy with examples of its own: checked, explained, compared, and in force.
set -eu
ringfence=${RINGFENCE:-ringfence}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export RINGFENCE_HOME="$folder/home"
mkdir data
echo 'hello from a folder of the host' >data/hello.txt
echo 'TOKEN=1' >data/.env
# The sandbox's programs are a user of their own: they must be able to look into the folder.
chmod 755 . data

cat >sandbox.policy.yaml <<'YAML'
version: 1
fs:
  mounts:
    - { path: /data, access: ro, from: ./data }
proc: { mem_limit: 128MiB, wall_timeout: 5s }
examples:
  - { path: /data/hello.txt, expect: allow }
  - { path: /data/hello.txt, access: rw, expect: deny }
  - { path: .env, expect: deny }
  - { host: example.org, expect: deny }
YAML

"$ringfence" policy check sandbox.policy.yaml
"$ringfence" policy diff default sandbox.policy.yaml
"$ringfence" policy explain --host example.org

# Found in the current folder, it holds without being named: it asks for less than the ceiling.
"$ringfence" exec -- cat /data/hello.txt
test -z "$("$ringfence" exec -- cat /data/.env 2>/dev/null)"
! "$ringfence" exec -- sh -c 'echo new >/data/new.txt' 2>/dev/null
