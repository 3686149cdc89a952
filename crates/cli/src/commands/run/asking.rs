//! Questions that whoever runs a program answers right there: `y` for yes, anything else for no.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _};

use ringfence_engine::approvals::{self, Inquiry, Say, Shown};
use ringfence_engine::{Engine, Word};
use ringfence_journal::{ApprovalId, ApprovalScope, ApprovalVia};

use super::typed_lines::TypedLines;
use super::{principal, waiting};
use crate::fault::Fault;
use crate::print::{Printer, escape, span};

/// The most that is shown of what a tool would be called with; whoever did not see all of it is not asked here.
const MAX_SHOWN: usize = 2000;

/// Who is asked: the person at the terminal, or whoever looks into the inbox.
pub(super) enum Desk {
    /// Somebody else, by a command of their own.
    Inbox,
    /// Whoever runs the program.
    Here(Asking),
}

#[derive(Default)]
pub(super) struct Asking {
    /// Asked and not answered, oldest first; the first one is on the screen.
    open: VecDeque<Inquiry>,
    on_screen: OnScreen,
    typed: Option<TypedLines>,
}

/// What is on the screen of the first question.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum OnScreen {
    /// Nothing that a line could answer: nothing is asked, or it has been answered.
    #[default]
    Nothing,
    /// All of the call: it may be allowed here.
    Whole,
    /// Only a part of the call: it may be denied here, and allowed by who has seen the rest.
    Part,
}

impl Desk {
    /// A person is asked here where nothing else reads what they type, and they see the question.
    pub(super) fn of(is_json: bool, reads_stdin: bool) -> Desk {
        let is_person = io::stdin().is_terminal() && io::stderr().is_terminal();
        if is_person && !is_json && !reads_stdin {
            Desk::Here(Asking::default())
        } else {
            Desk::Inbox
        }
    }

    /// Says what is asked or settled, and asks.
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

    /// The next line that the person types; never, where nobody is asked.
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

    /// Takes what was typed as the answer to the question on the screen.
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
        // That it is settled is heard like any other answer, and the next question comes then.
        if let Err(error) = approvals::answer(engine.store(), first.id, say).await {
            let fault = Fault::from(error);
            printer.error(&fault.message, fault.hint.as_deref(), fault.rule.as_deref());
            asking.open.pop_front();
            asking.ask(engine, printer).await;
        }
    }
}

/// Whether the policy that asks takes an answer from this command line.
async fn is_taken_here(engine: &Engine, id: ApprovalId) -> bool {
    let taken = approvals::takes(engine.store(), id, ApprovalVia::Cli).await;
    taken.unwrap_or(false)
}

impl Asking {
    /// Puts the oldest question on the screen. Nothing that was typed before it can answer it.
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

/// What the tool would be called with, and whether that is all of it.
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

/// How a call is allowed that is not shown whole.
fn not_here(asked: &Inquiry) -> String {
    let id = asked.id;
    format!(
        "not all of it is shown here: read it with `ringfence approvals show {id}`, then `ringfence approvals approve {id}`"
    )
}
