//! Permanent approval rules: `rules.yaml` in the data folder. Ringfence writes it and a person may edit it; the policy files of users are
//! never touched.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use ringfence_journal::{ApprovalId, ApprovalScope, AskReason, EventKind, SessionId};
use ringfence_policy::{CallHistory, RuleEffect, StandingRule, StandingRules, ToolHints, ToolName};
use ringfence_store::{ApprovalState, QueryError, Store, StoredApproval};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::MutexGuard;

use crate::approvals::{self, AnswerError, AnswerReceipt, AnswerSubmission, policy_of_question};
use crate::engine::lock;

/// Bytes of an argument that a rule repeats.
const MAX_ARGUMENT_BYTES: usize = 1024;
/// Bytes of the rules file.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// How long this process waits for the file lock of another one, and how often it tries.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long a writer waits in this process, where each writer before it may wait for the file lock.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(30);

/// The rules file, parsed again when it has changed.
#[derive(Debug, Clone)]
pub(crate) struct StandingRulesFile {
    path: PathBuf,
    cached: Arc<Mutex<(Option<FileStamp>, StandingRules)>>,
}

/// The modification time and size that identify a version of the file.
type FileStamp = (SystemTime, u64);

impl StandingRulesFile {
    pub(crate) fn new(home: &Path) -> StandingRulesFile {
        StandingRulesFile {
            path: rules_path(home),
            cached: Arc::default(),
        }
    }

    /// The current rules. A file that cannot be read counts as empty: people are asked again.
    pub(crate) fn rules(&self) -> StandingRules {
        let stamp = fs::metadata(&self.path)
            .ok()
            .and_then(|found| Some((found.modified().ok()?, found.len())));
        let mut read = lock(&self.cached);
        if stamp.is_none() {
            *read = (None, StandingRules::default());
        } else if read.0 != stamp {
            let rules = parse_file(&self.path).unwrap_or_else(|error| {
                tracing::warn!(file = %self.path.display(), %error, "answers given for good cannot be read; people are asked again");
                StandingRules::default()
            });
            *read = (stamp, rules);
        }
        read.1.clone()
    }
}

/// Reads the standing rules of a data folder; a folder without the file has none.
pub fn read_rules(home: &Path) -> io::Result<StandingRules> {
    parse_file(&rules_path(home))
}

fn parse_file(path: &Path) -> io::Result<StandingRules> {
    let text = read_text(path)?;
    StandingRules::parse(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
}

fn rules_path(home: &Path) -> PathBuf {
    home.join(StandingRules::FILE)
}

fn intent_path(home: &Path) -> PathBuf {
    home.join("rules.intent")
}

fn read_text(path: &Path) -> io::Result<String> {
    match fs::metadata(path) {
        Ok(found) if found.len() > MAX_FILE_BYTES => {
            Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is longer than 1 MiB"))
        }
        Ok(_) => fs::read_to_string(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}

/// The rule that a permanent answer would write, and its effect.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RulePreview {
    /// The rule as the file would contain it.
    pub rule: Value,
    /// The effects of the rule, one sentence each.
    pub changes: Vec<String>,
    /// The path of the file that gets the rule.
    pub file: PathBuf,
}

/// A rule before it is written, with its effects.
struct StandingRuleDraft {
    rule: StandingRule,
    changes: Vec<String>,
}

/// Previews a permanent answer to an approval request. `when` has its conditions; none: exactly these arguments.
pub async fn preview_rule(
    store: &Store,
    home: &Path,
    id: ApprovalId,
    when: Option<&Value>,
) -> Result<RulePreview, AnswerError> {
    let approval = find_approval(store, id).await?;
    let draft = draft_rule(store, home, &approval, when, "you").await?;
    Ok(RulePreview {
        rule: serde_json::to_value(&draft.rule).unwrap_or(Value::Null),
        changes: draft.changes,
        file: rules_path(home),
    })
}

/// The rule that a permanent answer is about to write. The file with it exists from before the answer counts until the rule is written, so
/// that the answer can be completed after a crash.
#[derive(Debug, Serialize, Deserialize)]
struct PendingRule {
    question: ApprovalId,
    rule: StandingRule,
}

/// Approves a request and future calls like it: both or neither. The next writer, the same answer given again, or the next start completes
/// what was interrupted.
pub async fn answer_always(
    store: &Store,
    home: &Path,
    id: ApprovalId,
    say: AnswerSubmission,
    when: Option<&Value>,
) -> Result<AnswerReceipt, AnswerError> {
    let _turn = lock_rules(home).await?;
    let completed = complete_pending_rule(store, home).await;
    let approval = find_approval(store, id).await?;
    let say = AnswerSubmission {
        scope: ApprovalScope::Always,
        ..say
    };
    if approval.state != ApprovalState::Pending {
        // An earlier answer stays, and so does the rule that it wrote.
        let settled = approvals::answer_approval(store, id, say).await?;
        completed.map_err(AnswerError::RuleNotWritten)?;
        return Ok(settled);
    }
    completed.map_err(AnswerError::File)?;
    let rule = draft_rule(store, home, &approval, when, &say.by.to_string())
        .await?
        .rule;
    let intent = json!(PendingRule { question: id, rule }).to_string();
    write_atomic(&intent_path(home), &intent).map_err(AnswerError::File)?;
    let settled = approvals::answer_approval(store, id, say).await;
    let completed = complete_pending_rule(store, home).await;
    let settled = settled?;
    completed.map_err(AnswerError::RuleNotWritten)?;
    Ok(settled)
}

/// Completes a permanent answer that a crash interrupted.
pub(crate) async fn recover_pending_rule(store: &Store, home: &Path) -> Result<(), AnswerError> {
    if !intent_path(home).exists() {
        return Ok(());
    }
    let _turn = lock_rules(home).await?;
    complete_pending_rule(store, home).await.map_err(AnswerError::File)
}

/// Writes the rule of an answer that was accepted; drops the rule of one that was not.
async fn complete_pending_rule(store: &Store, home: &Path) -> io::Result<()> {
    let left = intent_path(home);
    let text = match fs::read_to_string(&left) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    // An incomplete file was still being written at the crash, so no answer was stored.
    if let Ok(intent) = serde_json::from_str::<PendingRule>(&text) {
        let approval = match store.approval(intent.question).await {
            Ok(approval) => approval,
            // The session was removed, and its requests with it.
            Err(QueryError::Sealed { .. }) => None,
            Err(error) => return Err(io::Error::other(error)),
        };
        let said = approval.and_then(|approval| approval.answer);
        if said.is_some_and(|(said, _)| said.approve && said.scope == ApprovalScope::Always) {
            write_rule(home, &intent.rule)?;
        }
    }
    fs::remove_file(&left)
}

/// Writes a rule into the file atomically.
fn write_rule(home: &Path, rule: &StandingRule) -> io::Result<()> {
    let text = StandingRules::append(&read_text(&rules_path(home))?, rule);
    let text = text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
    let new = rules_path(home).with_extension("new");
    write_atomic(&new, &text)?;
    fs::rename(&new, rules_path(home))
}

async fn find_approval(store: &Store, id: ApprovalId) -> Result<StoredApproval, AnswerError> {
    let found = store.approval(id).await.map_err(AnswerError::Read)?;
    found.ok_or(AnswerError::Unknown(id))
}

/// The locks that are held while the rules are written.
struct RulesWriteLock {
    /// The file lock, against other processes.
    _there: File,
    /// The lock against other tasks of this process, in their order of arrival.
    _here: MutexGuard<'static, ()>,
}

/// Serialises the writers of this process, whatever their data folder.
static WRITE_LOCK: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Locks the rules for writing. The wait never blocks a thread: the holder of the lock may need it.
async fn lock_rules(home: &Path) -> Result<RulesWriteLock, AnswerError> {
    let queued = tokio::time::timeout(QUEUE_TIMEOUT, WRITE_LOCK.lock()).await;
    let here = queued.map_err(|_| AnswerError::Busy)?;
    let there = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(home.join("run").join("rules.lock"))
        .map_err(AnswerError::File)?;
    let waited = tokio::time::timeout(LOCK_TIMEOUT, lock_file(&there)).await;
    waited.map_err(|_| AnswerError::Busy)?.map_err(AnswerError::File)?;
    Ok(RulesWriteLock {
        _there: there,
        _here: here,
    })
}

async fn lock_file(file: &File) -> io::Result<()> {
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_POLL_INTERVAL).await,
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

fn write_atomic(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

async fn draft_rule(
    store: &Store,
    home: &Path,
    approval: &StoredApproval,
    when: Option<&Value>,
    by: &str,
) -> Result<StandingRuleDraft, AnswerError> {
    let question = &approval.question;
    if question.why != AskReason::Rule {
        // The request is about one call or one change of a tool: no rule would be looked up for it.
        return Err(AnswerError::OnlyOnce(question.why));
    }
    let unruly = |why: String| AnswerError::Rule(why);
    let tool: ToolName = question
        .tool
        .parse()
        .map_err(|_| unruly(format!("`{}` is no tool's name", question.tool)))?;
    let arguments: Value = serde_json::from_str(&question.arguments)
        .map_err(|error| unruly(format!("the arguments are not JSON: {error}")))?;
    let these = match when {
        Some(when) => when.clone(),
        // A rule outlives its session: only a person writes personal data into it.
        None if question.masked.is_some() => {
            let why = "its arguments hold personal data or a secret, which a rule would keep: say the conditions with `where`";
            return Err(unruly(why.to_owned()));
        }
        None => Value::Object(exact_conditions(&arguments)?),
    };
    let rule = StandingRule::new(&tool, Some(&these)).map_err(|error| unruly(error.to_string()))?;
    // Exactly these arguments, unless the answer has conditions.
    let rule = if when.is_none() {
        rule.with_exact_arguments()
    } else {
        rule
    };
    let rule = rule.with_origin(format!("{:.0}", Timestamp::now()), by);
    if !rule.answers(&tool, &arguments) {
        return Err(unruly("the conditions do not hold for this very call".to_owned()));
    }
    let text = read_text(&rules_path(home)).map_err(AnswerError::File)?;
    let before = StandingRules::parse(&text).map_err(|error| unruly(error.to_string()))?;
    let text = StandingRules::append(&text, &rule).map_err(|error| unruly(error.to_string()))?;
    let after = StandingRules::parse(&text).map_err(|error| unruly(error.to_string()))?;
    let policy = policy_of_question(store, question)
        .await?
        .with_standing_rules(after.clone());
    let hints = question.grounds.hints.unwrap_or(ToolHints::none());
    let history = called_tools(store, question.session).await?;
    let decision = policy.decide_tool(tool.as_str(), hints, &arguments, &history);
    if decision.effect() != RuleEffect::Allow {
        return Err(AnswerError::Ceiling(decision.rule().to_string()));
    }
    let changes = before.diff(&after).into_iter().map(|change| change.sentence).collect();
    Ok(StandingRuleDraft { rule, changes })
}

/// The tools that a session has called: a policy above its own may decide by them.
async fn called_tools(store: &Store, session: SessionId) -> Result<CallHistory, AnswerError> {
    let mut history = CallHistory::new();
    for record in store.session_records(session).await.map_err(AnswerError::Read)? {
        if let Ok(event) = record.event()
            && let EventKind::CallStarted { tool, .. } = &event.kind
            && let Ok(tool) = tool.as_str().parse()
        {
            history.record(tool);
        }
    }
    Ok(history)
}

/// Conditions that match exactly these arguments.
fn exact_conditions(arguments: &Value) -> Result<Map<String, Value>, AnswerError> {
    let mut conditions = Map::new();
    for (name, value) in arguments.as_object().into_iter().flatten() {
        if value.to_string().len() > MAX_ARGUMENT_BYTES {
            let why =
                format!("argument `{name}` is too long to be repeated in a rule: say the conditions with `where`");
            return Err(AnswerError::Rule(why));
        }
        conditions.insert(name.clone(), json!({ "equals": value }));
    }
    Ok(conditions)
}
