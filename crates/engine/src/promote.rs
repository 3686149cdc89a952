//! Promotes a past run to a skill: program and files come from its recording, the called tools from the journal.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use ringfence_gateway::{PinError, RedactionError, RedactionRules, ServerCache};
use ringfence_hygiene::Aliases;
use ringfence_journal::{
    CallOutcome, Event, EventError, ExecutionId, ExecutionStatus, Principal, Record, SessionId, SessionSummary,
};
use ringfence_policy::Policy;
use ringfence_sandbox::{JobLanguage, RunProgram};
use ringfence_store::{
    QueryError, RecordingState, RequiredTool, Skill, SkillBody, SkillError, SkillLanguage, SkillMeta, SkillName,
    SkillScope, Store,
};
use serde_json::Value;

use crate::recorded_request::{RecordedRequest, RecordedRequestError};
use crate::request::{InputFile, InputSource};
use crate::skills::schema::{SchemaError, check_schemas};

/// The prefix of tools that are skills themselves; those are looked up at each call.
const SKILL_TOOL_PREFIX: &str = "skills.";
/// The precision of the times of pins: whole seconds.
const PIN_PRECISION: Duration = Duration::from_secs(1);

/// The description of the skill that a run becomes.
#[derive(Debug, Clone)]
pub struct SkillPromotion {
    /// The principal, session or team that gets the skill.
    pub scope: SkillScope,
    /// The name that programs call the skill by.
    pub name: SkillName,
    /// What the skill does and when to use it.
    pub description: String,
    /// The JSON Schema of its input; none: any input.
    pub inputs: Option<Value>,
    /// The JSON Schema of its value; none: the value is not checked.
    pub outputs: Option<Value>,
    /// What happens with personal data in its files and description.
    pub personal: PersonalDataMode,
}

/// Whether a skill may contain personal data and secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PersonalDataMode {
    /// A skill with personal data is not saved.
    Refuse,
    /// An operator allows personal data in the skill.
    Keep,
}

/// The result of a promotion.
#[derive(Debug, Clone, PartialEq)]
pub struct PromotedSkill {
    /// The skill that was saved.
    pub skill: Skill,
    /// Whether the run had arguments; a skill has an input instead.
    pub had_args: bool,
}

/// Why a run is not promoted to a skill.
#[derive(Debug, thiserror::Error)]
pub enum PromoteError {
    /// There is no such run, or it has no recording.
    #[error("nothing is kept of execution `{0}`")]
    NotRecorded(ExecutionId),
    /// The run has not ended.
    #[error("execution `{0}` is not over")]
    Unfinished(ExecutionId),
    /// The run did not complete.
    #[error("execution `{id}` ended as `{}`", status.name())]
    Unfit {
        /// The run that was named.
        id: ExecutionId,
        /// How the run ended.
        status: ExecutionStatus,
    },
    /// The program contains aliases, which mean nothing in other sessions.
    #[error("its program has aliases for personal data, which mean something in its own session only")]
    Aliases,
    /// The skill would disclose somebody's data to others.
    #[error("{place} has personal data or secrets: {kinds}")]
    Personal {
        /// The file or field that holds the data.
        place: String,
        /// The kinds of the data, as one text.
        kinds: String,
    },
    /// The redaction rules of its session cannot be loaded.
    #[error("what is personal data in it cannot be looked for")]
    Redaction(#[from] RedactionError),
    /// A tool that the run called has changed since.
    #[error("`{tool}` was changed after the run, and accepted as it is now")]
    Changed {
        /// The full name of the changed tool.
        tool: String,
    },
    /// No pin says what a tool was like when it was called.
    #[error("it is not known what `{tool}` was like when it was called")]
    Unpinned {
        /// The full name of the tool without a pin.
        tool: String,
    },
    /// The pins of the tools cannot be read.
    #[error(transparent)]
    Pins(#[from] PinError),
    /// The recorded request cannot be read.
    #[error(transparent)]
    Script(#[from] RecordedRequestError),
    /// The journal or the recording cannot be read.
    #[error(transparent)]
    Read(#[from] QueryError),
    /// An event of the session cannot be decoded.
    #[error("an event of its session cannot be read")]
    Event(#[from] EventError),
    /// The skill cannot be stored.
    #[error(transparent)]
    Skill(#[from] SkillError),
    /// A schema of the skill cannot be used.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The task that saves the skill was aborted.
    #[error("the skill could not be saved")]
    Interrupted(#[source] tokio::task::JoinError),
}

impl PromoteError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            PromoteError::NotRecorded(_) => "skill.unkept",
            PromoteError::Unfinished(_) => "skill.unfinished",
            PromoteError::Unfit { .. } => "skill.unfit",
            PromoteError::Aliases => "skill.aliases",
            PromoteError::Personal { .. } => "skill.personal",
            PromoteError::Redaction(_) => "data.unseen",
            PromoteError::Changed { .. } | PromoteError::Unpinned { .. } => "skill.stale",
            PromoteError::Pins(_) => "tool.pin",
            PromoteError::Script(_) => "replay.damaged",
            PromoteError::Read(error) => error.code(),
            PromoteError::Event(_) => "store.damaged",
            PromoteError::Skill(error) => error.code(),
            PromoteError::Schema(_) => SchemaError::CODE,
            PromoteError::Interrupted(_) => "skill.file",
        }
    }

    /// What to do about it; none where nothing helps.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            PromoteError::NotRecorded(_) => Some(
                "TypeScript, JavaScript and Python are kept, until `session rm`, a week, or the space for it is full; \
                 `skills save NAME --file PROGRAM` saves a program from a file",
            ),
            PromoteError::Unfinished(_) => Some("wait for its end"),
            PromoteError::Unfit { .. } => Some("name a run that completed"),
            PromoteError::Aliases => {
                Some("let the program take such values as its input, run it, and promote that run")
            }
            PromoteError::Personal { .. } => Some(
                "promote a run that is given such data as its input; an operator who wants it in the skill says \
                 `skills save --from-run … --allow-personal-data`",
            ),
            PromoteError::Changed { .. } | PromoteError::Unpinned { .. } => {
                Some("run the program again with the tool as it is now, and promote that run")
            }
            PromoteError::Read(_) | PromoteError::Event(_) => Some("run `ringfence audit verify`"),
            PromoteError::Skill(error) => error.hint(),
            PromoteError::Schema(_) => Some(SchemaError::HINT),
            PromoteError::Pins(_)
            | PromoteError::Redaction(_)
            | PromoteError::Script(_)
            | PromoteError::Interrupted(_) => None,
        }
    }
}

/// Saves the program of a past run as a skill. For an `owner`, the runs of other principals do not exist.
pub async fn promote_run(
    store: &Store,
    id: ExecutionId,
    owner: Option<Principal>,
    promotion: SkillPromotion,
) -> Result<PromotedSkill, PromoteError> {
    check_schemas(promotion.inputs.as_ref(), promotion.outputs.as_ref())?;
    let execution = store.execution(id).await?.ok_or(PromoteError::NotRecorded(id))?;
    let session = store.session(execution.session).await?;
    let session = session.filter(|session| owner.is_none_or(|owner| owner == session.principal));
    let session = session.ok_or(PromoteError::NotRecorded(id))?;
    let kept = match store.recording(id).await {
        Ok(kept) => kept.ok_or(PromoteError::NotRecorded(id))?,
        // The key of the recording was deleted, so nobody can read it.
        Err(QueryError::Sealed { .. }) => return Err(PromoteError::NotRecorded(id)),
        Err(error) => return Err(error.into()),
    };
    let (RecordingState::Over, Some(ended)) = (kept.standing.state, execution.ended) else {
        return Err(PromoteError::Unfinished(id));
    };
    if execution.status != ExecutionStatus::Completed {
        let status = execution.status;
        return Err(PromoteError::Unfit { id, status });
    }
    let (script, files) = RecordedRequest::from_bytes(&kept.request)?;
    let had_args = !script.args.is_empty();
    let (language, source) = skill_program(&script)?;
    if !has_no_stand_ins(&source) {
        return Err(PromoteError::Aliases);
    }
    if promotion.personal == PersonalDataMode::Refuse {
        let policy = store.policy(&session.policy_digest).await?;
        let policy = policy.and_then(|json| Policy::restore(&serde_json::from_str(&json).ok()?));
        let policy = policy.ok_or(PromoteError::NotRecorded(id))?;
        check_no_personal_data(&RedactionRules::from_policy(&policy)?, &promotion, &files)?;
    }
    let called = called_tools(store, execution.session, id).await?;
    let meta = SkillMeta {
        tools: pinned_tools(&ServerCache::new(store.home()), called, ended)?,
        policy: Some(script.policy.clone()),
        inputs: promotion.inputs,
        outputs: promotion.outputs,
        needs: script.draft.clone().filter(Value::is_object),
        ..SkillMeta::new(promotion.name, promotion.description, language)
    };
    let body = SkillBody {
        source,
        files: files.into_iter().filter_map(inline_content).collect(),
    };
    let skills = store.skills();
    let saved = tokio::task::spawn_blocking(move || skills.save(promotion.scope, meta, body)).await;
    let skill = saved.map_err(PromoteError::Interrupted)??;
    Ok(PromotedSkill { skill, had_args })
}

/// Refuses personal data in a skill, unless an operator allows it.
fn check_no_personal_data(
    sight: &RedactionRules,
    promotion: &SkillPromotion,
    files: &[InputFile],
) -> Result<(), PromoteError> {
    let schema = |schema: &Option<Value>| schema.as_ref().map(|schema| sight.kinds_in_schema(schema));
    let said = [
        ("its description", Some(sight.kinds_in(&promotion.description))),
        ("its schema of inputs", schema(&promotion.inputs)),
        ("its schema of outputs", schema(&promotion.outputs)),
    ];
    let said = said.into_iter().map(|(place, kinds)| {
        let mut kinds = kinds.unwrap_or_default();
        // The addresses that a program uses are part of what it does.
        kinds.remove("url");
        (place.to_owned(), kinds)
    });
    let files = files.iter().filter_map(|file| {
        let InputSource::Bytes(bytes) = &file.from else {
            return None;
        };
        if bytes.contains(&0) {
            // Only texts are searched for personal data, here as elsewhere.
            return None;
        }
        let text = String::from_utf8_lossy(bytes);
        let kinds = if has_no_stand_ins(&text) {
            sight.kinds_in(&text)
        } else {
            BTreeSet::from(["aliases of its session".to_owned()])
        };
        Some((format!("`{}`", file.name.as_str()), kinds))
    });
    match said.chain(files).find(|(_, kinds)| !kinds.is_empty()) {
        Some((place, kinds)) => Err(PromoteError::Personal {
            place,
            kinds: Vec::from_iter(kinds).join(", "),
        }),
        None => Ok(()),
    }
}

/// Whether a text is free of aliases, ours or an operator's, which mean something in their own session only.
pub(crate) fn has_no_stand_ins(text: &str) -> bool {
    let is_one = |inner: &str| {
        let (word, code) = inner.split_once(':').unwrap_or_default();
        let word = word.trim();
        (1..=12).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphabetic()) && code.trim().len() == 6
    };
    let marked = text.split('‹').skip(1).filter_map(|rest| Some(rest.split_once('›')?.0));
    !marked.into_iter().any(is_one) && Aliases::new().is_ok_and(|none| none.reveal(text).is_ok())
}

/// The language and source of a recorded program.
fn skill_program(script: &RecordedRequest) -> Result<(SkillLanguage, String), RecordedRequestError> {
    let RunProgram::Code { language, source, .. } = script.program() else {
        return Err(RecordedRequestError::NoCode);
    };
    let language = match language {
        JobLanguage::TypeScript => SkillLanguage::TypeScript,
        JobLanguage::JavaScript => SkillLanguage::JavaScript,
        JobLanguage::Python => SkillLanguage::Python,
        JobLanguage::Program => return Err(RecordedRequestError::NoCode),
    };
    Ok((language, source))
}

fn inline_content(file: InputFile) -> Option<(ringfence_policy::RelPath, Vec<u8>)> {
    match file.from {
        InputSource::Bytes(bytes) => Some((file.name, bytes)),
        // A recording holds all contents itself.
        InputSource::Path(_) => None,
    }
}

/// The tools that answered calls of an execution, each once.
async fn called_tools(store: &Store, session: SessionId, id: ExecutionId) -> Result<BTreeSet<String>, PromoteError> {
    let records = store.session_records(session).await?;
    let events: Vec<Event> = records.iter().map(Record::event).collect::<Result<_, _>>()?;
    let summary = SessionSummary::from_events(&events);
    let executions = summary.into_iter().flat_map(|summary| summary.executions);
    let calls = executions
        .filter(|one| one.execution_id == id)
        .flat_map(|one| one.calls);
    Ok(calls
        .filter(|call| call.outcome == CallOutcome::Ok && !call.tool.as_str().starts_with(SKILL_TOOL_PREFIX))
        .map(|call| call.tool.as_str().to_owned())
        .collect())
}

/// Each called tool as it was at the call: its first use pinned it, and the pin is older than the end of the run.
fn pinned_tools(
    keep: &ServerCache,
    called: BTreeSet<String>,
    ended: Timestamp,
) -> Result<Vec<RequiredTool>, PromoteError> {
    let ended = SystemTime::from(ended) + PIN_PRECISION;
    let mut tools = Vec::new();
    for tool in called {
        match keep.pinned(&tool)? {
            Some((digest, since)) if since <= ended => tools.push(RequiredTool { name: tool, digest }),
            Some(_) => return Err(PromoteError::Changed { tool }),
            None => return Err(PromoteError::Unpinned { tool }),
        }
    }
    Ok(tools)
}
