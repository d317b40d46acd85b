//! `layercake up`: the whole cake on this machine, and clusters brought up on it.

pub mod follow;
pub mod manifest;
pub mod prepare;
pub mod progress;
pub mod report;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::Client;
use serde_json::Value;

use crate::args::{Output, Up};
use crate::background;
use crate::session::Session;
use crate::stack::{self, Stack};

/// Exit status for a command line or a manifest that can't be understood.
const USAGE: u8 = 2;

/// Runs `up` as the command line asks.
pub async fn run(args: Up) -> ExitCode {
    let documents = match manifests(&args) {
        Ok(documents) => documents,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::from(USAGE);
        }
    };
    let outcome = if args.background {
        background::serve(&args).await.map(|()| true)
    } else if args.detach {
        detached(&args, &documents).await
    } else {
        attached(&args, &documents).await
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn manifests(args: &Up) -> Result<Vec<Value>> {
    let read = args.manifests.iter().map(|path| manifest::read(path));
    Ok(read.collect::<Result<Vec<_>>>()?.concat())
}

/// Runs the stack as this process's own; true if every cluster runs.
async fn attached(args: &Up, documents: &[Value]) -> Result<bool> {
    let started = Instant::now();
    let options = stack::Options::of(args)?;
    let stack = tokio::select! {
        stack = Stack::start(&options) => stack?,
        () = interrupted() => return Ok(false),
    };
    let session = stack.session();
    let stack_seconds = started.elapsed().as_secs_f64();
    let outcome = tokio::select! {
        outcome = brought_up(args, documents, &session, stack_seconds) => outcome,
        () = interrupted() => Ok(false),
        died = stack.died() => Err(died),
    };
    if !args.once && matches!(outcome, Ok(true)) {
        eprintln!("Everything stays up until you press Ctrl-C.");
        tokio::select! {
            () = interrupted() => {}
            died = stack.died() => {
                stack.stop().await;
                return Err(died);
            }
        }
    }
    stack.stop().await;
    outcome
}

/// Starts a stack in the background, or says that one runs already; true if every cluster runs.
async fn detached(args: &Up, documents: &[Value]) -> Result<bool> {
    let started = Instant::now();
    let session = background::started(args).await?;
    brought_up(args, documents, &session, started.elapsed().as_secs_f64()).await
}

/// Applies the manifests on a running stack, follows their clusters and reports.
async fn brought_up(args: &Up, documents: &[Value], session: &Session, stack_seconds: f64) -> Result<bool> {
    let json = args.output == Some(Output::Json);
    if !json {
        println!("{}", session.exports());
    }
    eprintln!("The stack is ready after {stack_seconds:.1} s.");
    eprintln!("Everything is in {}", session.folder.display());
    let client = session.client().await?;
    let clusters = applied(&client, documents, session).await?;
    let reports = follow::followed(&client, &clusters, args.timeout).await?;
    for cluster in &reports {
        if let Some(path) = session.kubeconfig_written(&client, &cluster.namespace, &cluster.name).await? {
            eprintln!("kubeconfig of {}/{}: {}", cluster.namespace, cluster.name, path.display());
        }
    }
    let all_run = reports.iter().all(follow::ClusterReport::is_running);
    let report = report::Report::made(session, stack_seconds, reports).await?;
    if json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        eprint!("{}", report.text());
    }
    Ok(all_run)
}

/// Sets up what the clusters take for granted, applies every document, and names the clusters.
async fn applied(client: &Client, documents: &[Value], session: &Session) -> Result<Vec<(String, String)>> {
    if documents.is_empty() {
        return Ok(Vec::new());
    }
    for made in prepare::prepared(client, documents, &session.placement()).await? {
        eprintln!("prepared {made}");
    }
    for document in documents {
        prepare::applied(client, document).await?;
        let (namespace, name) = manifest::key(document);
        eprintln!("applied {} {namespace}/{name}", document["kind"].as_str().unwrap_or_default());
    }
    Ok(documents.iter().filter(|document| manifest::is_cluster(document)).map(manifest::key).collect())
}

/// Comes back when the user or the system asks us to end.
pub async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without signals there is nothing to wait for; the guard still ends what is left behind.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// Waits until `is_so` holds, asking every 100 ms.
pub(crate) async fn until<F>(what: &str, deadline: Duration, mut is_so: impl FnMut() -> F) -> Result<()>
where
    F: Future<Output = Result<bool>>,
{
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    let waiting = async {
        loop {
            ticks.tick().await;
            if is_so().await? {
                return Ok(());
            }
        }
    };
    tokio::time::timeout(deadline, waiting)
        .await
        .with_context(|| format!("{what}: not within {deadline:?}"))?
}
