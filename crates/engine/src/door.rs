//! Behind the door of an execution: every call is answered by the session's pass, every question about tools by the catalog.
//!
//! Calls are spawned, never awaited one after another: a program's parallel calls are parallel.

use std::sync::Arc;

use ringfence_gateway::{Made, Pass, Stopped};
use ringfence_journal::RecordError;
use ringfence_sandbox::{Answered, Ask, Asked, Refusal};
use ringfence_store::Store;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::discover::Discover;

/// Calls and answers that may wait on each way through the door.
pub(crate) const ROOM: usize = 1024;

/// Whoever stands behind the door of one execution.
#[derive(Debug)]
pub(crate) struct Keeper {
    pass: Arc<Pass<Arc<Store>>>,
    discover: Discover,
}

impl Keeper {
    pub(crate) fn new(pass: Arc<Pass<Arc<Store>>>, discover: Discover) -> Keeper {
        Keeper { pass, discover }
    }

    /// Answers until the program asks no more and every call has ended; ends early when a call cannot be written down.
    pub(crate) async fn attend(
        &self,
        mut calls: mpsc::Receiver<Asked>,
        answers: mpsc::Sender<Answered>,
    ) -> Result<(), RecordError> {
        let mut under_way = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                Some(done) = under_way.join_next() => settled(done)?,
                asked = calls.recv() => match asked {
                    Some(asked) => {
                        let (pass, discover, answers) = (Arc::clone(&self.pass), self.discover.clone(), answers.clone());
                        under_way.spawn(async move { answer(&pass, &discover, asked, &answers).await });
                    }
                    None => break,
                },
            }
        }
        while let Some(done) = under_way.join_next().await {
            settled(done)?;
        }
        Ok(())
    }

    /// The program is gone before its time: what is under way has an unknown effect.
    pub(crate) fn cancel(&self) {
        self.pass.cancel();
    }

    /// The calls that were made, once each end is written.
    pub(crate) async fn close(&self) -> Result<Vec<Made>, RecordError> {
        self.pass.close().await
    }
}

fn settled(done: Result<Result<(), RecordError>, tokio::task::JoinError>) -> Result<(), RecordError> {
    // A call whose task broke was never answered; its program is told by the end of the door.
    done.unwrap_or_else(|error| {
        tracing::error!(%error, "a call ended without an answer");
        Ok(())
    })
}

async fn answer(
    pass: &Pass<Arc<Store>>,
    discover: &Discover,
    asked: Asked,
    answers: &mpsc::Sender<Answered>,
) -> Result<(), RecordError> {
    let answer = match &asked.ask {
        Ask::Tool { server, tool } => match pass.call(asked.number, server, tool, &asked.body).await {
            Ok(result) => Ok(result),
            Err(Stopped::Refused(refusal)) => Err(Refusal {
                code: refusal.code.to_owned(),
                message: refusal.message,
                rule: refusal.rule,
                hint: refusal.hint,
            }),
            Err(Stopped::Unrecorded(error)) => return Err(error),
        },
        Ask::Search => discover.search(&asked.body).await,
        Ask::Describe => discover.describe(&asked.body).await,
        Ask::List => discover.list(&asked.body).await,
    };
    let answered = Answered {
        number: asked.number,
        answer,
    };
    // A program that has ended no longer listens.
    let _ = answers.send(answered).await;
    Ok(())
}
