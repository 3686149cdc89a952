//! Permanent approval rules: `rules.yaml` in the data folder. Ringfence writes it and a person may edit it; the policy files of users are
//! never touched.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use ringfence_journal::{ApprovalId, ApprovalScope, AskReason, EventKind, SessionId};
use ringfence_policy::{CallHistory, RuleEffect, StandingRule, StandingRules, ToolHints, ToolName};
use ringfence_store::{
    ApprovalState, QueryError, RulesFile, RulesFileVersion, RulesLockError, RulesWriter, Store, StoredApproval,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::approvals::{self, AnswerError, AnswerReceipt, AnswerSubmission, policy_of_question};
use crate::engine::lock;

/// Bytes of an argument that a rule repeats.
const MAX_ARGUMENT_BYTES: usize = 1024;

/// The rules file, parsed again when it has changed.
#[derive(Debug, Clone)]
pub(crate) struct StandingRulesFile {
    file: RulesFile,
    cached: Arc<Mutex<(Option<RulesFileVersion>, StandingRules)>>,
}

impl StandingRulesFile {
    pub(crate) fn new(home: &Path) -> StandingRulesFile {
        StandingRulesFile {
            file: rules_file(home),
            cached: Arc::default(),
        }
    }

    /// The current rules. A file that cannot be read counts as empty: people are asked again.
    pub(crate) fn rules(&self) -> StandingRules {
        let version = self.file.version();
        let mut read = lock(&self.cached);
        if version.is_none() {
            *read = (None, StandingRules::default());
        } else if read.0 != version {
            let rules = parse_file(&self.file).unwrap_or_else(|error| {
                tracing::warn!(file = %self.file.path().display(), %error, "answers given for good cannot be read; people are asked again");
                StandingRules::default()
            });
            *read = (version, rules);
        }
        read.1.clone()
    }
}

/// Reads the standing rules of a data folder; a folder without the file has none.
pub fn read_rules(home: &Path) -> io::Result<StandingRules> {
    parse_file(&rules_file(home))
}

fn parse_file(file: &RulesFile) -> io::Result<StandingRules> {
    StandingRules::parse(&file.read()?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
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
        file: rules_file(home).path(),
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
    let writer = lock_rules(home).await?;
    let completed = complete_pending_rule(store, &writer).await;
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
    writer.write_intent(&intent).map_err(AnswerError::File)?;
    let settled = approvals::answer_approval(store, id, say).await;
    let completed = complete_pending_rule(store, &writer).await;
    let settled = settled?;
    completed.map_err(AnswerError::RuleNotWritten)?;
    Ok(settled)
}

/// Completes a permanent answer that a crash interrupted.
pub(crate) async fn recover_pending_rule(store: &Store, home: &Path) -> Result<(), AnswerError> {
    if !rules_file(home).has_intent() {
        return Ok(());
    }
    let writer = lock_rules(home).await?;
    complete_pending_rule(store, &writer).await.map_err(AnswerError::File)
}

/// Writes the rule of an answer that was accepted; drops the rule of one that was not.
async fn complete_pending_rule(store: &Store, writer: &RulesWriter) -> io::Result<()> {
    let Some(text) = writer.read_intent()? else {
        return Ok(());
    };
    // An incomplete intent was still being written at the crash, so no answer was stored.
    if let Ok(intent) = serde_json::from_str::<PendingRule>(&text) {
        let approval = match store.approval(intent.question).await {
            Ok(approval) => approval,
            // The session was removed, and its requests with it.
            Err(QueryError::Sealed { .. }) => None,
            Err(error) => return Err(io::Error::other(error)),
        };
        let said = approval.and_then(|approval| approval.answer);
        if said.is_some_and(|(said, _)| said.approve && said.scope == ApprovalScope::Always) {
            let text = StandingRules::append(&writer.file().read()?, &intent.rule);
            let text = text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            writer.replace(&text)?;
        }
    }
    writer.remove_intent()
}

fn rules_file(home: &Path) -> RulesFile {
    RulesFile::new(home, StandingRules::FILE)
}

async fn lock_rules(home: &Path) -> Result<RulesWriter, AnswerError> {
    rules_file(home).lock().await.map_err(|error| match error {
        RulesLockError::Busy => AnswerError::Busy,
        RulesLockError::File(error) => AnswerError::File(error),
    })
}

async fn find_approval(store: &Store, id: ApprovalId) -> Result<StoredApproval, AnswerError> {
    let found = store.approval(id).await.map_err(AnswerError::Read)?;
    found.ok_or(AnswerError::Unknown(id))
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
    let text = rules_file(home).read().map_err(AnswerError::File)?;
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
