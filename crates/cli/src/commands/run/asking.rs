//! Approval requests that the user who runs a program answers at the terminal: `y` approves, anything else denies.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _};

use ringfence_engine::approvals::{self, Inquiry, Say, Shown};
use ringfence_engine::{Engine, Word};
use ringfence_journal::{ApprovalId, ApprovalScope, ApprovalVia};

use super::typed_lines::TypedLines;
use super::{principal, waiting};
use crate::fault::Fault;
use crate::print::{Printer, escape, span};

/// The most characters of a call's arguments to show; a call that is not shown in full cannot be approved here.
const MAX_SHOWN: usize = 2000;

/// Who answers approval requests: the user at the terminal, or a separate command.
pub(super) enum Desk {
    /// Another `ringfence approvals` command, or another person, answers.
    Inbox,
    /// The user who runs the program answers at this terminal.
    Here(Asking),
}

#[derive(Default)]
pub(super) struct Asking {
    /// The unanswered requests, oldest first; the first one is on the screen.
    open: VecDeque<Inquiry>,
    on_screen: OnScreen,
    typed: Option<TypedLines>,
}

/// How much of the first request is on the screen.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum OnScreen {
    /// Nothing that a typed line could answer: there is no request, or it is answered.
    #[default]
    Nothing,
    /// The full call, which can be approved here.
    Whole,
    /// A part of the call, which can be denied here and approved only by a command that shows the rest.
    Part,
}

impl Desk {
    /// Prompts at the terminal if the user sees the request there and nothing else reads what they type.
    pub(super) fn of(is_json: bool, reads_stdin: bool) -> Desk {
        let is_person = io::stdin().is_terminal() && io::stderr().is_terminal();
        if is_person && !is_json && !reads_stdin {
            Desk::Here(Asking::default())
        } else {
            Desk::Inbox
        }
    }

    /// Handles an approval event: prints it, and shows the next request when one is added or settled.
    pub(super) async fn hear(&mut self, word: Word, engine: &Engine, printer: &Printer) {
        let Desk::Here(asking) = self else {
            return printer.aside(&waiting::said(&word));
        };
        match word {
            Word::Asked(_, asked) if is_taken_here(engine, asked.id).await => {
                asking.open.push_back(asked);
                if asking.open.len() == 1 {
                    asking.ask(engine, printer).await;
                }
            }
            Word::Settled(_, id, _) if asking.open.iter().any(|open| open.id == id) => {
                printer.aside(&waiting::said(&word));
                let was_first = asking.open.front().is_some_and(|first| first.id == id);
                asking.open.retain(|open| open.id != id);
                if was_first {
                    asking.ask(engine, printer).await;
                }
            }
            Word::Asked(..) | Word::Settled(..) | Word::Unrepeatable(..) => printer.aside(&waiting::said(&word)),
        }
    }

    /// The next typed line; pending forever where no request is on the screen.
    pub(super) async fn line(&mut self) -> String {
        match self {
            Desk::Here(Asking {
                on_screen: OnScreen::Whole | OnScreen::Part,
                typed: Some(typed),
                ..
            }) => typed.next().await,
            Desk::Here(_) | Desk::Inbox => std::future::pending().await,
        }
    }

    /// Handles a typed line as the answer to the request on the screen.
    pub(super) async fn answer(&mut self, line: &str, engine: &Engine, printer: &Printer) {
        let Desk::Here(asking) = self else { return };
        let Some(first) = asking.open.front() else { return };
        let approve = matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes");
        if approve && asking.on_screen == OnScreen::Part {
            return printer.aside(&not_here(first));
        }
        asking.on_screen = OnScreen::Nothing;
        let say = Say {
            approve,
            scope: ApprovalScope::Once,
            shown: None,
            by: principal(),
            via: ApprovalVia::Cli,
            note: None,
        };
        // The engine reports the settled request like any other, and the next request is shown then.
        if let Err(error) = approvals::answer(engine.store(), first.id, say).await {
            let fault = Fault::from(error);
            printer.error(&fault.message, fault.hint.as_deref(), fault.rule.as_deref());
            asking.open.pop_front();
            asking.ask(engine, printer).await;
        }
    }
}

/// Whether the policy accepts an answer from this command line for the request.
async fn is_taken_here(engine: &Engine, id: ApprovalId) -> bool {
    let taken = approvals::takes(engine.store(), id, ApprovalVia::Cli).await;
    taken.unwrap_or(false)
}

impl Asking {
    /// Shows the oldest request. Lines typed before it cannot answer it.
    async fn ask(&mut self, engine: &Engine, printer: &Printer) {
        self.on_screen = OnScreen::Nothing;
        let Some(first) = self.open.front() else { return };
        let shown = approvals::show(engine.store(), first.id).await.ok().flatten();
        let (arguments, on_screen) = arguments(shown.as_ref());
        let question = question(first, &arguments, on_screen);
        self.typed.get_or_insert_with(TypedLines::start).drop_typed();
        printer.aside(&question);
        self.on_screen = on_screen;
    }
}

/// The arguments of the call as text, and whether the text is complete.
fn arguments(shown: Option<&Shown>) -> (String, OnScreen) {
    let Some(shown) = shown else {
        return (String::new(), OnScreen::Part);
    };
    let text = serde_json::to_string_pretty(&shown.arguments).unwrap_or_else(|_| shown.arguments.to_string());
    let mut text = escape::json(&text);
    let cut = text.char_indices().nth(MAX_SHOWN).map(|(end, _)| end);
    if let Some(end) = cut {
        text.truncate(end);
        text.push_str(" …");
    }
    let on_screen = if cut.is_some() { OnScreen::Part } else { OnScreen::Whole };
    (format!(" with\n  {}", text.replace('\n', "\n  ")), on_screen)
}

fn question(asked: &Inquiry, arguments: &str, on_screen: OnScreen) -> String {
    let (tool, rule, left, id) = (&asked.tool, &asked.rule, span(asked.expires), asked.id);
    let asks = match on_screen {
        OnScreen::Whole => format!("`ringfence approvals show {id}` shows its code\nallow this once? [y/N]"),
        OnScreen::Part | OnScreen::Nothing => format!("{}\ndeny it? Return denies [N]", not_here(asked)),
    };
    format!("waiting: may it call `{tool}`{arguments}\n  rule `{rule}`, {left} left; {asks}")
}

/// The notice that tells how to approve a call that is not shown in full.
fn not_here(asked: &Inquiry) -> String {
    let id = asked.id;
    format!(
        "not all of it is shown here: read it with `ringfence approvals show {id}`, then `ringfence approvals approve {id}`"
    )
}
