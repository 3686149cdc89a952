//! The cost of a task on a large catalog for a model's context in code mode, against reading every schema: real tasks, searched step by
//! step, the found tools described, and a program that calls them.

use std::fmt::{self, Write as _};

use anyhow::{Context, Result, ensure};
use ringfence_catalog::{Catalog, Detail, Index, Language, Search, Tool, View, tokens};
use serde_json::{Map, Value, json};

use super::data::{Folder, Question};

/// Steps that one search takes.
const STEPS: usize = 20;
/// Rows in a result for each tool that was called.
const ROWS: usize = 5;
/// Characters of a step that are used as a text argument, or as the title of a row.
const WORDS: usize = 60;

/// The tokens of one task, by part.
#[derive(Debug, Clone, Copy)]
struct Task {
    /// The number of tools that were found, described and called.
    called: usize,
    search: usize,
    describe: usize,
    code: usize,
    result: usize,
}

impl Task {
    fn sum(&self) -> usize {
        self.search + self.describe + self.code + self.result
    }
}

/// The tokens of all tasks.
#[derive(Debug)]
pub struct Costs {
    tools: usize,
    full: usize,
    definitions: usize,
    /// The tasks by tokens, cheapest first.
    tasks: Vec<Task>,
}

impl Costs {
    /// The largest share of the full schemas that a task's context is.
    pub fn worst(&self) -> f64 {
        self.tasks.last().map_or(f64::INFINITY, |task| self.share(task))
    }

    #[expect(clippy::cast_precision_loss, reason = "tokens are few")]
    fn share(&self, task: &Task) -> f64 {
        (self.definitions + task.sum()) as f64 / self.full.max(1) as f64
    }
}

impl fmt::Display for Costs {
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
                self.definitions + task.sum(),
                self.share(task) * 100.0
            )?;
        }
        Ok(())
    }
}

/// Measures every task on the large catalog, with `definitions` as the tokens of our own tools.
pub fn of_tasks(folder: &Folder, definitions: usize) -> Result<Costs> {
    let catalog = folder.large()?;
    let index = Index::new(&catalog);
    let view = View::everything(&catalog, &index);
    let full = catalog.tools().iter().map(|tool| {
        let definition = &tool.definition;
        let shown = json!({
            "name": tool.name.as_str(), "description": definition.description, "inputSchema": definition.input,
        });
        tokens::count(&shown.to_string())
    });
    let questions = folder.questions()?;
    let tasks = questions.iter().map(|question| of_a_task(&catalog, &view, question));
    let mut tasks = tasks.collect::<Result<Vec<Task>>>()?;
    tasks.sort_by_key(Task::sum);
    Ok(Costs {
        tools: catalog.tools().len(),
        full: full.sum(),
        definitions,
        tasks,
    })
}

/// Measures one task: a search for all steps with summaries, the best tool of each step described with its types, a program and its result;
/// what the model writes to ask counts as well.
fn of_a_task(catalog: &Catalog, view: &View<'_>, question: &Question) -> Result<Task> {
    let steps: Vec<String> = question.intents().into_iter().take(STEPS).collect();
    let asked = json!({ "intents": steps, "task": question.task });
    let found = view.search(&Search {
        intents: steps,
        task: Some(question.task.clone()),
        ..Search::default()
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
    let described = view.describe(&names, Detail::Full, Language::TypeScript)?;
    ensure!(described.unknown.is_empty(), "unknown: {:?}", described.unknown);
    Ok(Task {
        called: best.len(),
        search: tokens::count(&asked.to_string()) + found.tokens,
        describe: tokens::count(&json!({ "tools": names }).to_string()) + described.tokens,
        code: tokens::count(&program(&best)?),
        result: tokens::count(&result(&best).to_string()),
    })
}

/// A program that calls each of these tools with its required arguments, and keeps a few rows of each answer.
fn program(tools: &[(&Tool, &str)]) -> Result<String> {
    let mut text = String::from("const rows = {};\n");
    for (tool, step) in tools {
        let (server, name) = (&tool.server_ident, &tool.ident);
        writeln!(
            text,
            "const {name} = await tools.{server}.{name}({});",
            arguments(&tool.definition.input, step)
        )?;
        writeln!(
            text,
            "rows.{name} = {name}.items.filter((item) => item.relevant).sort((a, b) => b.score - a.score)\n  \
             .slice(0, {ROWS}).map(({{ title, score, url }}) => ({{ title, score, url }}));"
        )?;
    }
    text.push_str("rows");
    Ok(text)
}

/// The required arguments of a tool: texts are the words of the step that it is called for.
fn arguments(schema: &Value, step: &str) -> Value {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let given = required.filter_map(Value::as_str).map(|name| {
        let property = schema.get("properties").and_then(|all| all.get(name));
        (name.to_owned(), argument(property.unwrap_or(&Value::Null), step))
    });
    Value::Object(given.collect::<Map<_, _>>())
}

fn argument(property: &Value, step: &str) -> Value {
    if let Some(first) = property.pointer("/enum/0") {
        return first.clone();
    }
    match property.get("type").and_then(Value::as_str) {
        Some("integer" | "number") => json!(10),
        Some("boolean") => json!(true),
        Some("array") => json!([words(step)]),
        Some("object") => arguments(property, step),
        _ => json!(words(step)),
    }
}

/// The result of such a program: a few rows for each tool.
fn result(tools: &[(&Tool, &str)]) -> Value {
    let rows = tools.iter().map(|(tool, step)| {
        let row = |number: usize| {
            let url = format!("https://{}.example.org/items/{}", tool.server_ident, 10_000 + number);
            json!({ "title": format!("{}, {number}", words(step)), "score": 0.75, "url": url })
        };
        (tool.ident.clone(), (1..=ROWS).map(row).collect())
    });
    Value::Object(rows.collect())
}

fn words(step: &str) -> String {
    step.chars().take(WORDS).collect()
}
