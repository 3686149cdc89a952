//! What a task on a large catalog costs a model's context in code mode, against reading every schema.

use std::fmt;

use anyhow::{Context, Result};
use ringfence_catalog::{Detail, Index, Language, Search, View, tokens};
use serde_json::json;

use super::data::Folder;

/// What the definitions of our own tools may cost at most.
const DEFINITIONS: usize = 1_500;
const TASK: &str =
    "Find the weather forecast for Oslo this weekend, look for hotels there, and write a short summary to a file.";
const INTENTS: [&str; 3] = ["weather forecast for a city", "search hotels", "write a text file"];
const CODE: &str = r#"const forecast = await tools.weather.get_forecast({ city: "Oslo", days: 3 });
const hotels = await tools.hotels.search_hotels({ city: "Oslo", check_in: "2026-11-21", check_out: "2026-11-22" });
const cheapest = hotels.results.sort((a, b) => a.price - b.price).slice(0, 5);
const lines = cheapest.map((hotel) => `${hotel.name}: ${hotel.price}`);
await tools.files.write_file({ path: "/workspace/oslo.md", content: [forecast.summary, ...lines].join("\n") });
({ summary: forecast.summary, hotels: lines })"#;
const RESULT: &str = r#"{"summary":"Saturday 2 °C, light snow; Sunday −1 °C, clear","hotels":["Citybox: 890","Anker: 940","Comfort: 1,120","Thon: 1,250","Bristol: 1,990"]}"#;

/// Tokens of one task.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    tools: usize,
    full: usize,
    search: usize,
    describe: usize,
    code: usize,
    result: usize,
}

impl Cost {
    /// The task's context as a part of the full schemas.
    #[expect(clippy::cast_precision_loss, reason = "tokens are few")]
    pub fn share(&self) -> f64 {
        self.task() as f64 / self.full.max(1) as f64
    }

    fn task(&self) -> usize {
        DEFINITIONS + self.search + self.describe + self.code + self.result
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "context for a task on {} tools (o200k): definitions {DEFINITIONS} + search {} + describe {} + code {} + result {} \
             = {} tokens, {:.2} % of the {} of all schemas",
            self.tools,
            self.search,
            self.describe,
            self.code,
            self.result,
            self.task(),
            self.share() * 100.0,
            self.full
        )
    }
}

/// A task of three steps: one search with summaries, the best tool of each step described with its signature and types.
pub fn of_a_task(folder: &Folder) -> Result<Cost> {
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
    let search = Search {
        intents: INTENTS.map(str::to_owned).to_vec(),
        task: Some(TASK.to_owned()),
        ..Search::default()
    };
    let found = view.search(&search)?;
    let best: Vec<String> = found
        .intents
        .iter()
        .map(|answer| answer.slots.first().map(|slot| slot.tool.name.clone()))
        .collect::<Option<_>>()
        .context("an intent was not answered")?;
    let described = view.describe(&best, Detail::Full, Language::TypeScript)?;
    Ok(Cost {
        tools: catalog.tools().len(),
        full: full.sum(),
        search: found.tokens,
        describe: described.tokens,
        code: tokens::count(CODE),
        result: tokens::count(RESULT),
    })
}
