//! `layercake up`: starts a complete stack on this machine, and brings up clusters on it.

pub mod detached;
pub mod prepare;
mod releases;
pub mod report;

use std::time::{Duration, Instant};

use anyhow::Result;
use kube::Client;
use serde_json::Value;

use crate::args::{NodeKind, Output, Up};
use crate::describe::{self, print};
use crate::follow;
use crate::follow::cluster_report::ClusterReport;
use crate::kube::apply;
use crate::kube::manifest;
use crate::lint;
use crate::local::session::StackSession;
use crate::local::stack::{Options, Stack};
use crate::terminal::exit::{ExitStatus, failed, with_causes};
use crate::terminal::interrupts::Interrupts;
use crate::terminal::output::{say, write_err, write_json, write_out, write_over};

/// The default timeout for clusters with simulated nodes.
const SIMULATED: Duration = Duration::from_mins(15);
/// The default timeout for clusters with QEMU nodes. With emulation, three control plane nodes come up one after the
/// other.
const MACHINES: Duration = Duration::from_hours(1);

/// Runs `layercake up`.
pub async fn run(mut args: Up) -> ExitStatus {
    let documents = match read_manifests(&args) {
        Ok(documents) => documents,
        Err(error) => return failed(&error),
    };
    add_releases(&mut args, &documents);
    let ended = match Interrupts::listening() {
        Err(error) => Err(error),
        Ok(interrupts) if args.background => {
            detached::serve(&args, interrupts).await.map(|()| ExitStatus::Done)
        }
        Ok(interrupts) if args.detach => run_detached(&args, &documents, interrupts).await,
        Ok(interrupts) => run_attached(&args, &documents, interrupts).await,
    };
    match ended {
        // After the stack has stopped, its clusters no longer come up.
        Ok(ExitStatus::NotYet) if !args.detach => ExitStatus::Failed,
        Ok(status) => status,
        Err(error) => failed(&error),
    }
}

/// Reads the manifests and checks them before the stack starts.
///
/// # Errors
/// Returns an error if a manifest has an error that `lint` finds. The API server would only refuse it after the stack
/// has started.
fn read_manifests(args: &Up) -> Result<Vec<Value>> {
    let read = || -> Result<_> {
        let files = manifest::read_files(&args.manifests)?;
        let documents = manifest::documents_of(&files)?;
        Ok((files, documents))
    };
    let (files, documents) = read().map_err(|error| ExitStatus::Usage.error(with_causes(&error)))?;
    let errors = lint::list_errors(&files, |_| true);
    if errors.is_empty() {
        return Ok(documents);
    }
    write_err(&errors);
    Err(ExitStatus::Refused
        .error("no stack was started, because of these errors. Correct the manifests".to_owned()))
}

/// Adds the releases that the manifests name to the simulated library.
fn add_releases(args: &mut Up, documents: &[Value]) {
    if args.nodes == NodeKind::Simulated {
        for (named, release) in releases::missing(documents, &args.releases) {
            say!(
                "Adding release {} to the simulated library, because a manifest names it ({named})",
                release.version()
            );
            args.releases.push(release);
        }
    }
}

/// Runs the stack in this process.
async fn run_attached(args: &Up, documents: &[Value], mut interrupts: Interrupts) -> Result<ExitStatus> {
    let started = Instant::now();
    let options = Options::of(args)?;
    let given_up = async {
        interrupts.next().await;
        say_stopping();
    };
    let Some(stack) = Stack::start_unless(&options, given_up).await? else {
        return Ok(ExitStatus::Interrupted);
    };
    let session = stack.session();
    let run = Run::new(args, session, started.elapsed());
    let outcome = match run.complete(documents, &mut interrupts, stack.died()).await {
        Ok(ended) if ended != ExitStatus::Interrupted && !args.once => {
            say!("The stack runs until you press Ctrl-C.");
            tokio::select! {
                () = interrupts.next() => {
                    say_stopping();
                    Ok(ended)
                }
                died = stack.died() => Err(died),
            }
        }
        outcome => outcome,
    };
    if matches!(outcome, Ok(ExitStatus::Interrupted)) {
        say_stopping();
    }
    stack.stop().await;
    outcome
}

/// Starts a stack in the background and brings up the clusters on it. Returns an error if a stack is already running in
/// the background.
async fn run_detached(args: &Up, documents: &[Value], mut interrupts: Interrupts) -> Result<ExitStatus> {
    let started = Instant::now();
    let Some(session) = detached::start(args, interrupts.next()).await? else {
        return Ok(ExitStatus::Interrupted);
    };
    let ended = detached::ended(session.pid);
    let run = Run::new(args, session, started.elapsed());
    let outcome = run.complete(documents, &mut interrupts, ended).await;
    if detached::folder().is_some() {
        say!("The stack runs until `layercake down`.");
    }
    outcome
}

/// Prints that the stack is stopping, over the `^C` that the terminal has echoed.
fn say_stopping() {
    write_over("Stopping.");
}

/// One `up` command on a running stack: its flags, and the results for its clusters.
struct Run<'a> {
    args: &'a Up,
    session: StackSession,
    stack_seconds: f64,
    clusters: Vec<ClusterReport>,
    refused: bool,
    /// True if the stack has ended. Its last processes may still be ending.
    has_ended: bool,
}

impl<'a> Run<'a> {
    fn new(args: &'a Up, session: StackSession, stack: Duration) -> Self {
        let stack_seconds = stack.as_secs_f64();
        Self { args, session, stack_seconds, clusters: Vec::new(), refused: false, has_ended: false }
    }

    fn is_json(&self) -> bool {
        self.args.output == Some(Output::Json)
    }

    fn timeout(&self) -> Duration {
        let usual = if self.session.machines.is_some() { MACHINES } else { SIMULATED };
        self.args.timeout.unwrap_or(usual)
    }

    fn status(&self) -> ExitStatus {
        if self.clusters.iter().any(ClusterReport::is_awaited) {
            ExitStatus::NotYet
        } else if self.refused {
            ExitStatus::Refused
        } else {
            ExitStatus::Done
        }
    }

    /// Brings up the clusters and prints the report, unless the user interrupts the command. `died` resolves when the
    /// stack ends. If both steps fail, returns the first error.
    async fn complete(
        mut self,
        documents: &[Value],
        interrupts: &mut Interrupts,
        died: impl Future<Output = anyhow::Error>,
    ) -> Result<ExitStatus> {
        let outcome = tokio::select! {
            outcome = self.brought_up(documents) => outcome.map(|()| self.status()),
            () = interrupts.next() => return Ok(ExitStatus::Interrupted),
            died = died => {
                self.has_ended = true;
                Err(died)
            }
        };
        let reported = self.report().await;
        outcome.and_then(|status| reported.map(|()| status))
    }

    /// Applies the manifests and follows their clusters.
    async fn brought_up(&mut self, documents: &[Value]) -> Result<()> {
        if !self.is_json() {
            write_out(&format!("{}\n", self.session.exports()));
        }
        say!("The stack is ready after {:.1} s.", self.stack_seconds);
        say!("All files are in {}", self.session.folder.display());
        if let Some(accelerator) = self.session.machines {
            say!("Nodes are machines, run by {accelerator}; `layercake console NAME` shows one's console");
        }
        if documents.is_empty() {
            return Ok(());
        }
        let client = self.session.client().await?;
        self.apply(&client, documents).await?;
        let timeout = self.timeout();
        follow::follow_clusters(&client, &mut self.clusters, timeout).await?;
        for cluster in &mut self.clusters {
            let (namespace, name) = (&cluster.namespace, &cluster.name);
            if let Some(path) = self.session.write_kubeconfig(&client, namespace, name).await? {
                say!("kubeconfig of {namespace}/{name}: {}", path.display());
                cluster.kubeconfig = Some(path);
            }
            if !cluster.is_running()
                && let Ok(description) = describe::describe(&client, &cluster.namespace, &cluster.name).await
            {
                write_err(&print::table(&description.tree, jiff::Timestamp::now(), None));
            }
        }
        Ok(())
    }

    /// Prepares the namespaces for the clusters, and applies every document. A refused document doesn't stop the
    /// others.
    async fn apply(&mut self, client: &Client, documents: &[Value]) -> Result<()> {
        for made in prepare::prepare_namespaces(client, documents, &self.session.placement()).await? {
            say!("prepared {made}");
        }
        for document in documents {
            let (namespace, name) = apply::key(document);
            let applied = apply::apply(client, document).await;
            match &applied {
                Ok(()) => {
                    say!("applied {} {namespace}/{name}", document["kind"].as_str().unwrap_or_default());
                }
                Err(error) => {
                    say!("error: {}", with_causes(error));
                    self.refused = true;
                }
            }
            if manifest::is_cluster(document) {
                self.clusters.push(match applied {
                    Ok(()) => ClusterReport::new(&namespace, &name),
                    Err(error) => ClusterReport::refused(&namespace, &name, &error),
                });
            }
        }
        Ok(())
    }

    /// Prints the report as text or as JSON.
    async fn report(&mut self) -> Result<()> {
        let clusters = std::mem::take(&mut self.clusters);
        let session = Some(&self.session).filter(|_| !self.has_ended);
        let memory = session.map(StackSession::memory).unwrap_or_default();
        let report = report::UpReport::made(&self.session, memory, self.stack_seconds, clusters).await;
        if self.is_json() {
            write_json(&report)?;
        } else {
            write_err(&report.text());
        }
        Ok(())
    }
}
