//! Redaction of what an execution shows: its owner gets values, a model gets clean and short text, the journal gets clean text.

mod files;
mod full_output;
pub(crate) mod run_output;

use std::collections::HashMap;
use std::sync::Arc;

use ringfence_gateway::{Redacted, RedactionRules};
use ringfence_hygiene::{
    CapLimits, Cleaner, JsonCap, KeptPart, MoreLocation, OmittedCounts, TextCap, trim_partial_line,
};
use ringfence_journal::{CleanText, DetectionCount, EventKind, ExecutionId, ExecutionStatus, OutputHead};
use ringfence_policy::{JournalOutput, Policy};
use ringfence_sandbox::UncopiedFiles;
use serde_json::value::RawValue;

use crate::error::OperationError;
use crate::records::SessionRecords;
use crate::report::{self, ErrorReport, ExecutionReport};
use crate::request::ResultAudience;
use crate::sessions::context::ExecutionContext;

pub(crate) use files::ReadContext;
pub use full_output::FullOutput;

/// Levels of lists and objects that are shown.
const MAX_DEPTH: usize = 64;
/// Bytes of an output that the journal keeps where it keeps the beginning only: enough context to redact it.
const MAX_JOURNALLED_BYTES: usize = 16 * 1024;

/// Renders reports, outputs and files for their readers.
pub(crate) struct ResultRenderer {
    pub(crate) records: Arc<SessionRecords>,
}

/// Renders a report for one audience.
struct ReportRenderer<'a> {
    renderer: &'a ResultRenderer,
    session: &'a ExecutionContext,
    sight: Arc<RedactionRules>,
    reader: ResultAudience,
    found: Vec<DetectionCount>,
    blocked: bool,
    capped: Vec<(&'static str, OmittedCounts)>,
}

impl ResultRenderer {
    pub(crate) fn new(records: &Arc<SessionRecords>) -> ResultRenderer {
        ResultRenderer {
            records: Arc::clone(records),
        }
    }

    /// Renders a report for its audience and for the journal.
    pub(crate) async fn render_report(
        &self,
        session: &ExecutionContext,
        policy: &Policy,
        reader: ResultAudience,
        mut execution: ExecutionReport,
    ) -> Result<(ExecutionReport, Option<OutputHead>), OperationError> {
        let mut look = ReportRenderer {
            renderer: self,
            session,
            sight: session.redactor.rules_for(policy).await?,
            reader,
            found: Vec::new(),
            blocked: false,
            capped: Vec::new(),
        };
        let output = look.journal_output(policy, &execution).await?;
        let (rows, bytes) = look.list_limits();
        report::fit_calls(&mut execution, rows, bytes);
        report::fit_violations(&mut execution.violations);
        match reader {
            ResultAudience::Program => {}
            ResultAudience::Owner => look.render_for_owner(&mut execution).await?,
            ResultAudience::CommandModel | ResultAudience::Client => look.render_for_model(&mut execution).await?,
        }
        report::count_tokens(&mut execution);
        Ok((execution, output))
    }

    /// Renders a text that goes with a report for its audience.
    pub(crate) async fn render_text(
        &self,
        session: &ExecutionContext,
        reader: ResultAudience,
        text: &str,
    ) -> Result<String, OperationError> {
        match reader {
            ResultAudience::Program | ResultAudience::Owner => return Ok(text.to_owned()),
            ResultAudience::CommandModel | ResultAudience::Client => {}
        }
        let sight = session.redactor.rules_for(&session.policy).await?;
        let keep = (&self.records.store, session.id);
        let seen = session.redactor.redact_text(keep, &sight, text, 0).await?;
        Ok(seen.shown.unwrap_or_default())
    }
}

impl ReportRenderer<'_> {
    /// The limits of rows and bytes that the policy sets for lists.
    fn list_limits(&self) -> (Option<usize>, Option<usize>) {
        let rules = self.sight.rules();
        let bytes = rules.bytes.and_then(|bytes| usize::try_from(bytes.get()).ok());
        (rules.rows.and_then(|rows| usize::try_from(rows.get()).ok()), bytes)
    }

    async fn render_text(&mut self, text: &str) -> Result<String, OperationError> {
        let keep = (&self.renderer.records.store, self.session.id);
        let seen = self.session.redactor.redact_text(keep, &self.sight, text, 0).await?;
        Ok(self.count_findings(seen).unwrap_or_default())
    }

    /// Counts findings; none where the text is withheld.
    fn count_findings<T>(&mut self, seen: Redacted<T>) -> Option<T> {
        for one in seen.found {
            match self.found.iter_mut().find(|known| known.what == one.what) {
                Some(known) => known.count += one.count,
                None => self.found.push(one),
            }
        }
        self.blocked |= seen.shown.is_none();
        seen.shown
    }

    /// The output that the journal keeps; never the value.
    async fn journal_output(
        &mut self,
        policy: &Policy,
        execution: &ExecutionReport,
    ) -> Result<Option<OutputHead>, OperationError> {
        let most = match policy.audit().output {
            JournalOutput::None => return Ok(None),
            JournalOutput::Head => MAX_JOURNALLED_BYTES,
            JournalOutput::All => usize::MAX,
        };
        let cut = execution.truncated;
        let stdout = head(without_cut_notice(&execution.stdout, cut.stdout), most);
        let stderr = head(without_cut_notice(&execution.stderr, cut.stderr), most);
        let (stdout, stderr) = (self.render_text(stdout).await?, self.render_text(stderr).await?);
        if policy.audit().output == JournalOutput::All {
            use ringfence_journal::OutputStream;
            for (stream, text) in [(OutputStream::Stdout, &stdout), (OutputStream::Stderr, &stderr)] {
                for kind in ringfence_journal::output_events(stream, text.as_bytes()) {
                    self.renderer.records.record_event(self.session, kind).await?;
                }
            }
        }
        // Findings for the journal are not counted here: each counts once, for the reader.
        self.found.clear();
        self.blocked = false;
        Ok(Some(OutputHead {
            stdout: CleanText::clean(&stdout),
            stderr: CleanText::clean(&stderr),
        }))
    }

    /// Renders a report for its owner: values in place of aliases.
    async fn render_for_owner(&mut self, execution: &mut ExecutionReport) -> Result<(), OperationError> {
        let screen = &self.session.redactor;
        if let Some(value) = &execution.value
            && may_have_aliases(value.get())
        {
            let host_work = &self.renderer.records.host_work;
            // A value that is too large to parse keeps its aliases.
            if let Some(mut read) = host_work.read_value(value).await? {
                let revealed = screen.reveal_value(read.value.take()).await;
                let text = host_work.write_value(read.with_value(revealed)).await?;
                execution.value = RawValue::from_string(text).ok();
            }
        }
        let mut printed = [
            std::mem::take(&mut execution.stdout),
            std::mem::take(&mut execution.stderr),
        ];
        for text in printed.iter_mut().chain(message_texts(execution)) {
            if text.contains('‹') {
                *text = screen.reveal(text).await;
            }
        }
        [execution.stdout, execution.stderr] = printed;
        Ok(())
    }

    async fn render_for_model(&mut self, execution: &mut ExecutionReport) -> Result<(), OperationError> {
        let id = execution.execution_id;
        let mut whole = FullOutput::default();
        let value = execution.value.as_ref().map_or(0, |value| value.get().len());
        let sizes = [value, execution.stdout.len(), execution.stderr.len()];
        let most = self
            .sight
            .rules()
            .bytes
            .and_then(|bytes| usize::try_from(bytes.get()).ok());
        execution.most = most;
        let [value, stdout, stderr] = byte_budgets(sizes, most);
        if let Some(raw) = execution.value.take() {
            let (shown, all) = self.render_value(id, raw, value).await?;
            (execution.value, whole.value) = (shown, all);
            execution.truncated.value |= whole.value.is_some();
        }
        let cut = execution.truncated;
        let printed = (execution.stdout.as_str(), cut.stdout);
        (execution.stdout, whole.stdout) = self.render_output((id, "stdout"), printed, stdout).await?;
        execution.truncated.stdout |= whole.stdout.is_some();
        let printed = (execution.stderr.as_str(), cut.stderr);
        (execution.stderr, whole.stderr) = self.render_output((id, "stderr"), printed, stderr).await?;
        execution.truncated.stderr |= whole.stderr.is_some();
        // Most calls name the same few tools: each text is rendered once.
        let mut known: HashMap<String, String> = HashMap::new();
        for text in message_texts(execution).filter(|text| !text.is_empty()) {
            if let Some(shown) = known.get(text) {
                text.clone_from(shown);
                continue;
            }
            let shown = self.render_text(&clean_text(text)).await?;
            known.insert(std::mem::replace(text, shown.clone()), shown);
        }
        self.record_redactions().await?;
        if self.blocked {
            withhold_report(execution, &self.found);
        } else if whole != FullOutput::default() {
            if self.reader == ResultAudience::CommandModel {
                self.renderer.save_full_output(id, &whole).await?;
            }
            execution.whole = Some(Box::new(whole));
        }
        Ok(())
    }

    /// Renders a value; also its full text where that is longer.
    async fn render_value(
        &mut self,
        id: ExecutionId,
        value: Box<RawValue>,
        most: usize,
    ) -> Result<(Option<Box<RawValue>>, Option<String>), OperationError> {
        let mut cap = JsonCap::new(
            self.value_limits(most),
            Some(&self.renderer.full_output_location(self.reader, id, "value")),
        );
        cap.push(value.get().as_bytes());
        let capped = cap.finish();
        let is_same = capped.left_out.is_whole() && capped.left_out.neutralised == 0;
        let screen = &self.session.redactor;
        let keep = (&self.renderer.records.store, self.session.id);
        let before = self.found.len();
        let seen = screen.redact_value(keep, &self.sight, capped.shown.clone()).await?;
        let changed = seen.shown.as_ref() != Some(&capped.shown);
        let shown = self.count_findings(seen);
        if is_same && !changed && self.found.len() == before {
            // Unchanged, byte for byte.
            return Ok((Some(value), None));
        }
        self.capped.push(("value", capped.left_out));
        let whole = if capped.left_out.is_whole() {
            None
        } else {
            let host_work = &self.renderer.records.host_work;
            match host_work.read_value(&value).await? {
                Some(mut read) => {
                    let seen = screen.redact_value(keep, &self.sight, read.value.take()).await?;
                    match seen.shown {
                        Some(shown) => Some(host_work.write_value(read.with_value(shown)).await?),
                        None => None,
                    }
                }
                None => screen.redact_text(keep, &self.sight, value.get(), 0).await?.shown,
            }
        };
        let shown = shown.and_then(|shown| RawValue::from_string(shown.to_string()).ok());
        Ok((shown, whole))
    }

    /// Renders an output; also its full text where that is longer.
    async fn render_output(
        &mut self,
        (id, part): (ExecutionId, &'static str),
        (text, is_cut): (&str, bool),
        most: usize,
    ) -> Result<(String, Option<String>), OperationError> {
        let text = without_cut_notice(text, is_cut);
        if text.is_empty() {
            return Ok((String::new(), None));
        }
        // Redacted before it is cut, while the context is complete; redacted text is clean, and keeps our notices.
        let (clean, neutralised) = clean_and_count(text);
        let all = self.render_text(&clean).await?;
        let whole = self.renderer.full_output_location(self.reader, id, part);
        let at = if is_cut {
            MoreLocation::Kept
        } else {
            MoreLocation::Whole
        };
        let mut capped = TextCap::cap_clean(&all, self.value_limits(most), KeptPart::Ends, Some(at(&whole)));
        capped.left_out.neutralised = neutralised;
        self.capped.push((part, capped.left_out));
        let is_whole = capped.left_out.is_whole();
        Ok((capped.shown, (!is_whole).then_some(all)))
    }

    fn value_limits(&self, bytes: usize) -> CapLimits {
        text_limits(&self.sight, bytes)
    }

    /// Records what was kept from the reader.
    async fn record_redactions(&self) -> Result<(), OperationError> {
        for (part, left) in &self.capped {
            if left.is_whole() && left.neutralised == 0 {
                continue;
            }
            let kind = EventKind::DataCapped {
                part: CleanText::clean(part),
                bytes: left.seen,
                left_out: left.bytes,
                neutralised: left.neutralised,
            };
            self.renderer.records.record_event(self.session, kind).await?;
        }
        if !self.found.is_empty() {
            let kind = EventKind::DataHidden {
                number: None,
                found: self.found.clone(),
                blocked: self.blocked,
            };
            self.renderer.records.record_event(self.session, kind).await?;
        }
        Ok(())
    }
}

/// The limits of a rendered text of at most so many bytes.
pub(crate) fn text_limits(sight: &RedactionRules, bytes: usize) -> CapLimits {
    let rows = sight.rules().rows.and_then(|rows| usize::try_from(rows.get()).ok());
    CapLimits {
        bytes,
        rows: rows.unwrap_or(usize::MAX),
        depth: MAX_DEPTH,
        string: bytes,
    }
}

/// The bytes that value and outputs may have; what fits is not cut. A quarter of the limit is left for the rest of the result.
fn byte_budgets(sizes: [usize; 3], most: Option<usize>) -> [usize; 3] {
    let Some(most) = most.map(|most| most / 4 * 3) else {
        return [usize::MAX; 3];
    };
    let shares = fair_shares(sizes, most);
    std::array::from_fn(|at| match (sizes.get(at), shares.get(at)) {
        (Some(size), Some(share)) if share < size => *share,
        _ => usize::MAX,
    })
}

/// Divides `most` bytes among three: small ones get what they need, large ones equal shares.
pub fn fair_shares(sizes: [usize; 3], most: usize) -> [usize; 3] {
    let mut order = [0, 1, 2];
    order.sort_by_key(|at| sizes.get(*at));
    let (mut left, mut shares) = (most, [0; 3]);
    for (done, at) in order.into_iter().enumerate() {
        let share = left / (3 - done);
        if let (Some(size), Some(slot)) = (sizes.get(at), shares.get_mut(at)) {
            *slot = share.min(*size);
            left -= *slot;
        }
    }
    shares
}

/// The texts of a report beside value and outputs that a program or a tool server can influence; without file names, which clients use to
/// ask for files.
fn message_texts(execution: &mut ExecutionReport) -> impl Iterator<Item = &mut String> {
    let error = execution.error.iter_mut();
    let error = error.flat_map(|error| {
        let more = [error.hint.as_mut(), error.rule.as_mut()];
        [Some(&mut error.message)].into_iter().chain(more).flatten()
    });
    let diagnostics = execution.diagnostics.iter_mut().map(|found| &mut found.message);
    let calls = execution.calls.iter_mut();
    let calls = calls.flat_map(|call| [Some(&mut call.tool), call.rule.as_mut()].into_iter().flatten());
    let violations = execution.violations.iter_mut();
    let violations = violations.flat_map(|one| [&mut one.detail, &mut one.rule]);
    error.chain(diagnostics).chain(calls).chain(violations)
}

/// The beginning of a text, which does not end within a value.
fn head(text: &str, most: usize) -> &str {
    let begins = text.get(..text.floor_char_boundary(most)).unwrap_or(text);
    without_cut_notice(begins, begins.len() < text.len())
}

/// An output without its last line where the limit cut it: half a value is not recognised, and must not be shown.
fn without_cut_notice(text: &str, is_cut: bool) -> &str {
    if is_cut { trim_partial_line(text) } else { text }
}

/// Whether the JSON text can contain an alias.
fn may_have_aliases(json: &str) -> bool {
    json.contains('‹') || json.contains("\\u2039")
}

/// A text without characters that affect a terminal or a reader.
pub(crate) fn clean_text(text: &str) -> String {
    clean_and_count(text).0
}

/// The clean text, and how many characters were neutralised.
fn clean_and_count(text: &str) -> (String, u64) {
    let mut cleaner = Cleaner::new();
    let mut clean = String::with_capacity(text.len());
    cleaner.push(text.as_bytes(), &mut clean);
    cleaner.finish(&mut clean);
    (clean, cleaner.neutralised())
}

/// Withholds a report that contains personal data.
fn withhold_report(execution: &mut ExecutionReport, found: &[DetectionCount]) {
    execution.value = None;
    execution.stdout.clear();
    execution.stderr.clear();
    execution.diagnostics.clear();
    execution.violations.iter_mut().for_each(|one| one.detail.clear());
    execution.left_behind = UncopiedFiles::default();
    if execution.status == ExecutionStatus::Completed {
        execution.status = ExecutionStatus::Failed;
        execution.exit_code = 1;
    }
    execution.error = Some(blocked_error(&format!(
        "the result is held back: it has personal data ({})",
        describe_findings(found)
    )));
}

fn blocked_error(message: &str) -> ErrorReport {
    ErrorReport {
        code: "data.blocked".to_owned(),
        message: message.to_owned(),
        hint: Some("return what has no personal data in it, such as counts and sums".to_owned()),
        rule: Some("data.pii.mode".to_owned()),
    }
}

fn describe_findings(found: &[DetectionCount]) -> String {
    let words: Vec<String> = found.iter().map(|one| format!("{} {}", one.count, one.what)).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests;
