//! Starts a stack's processes so that none of them outlives this process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use plane::tools::{self, Tool, Tools};
use plane::{Guard, StackIdentity};

/// The executables that a stack needs.
#[derive(Clone, Debug)]
pub struct StackPrograms {
    /// The path to `layercake`, which is also the guard and all controllers.
    pub exe: PathBuf,
    /// Programs that the user has set, by their names in [`plane::tools::names`] and [`sim::tools::programs`].
    pub given: BTreeMap<String, PathBuf>,
    /// Programs in addition to those of a control plane.
    pub further: Vec<&'static Tool>,
}

impl StackPrograms {
    /// Returns the needs of a stack whose guard and controllers are this executable. All other programs are built.
    ///
    /// # Errors
    /// Returns an error if the path to this executable can't be found.
    pub fn of_this_program(further: Vec<&'static Tool>) -> Result<Self> {
        let exe = std::env::current_exe().context("cannot find the path of this program")?;
        Ok(Self { exe, given: BTreeMap::new(), further })
    }
}

/// A stack with its guard process, which ends the stack's processes when this process ends, even if it is killed.
pub struct GuardedStack {
    guard: Guard,
    stack: Arc<StackIdentity>,
}

impl GuardedStack {
    /// Finds or builds the programs, opens the stack, and starts its parts with `start`. If `given_up` resolves first,
    /// returns `None`. In this case, as after an error, cleans up the parts that have already started.
    ///
    /// # Errors
    /// Returns an error if a program can't be built, or if the stack or one of its parts can't be started.
    pub async fn start<T>(
        needs: &StackPrograms,
        open: impl FnOnce() -> Result<StackIdentity>,
        start: impl AsyncFnOnce(&Arc<StackIdentity>, Tools) -> Result<T>,
        given_up: impl Future<Output = ()>,
    ) -> Result<Option<(Self, T)>> {
        let mut given_up = std::pin::pin!(given_up);
        let tools = tokio::select! {
            tools = ensure_programs(needs.given.clone(), needs.further.clone()) => tools?,
            () = &mut given_up => return Ok(None),
        };
        let stack = Arc::new(open()?);
        let guarded = Self { guard: Guard::start(&needs.exe, &stack)?, stack: stack.clone() };
        let parts = tokio::select! {
            parts = start(&stack, tools) => parts.map(Some),
            () = given_up => Ok(None),
        };
        if let Ok(Some(parts)) = parts {
            return Ok(Some((guarded, parts)));
        }
        guarded.clean_up().await;
        parts.map(|_| None)
    }

    /// Returns the stack's ID and folder, which all its processes share.
    pub fn stack(&self) -> &Arc<StackIdentity> {
        &self.stack
    }

    /// Makes the guard kill the remaining processes, and waits for the guard.
    pub async fn clean_up(self) {
        let Self { guard, stack } = self;
        match tokio::task::spawn_blocking(move || guard.finish()).await {
            Ok(Ok(())) => {}
            failed => {
                tracing::error!(?failed, folder = %stack.folder().display(), "the guard process could not clean up");
            }
        }
    }
}

/// Finds or builds the control plane's programs, and the programs in `further`.
///
/// # Errors
/// Returns an error if a program can't be built.
pub async fn ensure_programs(given: BTreeMap<String, PathBuf>, further: Vec<&'static Tool>) -> Result<Tools> {
    let wanted = tools::Options { given, cache: None, further };
    let ensured =
        tokio::task::spawn_blocking(move || tools::ensure(&wanted, tools::progress().as_ref())).await?;
    Ok(ensured?)
}
