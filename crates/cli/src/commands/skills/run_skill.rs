//! `skills run`: runs a skill with an input, as a program would call it.

use std::fs::File;
use std::io::{self, Read as _};
use std::process::ExitCode;

use ringfence_engine::RunProgram;
use ringfence_sandbox::JobLanguage;
use serde_json::Value;

use super::find_skill;
use crate::args::{SkillSelector, SkillsRun};
use crate::commands::run;
use crate::fault::{CliFault, EXIT_CHECK_FAILED, EXIT_USAGE, io_error_text};
use crate::print::Printer;
use crate::settings::CliSettings;

/// The maximum size of the input in bytes; more data belongs in a file that the skill reads.
const MAX_INPUT_BYTES: u64 = 8 << 20;

pub(crate) async fn run_skill(
    args: SkillsRun,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let which = SkillSelector {
        name: args.name,
        scope: None,
        version: None,
    };
    let (skill, _) = find_skill(&which, settings).map_err(|fault| fault.with_exit(EXIT_CHECK_FAILED))?;
    let input = args.input.as_deref().map(parse_input).transpose()?;
    let name = skill.meta.name.identifier();
    let source = match input {
        // The input is parsed from a string at run time: as a literal, some keys would have a meaning in the language.
        Some(input) => format!(
            "await skills.{name}(JSON.parse({}))\n",
            Value::String(input.to_string())
        ),
        None => format!("await skills.{name}()\n"),
    };
    let program = RunProgram::Code {
        language: JobLanguage::JavaScript,
        file_name: format!("{}.js", skill.meta.name),
        source,
    };
    run::run_source(program, args.place, settings, printer).await
}

/// Parses the input: JSON text, `@FILE`, or `-` for standard input.
fn parse_input(written: &str) -> Result<Value, CliFault> {
    let text = match written.strip_prefix('@') {
        Some(path) => {
            let file = File::open(path).map_err(|error| input_fault(path, &error))?;
            read_input(file).map_err(|error| input_fault(path, &error))?
        }
        None if written == "-" => read_input(io::stdin().lock()).map_err(|error| input_fault("-", &error))?,
        None => written.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| {
        CliFault::internal("arguments", format!("the input is no JSON: {error}"))
            .with_hint("write it like '{\"month\": \"2026-05\"}', or name a file: `@input.json`")
            .with_exit(EXIT_USAGE)
    })
}

fn read_input(from: impl io::Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(MAX_INPUT_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_INPUT_BYTES {
        return Err(io::Error::other("it has more than 8 MiB"));
    }
    Ok(text)
}

fn input_fault(path: &str, error: &io::Error) -> CliFault {
    CliFault::not_found(
        "program.read",
        format!("cannot read the input `{path}`: {}", io_error_text(error)),
    )
    .with_hint("name a file with JSON in it: `@input.json`")
}
