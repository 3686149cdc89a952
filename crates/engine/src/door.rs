//! Behind the door of an execution: every call is answered by the session's pass, every question about tools by the catalog.
//!
//! Calls are spawned, never awaited one after another: a program's parallel calls are parallel.

use std::sync::Arc;

use ringfence_gateway::{Made, Pass, Stopped};
use ringfence_journal::RecordError;
use ringfence_sandbox::{Answered, Ask, Asked, Ended, Refusal, Verdict};
use ringfence_store::Store;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::discover::Discover;
use crate::error::RunError;
use crate::execution::ErrorReport;

/// Calls and answers that may wait on each way through the door.
pub(crate) const ROOM: usize = 1024;

/// Whoever stands behind the door of one execution.
#[derive(Debug)]
pub(crate) struct Keeper {
    pass: Arc<Pass<Arc<Store>>>,
    discover: Discover,
}

impl Keeper {
    /// Where its rules are held.
    pub(crate) fn pass(&self) -> Arc<Pass<Arc<Store>>> {
        Arc::clone(&self.pass)
    }

    pub(crate) fn new(pass: Arc<Pass<Arc<Store>>>, discover: Discover) -> Keeper {
        Keeper { pass, discover }
    }

    /// Answers until the program asks no more and every call has ended; ends early when a call cannot be written down.
    pub(crate) async fn attend(
        &self,
        mut calls: mpsc::Receiver<Asked>,
        answers: mpsc::Sender<Answered>,
    ) -> Result<(), RunError> {
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

    /// Runs a program and answers its calls. One that ended by itself has its calls seen out; one that was ended has not: what is
    /// under way then has an unknown effect.
    pub(crate) async fn run(
        &self,
        run: impl Future<Output = Result<Ended, ringfence_sandbox::RunError>>,
        attend: impl Future<Output = Result<(), RunError>>,
    ) -> Result<Ended, RunError> {
        tokio::pin!(run, attend);
        let mut attended = false;
        let ended = loop {
            tokio::select! {
                ended = &mut run => break ended?,
                // A call that cannot be written down does not happen, and its program goes no further.
                done = &mut attend, if !attended => {
                    done?;
                    attended = true;
                }
            }
        };
        if ended.verdict != Verdict::Finished {
            self.pass.cancel();
        }
        if !attended {
            attend.await?;
        }
        Ok(ended)
    }

    /// The calls that were made, once each end is written.
    pub(crate) async fn close(&self) -> Result<Vec<Made>, RecordError> {
        self.pass.close().await
    }
}

/// A call whose task broke is never answered, and its program would wait for ever.
fn settled(done: Result<Result<(), RecordError>, tokio::task::JoinError>) -> Result<(), RunError> {
    done.map_err(RunError::Unanswered)?.map_err(RunError::Record)
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
        Ask::Search => discover.search(&asked.body).await.map_err(told),
        Ask::Describe => discover.describe(&asked.body).await.map_err(told),
        Ask::List => discover.list(&asked.body).await.map_err(told),
    };
    let answered = Answered {
        number: asked.number,
        answer,
    };
    // A program that has ended no longer listens.
    let _ = answers.send(answered).await;
    Ok(())
}

fn told(error: ErrorReport) -> Refusal {
    Refusal {
        code: error.code,
        message: error.message,
        rule: error.rule,
        hint: error.hint,
    }
}
