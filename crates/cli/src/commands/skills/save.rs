//! `skills save`: saves a skill from a file or from a past run.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use ringfence_engine::{Personal, PromoteError, Promotion, Source, check_schemas, for_bash, promote};
use ringfence_gateway::Keep;
use ringfence_journal::ExecutionId;
use ringfence_store::{RequiredTool, SkillBody, SkillLanguage, SkillMeta, SkillName};
use serde_json::Value;

use super::{saved, scope, skills};
use crate::args::{Lang, SkillsSave};
use crate::commands::{run, store};
use crate::fault::{Fault, chain, reason};
use crate::print::Printer;
use crate::settings::Settings;

/// The most bytes to read of one file, above the limit of a skill; saving reports the exact limit.
const MOST: u64 = 4 << 20;

pub(super) async fn save(args: SkillsSave, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let promotion = Promotion {
        scope: scope(args.scope),
        name: SkillName::parse(&args.name)?,
        description: args.description.trim().to_owned(),
        inputs: args.inputs.as_deref().map(schema).transpose()?,
        outputs: args.outputs.as_deref().map(schema).transpose()?,
        personal: if args.allow_personal_data {
            Personal::Kept
        } else {
            Personal::Refused
        },
    };
    let skill = match (&args.from_run, &args.file) {
        (Some(id), _) => {
            let id = execution_id(id)?;
            let store = store(settings).await?;
            let promoted = promote(&store, id, None, promotion).await;
            store.leave().await;
            let promoted = promoted?;
            if promoted.had_args {
                printer.notice("the run had arguments; a skill is given its input instead");
            }
            promoted.skill
        }
        (None, Some(file)) => {
            let (meta, body) = from_file(&args, file, promotion, settings)?;
            check_schemas(meta.inputs.as_ref(), meta.outputs.as_ref())?;
            skills(settings)?.save(scope(args.scope), meta, body)?
        }
        (None, None) => {
            return Err(
                Fault::ours("skill.format", "there is no program to save").hint("give `--from-run` or `--file`")
            );
        }
    };
    saved(&skill, args.json, settings, printer)
}

fn from_file(
    args: &SkillsSave,
    file: &Path,
    said: Promotion,
    settings: &Settings,
) -> Result<(SkillMeta, SkillBody), Fault> {
    let is_bash = match args.lang {
        Some(lang) => matches!(lang, Lang::Bash),
        None => file.extension().is_some_and(|ending| ending == "bash"),
    };
    let language = match args.lang {
        _ if is_bash => Some(SkillLanguage::Shell),
        Some(lang) => Some(spoken(lang)),
        None => SkillLanguage::of_file(file),
    };
    let language = language.ok_or_else(|| {
        let message = format!("`{}` does not say its language", file.display());
        Fault::ours("skill.format", message).hint("name it .ts, .js, .py, .sh or .bash, or give `--lang`")
    })?;
    let source = String::from_utf8(content(file)?)
        .map_err(|_| Fault::ours("skill.format", format!("`{}` is no text in UTF-8", file.display())))?;
    let source = if is_bash { for_bash(source) } else { source };
    let keep = Keep::new(&settings.home()?);
    let meta = SkillMeta {
        tools: args
            .tool
            .iter()
            .map(|tool| required(&keep, tool))
            .collect::<Result<_, _>>()?,
        inputs: said.inputs,
        outputs: said.outputs,
        ..SkillMeta::new(said.name, said.description, language)
    };
    let with = run::inputs(&args.with).map_err(|fault| fault.hint("write `--with LOCAL` or `--with LOCAL:NAME`"))?;
    let mut files = Vec::new();
    for input in with {
        let bytes = match input.from {
            Source::Path(path) => content(&path)?,
            Source::Bytes(bytes) => bytes,
        };
        files.push((input.name, bytes));
    }
    Ok((meta, SkillBody { source, files }))
}

fn spoken(lang: Lang) -> SkillLanguage {
    match lang {
        Lang::Ts => SkillLanguage::TypeScript,
        Lang::Js => SkillLanguage::JavaScript,
        Lang::Python => SkillLanguage::Python,
        Lang::Shell | Lang::Bash => SkillLanguage::Shell,
    }
}

/// The requirement of a tool with its pinned digest; fails if the tool was never called.
fn required(keep: &Keep, tool: &str) -> Result<RequiredTool, Fault> {
    let pinned = keep
        .pinned(tool)
        .map_err(|error| Fault::ours("tool.pin", chain(&error)))?;
    let (digest, _) = pinned.ok_or_else(|| {
        Fault::ours(
            "skill.stale",
            format!("`{tool}` was never called here, so it is not known what it is like"),
        )
        .hint("run the program once, then `skills save NAME --from-run EXECUTION`")
    })?;
    Ok(RequiredTool {
        name: tool.to_owned(),
        digest,
    })
}

fn schema(path: &Path) -> Result<Value, Fault> {
    serde_json::from_slice(&content(path)?).map_err(|error| {
        Fault::ours("skill.format", format!("`{}` is no JSON: {error}", path.display()))
            .hint("give a file with a JSON Schema")
    })
}

fn content(path: &Path) -> Result<Vec<u8>, Fault> {
    let failed = |why: String| Fault::ours("skill.file", format!("cannot read `{}`: {why}", path.display()));
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MOST + 1).read_to_end(&mut bytes))
        .map_err(|error| failed(reason(&error)))?;
    if bytes.len() as u64 > MOST {
        return Err(failed(format!("it has more than {MOST} bytes")));
    }
    Ok(bytes)
}

fn execution_id(text: &str) -> Result<ExecutionId, Fault> {
    text.parse().map_err(|error: ringfence_journal::IdError| {
        Fault::ours("execution.id", format!("`{text}` is {error}"))
            .hint("`ringfence session show ID` shows the executions of a session")
    })
}

impl From<PromoteError> for Fault {
    fn from(error: PromoteError) -> Fault {
        let fault = Fault::ours(error.code(), chain(&error));
        match error.hint() {
            Some(hint) => fault.hint(hint),
            None => fault,
        }
    }
}
