#!/bin/sh
# A TypeScript program groups a CSV file that is brought in, and writes a report that is taken out.
set -eu
ringfence=${RINGFENCE:-ringfence}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export RINGFENCE_HOME="$folder/home"

cat >sales.csv <<'CSV'
region,units,price
north,12,39
south,30,39
north,2,310
west,5,310
CSV

cat >group.ts <<'TS'
type Row = { region: string; revenue: number };

const rows: Row[] = files.read("sales.csv").trim().split("\n").slice(1).map((line: string) => {
  const [region, units, price] = line.split(",");
  return { region, revenue: Number(units) * Number(price) };
});
const totals: Record<string, number> = {};
for (const { region, revenue } of rows) totals[region] = (totals[region] ?? 0) + revenue;
files.write("report.json", JSON.stringify(totals));
totals;
TS

value=$("$ringfence" run group.ts --file sales.csv --out out --quiet)
echo "value:  $value"
echo "report: $(cat out/report.json)"
test "$value" = '{"north":1088,"south":1170,"west":1550}'
test "$(cat out/report.json)" = "$value"
