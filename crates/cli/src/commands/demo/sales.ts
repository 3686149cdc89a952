type Sale = { region: string; product: string; units: number; price: number };

const sales: Sale[] = [
  { region: "north", product: "lamp", units: 12, price: 39 },
  { region: "north", product: "desk", units: 2, price: 310 },
  { region: "south", product: "lamp", units: 30, price: 39 },
  { region: "south", product: "chair", units: 8, price: 95 },
  { region: "west", product: "desk", units: 5, price: 310 },
  { region: "west", product: "chair", units: 3, price: 95 },
  { region: "north", product: "chair", units: 10, price: 95 },
];

const revenue = new Map<string, number>();
for (const { region, units, price } of sales) {
  revenue.set(region, (revenue.get(region) ?? 0) + units * price);
}
const ranked = [...revenue].sort((a, b) => b[1] - a[1]);
for (const [region, total] of ranked) {
  console.log(region.padEnd(6), String(total).padStart(5), "#".repeat(Math.round(total / 100)));
}
({ best: ranked[0][0], total: ranked.reduce((sum, [, total]) => sum + total, 0) });
