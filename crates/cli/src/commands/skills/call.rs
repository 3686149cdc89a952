//! `skills run`: runs a skill with an input, as a program would call it.

use std::fs::File;
use std::io::{self, Read as _};
use std::process::ExitCode;

use ringfence_engine::Program;
use ringfence_sandbox::Language;
use serde_json::Value;

use super::found;
use crate::args::{SkillWhich, SkillsRun};
use crate::commands::run;
use crate::fault::{Fault, NOT_HELD, USAGE, reason};
use crate::print::Printer;
use crate::settings::Settings;

/// The maximum size of the input in bytes; more data belongs in a file that the skill reads.
const MOST_INPUT: u64 = 8 << 20;

pub(crate) async fn run(args: SkillsRun, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let which = SkillWhich {
        name: args.name,
        scope: None,
        version: None,
    };
    let (skill, _) = found(&which, settings).map_err(|fault| fault.exit(NOT_HELD))?;
    let input = args.input.as_deref().map(input).transpose()?;
    let name = skill.meta.name.identifier();
    let source = match input {
        // The input is parsed from a string at run time: as a literal, some keys would have a meaning in the language.
        Some(input) => format!(
            "await skills.{name}(JSON.parse({}))\n",
            Value::String(input.to_string())
        ),
        None => format!("await skills.{name}()\n"),
    };
    let program = Program::Code {
        language: Language::JavaScript,
        file_name: format!("{}.js", skill.meta.name),
        source,
    };
    run::source(program, args.place, settings, printer).await
}

/// Parses the input: JSON text, `@FILE`, or `-` for standard input.
fn input(written: &str) -> Result<Value, Fault> {
    let text = match written.strip_prefix('@') {
        Some(path) => {
            let file = File::open(path).map_err(|error| unread(path, &error))?;
            read(file).map_err(|error| unread(path, &error))?
        }
        None if written == "-" => read(io::stdin().lock()).map_err(|error| unread("-", &error))?,
        None => written.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| {
        Fault::ours("arguments", format!("the input is no JSON: {error}"))
            .hint("write it like '{\"month\": \"2026-05\"}', or name a file: `@input.json`")
            .exit(USAGE)
    })
}

fn read(from: impl io::Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(MOST_INPUT + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_INPUT {
        return Err(io::Error::other("it has more than 8 MiB"));
    }
    Ok(text)
}

fn unread(path: &str, error: &io::Error) -> Fault {
    Fault::not_found(
        "program.read",
        format!("cannot read the input `{path}`: {}", reason(error)),
    )
    .hint("name a file with JSON in it: `@input.json`")
}
