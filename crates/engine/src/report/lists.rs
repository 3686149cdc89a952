//! Limits the lists of an answer: repeated items are counted, and cost their reader no more.

use ringfence_gateway::{CallsMade, CompletedCall, UnlistedCalls};
use ringfence_policy::escape_invisible;
use serde::Serialize;

use crate::report::{CallReport, ExecutionReport, FileReport, ViolationReport};

/// The kind of a violation by a tool call; its event is `call_refused`.
const TOOL_VIOLATION_KIND: &str = "tool";
/// Characters of a name, or of what the program tried, that are shown.
const MAX_NAME_CHARS: usize = 200;
/// Violations that are listed, and events of one kind that are recorded one by one.
pub(crate) const MAX_LISTED: usize = 100;
/// Bytes of the listed violations.
const MAX_VIOLATION_BYTES: usize = 32 * 1024;
/// Files that are listed, and calls where the policy has no limit of rows; then the bytes of both.
const MAX_ROWS: usize = 1000;
const MAX_BYTES: usize = 128 * 1024;
/// Bytes of an item beside its names, approximately.
const ITEM_OVERHEAD_BYTES: usize = 128;

/// Adds the calls of an execution to its report.
pub(crate) fn add_calls(execution: &mut ExecutionReport, calls: &CallsMade) {
    if calls.total == 0 {
        return;
    }
    execution.calls = calls
        .listed
        .iter()
        .map(call_report)
        .chain(calls.unlisted.iter().map(remaining_calls_report))
        .collect();
    let forbidden = calls.listed.iter().filter(|call| call.forbidden);
    execution.violations.extend(forbidden.map(|call| ViolationReport {
        kind: TOOL_VIOLATION_KIND.to_owned(),
        detail: call.tool.clone(),
        rule: call.rule.clone().unwrap_or_default(),
    }));
    let forbidden = calls.unlisted.iter().filter(|more| more.forbidden);
    execution.violations.extend(forbidden.map(|more| ViolationReport {
        kind: TOOL_VIOLATION_KIND.to_owned(),
        detail: format!("{} more of {}", more.count, more.tool),
        rule: more.rule.clone().unwrap_or_default(),
    }));
    execution.usage.calls = calls.total;
    execution.call_bytes = calls.bytes;
}

fn call_report(call: &CompletedCall) -> CallReport {
    CallReport {
        number: call.number,
        tool: clip(&escape_invisible(&call.tool)),
        outcome: call.outcome.name(),
        rule: call.rule.as_deref().map(clip),
        duration_ms: u64::try_from(call.duration.as_millis()).unwrap_or(u64::MAX),
        bytes_in: call.bytes_in,
        bytes_out: call.bytes_out,
        count: None,
    }
}

fn remaining_calls_report(more: &UnlistedCalls) -> CallReport {
    CallReport {
        number: 0,
        tool: clip(&escape_invisible(&more.tool)),
        outcome: more.outcome.name(),
        rule: more.rule.as_deref().map(clip),
        duration_ms: 0,
        bytes_in: 0,
        bytes_out: 0,
        count: Some(more.count),
    }
}

/// Limits the listed calls by number and bytes; the rest is added to the counts of their kinds.
pub(crate) fn fit_calls(execution: &mut ExecutionReport, rows: Option<usize>, bytes: Option<usize>) {
    let (rows, bytes) = (rows.unwrap_or(MAX_ROWS), bytes.unwrap_or(MAX_BYTES));
    let (all, mut counted): (Vec<_>, Vec<_>) = std::mem::take(&mut execution.calls)
        .into_iter()
        .partition(|call| call.count.is_none());
    let mut room = bytes;
    let mut is_full = false;
    for call in all {
        let weight = call_memory_bytes(&call);
        is_full |= execution.calls.len() >= rows || weight > room;
        if !is_full {
            room -= weight;
            execution.calls.push(call);
            continue;
        }
        let same = |known: &&mut CallReport| {
            (&known.tool, known.outcome, &known.rule) == (&call.tool, call.outcome, &call.rule)
        };
        match counted.iter_mut().find(same) {
            Some(known) => known.count = known.count.map(|count| count + 1),
            None => counted.push(CallReport {
                number: 0,
                duration_ms: 0,
                bytes_in: 0,
                bytes_out: 0,
                count: Some(1),
                ..call
            }),
        }
    }
    execution.calls.extend(counted);
}

/// Limits the listed violations by number and bytes; the last one says how many more there were.
pub(crate) fn fit_violations(violations: &mut Vec<ViolationReport>) {
    let mut room = MAX_VIOLATION_BYTES;
    let mut listed = 0;
    for one in violations.iter_mut().take(MAX_LISTED) {
        // Names from the sandbox are shown on one line, with nothing hidden.
        (one.detail, one.rule) = (clip(&escape_invisible(&one.detail)), clip(&escape_invisible(&one.rule)));
        let Some(left) = room.checked_sub(json_bytes(one)) else {
            break;
        };
        room = left;
        listed += 1;
    }
    let more = violations.len() - listed;
    if more > 0 {
        violations.truncate(listed);
        violations.push(ViolationReport {
            kind: "more".to_owned(),
            detail: format!("{more} more"),
            rule: String::new(),
        });
    }
}

/// The files that an answer lists: the first ones, as many as fit. The others are still copied out and downloaded.
pub(super) fn listed_files(files: &[FileReport]) -> &[FileReport] {
    let mut room = MAX_BYTES;
    let fits = |file: &&FileReport| match room.checked_sub(json_bytes(file)) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    let listed = files.iter().take(MAX_ROWS).take_while(fits).count();
    files.get(..listed).unwrap_or(files)
}

/// Bytes that an item takes in an answer.
fn json_bytes(item: &impl Serialize) -> usize {
    // Names and numbers always serialise; an item that did not would not fit.
    serde_json::to_string(item).map_or(usize::MAX, |text| text.len() + 1)
}

/// Bytes of memory that the lists of a report take, approximately.
pub(crate) fn memory_bytes(execution: &ExecutionReport) -> usize {
    let calls: usize = execution.calls.iter().map(call_memory_bytes).sum();
    let violations: usize = execution
        .violations
        .iter()
        .map(|one| ITEM_OVERHEAD_BYTES + one.detail.len())
        .sum();
    let files: usize = execution
        .files
        .iter()
        .map(|file| ITEM_OVERHEAD_BYTES + file.path.len())
        .sum();
    let error = execution.error.as_ref().map_or(0, |error| {
        let more = [&error.hint, &error.rule];
        let more = more.into_iter().flatten().map(String::len).sum::<usize>();
        error.message.len() + more
    });
    let diagnostics = execution.diagnostics.iter();
    let diagnostics = diagnostics.map(|found| ITEM_OVERHEAD_BYTES + found.file.len() + found.message.len());
    ITEM_OVERHEAD_BYTES + calls + violations + files + error + diagnostics.sum::<usize>()
}

fn call_memory_bytes(call: &CallReport) -> usize {
    ITEM_OVERHEAD_BYTES + call.tool.len() + call.rule.as_ref().map_or(0, String::len)
}

fn clip(text: &str) -> String {
    match text.char_indices().nth(MAX_NAME_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
