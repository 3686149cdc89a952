//! `ringfence skills`: manages saved programs for the operator.

use std::process::ExitCode;

use ringfence_engine::{SchemaError, check_schemas};
use ringfence_gateway::ServerCache;
use ringfence_store::{
    DamagedSkill, Skill, SkillArchive, SkillBody, SkillError, SkillName, SkillRepository, SkillScope, SkillSurvey,
};
use serde_json::{Value, json};

use super::{parse_session_id, run};
use crate::args::{
    SkillOwner, SkillSelector, SkillsCommand, SkillsExport, SkillsImport, SkillsList, SkillsRm, SkillsShow,
};
use crate::fault::{CliFault, EXIT_CHECK_FAILED, error_chain};
use crate::print::{Printer, Style, byte_text, counted, escape, moment};
use crate::settings::CliSettings;

mod run_skill;
mod save;

/// Runs the subcommand of `skills`.
pub(crate) async fn dispatch(
    command: SkillsCommand,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    match command {
        SkillsCommand::List(args) => list_skills(&args, settings, printer),
        SkillsCommand::Show(args) => show_skill(&args, settings, printer),
        SkillsCommand::Save(args) => save::save_skill(args, settings, printer).await,
        SkillsCommand::Run(args) => return run_skill::run_skill(*args, settings, printer).await,
        SkillsCommand::Rm(args) => remove_skill(&args, settings, printer),
        SkillsCommand::Import(args) => import_skill(&args, settings, printer),
        SkillsCommand::Export(args) => export_skill(&args, settings, printer),
    }
    .map_err(|fault| fault.with_exit(EXIT_CHECK_FAILED))
}

fn open_skills(settings: &CliSettings) -> Result<SkillRepository, CliFault> {
    settings.home().map(|home| SkillRepository::open(&home))
}

fn skill_scope(owner: SkillOwner) -> SkillScope {
    match owner {
        SkillOwner::User => SkillScope::User(run::local_principal()),
        SkillOwner::Team => SkillScope::Team,
    }
}

/// The scopes to search, in order.
fn lookup_scopes(owner: Option<SkillOwner>) -> Vec<SkillScope> {
    match owner {
        Some(owner) => vec![skill_scope(owner)],
        None => vec![skill_scope(SkillOwner::User), SkillScope::Team],
    }
}

fn list_skills(args: &SkillsList, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    let mut scopes = lookup_scopes(args.scope);
    if let Some(id) = &args.session {
        scopes.insert(0, SkillScope::Session(parse_session_id(id)?));
    }
    let SkillSurvey { skills, damaged } = open_skills(settings)?.survey_complete(&scopes)?;
    let keep = ServerCache::new(&settings.home()?);
    if args.json {
        let rows = skills.iter().map(|skill| skill_json(skill, &keep));
        let broken = damaged.iter().map(
            |one| json!({"name": one.name, "scope": one.scope.name(), "version": one.version, "damaged": one.why}),
        );
        printer.print_json(&rows.chain(broken).collect::<Vec<Value>>())?;
    } else if skills.is_empty() && damaged.is_empty() {
        printer.notice(
            "there are no skills yet; `ringfence skills save NAME --from-run EXECUTION --description TEXT` makes one",
        );
    } else {
        printer.print_line(&format!(
            "{:<24}  {:<7}  {:>7}  {:<10}  {:>9}  DESCRIPTION",
            "NAME", "SCOPE", "VERSION", "LANGUAGE", "SIZE"
        ))?;
        for skill in &skills {
            printer.print_line(&skill_row(skill, &keep, printer))?;
        }
        for one in &damaged {
            printer.print_line(&damaged_row(one, printer))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn skill_row(skill: &Skill, keep: &ServerCache, printer: &Printer) -> String {
    let changed = changed_tools(skill, keep);
    let mark = match changed.as_slice() {
        [] => String::new(),
        [tool, ..] => printer.paint(&format!("[changed: {}] ", escape::escape_text(tool)), Style::Warn),
    };
    format!(
        "{:<24}  {:<7}  {:>7}  {:<10}  {:>9}  {mark}{}",
        skill.meta.name.as_str(),
        skill.scope.name(),
        skill.version,
        skill.meta.language.name(),
        byte_text(skill.bytes),
        one_line(&skill.meta.description)
    )
}

fn damaged_row(one: &DamagedSkill, printer: &Printer) -> String {
    let said = printer.paint(&format!("[damaged: {}]", escape::escape_text(&one.why)), Style::Bad);
    format!(
        "{:<24}  {:<7}  {:>7}  {:<10}  {:>9}  {said}",
        one.name.as_str(),
        one.scope.name(),
        one.version,
        "-",
        "-"
    )
}

/// Escapes text of other parties, puts it on one line and truncates it.
fn one_line(text: &str) -> String {
    const MAX_CHARS: usize = 100;
    let line = escape::escape_text(text).replace(['\n', '\r', '\t'], " ");
    if line.chars().count() > MAX_CHARS {
        let short: String = line.chars().take(MAX_CHARS).collect();
        format!("{short}…")
    } else {
        line
    }
}

/// The required tools whose accepted definition changed since the skill was saved.
fn changed_tools(skill: &Skill, keep: &ServerCache) -> Vec<String> {
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
fn skill_json(skill: &Skill, keep: &ServerCache) -> Value {
    json!({
        "name": skill.meta.name,
        "call": format!("skills.{}", skill.meta.name.identifier()),
        "description": skill.meta.description,
        "scope": skill.scope.name(),
        "version": skill.version,
        "language": skill.meta.language,
        "digest": skill.digest,
        "bytes": skill.bytes,
        "saved": skill.saved,
        "tools": skill.meta.tools,
        "changed_tools": changed_tools(skill, keep),
        "policy": skill.meta.policy,
        "inputs": skill.meta.inputs,
        "outputs": skill.meta.outputs,
        "needs": skill.meta.needs,
    })
}

/// Finds the skill that the arguments select.
fn find_skill(which: &SkillSelector, settings: &CliSettings) -> Result<(Skill, SkillBody), CliFault> {
    let found = open_skills(settings)?.find(&lookup_scopes(which.scope), &which.name, which.version)?;
    found.ok_or_else(|| {
        let name = match which.version {
            Some(version) => format!("{}` version `{version}", which.name),
            None => which.name.clone(),
        };
        SkillError::Unknown { name }.into()
    })
}

fn show_skill(args: &SkillsShow, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    let (skill, body) = find_skill(&args.which, settings)?;
    let versions = open_skills(settings)?.versions(skill.scope, &skill.meta.name)?;
    let keep = ServerCache::new(&settings.home()?);
    if args.json {
        let mut shown = skill_json(&skill, &keep);
        shown["versions"] = json!(versions);
        shown["text"] = json!(skill.meta.extra.text);
        shown["source"] = json!(body.source);
        let files = body.files.iter();
        shown["files"] = files
            .map(|(path, content)| json!({"path": path, "bytes": content.len()}))
            .collect();
        printer.print_json(&shown)?;
    } else {
        printer.print_escaped(&skill_text(&skill, &body, &versions, &keep))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn skill_text(skill: &Skill, body: &SkillBody, versions: &[u32], keep: &ServerCache) -> String {
    let meta = &skill.meta;
    let all: Vec<String> = versions.iter().map(u32::to_string).collect();
    let mut lines = vec![
        format!("skill        {}", meta.name),
        format!("call         skills.{}(…)", meta.name.identifier()),
        format!(
            "description  {}",
            escape::escape_text(&meta.description).replace('\n', "\n             ")
        ),
        format!("scope        {}", skill.scope),
        format!("version      {} (kept: {})", skill.version, all.join(", ")),
        format!("saved        {}", moment(skill.saved)),
        format!("digest       {}", skill.digest),
        format!("size         {}", byte_text(skill.bytes)),
        format!("language     {}", meta.language.name()),
    ];
    let changed = changed_tools(skill, keep);
    for tool in &meta.tools {
        let mark = if changed.contains(&tool.name) {
            ", changed since"
        } else {
            ""
        };
        lines.push(format!(
            "tool         {} ({:.12}{mark})",
            escape::escape_text(&tool.name),
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
            lines.push(format!("{name:<12} {}", escape::escape_json(&value.to_string())));
        }
    }
    for (path, content) in &body.files {
        let size = byte_text(content.len() as u64);
        lines.push(format!("file         {} ({size})", escape::escape_text(path.as_str())));
    }
    lines.push(String::new());
    lines.push(escape::escape_text(body.source.trim_end()));
    lines.push(String::new());
    lines.join("\n")
}

fn remove_skill(args: &SkillsRm, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    let name = SkillName::parse(&args.name)?;
    let scope = skill_scope(args.scope);
    let skills = open_skills(settings)?;
    let versions = skills.versions(scope, &name)?.len() as u64;
    skills.remove(scope, &name)?;
    printer.print_line(&format!("{name}  removed  ({scope}, {})", counted(versions, "version")))?;
    Ok(ExitCode::SUCCESS)
}

fn import_skill(args: &SkillsImport, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    let parcel = SkillArchive::open(&args.path, args.program.as_deref())?;
    check_schemas(parcel.meta.inputs.as_ref(), parcel.meta.outputs.as_ref())?;
    let skill = open_skills(settings)?.save(skill_scope(args.scope), parcel.meta, parcel.body)?;
    if !parcel.left_out.is_empty() {
        printer.notice(&format!("left out: {}", parcel.left_out.join(", ")));
    }
    print_saved(&skill, args.json, settings, printer)
}

fn export_skill(args: &SkillsExport, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    let (skill, body) = find_skill(&args.which, settings)?;
    let (version, at) = (skill.version, skill.saved);
    let name = skill.meta.name.clone();
    let parcel = SkillArchive {
        meta: skill.meta,
        body,
        left_out: Vec::new(),
    };
    let place = parcel.write(&args.path, at)?;
    printer.notice(&format!("`{name}` version {version} is in `{}`", place.display()));
    Ok(ExitCode::SUCCESS)
}

/// Prints the skill that was saved or imported.
fn print_saved(skill: &Skill, as_json: bool, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    if as_json {
        printer.print_json(&skill_json(skill, &ServerCache::new(&settings.home()?)))?;
    } else {
        let (name, scope) = (&skill.meta.name, skill.scope);
        printer.print_line(&format!("{name}  version {}  ({scope})", skill.version))?;
        printer.notice(&format!("programs call it as `skills.{}(…)`", name.identifier()));
    }
    Ok(ExitCode::SUCCESS)
}

impl From<SchemaError> for CliFault {
    fn from(error: SchemaError) -> CliFault {
        CliFault::internal(SchemaError::CODE, error_chain(&error)).with_hint(SchemaError::HINT)
    }
}

impl From<SkillError> for CliFault {
    fn from(error: SkillError) -> CliFault {
        let fault = CliFault::internal(error.code(), error_chain(&error));
        match error.hint() {
            Some(hint) => fault.with_hint(hint),
            None => fault,
        }
    }
}
