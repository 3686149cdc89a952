//! Questions that whoever runs a program answers right there: `y` for yes, anything else for no.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::thread;

use ringfence_engine::approvals::{self, Inquiry, Say, Shown};
use ringfence_engine::{Engine, Word};
use ringfence_journal::{ApprovalId, ApprovalScope, ApprovalVia};
use tokio::sync::mpsc;

use super::{principal, waiting};
use crate::fault::Fault;
use crate::print::{Printer, escape, span};

/// The most that is shown of what a tool would be called with.
const MOST_SHOWN: usize = 2000;

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
    lines: Option<mpsc::Receiver<String>>,
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
        if let Desk::Here(Asking {
            open,
            lines: Some(lines),
        }) = self
            && !open.is_empty()
            && let Some(line) = lines.recv().await
        {
            return line;
        }
        std::future::pending().await
    }

    /// Takes what was typed as the answer to the question on the screen.
    pub(super) async fn answer(&mut self, line: &str, engine: &Engine, printer: &Printer) {
        let Desk::Here(asking) = self else { return };
        let Some(first) = asking.open.front() else { return };
        let say = Say {
            approve: matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"),
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
    /// Puts the oldest question on the screen.
    async fn ask(&mut self, engine: &Engine, printer: &Printer) {
        let Some(first) = self.open.front() else { return };
        let shown = approvals::show(engine.store(), first.id).await.ok().flatten();
        printer.aside(&question(first, shown.as_ref()));
        self.lines.get_or_insert_with(typed);
    }
}

fn question(asked: &Inquiry, shown: Option<&Shown>) -> String {
    let arguments = shown.map_or_else(String::new, |shown| {
        let text = serde_json::to_string_pretty(&shown.arguments).unwrap_or_else(|_| shown.arguments.to_string());
        let mut text = escape::json(&text);
        if let Some((end, _)) = text.char_indices().nth(MOST_SHOWN) {
            text.truncate(end);
            text.push_str(" …");
        }
        format!(" with\n  {}", text.replace('\n', "\n  "))
    });
    format!(
        "waiting: may it call `{}`{arguments}\n  rule `{}`, {} left; `ringfence approvals show {}` shows all of it\nallow this once? [y/N]",
        asked.tool,
        asked.rule,
        span(asked.expires),
        asked.id
    )
}

/// What a person types, line by line. A terminal can only be waited for by a thread, which ends with the program.
fn typed() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(1);
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            // A terminal that is gone answers nothing: the inbox still can.
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}
