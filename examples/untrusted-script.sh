#!/bin/sh
# A script from somewhere runs with nothing of this machine in reach: no home, no network, no secrets.
set -eu
ringfence=${RINGFENCE:-ringfence}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export RINGFENCE_HOME="$folder/home"
export API_KEY=not-for-you

cat >install.sh <<'SH'
echo "who am I: $(id -un), home $HOME"
echo "the key:  ${API_KEY:-not here}"
ls /home 2>/dev/null || echo "homes:    not here"
bash -c ': </dev/tcp/192.0.2.1/80' 2>/dev/null || echo "network:  not here"
SH

"$ringfence" run install.sh | tee seen.txt
grep -q 'who am I: sandbox, home /workspace' seen.txt
grep -q 'the key:  not here' seen.txt
grep -q 'homes:    not here' seen.txt
grep -q 'network:  not here' seen.txt
