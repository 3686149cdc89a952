#!/bin/sh
# Customers from one tool, letters by another: the model sees no address, the letters go to the true ones, the journal has neither.
set -eu
ringfence=${RINGFENCE:-ringfence}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export RINGFENCE_HOME="$folder/home"

never() {
  if "$@"; then
    echo "this should find nothing: $*" >&2
    exit 1
  fi
}

# A tool server that sends letters: it writes them to a file.
cat >mail.py <<'PY'
import json, sys

SEND = {"name": "send", "description": "Send a letter.", "inputSchema": {"type": "object", "required": ["to", "text"],
        "properties": {"to": {"type": "string", "format": "email"}, "text": {"type": "string"}}}}

def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "mail", "version": "1"}}
    if method == "tools/list":
        return {"tools": [SEND]}
    if method == "tools/call":
        with open(sys.argv[1], "a") as sent:
            sent.write(f"{params['arguments']['to']}: {params['arguments']['text']}\n")
        return {"content": [{"type": "text", "text": "sent"}]}
    return None

for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        said = answer(asked["method"], asked.get("params"))
        said = {"result": said} if said else {"error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
PY

cat >servers.json <<JSON
{ "mcpServers": {
  "company": { "command": "$ringfence", "args": ["company"] },
  "mail": { "command": "python3", "args": ["$folder/mail.py", "$folder/sent.txt"] } } }
JSON

cat >tools.yaml <<'YAML'
version: 1
tools:
  rules:
    - { allow: "company.list_contacts" }
    - { allow: "mail.send", where: { to: { matches: '[a-z0-9.]+@example[.]com' } } }     # judged by the true address
data:
  pii: { reveal_to: [mail.send] }     # aliases everywhere else: that is the default
YAML

cat >letters.ts <<'TS'
// Works on aliases: they can be compared, counted and put into a text like the addresses they stand for.
let cursor: string | null = null;
let read = 0;
const written = new Set<string>();
do {
  const page = await tools.company.list_contacts({ role: "accounts", limit: 100, ...(cursor ? { cursor } : {}) });
  for (const { email, name, newsletter } of page.items) {
    read += 1;
    if (!newsletter || written.has(email)) continue;
    written.add(email);
    await tools.mail.send({ to: email, text: `Dear ${name}, there is news.` });
  }
  cursor = page.next_cursor;
} while (cursor);
({ read, sent: written.size, first: [...written][0] });
TS

"$ringfence" policy check tools.yaml

# What a model gets: an alias, and no address.
"$ringfence" run letters.ts --servers servers.json --policy tools.yaml --quiet --json >seen.json
grep -o '"value":{[^}]*}' seen.json
grep -q '"first":"‹email:[a-z0-9]*›"' seen.json
never grep -q '@' seen.json

# What was sent: true addresses, and no alias.
echo "letters: $(wc -l <sent.txt), the first: $(head -1 sent.txt)"
grep -q '^[^ ]*@[^ ]*: Dear [A-Z].*, there is news.$' sent.txt
never grep -q '‹' sent.txt

# The journal counts what was hidden and for whom it was put back; no address is in it, nor in anything else that is kept.
"$ringfence" audit export >journal.jsonl
grep -q '"data_hidden"' journal.jsonl
grep -q '"data_revealed"' journal.jsonl
cut -d: -f1 sent.txt >addresses.txt
never grep -qFf addresses.txt journal.jsonl
never grep -rqFf addresses.txt home

# A plain run is its owner's own view.
"$ringfence" run letters.ts --servers servers.json --policy tools.yaml --quiet | grep '"first":"[a-z0-9.]*@example[.]com"'
