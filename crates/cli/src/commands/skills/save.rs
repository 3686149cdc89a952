//! `skills save`: saves a skill from a file or from a past run.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use ringfence_engine::{
    InputSource, PersonalDataMode, PromoteError, SkillPromotion, check_schemas, for_bash, promote_run,
};
use ringfence_gateway::ServerCache;
use ringfence_journal::ExecutionId;
use ringfence_store::{RequiredTool, SkillBody, SkillLanguage, SkillMeta, SkillName};
use serde_json::Value;

use super::{open_skills, print_saved, skill_scope};
use crate::args::{Lang, SkillsSave};
use crate::commands::{open_store, run};
use crate::fault::{CliFault, error_chain, io_error_text};
use crate::print::Printer;
use crate::settings::CliSettings;

/// The most bytes to read of one file, above the limit of a skill; saving reports the exact limit.
const MAX_READ_BYTES: u64 = 4 << 20;

pub(super) async fn save_skill(
    args: SkillsSave,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let promotion = SkillPromotion {
        scope: skill_scope(args.scope),
        name: SkillName::parse(&args.name)?,
        description: args.description.trim().to_owned(),
        inputs: args.inputs.as_deref().map(read_schema).transpose()?,
        outputs: args.outputs.as_deref().map(read_schema).transpose()?,
        personal: if args.allow_personal_data {
            PersonalDataMode::Keep
        } else {
            PersonalDataMode::Refuse
        },
    };
    let skill = match (&args.from_run, &args.file) {
        (Some(id), _) => {
            let id = parse_execution_id(id)?;
            let store = open_store(settings).await?;
            let promoted = promote_run(&store, id, None, promotion).await;
            store.close_for_exit().await;
            let promoted = promoted?;
            if promoted.had_args {
                printer.notice("the run had arguments; a skill is given its input instead");
            }
            promoted.skill
        }
        (None, Some(file)) => {
            let (meta, body) = skill_from_file(&args, file, promotion, settings)?;
            check_schemas(meta.inputs.as_ref(), meta.outputs.as_ref())?;
            open_skills(settings)?.save(skill_scope(args.scope), meta, body)?
        }
        (None, None) => {
            return Err(CliFault::internal("skill.format", "there is no program to save")
                .with_hint("give `--from-run` or `--file`"));
        }
    };
    print_saved(&skill, args.json, settings, printer)
}

fn skill_from_file(
    args: &SkillsSave,
    file: &Path,
    said: SkillPromotion,
    settings: &CliSettings,
) -> Result<(SkillMeta, SkillBody), CliFault> {
    let is_bash = match args.lang {
        Some(lang) => matches!(lang, Lang::Bash),
        None => file.extension().is_some_and(|ending| ending == "bash"),
    };
    let language = match args.lang {
        _ if is_bash => Some(SkillLanguage::Shell),
        Some(lang) => Some(skill_language(lang)),
        None => SkillLanguage::from_file(file),
    };
    let language = language.ok_or_else(|| {
        let message = format!("`{}` does not say its language", file.display());
        CliFault::internal("skill.format", message).with_hint("name it .ts, .js, .py, .sh or .bash, or give `--lang`")
    })?;
    let source = String::from_utf8(read_content(file)?)
        .map_err(|_| CliFault::internal("skill.format", format!("`{}` is no text in UTF-8", file.display())))?;
    let source = if is_bash { for_bash(source) } else { source };
    let keep = ServerCache::new(&settings.home()?);
    let meta = SkillMeta {
        tools: args
            .tool
            .iter()
            .map(|tool| required_tool(&keep, tool))
            .collect::<Result<_, _>>()?,
        inputs: said.inputs,
        outputs: said.outputs,
        ..SkillMeta::new(said.name, said.description, language)
    };
    let with = run::parse_inputs(&args.with)
        .map_err(|fault| fault.with_hint("write `--with LOCAL` or `--with LOCAL:NAME`"))?;
    let mut files = Vec::new();
    for input in with {
        let bytes = match input.from {
            InputSource::Path(path) => read_content(&path)?,
            InputSource::Bytes(bytes) => bytes,
        };
        files.push((input.name, bytes));
    }
    Ok((meta, SkillBody { source, files }))
}

fn skill_language(lang: Lang) -> SkillLanguage {
    match lang {
        Lang::Ts => SkillLanguage::TypeScript,
        Lang::Js => SkillLanguage::JavaScript,
        Lang::Python => SkillLanguage::Python,
        Lang::Shell | Lang::Bash => SkillLanguage::Shell,
    }
}

/// The requirement of a tool with its pinned digest; fails if the tool was never called.
fn required_tool(keep: &ServerCache, tool: &str) -> Result<RequiredTool, CliFault> {
    let pinned = keep
        .pinned(tool)
        .map_err(|error| CliFault::internal("tool.pin", error_chain(&error)))?;
    let (digest, _) = pinned.ok_or_else(|| {
        CliFault::internal(
            "skill.stale",
            format!("`{tool}` was never called here, so it is not known what it is like"),
        )
        .with_hint("run the program once, then `skills save NAME --from-run EXECUTION`")
    })?;
    Ok(RequiredTool {
        name: tool.to_owned(),
        digest,
    })
}

fn read_schema(path: &Path) -> Result<Value, CliFault> {
    serde_json::from_slice(&read_content(path)?).map_err(|error| {
        CliFault::internal("skill.format", format!("`{}` is no JSON: {error}", path.display()))
            .with_hint("give a file with a JSON Schema")
    })
}

fn read_content(path: &Path) -> Result<Vec<u8>, CliFault> {
    let failed = |why: String| CliFault::internal("skill.file", format!("cannot read `{}`: {why}", path.display()));
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_READ_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| failed(io_error_text(&error)))?;
    if bytes.len() as u64 > MAX_READ_BYTES {
        return Err(failed(format!("it has more than {MAX_READ_BYTES} bytes")));
    }
    Ok(bytes)
}

fn parse_execution_id(text: &str) -> Result<ExecutionId, CliFault> {
    text.parse().map_err(|error: ringfence_journal::IdError| {
        CliFault::internal("execution.id", format!("`{text}` is {error}"))
            .with_hint("`ringfence session show ID` shows the executions of a session")
    })
}

impl From<PromoteError> for CliFault {
    fn from(error: PromoteError) -> CliFault {
        let fault = CliFault::internal(error.code(), error_chain(&error));
        match error.hint() {
            Some(hint) => fault.with_hint(hint),
            None => fault,
        }
    }
}
