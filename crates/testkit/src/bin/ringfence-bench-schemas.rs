//! The schemas of the data as stubs, checked by the real compilers: how many they accept, and what the types leave open. `--brief` does the
//! same, but skips compilers that are not installed.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the table is the output")]
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark starts the compilers itself and is told where its data is"
)]
#![expect(clippy::expect_used, reason = "what the tests share says why it cannot go on")]

#[path = "../../../catalog/tests/it/compilers.rs"]
mod compilers;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ringfence_catalog::{
    Catalog, OfferedTool, ServerHints, ServerListing, StubLanguage, StubNotes, ToolDefinition, count_untyped,
    stub_files,
};
use serde_json::Value;

const SCHEMA_FILES: [&str; 2] = ["toucan_tools.jsonl", "livemcpbench_tools.jsonl"];
const NO_CHECKERS_MESSAGE: &str = "no type checkers: `cargo xtask test --only install` gets them";
/// The largest percentage of parameters that may have an unknown type.
const MAX_UNKNOWN_SHARE: f64 = 3.0;

fn main() -> Result<()> {
    let brief = std::env::args().any(|one| one == "--brief");
    let place = std::env::var_os("RINGFENCE_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let lacks: Vec<&str> = SCHEMA_FILES
        .into_iter()
        .filter(|file| !place.join(file).is_file())
        .collect();
    if !lacks.is_empty() {
        let (place, lacks) = (place.display(), lacks.join(", "));
        println!("schemas: not measured, `{place}` lacks {lacks}; RINGFENCE_DATA names another folder");
        return Ok(());
    }
    let Some(compilers) = compilers::Compilers::find() else {
        ensure!(brief, "{NO_CHECKERS_MESSAGE}");
        println!("schemas: not measured, {NO_CHECKERS_MESSAGE}");
        return Ok(());
    };
    let mut failed = false;
    for file in SCHEMA_FILES {
        let catalog = read_catalog(&place.join(file))?;
        failed |= measure_catalog(file, &catalog, &compilers)?;
    }
    ensure!(
        !failed,
        "not every schema is accepted, or too many parameters are unknown"
    );
    Ok(())
}

fn read_catalog(file: &Path) -> Result<Catalog> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut servers: BTreeMap<String, Vec<ToolDefinition>> = BTreeMap::new();
    for line in text.lines() {
        let tool: Value =
            serde_json::from_str(line).with_context(|| format!("{} is not JSON lines", file.display()))?;
        let word = |key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        servers.entry(word("server")).or_default().push(ToolDefinition {
            name: word("name"),
            title: None,
            description: word("description"),
            input: tool.get("inputSchema").cloned().unwrap_or(Value::Null),
            // The data has no output schemas: the input schema stands in, so that results are checked too.
            output: tool.get("inputSchema").cloned(),
            hints: ServerHints::default(),
            tags: Vec::new(),
        });
    }
    Ok(Catalog::new(servers.into_iter().map(|(server, tools)| ServerListing {
        server,
        description: String::new(),
        tools,
    })))
}

/// Measures one catalog; returns whether something is wrong.
fn measure_catalog(name: &str, catalog: &Catalog, compilers: &compilers::Compilers) -> Result<bool> {
    let offers: Vec<OfferedTool<'_>> = catalog
        .tools()
        .iter()
        .map(|tool| OfferedTool {
            tool,
            notes: StubNotes::default(),
            observed: None,
        })
        .collect();
    let folder = tempfile::tempdir()?;
    let mut rejected = BTreeSet::new();
    println!("{name}: {} tools", offers.len());
    for language in [StubLanguage::TypeScript, StubLanguage::Python] {
        let start = Instant::now();
        let texts = stub_files(&offers, language);
        let made = start.elapsed();
        let bytes: usize = texts.iter().map(|(_, text)| text.len()).sum();
        for (path, text) in &texts {
            let place = folder.path().join(path);
            fs::create_dir_all(place.parent().unwrap_or(folder.path()))?;
            fs::write(place, text)?;
        }
        let start = Instant::now();
        let verdict = match language {
            StubLanguage::TypeScript => compilers.typescript(folder.path(), &["ringfence.d.ts", "tools.d.ts"]),
            StubLanguage::Python | StubLanguage::Json => compilers.python(folder.path(), &["."]),
        };
        let judged = start.elapsed();
        let faults = verdict.lines.len();
        println!(
            "  {}: {bytes} bytes in {made:.0?}, judged in {judged:.0?}, {faults} faults",
            language.name()
        );
        for line in verdict.output.lines().take(if faults > 0 { 10 } else { 0 }) {
            println!("    {line}");
        }
        rejected.extend(verdict.lines);
    }
    let (mut parameters, mut unknown, mut partly) = (0usize, 0usize, 0usize);
    for tool in catalog.tools() {
        let count = count_untyped(tool);
        parameters += count.parameters;
        unknown += count.unknown;
        partly += count.partly;
    }
    #[expect(clippy::cast_precision_loss, reason = "a share in per cent")]
    let share = |part: usize| 100.0 * part as f64 / parameters.max(1) as f64;
    println!(
        "  {parameters} parameters: {unknown} unknown ({:.2} %, at most {MAX_UNKNOWN_SHARE} %), {partly} with something unknown inside ({:.2} %)",
        share(unknown),
        share(partly)
    );
    Ok(!rejected.is_empty() || share(unknown) >= MAX_UNKNOWN_SHARE)
}
