//! The data: tools as their servers list them, one JSON object per line, and questions with the tools that people say they need.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ringfence_catalog::{Catalog, ServerHints, ServerListing, ToolDefinition};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

const TOOLS_FILE: &str = "livemcpbench_tools.jsonl";
const QUESTIONS_FILE: &str = "livemcpbench_queries.jsonl";
const MORE_TOOLS_FILE: &str = "toucan_tools.jsonl";

/// A folder that contains all data files.
#[derive(Debug, Clone)]
pub struct DiscoveryFolder(PathBuf);

/// One tool as the files contain it.
#[derive(Debug, Clone, Deserialize)]
pub struct ToolLine {
    id: String,
    server: String,
    #[serde(default)]
    server_description: String,
    name: String,
    #[serde(default)]
    description: String,
    #[serde(rename = "inputSchema")]
    input: Value,
}

/// A question: a task, its steps, and the tools for it in groups of which one tool each is enough.
#[derive(Debug, Clone, Deserialize)]
pub struct DiscoveryQuestion {
    /// The task in the words of its author.
    #[serde(rename = "query")]
    pub task: String,
    /// Ids of tools in the files; a group is found when one of its tools is.
    pub groups: Vec<Vec<String>>,
    steps: String,
}

impl DiscoveryQuestion {
    /// The steps without their numbers; the task itself where there are none.
    pub fn intents(&self) -> Vec<String> {
        let bare = |line: &str| -> String {
            let line = line.trim();
            let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
            let numbered = rest.len() < line.len() && rest.starts_with(['.', ')', '、']);
            let text = if numbered {
                rest.trim_start_matches(['.', ')', '、'])
            } else {
                line
            };
            text.trim().to_owned()
        };
        let steps: Vec<String> = self.steps.lines().map(bare).filter(|step| !step.is_empty()).collect();
        if steps.is_empty() {
            vec![self.task.clone()]
        } else {
            steps
        }
    }
}

/// A catalog and questions about it.
#[derive(Debug)]
pub struct DiscoverySet {
    /// The name of the set in the tables.
    pub name: &'static str,
    /// The catalog with the tools of the set.
    pub catalog: Catalog,
    /// The questions with their labelled tools.
    pub questions: Vec<DiscoveryQuestion>,
    /// The positions of tools in the catalog by their ids in the files.
    pub places: HashMap<String, usize>,
}

impl DiscoverySet {
    /// The number of tools in the catalog.
    pub fn tools(&self) -> usize {
        self.catalog.tools().len()
    }
}

impl DiscoveryFolder {
    /// The folder at `place`; an error with the files that it lacks.
    pub fn find(place: &Path) -> Result<DiscoveryFolder, String> {
        let lacks: Vec<&str> = [TOOLS_FILE, QUESTIONS_FILE, MORE_TOOLS_FILE]
            .into_iter()
            .filter(|file| !place.join(file).is_file())
            .collect();
        if lacks.is_empty() {
            return Ok(DiscoveryFolder(place.to_owned()));
        }
        Err(format!(
            "`{}` lacks {}; RINGFENCE_DATA names another folder",
            place.display(),
            lacks.join(", ")
        ))
    }

    /// The questions over their own tools, and over these among thousands of others.
    pub fn sets(&self) -> Result<Vec<DiscoverySet>> {
        let tools: Vec<ToolLine> = self.read_lines(TOOLS_FILE)?;
        // A tool of the same name may do the same, and no label says whether it does.
        let names: HashSet<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let more = self
            .read_lines::<ToolLine>(MORE_TOOLS_FILE)?
            .into_iter()
            .filter(|tool| !names.contains(tool.name.as_str()));
        let all: Vec<ToolLine> = tools.iter().cloned().chain(more).collect();
        let questions = self.questions()?;
        let set = |name, tools: &[ToolLine]| {
            let (catalog, places) = build_catalog(tools);
            DiscoverySet {
                name,
                catalog,
                questions: questions.clone(),
                places,
            }
        };
        Ok(vec![set("LiveMCPBench", &tools), set("LiveMCPBench + Toucan", &all)])
    }

    /// Reads the labelled questions without their tools.
    pub fn questions(&self) -> Result<Vec<DiscoveryQuestion>> {
        self.read_lines(QUESTIONS_FILE)
    }

    /// Reads the large catalog alone.
    pub fn large_catalog(&self) -> Result<Catalog> {
        Ok(build_catalog(&self.read_lines::<ToolLine>(MORE_TOOLS_FILE)?).0)
    }

    fn read_lines<T: DeserializeOwned>(&self, file: &str) -> Result<Vec<T>> {
        let path = self.0.join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        let read = |(number, line): (usize, &str)| {
            serde_json::from_str(line).with_context(|| format!("`{}`, line {}", path.display(), number + 1))
        };
        text.lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
            .map(read)
            .collect()
    }
}

fn build_catalog(tools: &[ToolLine]) -> (Catalog, HashMap<String, usize>) {
    let mut listings: BTreeMap<&str, ServerListing> = BTreeMap::new();
    let mut ids: HashMap<(&str, &str), &str> = HashMap::new();
    for tool in tools {
        let listing = listings.entry(&tool.server).or_insert_with(|| ServerListing {
            server: tool.server.clone(),
            description: tool.server_description.clone(),
            tools: Vec::new(),
        });
        listing.tools.push(ToolDefinition {
            name: tool.name.clone(),
            title: None,
            description: tool.description.clone(),
            input: tool.input.clone(),
            output: None,
            hints: ServerHints::default(),
            tags: Vec::new(),
        });
        ids.insert((&tool.server, &tool.name), &tool.id);
    }
    let servers: Vec<&str> = listings.keys().copied().collect();
    let catalog = Catalog::new(listings.into_values());
    let mut places = HashMap::new();
    for (entry, server) in catalog.servers().iter().zip(servers) {
        for place in entry.tools.clone() {
            let name = catalog.tools()[place].definition.name.as_str();
            if let Some(id) = ids.get(&(server, name)) {
                places.insert((*id).to_owned(), place);
            }
        }
    }
    (catalog, places)
}
