//! The cost of a task on a large catalog for a model's context in code mode, against reading every schema: real tasks, searched step by
//! step, the found tools described, and a program that calls them.

use std::fmt::{self, Write as _};

use anyhow::{Context, Result, ensure};
use ringfence_catalog::{Catalog, CatalogView, DetailLevel, SearchIndex, StubLanguage, Tool, ToolSearch, tokens};
use serde_json::{Map, Value, json};

use super::data::{DiscoveryFolder, DiscoveryQuestion};

/// Steps that one search takes.
const MAX_STEPS: usize = 20;
/// Rows in a result for each tool that was called.
const ROWS_PER_TOOL: usize = 5;
/// Characters of a step that are used as a text argument, or as the title of a row.
const MAX_WORD_CHARS: usize = 60;

/// The tokens of one task, by part.
#[derive(Debug, Clone, Copy)]
struct TaskCost {
    /// The number of tools that were found, described and called.
    called: usize,
    search: usize,
    describe: usize,
    code: usize,
    result: usize,
}

impl TaskCost {
    fn total(&self) -> usize {
        self.search + self.describe + self.code + self.result
    }
}

/// The tokens of all tasks.
#[derive(Debug)]
pub struct TaskCosts {
    tools: usize,
    full: usize,
    definitions: usize,
    /// The tasks by tokens, cheapest first.
    tasks: Vec<TaskCost>,
}

impl TaskCosts {
    /// The largest share of the full schemas that a task's context is.
    pub fn worst(&self) -> f64 {
        self.tasks.last().map_or(f64::INFINITY, |task| self.share(task))
    }

    #[expect(clippy::cast_precision_loss, reason = "tokens are few")]
    fn share(&self, task: &TaskCost) -> f64 {
        (self.definitions + task.total()) as f64 / self.full.max(1) as f64
    }
}

impl fmt::Display for TaskCosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| context of a task on {} tools, {} tasks of LiveMCPBench, tokens of o200k | definitions | search | describe | code | result \
             | in all | of the {} of all schemas |\n|---|---|---|---|---|---|---|---|",
            self.tools,
            self.tasks.len(),
            self.full
        )?;
        for (name, task) in [
            ("median", self.tasks.get(self.tasks.len() / 2)),
            ("worst", self.tasks.last()),
        ] {
            let Some(task) = task else { continue };
            writeln!(
                f,
                "| {name}, a program of {} tools | {} | {} | {} | {} | {} | {} | {:.2} % |",
                task.called,
                self.definitions,
                task.search,
                task.describe,
                task.code,
                task.result,
                self.definitions + task.total(),
                self.share(task) * 100.0
            )?;
        }
        Ok(())
    }
}

/// Measures every task on the large catalog, with `definitions` as the tokens of our own tools.
pub fn measure_tasks(folder: &DiscoveryFolder, definitions: usize) -> Result<TaskCosts> {
    let catalog = folder.large_catalog()?;
    let index = SearchIndex::new(&catalog);
    let view = CatalogView::everything(&catalog, &index);
    let full = catalog.tools().iter().map(|tool| {
        let definition = &tool.definition;
        let shown = json!({
            "name": tool.name.as_str(), "description": definition.description, "inputSchema": definition.input,
        });
        tokens::count_tokens(&shown.to_string())
    });
    let questions = folder.questions()?;
    let tasks = questions.iter().map(|question| measure_task(&catalog, &view, question));
    let mut tasks = tasks.collect::<Result<Vec<TaskCost>>>()?;
    tasks.sort_by_key(TaskCost::total);
    Ok(TaskCosts {
        tools: catalog.tools().len(),
        full: full.sum(),
        definitions,
        tasks,
    })
}

/// Measures one task: a search for all steps with summaries, the best tool of each step described with its types, a program and its result;
/// what the model writes to ask counts as well.
fn measure_task(catalog: &Catalog, view: &CatalogView<'_>, question: &DiscoveryQuestion) -> Result<TaskCost> {
    let steps: Vec<String> = question.intents().into_iter().take(MAX_STEPS).collect();
    let asked = json!({ "intents": steps, "task": question.task });
    let found = view.search(&ToolSearch {
        intents: steps,
        task: Some(question.task.clone()),
        ..ToolSearch::default()
    })?;
    let mut best: Vec<(&Tool, &str)> = Vec::new();
    for answer in &found.intents {
        let first = answer.slots.first().map(|hit| &hit.tool.name);
        let Some(name) = first.or(answer.see.as_ref()) else {
            continue;
        };
        let tool = catalog.get(name).with_context(|| format!("`{name}` is no tool"))?;
        if best.iter().all(|(known, _)| known.name != tool.name) {
            best.push((tool, &answer.intent));
        }
    }
    ensure!(!best.is_empty(), "nothing was found for `{}`", question.task);
    let names: Vec<String> = best.iter().map(|(tool, _)| tool.name.as_str().to_owned()).collect();
    let described = view.describe(&names, DetailLevel::Full, StubLanguage::TypeScript)?;
    ensure!(described.unknown.is_empty(), "unknown: {:?}", described.unknown);
    Ok(TaskCost {
        called: best.len(),
        search: tokens::count_tokens(&asked.to_string()) + found.tokens,
        describe: tokens::count_tokens(&json!({ "tools": names }).to_string()) + described.tokens,
        code: tokens::count_tokens(&task_program(&best)?),
        result: tokens::count_tokens(&sample_result(&best).to_string()),
    })
}

/// A program that calls each of these tools with its required arguments, and keeps a few rows of each answer.
fn task_program(tools: &[(&Tool, &str)]) -> Result<String> {
    let mut text = String::from("const rows = {};\n");
    for (tool, step) in tools {
        let (server, name) = (&tool.server_ident, &tool.ident);
        writeln!(
            text,
            "const {name} = await tools.{server}.{name}({});",
            required_arguments(&tool.definition.input, step)
        )?;
        writeln!(
            text,
            "rows.{name} = {name}.items.filter((item) => item.relevant).sort((a, b) => b.score - a.score)\n  \
             .slice(0, {ROWS_PER_TOOL}).map(({{ title, score, url }}) => ({{ title, score, url }}));"
        )?;
    }
    text.push_str("rows");
    Ok(text)
}

/// The required arguments of a tool: texts are the words of the step that it is called for.
fn required_arguments(schema: &Value, step: &str) -> Value {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let given = required.filter_map(Value::as_str).map(|name| {
        let property = schema.get("properties").and_then(|all| all.get(name));
        (name.to_owned(), sample_argument(property.unwrap_or(&Value::Null), step))
    });
    Value::Object(given.collect::<Map<_, _>>())
}

fn sample_argument(property: &Value, step: &str) -> Value {
    if let Some(first) = property.pointer("/enum/0") {
        return first.clone();
    }
    match property.get("type").and_then(Value::as_str) {
        Some("integer" | "number") => json!(10),
        Some("boolean") => json!(true),
        Some("array") => json!([clipped_step(step)]),
        Some("object") => required_arguments(property, step),
        _ => json!(clipped_step(step)),
    }
}

/// The result of such a program: a few rows for each tool.
fn sample_result(tools: &[(&Tool, &str)]) -> Value {
    let rows = tools.iter().map(|(tool, step)| {
        let row = |number: usize| {
            let url = format!("https://{}.example.org/items/{}", tool.server_ident, 10_000 + number);
            json!({ "title": format!("{}, {number}", clipped_step(step)), "score": 0.75, "url": url })
        };
        (tool.ident.clone(), (1..=ROWS_PER_TOOL).map(row).collect())
    });
    Value::Object(rows.collect())
}

fn clipped_step(step: &str) -> String {
    step.chars().take(MAX_WORD_CHARS).collect()
}
