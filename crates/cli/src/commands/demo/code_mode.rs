//! Code mode in the demo: a few hundred tools, one program with a dozen calls, and the tokens that this saves a model.

use ringfence_catalog::{DetailLevel, StubLanguage, ToolSearch, tokens};
use ringfence_engine::{ExecutionReport, RunProgram};
use ringfence_gateway::{CallLog, Servers};
use ringfence_sandbox::JobLanguage;
use serde_json::{Value, json};

use super::{Demo, demo_policy};
use crate::fault::CliFault;
use crate::print::{Style, counted};
use crate::settings::servers::{ResolvedServers, servers_fault};

/// The program that queries the company.
const OVERDUE_PROGRAM: &str = include_str!("overdue.ts");
/// The searches an agent would start with; the tools below are those it would then read about.
const INTENTS: [&str; 3] = ["list overdue invoices", "get a customer", "count orders of a customer"];
const USED_TOOLS: [&str; 3] = ["company.list_invoices", "company.get_customer", "company.count_orders"];
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
        refused_by: &[("approval.timeout", "without an approval")],
    },
];

/// The built-in example as a tool server: this program, started as a second process.
pub(super) fn example_servers() -> Result<ResolvedServers, CliFault> {
    let program = std::env::current_exe()
        .map_err(|error| CliFault::internal("start.program", format!("cannot tell where this program is: {error}")))?;
    let document = json!({ "mcpServers": { "company": { "command": program, "args": ["company"] } } });
    let servers = Servers::parse(&document.to_string(), std::path::Path::new("/"))
        .map_err(|error| servers_fault("the built-in example", &error))?;
    Ok(ResolvedServers {
        servers,
        ..ResolvedServers::default()
    })
}

impl Demo<'_> {
    /// Runs one program instead of a conversation; returns whether the forbidden calls were refused.
    pub(super) async fn run_code_mode(&self) -> Result<bool, CliFault> {
        let definitions = ringfence_company::definitions();
        let tools = counted(definitions.len() as u64, "tool");
        let title = format!("A TypeScript program that calls some of a tool server's {tools}");
        self.printer.print_line(&self.printer.paint(&title, Style::Strong))?;
        self.printer
            .print_line("  the example server runs on the host, its caller in a sandbox made from the policy `demo`")?;
        self.printer.print_line("")?;
        let execution = self
            .run_program(demo_policy(&[])?, typescript_program("overdue.ts", OVERDUE_PROGRAM))
            .await?;
        if let Some(error) = &execution.error {
            let fault = CliFault::internal("demo.failed", format!("the program failed: {}", error.message));
            return Err(fault.with_hint("`ringfence doctor` shows what works here"));
        }
        self.print_table(&execution)?;
        self.print_savings(&execution, definitions).await?;
        self.run_forbidden().await
    }

    fn print_table(&self, execution: &ExecutionReport) -> Result<(), CliFault> {
        let rows: Vec<Value> = execution
            .value
            .as_ref()
            .and_then(|value| serde_json::from_str(value.get()).ok())
            .unwrap_or_default();
        self.printer.print_line(&format!(
            "  {:<28} {:<7} {:>8} {:>12} {:>6}",
            "customer", "country", "invoices", "overdue EUR", "orders"
        ))?;
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        for row in &rows {
            self.printer.print_line(&format!(
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
            .print_line(&format!("  {}", self.printer.paint(&used, Style::Faint)))
    }

    /// Prints the tokens that the same task costs both ways.
    async fn print_savings(&self, execution: &ExecutionReport, definitions: &[Value]) -> Result<(), CliFault> {
        let all = definition_tokens(definitions);
        let results = self.result_tokens(execution).await?;
        let one_by_one = all + results;
        let discover = self.engine.tools().discover(
            super::super::run::local_principal(),
            None,
            std::sync::Arc::new(demo_policy(&[])?),
            StubLanguage::TypeScript,
        );
        let search = ToolSearch {
            intents: INTENTS.map(str::to_owned).to_vec(),
            ..ToolSearch::default()
        };
        let asked = |error: ringfence_engine::DiscoverError| demo_fault(&error);
        let found = discover.find_tools(&search).await.map_err(asked)?.tokens;
        let used = USED_TOOLS.map(str::to_owned);
        let described = discover
            .describe_tools(&used, DetailLevel::Signature, StubLanguage::TypeScript)
            .await
            .map_err(asked)?
            .tokens;
        let ours = definition_tokens(&ringfence_server::tool_definitions());
        let program = tokens::count_tokens(OVERDUE_PROGRAM);
        let result = execution
            .value
            .as_ref()
            .map_or(0, |value| tokens::count_tokens(value.get()));
        let code_mode = ours + found + described + program + result;
        self.printer.print_line("")?;
        self.printer.print_line(
            &self
                .printer
                .paint("What a model reads and writes for this task", Style::Strong),
        )?;
        self.printer.print_line(&format!(
            "  every definition, every result           {one_by_one:>7} tokens  ({all} + {results})"
        ))?;
        self.printer.print_line(&format!(
            "  our tools, search, types, code, answer   {code_mode:>7} tokens  ({ours} + {found} + {described} + {program} + {result})"
        ))?;
        let percent = 100.0 - 100.0 * to_f64(code_mode) / to_f64(one_by_one.max(1));
        let saved = format!("{percent:.1} % less");
        self.printer
            .print_line(&format!("  {}", self.printer.paint(&saved, Style::Good)))
    }

    /// The tokens of all call results, as the execution recorded them, which a model would have read.
    async fn result_tokens(&self, execution: &ExecutionReport) -> Result<usize, CliFault> {
        let kept = self.engine.store().recording(execution.execution_id).await?;
        let (tape, _) = CallLog::from_entries(kept.map(|kept| kept.entries).unwrap_or_default())
            .map_err(|error| demo_fault(&error))?;
        let answers = tape.calls().into_iter().filter_map(|(_, call)| call.answer.as_ref());
        let results: Vec<&String> = answers.filter_map(|answered| answered.answer.as_ref().ok()).collect();
        if results.len() < execution.calls.len() {
            return Err(CliFault::internal(
                "demo.failed",
                "the results of the calls were not kept",
            ));
        }
        Ok(results.into_iter().map(|result| tokens::count_tokens(result)).sum())
    }

    async fn run_forbidden(&self) -> Result<bool, CliFault> {
        self.printer.print_line("")?;
        self.printer.print_line(
            &self
                .printer
                .paint("Two calls that the policy does not let through", Style::Strong),
        )?;
        let mut held = true;
        // Nobody is there to answer: a short timeout is enough to show that no answer means no.
        let policy = demo_policy(&[("approvals", "{ timeout: 1500ms }")])?;
        for ForbiddenCall {
            what,
            source,
            refused_by,
        } in FORBIDDEN
        {
            let execution = self
                .run_program(policy.clone(), typescript_program("call.ts", source))
                .await?;
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
            self.printer.print_line(&format!(
                "  {word}  {what:<18} {}",
                self.printer.paint(&how, Style::Faint)
            ))?;
        }
        Ok(held)
    }
}

fn typescript_program(file_name: &str, source: &str) -> RunProgram {
    RunProgram::Code {
        language: JobLanguage::TypeScript,
        file_name: file_name.to_owned(),
        source: source.to_owned(),
    }
}

/// The tokens of these tool definitions.
fn definition_tokens(definitions: &[Value]) -> usize {
    let shown = |tool: &Value| json!({ "name": tool["name"], "description": tool["description"], "inputSchema": tool["inputSchema"] });
    definitions
        .iter()
        .map(|tool| tokens::count_tokens(&shown(tool).to_string()))
        .sum()
}

fn demo_fault(error: &dyn std::error::Error) -> CliFault {
    CliFault::internal("demo.failed", error.to_string())
}

#[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
fn to_f64(number: usize) -> f64 {
    number as f64
}
