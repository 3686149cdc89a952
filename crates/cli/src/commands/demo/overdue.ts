// Who owes the company most? Overdue invoices, grouped by customer, joined with customers and their orders.
const overdue = [];
let cursor: string | null = null;
do {
  const page = await tools.company.list_invoices({
    status: "overdue", limit: 100, ...(cursor ? { cursor } : {}),
  });
  overdue.push(...page.items);
  cursor = page.next_cursor;
} while (cursor);

const owed = new Map<string, { invoices: number; cents: number }>();
for (const { customer_id, amount_cents } of overdue) {
  const sum = owed.get(customer_id) ?? { invoices: 0, cents: 0 };
  owed.set(customer_id, { invoices: sum.invoices + 1, cents: sum.cents + amount_cents });
}
const top = [...owed].sort((a, b) => b[1].cents - a[1].cents).slice(0, 5);

export default await Promise.all(top.map(async ([id, sum]) => {
  const [customer, orders] = await Promise.all([
    tools.company.get_customer({ id }),
    tools.company.count_orders({ customer_id: id }),
  ]);
  return {
    customer: customer.name, country: customer.country, invoices: sum.invoices,
    overdue_eur: sum.cents / 100, orders: orders.total,
  };
}));
