//! Code mode in the demo: a few hundred tools, one program with a dozen calls, and the tokens that this saves a model.

use ringfence_catalog::{Detail, Language as StubLanguage, Search, tokens};
use ringfence_engine::{Execution, Program};
use ringfence_gateway::{Servers, Tape};
use ringfence_sandbox::Language;
use serde_json::{Value, json};

use super::{Demo, policy};
use crate::fault::Fault;
use crate::print::{Style, count};
use crate::settings::servers::{Chosen, unread};

/// The program that queries the company.
const OVERDUE: &str = include_str!("overdue.ts");
/// The searches an agent would start with; the tools below are those it would then read about.
const INTENTS: [&str; 3] = ["list overdue invoices", "get a customer", "count orders of a customer"];
const USED: [&str; 3] = ["company.list_invoices", "company.get_customer", "company.count_orders"];
/// A call that the policy blocks.
struct ForbiddenCall {
    what: &'static str,
    source: &'static str,
    /// The error codes that the call may end with, each with the component that refuses it.
    refused_by: &'static [(&'static str, &'static str)],
}

/// A type checker does not know a tool that the policy hides, so it refuses the program before it runs.
const FORBIDDEN: [ForbiddenCall; 2] = [
    ForbiddenCall {
        what: "delete an order",
        source: "await tools.company.delete_order({ id: \"ORD-0001\" })",
        refused_by: &[
            ("tool.unknown", "by the policy"),
            ("program.types", "by the type checker"),
        ],
    },
    ForbiddenCall {
        what: "block a customer",
        source: "await tools.company.block_customer({ id: \"CUS-0001\" })",
        refused_by: &[("approval.timeout", "for want of an approval")],
    },
];

/// The built-in example as a tool server: this program, started as a second process.
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
    /// Runs one program instead of a conversation; returns whether the forbidden calls were refused.
    pub(super) async fn code_mode(&self) -> Result<bool, Fault> {
        let definitions = ringfence_company::definitions();
        let tools = count(definitions.len() as u64, "tool");
        let title = format!("A TypeScript program that calls some of a tool server's {tools}");
        self.printer.line(&self.printer.paint(&title, Style::Strong))?;
        self.printer
            .line("  the example server runs on the host, its caller in a sandbox made from the policy `demo`")?;
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

    /// Prints the tokens that the same task costs both ways.
    async fn saving(&self, execution: &Execution, definitions: &[Value]) -> Result<(), Fault> {
        let all = cost(definitions);
        let results = self.results(execution).await?;
        let one_by_one = all + results;
        let discover = self.engine.discover(
            super::super::run::principal(),
            None,
            std::sync::Arc::new(policy(&[])?),
            StubLanguage::TypeScript,
        );
        let search = Search {
            intents: INTENTS.map(str::to_owned).to_vec(),
            ..Search::default()
        };
        let asked = |error: ringfence_engine::DiscoverError| failed(&error);
        let found = discover.find(&search).await.map_err(asked)?.tokens;
        let used = USED.map(str::to_owned);
        let described = discover
            .detail(&used, Detail::Signature, StubLanguage::TypeScript)
            .await
            .map_err(asked)?
            .tokens;
        let ours = cost(&ringfence_server::definitions());
        let program = tokens::count(OVERDUE);
        let result = execution.value.as_ref().map_or(0, |value| tokens::count(value.get()));
        let code_mode = ours + found + described + program + result;
        self.printer.line("")?;
        self.printer.line(
            &self
                .printer
                .paint("What a model reads and writes for this task", Style::Strong),
        )?;
        self.printer.line(&format!(
            "  every definition, every result           {one_by_one:>7} tokens  ({all} + {results})"
        ))?;
        self.printer.line(&format!(
            "  our tools, search, types, code, answer   {code_mode:>7} tokens  ({ours} + {found} + {described} + {program} + {result})"
        ))?;
        let percent = 100.0 - 100.0 * to_f64(code_mode) / to_f64(one_by_one.max(1));
        let saved = format!("{percent:.1} % less");
        self.printer
            .line(&format!("  {}", self.printer.paint(&saved, Style::Good)))
    }

    /// The tokens of all call results, as the execution recorded them, which a model would have read.
    async fn results(&self, execution: &Execution) -> Result<usize, Fault> {
        let kept = self.engine.store().recording(execution.execution_id).await?;
        let (tape, _) =
            Tape::read(kept.map(|kept| kept.entries).unwrap_or_default()).map_err(|error| failed(&error))?;
        let answers = tape.calls().into_iter().filter_map(|(_, call)| call.answered.as_ref());
        let results: Vec<&String> = answers.filter_map(|answered| answered.answer.as_ref().ok()).collect();
        if results.len() < execution.calls.len() {
            return Err(Fault::ours("demo.failed", "the results of the calls were not kept"));
        }
        Ok(results.into_iter().map(|result| tokens::count(result)).sum())
    }

    async fn forbidden(&self) -> Result<bool, Fault> {
        self.printer.line("")?;
        self.printer.line(
            &self
                .printer
                .paint("Two calls that the policy does not let through", Style::Strong),
        )?;
        let mut held = true;
        // Nobody is there to answer: a short timeout is enough to show that no answer means no.
        let policy = policy(&[("approvals", "{ timeout: 1500ms }")])?;
        for ForbiddenCall {
            what,
            source,
            refused_by,
        } in FORBIDDEN
        {
            let execution = self.run(policy.clone(), code("call.ts", source)).await?;
            let error = execution.error.as_ref();
            let refused = error.and_then(|error| {
                let by = refused_by.iter().find(|(code, _)| *code == error.code)?.1;
                Some(format!("{by}: {}", error.message))
            });
            held &= refused.is_some();
            let word = match refused {
                Some(_) => self.printer.paint("refused", Style::Good),
                None => self.printer.paint("NOT REFUSED", Style::Bad),
            };
            let how = refused.unwrap_or_else(|| "this must not be: please report it".to_owned());
            self.printer.line(&format!(
                "  {word}  {what:<18} {}",
                self.printer.paint(&how, Style::Faint)
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

/// The tokens of these tool definitions.
fn cost(definitions: &[Value]) -> usize {
    let shown = |tool: &Value| json!({ "name": tool["name"], "description": tool["description"], "inputSchema": tool["inputSchema"] });
    definitions
        .iter()
        .map(|tool| tokens::count(&shown(tool).to_string()))
        .sum()
}

fn failed(error: &dyn std::error::Error) -> Fault {
    Fault::ours("demo.failed", error.to_string())
}

#[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
fn to_f64(number: usize) -> f64 {
    number as f64
}
