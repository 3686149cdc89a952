//! `ringfence skills`: manages saved programs for the operator.

use std::process::ExitCode;

use ringfence_engine::{SchemaError, check_schemas};
use ringfence_gateway::Keep;
use ringfence_store::{Damaged, Skill, SkillBody, SkillError, SkillName, SkillParcel, SkillScope, Skills, Survey};
use serde_json::{Value, json};

use super::{run, session_id};
use crate::args::{
    SkillOwner, SkillWhich, SkillsCommand, SkillsExport, SkillsImport, SkillsList, SkillsRm, SkillsShow,
};
use crate::fault::{Fault, NOT_HELD, chain};
use crate::print::{Printer, Style, bytes, count, escape};
use crate::settings::Settings;

mod call;
mod save;

/// Runs the subcommand of `skills`.
pub(crate) async fn start(command: SkillsCommand, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    match command {
        SkillsCommand::List(args) => list(&args, settings, printer),
        SkillsCommand::Show(args) => show(&args, settings, printer),
        SkillsCommand::Save(args) => save::save(args, settings, printer).await,
        SkillsCommand::Run(args) => return call::run(*args, settings, printer).await,
        SkillsCommand::Rm(args) => remove(&args, settings, printer),
        SkillsCommand::Import(args) => import(&args, settings, printer),
        SkillsCommand::Export(args) => export(&args, settings, printer),
    }
    .map_err(|fault| fault.exit(NOT_HELD))
}

fn skills(settings: &Settings) -> Result<Skills, Fault> {
    settings.home().map(|home| Skills::open(&home))
}

fn scope(owner: SkillOwner) -> SkillScope {
    match owner {
        SkillOwner::User => SkillScope::User(run::principal()),
        SkillOwner::Team => SkillScope::Team,
    }
}

/// The scopes to search, in order.
fn scopes(owner: Option<SkillOwner>) -> Vec<SkillScope> {
    match owner {
        Some(owner) => vec![scope(owner)],
        None => vec![scope(SkillOwner::User), SkillScope::Team],
    }
}

fn list(args: &SkillsList, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let mut scopes = scopes(args.scope);
    if let Some(id) = &args.session {
        scopes.insert(0, SkillScope::Session(session_id(id)?));
    }
    let Survey { skills, damaged } = skills(settings)?.survey(&scopes)?;
    let keep = Keep::new(&settings.home()?);
    if args.json {
        let rows = skills.iter().map(|skill| json(skill, &keep));
        let broken = damaged.iter().map(
            |one| json!({"name": one.name, "scope": one.scope.word(), "version": one.version, "damaged": one.why}),
        );
        printer.json(&rows.chain(broken).collect::<Vec<Value>>())?;
    } else if skills.is_empty() && damaged.is_empty() {
        printer.notice(
            "there are no skills yet; `ringfence skills save NAME --from-run EXECUTION --description TEXT` makes one",
        );
    } else {
        printer.line(&format!(
            "{:<24}  {:<7}  {:>7}  {:<10}  {:>9}  DESCRIPTION",
            "NAME", "SCOPE", "VERSION", "LANGUAGE", "SIZE"
        ))?;
        for skill in &skills {
            printer.line(&row(skill, &keep, printer))?;
        }
        for one in &damaged {
            printer.line(&broken(one, printer))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row(skill: &Skill, keep: &Keep, printer: &Printer) -> String {
    let changed = changed(skill, keep);
    let mark = match changed.as_slice() {
        [] => String::new(),
        [tool, ..] => printer.paint(&format!("[changed: {}] ", escape::text(tool)), Style::Warn),
    };
    format!(
        "{:<24}  {:<7}  {:>7}  {:<10}  {:>9}  {mark}{}",
        skill.meta.name.as_str(),
        skill.scope.word(),
        skill.version,
        skill.meta.language.name(),
        bytes(skill.bytes),
        one_line(&skill.meta.description)
    )
}

fn broken(one: &Damaged, printer: &Printer) -> String {
    let said = printer.paint(&format!("[damaged: {}]", escape::text(&one.why)), Style::Bad);
    format!(
        "{:<24}  {:<7}  {:>7}  {:<10}  {:>9}  {said}",
        one.name.as_str(),
        one.scope.word(),
        one.version,
        "-",
        "-"
    )
}

/// Escapes text of other parties, puts it on one line and truncates it.
fn one_line(text: &str) -> String {
    const MOST: usize = 100;
    let line = escape::text(text).replace(['\n', '\r', '\t'], " ");
    if line.chars().count() > MOST {
        let short: String = line.chars().take(MOST).collect();
        format!("{short}…")
    } else {
        line
    }
}

/// The required tools whose accepted definition changed since the skill was saved.
fn changed(skill: &Skill, keep: &Keep) -> Vec<String> {
    let is_other = |name: &str, digest: &str| {
        // A tool without a readable pin counts as unchanged here; a run reports it.
        keep.pinned(name).ok().flatten().is_some_and(|(now, _)| now != digest)
    };
    let tools = skill
        .meta
        .tools
        .iter()
        .filter(|tool| is_other(&tool.name, &tool.digest));
    tools.map(|tool| tool.name.clone()).collect()
}

/// A skill as `--json` prints it.
fn json(skill: &Skill, keep: &Keep) -> Value {
    json!({
        "name": skill.meta.name,
        "call": format!("skills.{}", skill.meta.name.identifier()),
        "description": skill.meta.description,
        "scope": skill.scope.word(),
        "version": skill.version,
        "language": skill.meta.language,
        "digest": skill.digest,
        "bytes": skill.bytes,
        "saved": skill.saved,
        "tools": skill.meta.tools,
        "changed_tools": changed(skill, keep),
        "policy": skill.meta.policy,
        "inputs": skill.meta.inputs,
        "outputs": skill.meta.outputs,
        "needs": skill.meta.needs,
    })
}

/// Finds the skill that the arguments select.
fn found(which: &SkillWhich, settings: &Settings) -> Result<(Skill, SkillBody), Fault> {
    let found = skills(settings)?.find(&scopes(which.scope), &which.name, which.version)?;
    found.ok_or_else(|| {
        let name = match which.version {
            Some(version) => format!("{}` version `{version}", which.name),
            None => which.name.clone(),
        };
        SkillError::Unknown { name }.into()
    })
}

fn show(args: &SkillsShow, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let (skill, body) = found(&args.which, settings)?;
    let versions = skills(settings)?.versions(skill.scope, &skill.meta.name)?;
    let keep = Keep::new(&settings.home()?);
    if args.json {
        let mut shown = json(&skill, &keep);
        shown["versions"] = json!(versions);
        shown["text"] = json!(skill.meta.extra.text);
        shown["source"] = json!(body.source);
        let files = body.files.iter();
        shown["files"] = files
            .map(|(path, content)| json!({"path": path, "bytes": content.len()}))
            .collect();
        printer.json(&shown)?;
    } else {
        printer.data(&words(&skill, &body, &versions, &keep))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn words(skill: &Skill, body: &SkillBody, versions: &[u32], keep: &Keep) -> String {
    let meta = &skill.meta;
    let all: Vec<String> = versions.iter().map(u32::to_string).collect();
    let mut lines = vec![
        format!("skill        {}", meta.name),
        format!("call         skills.{}(…)", meta.name.identifier()),
        format!(
            "description  {}",
            escape::text(&meta.description).replace('\n', "\n             ")
        ),
        format!("scope        {}", skill.scope),
        format!("version      {} (kept: {})", skill.version, all.join(", ")),
        format!("saved        {}", skill.saved),
        format!("digest       {}", skill.digest),
        format!("size         {}", bytes(skill.bytes)),
        format!("language     {}", meta.language.name()),
    ];
    let changed = changed(skill, keep);
    for tool in &meta.tools {
        let mark = if changed.contains(&tool.name) {
            ", changed since"
        } else {
            ""
        };
        lines.push(format!(
            "tool         {} ({:.12}{mark})",
            escape::text(&tool.name),
            tool.digest
        ));
    }
    if let Some(policy) = &meta.policy {
        lines.push(format!("policy       {policy:.12}"));
    }
    for (name, value) in [
        ("inputs", &meta.inputs),
        ("outputs", &meta.outputs),
        ("needs", &meta.needs),
    ] {
        if let Some(value) = value {
            lines.push(format!("{name:<12} {}", escape::json(&value.to_string())));
        }
    }
    for (path, content) in &body.files {
        let size = bytes(content.len() as u64);
        lines.push(format!("file         {} ({size})", escape::text(path.as_str())));
    }
    lines.push(String::new());
    lines.push(escape::text(body.source.trim_end()));
    lines.push(String::new());
    lines.join("\n")
}

fn remove(args: &SkillsRm, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let name = SkillName::parse(&args.name)?;
    let scope = scope(args.scope);
    let skills = skills(settings)?;
    let versions = skills.versions(scope, &name)?.len() as u64;
    skills.remove(scope, &name)?;
    printer.line(&format!("{name}  removed  ({scope}, {})", count(versions, "version")))?;
    Ok(ExitCode::SUCCESS)
}

fn import(args: &SkillsImport, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let parcel = SkillParcel::open(&args.path, args.program.as_deref())?;
    check_schemas(parcel.meta.inputs.as_ref(), parcel.meta.outputs.as_ref())?;
    let skill = skills(settings)?.save(scope(args.scope), parcel.meta, parcel.body)?;
    if !parcel.left_out.is_empty() {
        printer.notice(&format!("left out: {}", parcel.left_out.join(", ")));
    }
    saved(&skill, args.json, settings, printer)
}

fn export(args: &SkillsExport, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let (skill, body) = found(&args.which, settings)?;
    let (version, at) = (skill.version, skill.saved);
    let name = skill.meta.name.clone();
    let parcel = SkillParcel {
        meta: skill.meta,
        body,
        left_out: Vec::new(),
    };
    let place = parcel.write(&args.path, at)?;
    printer.notice(&format!("`{name}` version {version} is in `{}`", place.display()));
    Ok(ExitCode::SUCCESS)
}

/// Prints the skill that was saved or imported.
fn saved(skill: &Skill, as_json: bool, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    if as_json {
        printer.json(&json(skill, &Keep::new(&settings.home()?)))?;
    } else {
        let (name, scope) = (&skill.meta.name, skill.scope);
        printer.line(&format!("{name}  version {}  ({scope})", skill.version))?;
        printer.notice(&format!("programs call it as `skills.{}(…)`", name.identifier()));
    }
    Ok(ExitCode::SUCCESS)
}

impl From<SchemaError> for Fault {
    fn from(error: SchemaError) -> Fault {
        Fault::ours(SchemaError::CODE, chain(&error)).hint(SchemaError::HINT)
    }
}

impl From<SkillError> for Fault {
    fn from(error: SkillError) -> Fault {
        let fault = Fault::ours(error.code(), chain(&error));
        match error.hint() {
            Some(hint) => fault.hint(hint),
            None => fault,
        }
    }
}
