//! Generates the checked-in files that come from the program itself: the policy's JSON Schema, the command line reference, and
//! the picture of a session.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;

use crate::program;

mod session;

const SCHEMA_FILE: &str = "docs/reference/policy.schema.json";
const REFERENCE_FILE: &str = "docs/reference/cli.md";
const PICTURE_FILE: &str = "docs/session.svg";
const FILES: [&str; 3] = [SCHEMA_FILE, REFERENCE_FILE, PICTURE_FILE];

/// The width of generated help, whatever the terminal.
const HELP_WIDTH: &str = "100";

#[derive(Args)]
pub(crate) struct GenerateArguments {
    /// Change nothing; fail when a file differs from what would be written
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(root: &Path, arguments: &GenerateArguments) -> Result<ExitCode> {
    if arguments.check {
        let stale = stale_files(root)?;
        for file in &stale {
            eprintln!("error: `{file}` differs from what the program prints; run `cargo xtask generate`");
        }
        return Ok(if stale.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    let program = program::ringfence(root)?;
    for file in FILES {
        let place = root.join(file);
        let folder = place.parent().unwrap_or(root);
        fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
        let text = generated_content(&program, file)?;
        fs::write(&place, text).with_context(|| format!("cannot write `{file}`"))?;
        println!("{file}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The generated files that exist and are out of date. Builds the program only when one exists.
pub(crate) fn stale_files(root: &Path) -> Result<Vec<&'static str>> {
    let present: Vec<_> = FILES.into_iter().filter(|file| root.join(file).exists()).collect();
    if present.is_empty() {
        return Ok(Vec::new());
    }
    differing_files(root, &program::ringfence(root)?, &present)
}

fn differing_files(root: &Path, program: &Path, files: &[&'static str]) -> Result<Vec<&'static str>> {
    let mut stale = Vec::new();
    for &file in files {
        let text = fs::read_to_string(root.join(file)).with_context(|| format!("cannot read `{file}`"))?;
        if text != generated_content(program, file)? {
            stale.push(file);
        }
    }
    Ok(stale)
}

fn generated_content(program: &Path, file: &str) -> Result<String> {
    match file {
        SCHEMA_FILE => help_output(program, &["policy", "schema"]),
        PICTURE_FILE => session::session_picture(program),
        _ => cli_reference(program),
    }
}

fn cli_reference(program: &Path) -> Result<String> {
    let mut parts = vec![String::from(
        "# Command line reference\n\n\
         What every command says for itself; `cargo xtask generate` writes this page.\n",
    )];
    let mut waiting = vec![Vec::new()];
    while let Some(command) = waiting.pop() {
        let mut words: Vec<&str> = command.iter().map(String::as_str).collect();
        words.push("--help");
        let help = help_output(program, &words)?;
        let name = std::iter::once("ringfence").chain(command.iter().map(String::as_str));
        let name = name.collect::<Vec<_>>().join(" ");
        let lines: Vec<_> = help.trim_end().lines().map(str::trim_end).collect();
        parts.push(format!("\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n")));
        for below in subcommands(&help).into_iter().rev() {
            let mut deeper = command.clone();
            deeper.push(below.to_owned());
            waiting.push(deeper);
        }
    }
    Ok(parts.concat())
}

/// The names in the list of commands, without `help`.
fn subcommands(help: &str) -> Vec<&str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| line.is_empty() || line.starts_with(' '));
    let names = listed
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '));
    names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

/// The output of the program, independent of the caller's terminal and settings.
fn help_output(program: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("COLUMNS", HELP_WIDTH)
        .env("HOME", "/nonexistent");
    program::read_stdout(&mut command)
}

#[cfg(test)]
mod tests;
