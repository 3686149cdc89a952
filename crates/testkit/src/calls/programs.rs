//! The programs that the benchmark of calls runs.

use ringfence_sandbox::JobLanguage;

/// The calls that [`paging_program`] makes.
pub const PAGING_CALLS: usize = 10;

/// A program with `count` calls, in sequence or concurrent; its value is the number of right answers.
pub fn calls_program(language: JobLanguage, count: usize, at_once: bool) -> String {
    match (language, at_once) {
        (JobLanguage::Python, false) => format!(
            "right = 0\nfor number in range({count}):\n    text = f\"number {{number}}\"\n    \
             right += await tools.echo.echo(text=text) == text\nright"
        ),
        (JobLanguage::Python, true) => format!(
            "import asyncio\ntexts = [f\"number {{number}}\" for number in range({count})]\n\
             answers = await asyncio.gather(*(tools.echo.echo(text=text) for text in texts))\n\
             sum(answer == text for answer, text in zip(answers, texts))"
        ),
        (_, false) => format!(
            "let right = 0;\nfor (let number = 0; number < {count}; number += 1) {{\n  const text = `number ${{number}}`;\n  \
             if (await tools.echo.echo({{ text }}) === text) right += 1;\n}}\nright"
        ),
        (_, true) => format!(
            "const texts = Array.from({{ length: {count} }}, (_, number) => `number ${{number}}`);\n\
             const answers = await Promise.all(texts.map((text) => tools.echo.echo({{ text }})));\n\
             answers.filter((answer, number) => answer === texts[number]).length"
        ),
    }
}

/// A program with ten tools, each fed by the one before.
pub fn workflow_program() -> &'static str {
    r#"const said = await tools.echo.echo({ text: "quarterly report" });
const kept = await tools.echo.structured({ title: said });
await tools.echo.slow({ ms: 1 });
const draft = await tools.echo.big({ bytes: 500 });
const first = await tools.echo.list_records({ limit: 20 });
const open = first.records.filter((record) => record.state === "open");
const second = await tools.records.list_records({ cursor: first.next, limit: 20 });
const more = second.records.filter((record) => record.state === "open");
const total = [...open, ...more].reduce((sum, record) => sum + record.amount, 0);
const line = await tools.records.echo({ text: `${kept.given.title}: ${total}` });
const filed = await tools.records.structured({ line, draft: draft.length });
await tools.records.slow({ ms: 1 });
const tail = await tools.records.big({ bytes: 20 });
({ line: filed.given.line, draft: filed.given.draft, tail: tail.length })"#
}

/// A program that pages through 10,000 records, filters and groups them, and returns 20 rows.
pub fn paging_program() -> &'static str {
    r#"const groups = new Map();
let cursor = undefined, seen = 0;
do {
  const page = await tools.records.list_records(cursor === undefined ? { limit: 1000 } : { cursor, limit: 1000 });
  for (const record of page.records) {
    seen += 1;
    if (record.state !== "open") continue;
    const key = `${record.team}/${Math.floor(record.amount / 250)}`;
    const group = groups.get(key) ?? { team: record.team, band: Math.floor(record.amount / 250) * 250, count: 0, total: 0 };
    group.count += 1;
    group.total += record.amount;
    groups.set(key, group);
  }
  cursor = page.next;
} while (cursor !== undefined);
({ seen, rows: [...groups.values()].sort((a, b) => b.total - a.total).slice(0, 20) })"#
}
