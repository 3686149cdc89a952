#!/bin/sh
# Code mode: one program calls a tool server many times, under rules, and only its answer comes back.
set -eu
ringfence=${RINGFENCE:-ringfence}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export RINGFENCE_HOME="$folder/home"

# The example company of `ringfence demo`, as a server of its own.
cat >servers.json <<JSON
{ "mcpServers": { "company": { "command": "$ringfence", "args": ["company"] } } }
JSON

cat >tools.yaml <<'YAML'
version: 1
tools:
  rules:
    - { allow: "company.list_orders", where: { limit: { max: 50 } } }
    - { allow: "company.count_orders" }
    - { ask: "company.create_*" }
    - { deny: "company.delete_*" }
  max_calls: 500
examples:
  - { tool: company.count_orders, expect: allow }
  - { tool: company.delete_order, expect: deny }
YAML

cat >orders.ts <<'TS'
// Every order, page by page; none of them is seen by whoever asked.
let orders = 0;
let cursor: string | null = null;
do {
  const page = await tools.company.list_orders({ limit: 50, ...(cursor ? { cursor } : {}) });
  orders += page.items.length;
  cursor = page.next_cursor;
} while (cursor);

const { total } = await tools.company.count_orders({});
const [hidden, wide] = await Promise.all([
  tools.company.delete_order.try({ id: "ORD-0001" }),
  tools.company.list_orders.try({ limit: 100 }),
]);
({ all: orders === total && total > 0, hidden: hidden.error?.code, wide: wide.error?.code });
TS

"$ringfence" policy check tools.yaml
"$ringfence" tools search "count the orders" --limit 3 --servers servers.json --policy tools.yaml
value=$("$ringfence" run orders.ts --servers servers.json --policy tools.yaml --quiet)
echo "value: $value"
test "$value" = '{"all":true,"hidden":"tool.unknown","wide":"policy.denied"}'

# What was called is in the journal, with the rule that let it.
"$ringfence" audit tail -n 12
"$ringfence" audit export >journal.jsonl
grep -q '"call_started"' journal.jsonl
grep -q '"call_refused"' journal.jsonl
"$ringfence" audit verify
