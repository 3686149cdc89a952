const { items } = await tools.company.list_invoices({ status: "overdue", limit: 50 });
const wide = await tools.company.list_invoices.try({ limit: 100 });
const gone = await tools.company.delete_invoice.try({ id: items[0].id });
console.log("refused:", wide.error.code, gone.error.code);
({ overdue: items.length, cents: items.reduce((sum, one) => sum + one.amount_cents, 0) })
