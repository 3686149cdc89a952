//! Work of the host whose size programs decide by what they leave: never on a thread that serves others, only a little at once, and less of
//! it for each principal than for all.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::available_parallelism;

use ringfence_gateway::{TreeMemory, TreePermit};
use ringfence_journal::Principal;
use ringfence_policy::Glob;
use ringfence_sandbox::{
    CollectLimits, CollectedFiles, CopyOutcome, EmittedFile, ExistingFileAction, Sandbox, Workspace, folder,
};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use crate::engine::lock;
use crate::error::OperationError;

/// Tasks for one principal at once.
const MAX_PER_PRINCIPAL: usize = 2;
/// Tasks for each processor at once.
const MAX_PER_PROCESSOR: usize = 2;
/// Entries that are removed before other tasks get a turn.
const MAX_REMOVALS_PER_TURN: u64 = 10_000;
/// Memory in bytes for the parsed values of all executions.
const MAX_VALUE_BYTES: usize = 256 << 20;
/// Principals that are tracked before those without work are dropped.
const MAX_TRACKED_PRINCIPALS: usize = 256;

/// The digests of a workspace's files by path.
pub(crate) type Digests = std::collections::BTreeMap<String, String>;

/// Admits such work to threads.
#[derive(Debug)]
pub(crate) struct HostWork {
    all: Arc<Semaphore>,
    principals: Mutex<HashMap<Principal, Arc<Semaphore>>>,
    values: TreeMemory,
}

/// A program's value as a tree, with a permit for its memory.
#[derive(Debug)]
pub(crate) struct ParsedValue {
    pub(crate) value: Value,
    memory: TreePermit,
}

impl ParsedValue {
    /// Replaces the tree, under the same memory permit.
    pub(crate) fn with_value(self, value: Value) -> ParsedValue {
        ParsedValue { value, ..self }
    }
}

impl Default for HostWork {
    fn default() -> HostWork {
        let processors = available_parallelism().map_or(1, usize::from);
        HostWork {
            all: Arc::new(Semaphore::new(processors * MAX_PER_PROCESSOR)),
            principals: Mutex::default(),
            values: TreeMemory::new(MAX_VALUE_BYTES),
        }
    }
}

impl HostWork {
    /// Runs `work` for a principal on a thread of its own, once it has a permit.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        who: Principal,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, OperationError> {
        // The semaphores are never closed.
        let own = self
            .principal_permits(who)
            .acquire_owned()
            .await
            .map_err(|_| OperationError::Abandoned)?;
        self.run_for_anyone(move || {
            let done = work();
            drop(own);
            done
        })
        .await
    }

    async fn run_for_anyone<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, OperationError> {
        let turn = Arc::clone(&self.all).acquire_owned().await;
        let turn = turn.map_err(|_| OperationError::Abandoned)?;
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            // The thread holds the permit: the waiting task may be dropped before the work is done.
            drop(turn);
            done
        });
        done.await.map_err(|_| OperationError::Abandoned)
    }

    /// Parses a value, once there is memory for it. None where it nests too deeply or is too large: the caller then treats it as text.
    pub(crate) async fn read_value(&self, text: &RawValue) -> Result<Option<ParsedValue>, OperationError> {
        let Ok(memory) = self.values.reserve(text.get()).await else {
            return Ok(None);
        };
        let read = if memory.is_large() {
            let text = text.get().to_owned();
            self.run_for_anyone(move || serde_json::from_str(&text)).await?
        } else {
            serde_json::from_str(text.get())
        };
        Ok(read.ok().map(|value| ParsedValue { value, memory }))
    }

    /// Serialises a value and releases its memory permit.
    pub(crate) async fn write_value(&self, read: ParsedValue) -> Result<String, OperationError> {
        if read.memory.is_large() {
            return self.run_for_anyone(move || read.value.to_string()).await;
        }
        Ok(read.value.to_string())
    }

    fn principal_permits(&self, who: Principal) -> Arc<Semaphore> {
        let mut all = lock(&self.principals);
        if all.len() >= MAX_TRACKED_PRINCIPALS {
            all.retain(|_, own| Arc::strong_count(own) > 1);
        }
        let new = || Arc::new(Semaphore::new(MAX_PER_PRINCIPAL));
        Arc::clone(all.entry(who).or_insert_with(new))
    }

    /// Empties folders, in steps.
    pub(crate) async fn empty_folders(&self, folders: Vec<PathBuf>) -> Result<(), OperationError> {
        for path in folders {
            self.run_in_steps(&path, folder::empty).await?;
        }
        Ok(())
    }

    /// Removes a folder, in steps.
    pub(crate) async fn remove_folder(&self, path: &Path) -> Result<(), OperationError> {
        self.run_in_steps(path, folder::remove).await
    }

    async fn run_in_steps(
        &self,
        path: &Path,
        part: fn(&Path, &mut u64) -> std::io::Result<bool>,
    ) -> Result<(), OperationError> {
        loop {
            let path = path.to_owned();
            let done = self
                .run_for_anyone(move || part(&path, &mut { MAX_REMOVALS_PER_TURN }))
                .await?;
            if done.map_err(OperationError::Workspace)? {
                return Ok(());
            }
        }
    }

    /// The digests of the files in a sandbox's workspace.
    pub(crate) async fn workspace_digests(&self, who: Principal, sandbox: &Sandbox) -> Result<Digests, OperationError> {
        let workspace = sandbox.workspace()?;
        if workspace.can_look_inline() {
            let (digests, skipped) = workspace.snapshot(&CollectLimits::INLINE)?;
            if !skipped.has_limit() {
                return Ok(digests);
            }
        }
        let look = move || workspace.snapshot(&workspace.limits());
        Ok(self.run(who, look).await??.0)
    }

    /// The files in a sandbox's workspace that are new since `before`, and the workspace to copy them from.
    pub(crate) async fn collect_files(
        &self,
        who: Principal,
        sandbox: &Sandbox,
        before: &Arc<Digests>,
        wanted: CollectFilter<'_>,
    ) -> Result<(Arc<Workspace>, CollectedFiles), OperationError> {
        let workspace = Arc::new(sandbox.workspace()?);
        let CollectFilter { deny, emitted } = wanted;
        if workspace.can_look_inline() {
            let collected = workspace.collect(before, deny, emitted, &CollectLimits::INLINE)?;
            if !collected.skipped.has_limit() {
                return Ok((workspace, collected));
            }
        }
        let (place, before) = (Arc::clone(&workspace), Arc::clone(before));
        let (deny, emitted) = (deny.to_vec(), emitted.to_vec());
        let look = move || place.collect(&before, &deny, &emitted, &place.limits());
        let collected = self.run(who, look).await??;
        Ok((workspace, collected))
    }

    /// Copies collected files to a folder, and returns what happened to each.
    pub(crate) async fn copy_out(
        &self,
        who: Principal,
        workspace: &Arc<Workspace>,
        collected: &CollectedFiles,
        (to, existing): (&Path, ExistingFileAction),
    ) -> Result<Vec<CopyOutcome>, OperationError> {
        let (workspace, files, to) = (Arc::clone(workspace), collected.files.clone(), to.to_owned());
        let copy = move || workspace.copy_out(&files, &to, existing, workspace.limits().time);
        Ok(self.run(who, copy).await??)
    }
}

/// Which files of a workspace are collected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CollectFilter<'a> {
    /// Patterns of files that never leave the sandbox.
    pub(crate) deny: &'a [Glob],
    /// The files that the program emits.
    pub(crate) emitted: &'a [EmittedFile],
}

#[cfg(test)]
mod tests;
