//! Refuses writes to a journal that lacks the newest signed head.

use ringfence_journal::RecordError;

use super::{CommitCallback, JournalWriter};
use crate::loss::{self, LossCheckError};

impl JournalWriter {
    pub(super) fn fail_answers(&mut self, error: &RecordError, answers: Vec<CommitCallback>) {
        self.ahead.defer_commit();
        tracing::error!(code = error.code(), %error, events = answers.len(), "nothing was written");
        for answer in answers {
            answer(Some(error.clone()));
        }
    }

    /// The reason why nothing may be written now, if there is one. Checked under the write lock before each commit that may sign, and
    /// before anything else while there is a loss.
    pub(super) fn refusal(&mut self) -> Option<RecordError> {
        if let Some(mark) = self.unmarked {
            match self.home.advance_mark(mark) {
                Ok(()) => self.unmarked = None,
                Err(error) => return Some(LossCheckError::Mark(error).into_record_error()),
            }
        }
        let found = match self.file {
            Some(file) => loss::find_loss_while_open(&self.home, &self.connection, file),
            None => loss::find_loss(&self.home, &self.connection),
        };
        match found {
            Ok(lost) => self.lost = lost,
            Err(error) => return Some(error.into_record_error()),
        }
        let what = self.lost?.to_string();
        Some(RecordError::Lost { what })
    }
}
