//! Approval requests that the user who runs a program answers at the terminal: `y` approves, anything else denies.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _};

use ringfence_engine::approvals::{self, AnswerSubmission, ApprovalView, PendingApproval};
use ringfence_engine::{ApprovalEvent, Engine};
use ringfence_journal::{ApprovalId, ApprovalScope, ApprovalVia};

use super::typed_lines::TypedLines;
use super::{approval_notices, local_principal};
use crate::fault::CliFault;
use crate::print::{Printer, distance_text, escape};

/// The most characters of a call's arguments to show; a call that is not shown in full cannot be approved here.
const MAX_ARGUMENT_CHARS: usize = 2000;

/// Who answers approval requests: the user at the terminal, or a separate command.
pub(super) enum ApprovalPrompt {
    /// Another `ringfence approvals` command, or another person, answers.
    Inbox,
    /// The user who runs the program answers at this terminal.
    Terminal(TerminalPrompt),
}

#[derive(Default)]
pub(super) struct TerminalPrompt {
    /// The unanswered requests, oldest first; the first one is on the screen.
    open: VecDeque<PendingApproval>,
    on_screen: ShownExtent,
    typed_lines: Option<TypedLines>,
}

/// How much of the first request is on the screen.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum ShownExtent {
    /// Nothing that a typed line could answer: there is no request, or it is answered.
    #[default]
    Nothing,
    /// The full call, which can be approved here.
    FullCall,
    /// A part of the call, which can be denied here and approved only by a command that shows the rest.
    PartialCall,
}

impl ApprovalPrompt {
    /// Prompts at the terminal if the user sees the request there and nothing else reads what they type.
    pub(super) fn for_run(is_json: bool, reads_stdin: bool) -> ApprovalPrompt {
        let is_person = io::stdin().is_terminal() && io::stderr().is_terminal();
        if is_person && !is_json && !reads_stdin {
            ApprovalPrompt::Terminal(TerminalPrompt::default())
        } else {
            ApprovalPrompt::Inbox
        }
    }

    /// Handles an approval event: prints it, and shows the next request when one is added or settled.
    pub(super) async fn handle_event(&mut self, word: ApprovalEvent, engine: &Engine, printer: &Printer) {
        let ApprovalPrompt::Terminal(asking) = self else {
            return printer.print_to_stderr(&approval_notices::event_text(&word));
        };
        match word {
            ApprovalEvent::Asked(_, asked) if accepts_command_line(engine, asked.id).await => {
                asking.open.push_back(asked);
                if asking.open.len() == 1 {
                    asking.show_next(engine, printer).await;
                }
            }
            ApprovalEvent::Settled(_, id, _) if asking.open.iter().any(|open| open.id == id) => {
                printer.print_to_stderr(&approval_notices::event_text(&word));
                let was_first = asking.open.front().is_some_and(|first| first.id == id);
                asking.open.retain(|open| open.id != id);
                if was_first {
                    asking.show_next(engine, printer).await;
                }
            }
            ApprovalEvent::Asked(..) | ApprovalEvent::Settled(..) | ApprovalEvent::Unrepeatable(..) => {
                printer.print_to_stderr(&approval_notices::event_text(&word));
            }
        }
    }

    /// The next typed line; pending forever where no request is on the screen.
    pub(super) async fn next_line(&mut self) -> String {
        match self {
            ApprovalPrompt::Terminal(TerminalPrompt {
                on_screen: ShownExtent::FullCall | ShownExtent::PartialCall,
                typed_lines: Some(typed),
                ..
            }) => typed.next_line().await,
            ApprovalPrompt::Terminal(_) | ApprovalPrompt::Inbox => std::future::pending().await,
        }
    }

    /// Handles a typed line as the answer to the request on the screen.
    pub(super) async fn handle_answer(&mut self, line: &str, engine: &Engine, printer: &Printer) {
        let ApprovalPrompt::Terminal(asking) = self else { return };
        let Some(first) = asking.open.front() else { return };
        let approve = matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes");
        if approve && asking.on_screen == ShownExtent::PartialCall {
            return printer.print_to_stderr(&partial_call_notice(first));
        }
        asking.on_screen = ShownExtent::Nothing;
        let say = AnswerSubmission {
            approve,
            scope: ApprovalScope::Once,
            shown: None,
            by: local_principal(),
            via: ApprovalVia::Cli,
            note: None,
        };
        // The engine reports the settled request like any other, and the next request is shown then.
        if let Err(error) = approvals::answer_approval(engine.store(), first.id, say).await {
            let fault = CliFault::from(error);
            printer.print_error(&fault.message, fault.hint.as_deref(), fault.rule.as_deref());
            asking.open.pop_front();
            asking.show_next(engine, printer).await;
        }
    }
}

/// Whether the policy accepts an answer from this command line for the request.
async fn accepts_command_line(engine: &Engine, id: ApprovalId) -> bool {
    let taken = approvals::accepts_via(engine.store(), id, ApprovalVia::Cli).await;
    taken.unwrap_or(false)
}

impl TerminalPrompt {
    /// Shows the oldest request. Lines typed before it cannot answer it.
    async fn show_next(&mut self, engine: &Engine, printer: &Printer) {
        self.on_screen = ShownExtent::Nothing;
        let Some(first) = self.open.front() else { return };
        let shown = approvals::find_approval(engine.store(), first.id).await.ok().flatten();
        let (arguments, on_screen) = arguments_text(shown.as_ref());
        let question = question_text(first, &arguments, on_screen);
        self.typed_lines.get_or_insert_with(TypedLines::start).discard_typed();
        printer.print_to_stderr(&question);
        self.on_screen = on_screen;
    }
}

/// The arguments of the call as text, and whether the text is complete.
fn arguments_text(shown: Option<&ApprovalView>) -> (String, ShownExtent) {
    let Some(shown) = shown else {
        return (String::new(), ShownExtent::PartialCall);
    };
    let text = serde_json::to_string_pretty(&shown.arguments).unwrap_or_else(|_| shown.arguments.to_string());
    let mut text = escape::escape_json(&text);
    let cut = text.char_indices().nth(MAX_ARGUMENT_CHARS).map(|(end, _)| end);
    if let Some(end) = cut {
        text.truncate(end);
        text.push_str(" …");
    }
    let on_screen = if cut.is_some() {
        ShownExtent::PartialCall
    } else {
        ShownExtent::FullCall
    };
    (format!(" with\n  {}", text.replace('\n', "\n  ")), on_screen)
}

fn question_text(asked: &PendingApproval, arguments: &str, on_screen: ShownExtent) -> String {
    let (tool, rule, left, id) = (&asked.tool, &asked.rule, distance_text(asked.expires), asked.id);
    let asks = match on_screen {
        ShownExtent::FullCall => format!("`ringfence approvals show {id}` shows its code\nallow this once? [y/N]"),
        ShownExtent::PartialCall | ShownExtent::Nothing => {
            format!("{}\ndeny it? Return denies [N]", partial_call_notice(asked))
        }
    };
    format!("waiting: may it call `{tool}`{arguments}\n  rule `{rule}`, {left} left; {asks}")
}

/// The notice that tells how to approve a call that is not shown in full.
fn partial_call_notice(asked: &PendingApproval) -> String {
    let id = asked.id;
    format!(
        "not all of it is shown here: read it with `ringfence approvals show {id}`, then `ringfence approvals approve {id}`"
    )
}
