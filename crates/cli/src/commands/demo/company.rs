//! Code mode in the demo: a few hundred tools, one program that calls a dozen times, and what that spares a model.

use ringfence_catalog::{Detail, Language as StubLanguage, Search, tokens};
use ringfence_engine::{Execution, Program};
use ringfence_gateway::Servers;
use ringfence_sandbox::Language;
use serde_json::{Value, json};

use super::{Demo, policy};
use crate::fault::Fault;
use crate::print::{Style, count};
use crate::settings::servers::{Chosen, unread};

/// What the program asks the company.
const OVERDUE: &str = include_str!("overdue.ts");
/// What an agent would look for first, and the tools it would then read about.
const INTENTS: [&str; 3] = ["list overdue invoices", "get a customer", "count orders of a customer"];
const USED: [&str; 3] = ["company.list_invoices", "company.get_customer", "company.count_orders"];
/// Calls that the policy does not let through, and the code each ends with.
const FORBIDDEN: [(&str, &str, &str); 2] = [
    (
        "delete an order",
        "await tools.company.delete_order({ id: \"ORD-0001\" })",
        "tool.unknown",
    ),
    (
        "block a customer",
        "await tools.company.block_customer({ id: \"CUS-0001\" })",
        "approval.needed",
    ),
];

/// The built-in example as a tool server: this program itself, started again.
pub(super) fn servers() -> Result<Chosen, Fault> {
    let program = std::env::current_exe()
        .map_err(|error| Fault::ours("start.program", format!("cannot tell where this program is: {error}")))?;
    let document = json!({ "mcpServers": { "company": { "command": program, "args": ["company"] } } });
    let servers = Servers::parse(&document.to_string(), std::path::Path::new("/"))
        .map_err(|error| unread("the built-in example", &error))?;
    Ok(Chosen {
        servers,
        ..Chosen::default()
    })
}

impl Demo<'_> {
    /// One program instead of a conversation; answers whether what should be refused was.
    pub(super) async fn code_mode(&self) -> Result<bool, Fault> {
        let definitions = ringfence_company::definitions();
        let tools = count(definitions.len() as u64, "tool");
        let title = format!("A TypeScript program that calls some of a tool server's {tools}");
        self.printer.line(&self.printer.paint(&title, Style::Strong))?;
        self.printer
            .line("  the example server runs outside the fence, its caller in a sandbox made from the policy `demo`")?;
        self.printer.line("")?;
        let execution = self.run(policy(&[])?, code("overdue.ts", OVERDUE)).await?;
        if let Some(error) = &execution.error {
            let fault = Fault::ours("demo.failed", format!("the program failed: {}", error.message));
            return Err(fault.hint("`ringfence doctor` shows what works here"));
        }
        self.table(&execution)?;
        self.saving(&execution, definitions).await?;
        self.forbidden().await
    }

    fn table(&self, execution: &Execution) -> Result<(), Fault> {
        let rows: Vec<Value> = execution
            .value
            .as_ref()
            .and_then(|value| serde_json::from_str(value.get()).ok())
            .unwrap_or_default();
        self.printer.line(&format!(
            "  {:<28} {:<7} {:>8} {:>12} {:>6}",
            "customer", "country", "invoices", "overdue EUR", "orders"
        ))?;
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        for row in &rows {
            self.printer.line(&format!(
                "  {:<28} {:<7} {:>8} {:>12} {:>6}",
                text(&row["customer"]),
                text(&row["country"]),
                text(&row["invoices"]),
                text(&row["overdue_eur"]),
                text(&row["orders"])
            ))?;
        }
        let usage = execution.usage;
        let used = format!("({} calls, {} ms)", usage.calls, usage.wall_ms);
        self.printer
            .line(&format!("  {}", self.printer.paint(&used, Style::Faint)))
    }

    /// The same task both ways, in tokens.
    async fn saving(&self, execution: &Execution, definitions: &[Value]) -> Result<(), Fault> {
        let shown = |tool: &Value| json!({ "name": tool["name"], "description": tool["description"], "inputSchema": tool["inputSchema"] });
        let all: usize = definitions
            .iter()
            .map(|tool| tokens::count(&shown(tool).to_string()))
            .sum();
        let results: u64 = execution.calls.iter().map(|call| call.bytes_out).sum();
        let one_by_one = all as u64 + results / 4;
        let discover = self
            .engine
            .discover(std::sync::Arc::new(policy(&[])?), StubLanguage::TypeScript);
        let search = Search {
            intents: INTENTS.map(str::to_owned).to_vec(),
            ..Search::default()
        };
        let asked = |error: ringfence_engine::DiscoverError| Fault::ours("demo.failed", error.to_string());
        let found = discover.find(&search).await.map_err(asked)?.tokens;
        let used = USED.map(str::to_owned);
        let described = discover
            .detail(&used, Detail::Signature, StubLanguage::TypeScript)
            .await
            .map_err(asked)?
            .tokens;
        let program = tokens::count(OVERDUE);
        let result = execution.value.as_ref().map_or(0, |value| tokens::count(value.get()));
        let code_mode = (found + described + program + result) as u64;
        self.printer.line("")?;
        self.printer.line(
            &self
                .printer
                .paint("What a model reads and writes for this task", Style::Strong),
        )?;
        self.printer.line(&format!(
            "  every definition, every result   {one_by_one:>7} tokens  ({all} + about {})",
            results / 4
        ))?;
        self.printer.line(&format!(
            "  search, signatures, code, answer {code_mode:>7} tokens  ({found} + {described} + {program} + {result})"
        ))?;
        let percent = 100.0 - 100.0 * to_f64(code_mode) / to_f64(one_by_one.max(1));
        let saved = format!("{percent:.1} % less");
        self.printer
            .line(&format!("  {}", self.printer.paint(&saved, Style::Good)))
    }

    async fn forbidden(&self) -> Result<bool, Fault> {
        self.printer.line("")?;
        self.printer.line(
            &self
                .printer
                .paint("Two calls that the policy does not let through", Style::Strong),
        )?;
        let mut held = true;
        for (what, source, expected) in FORBIDDEN {
            let execution = self.run(policy(&[])?, code("call.ts", source)).await?;
            let error = execution.error.as_ref();
            let refused = error.is_some_and(|error| error.code == expected);
            held &= refused;
            let word = if refused {
                self.printer.paint("refused", Style::Good)
            } else {
                self.printer.paint("NOT REFUSED", Style::Bad)
            };
            let message = error.map_or("this must not be: please report it", |error| error.message.as_str());
            self.printer.line(&format!(
                "  {word}  {what:<32} {}",
                self.printer.paint(message, Style::Faint)
            ))?;
        }
        Ok(held)
    }
}

fn code(file_name: &str, source: &str) -> Program {
    Program::Code {
        language: Language::TypeScript,
        file_name: file_name.to_owned(),
        source: source.to_owned(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
fn to_f64(number: u64) -> f64 {
    number as f64
}
