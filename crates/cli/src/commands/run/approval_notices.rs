//! The notices about approval requests while a program runs.

use ringfence_engine::ApprovalEvent;
use ringfence_journal::ApprovalAnswer;

use crate::print::distance_text;

/// The notice for one approval event.
pub(super) fn event_text(word: &ApprovalEvent) -> String {
    match word {
        ApprovalEvent::Asked(_, asked) => format!(
            "waiting: `{}` needs a person's yes (rule `{}`, {} left)\n         answer with `ringfence approvals approve {}` or \
             `deny`; `show` shows what it is",
            asked.tool,
            asked.rule,
            distance_text(asked.expires),
            asked.id
        ),
        ApprovalEvent::Settled(_, id, answer) => {
            let became = match answer {
                ApprovalAnswer::Approved => "approved",
                ApprovalAnswer::Denied => "denied",
                ApprovalAnswer::Expired => "not answered in time, which means no",
                ApprovalAnswer::Withdrawn => "withdrawn: it is not asked any more",
            };
            format!("goes on: {id} was {became}")
        }
        ApprovalEvent::Unrepeatable(_, why) => {
            format!("waiting: the program is lost if this command ends before it is answered: {why}")
        }
    }
}

/// The notice for `count` events that were missed.
pub(super) fn missed_text(count: u64) -> String {
    format!("waiting: {count} more; `ringfence approvals list` shows what waits")
}
