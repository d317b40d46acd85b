//! `layercake bundle`: what a supporter needs to see why a cluster or a VM does not come up, in one file.
//!
//! A bundle is safe in three steps. Of objects only the fields of an allow-list are taken (`allowlist`, `select`).
//! Every text then goes through a scrubber (`scrub`), which takes out the values of the Secrets that were read, and
//! what looks like a secret (`shapes`). What was left out and taken out is listed in `contents.txt` (`contents`).
//! Nothing is changed in the cluster, and the values of Secrets are held in memory only.

mod allowlist;
mod archive;
mod contents;
mod destination;
mod logs;
mod objects;
mod parts;
mod scrub;
mod secret_values;
mod secrets;
mod select;
mod shapes;
mod source;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::process::Command;

use crate::args::Bundle;
use crate::exit::{ExitStatus, status_of};
use crate::interrupts::until_interrupted;
use crate::output::say;
use archive::{Archive, recipient};
use contents::{Contents, total};
use destination::Destination;
use parts::Parts;
use scrub::{Scrubbed, Scrubber};
use secrets::SecretsRead;
use source::{Scope, Source, answer};

/// Makes a bundle, and says on standard error where it is and what it lacks. If it is interrupted, nothing is left.
pub async fn run(args: Bundle) -> ExitStatus {
    until_interrupted(make(args).map(status_of), || {}).await
}

async fn make(args: Bundle) -> Result<()> {
    let recipients = args.recipients.iter().map(|text| recipient(text)).collect::<Result<Vec<_>>>()?;
    let now = Timestamp::now();
    let destination =
        Destination::open(args.output_file.as_deref(), args.force, !recipients.is_empty(), now)?;
    let client = args.cluster.client().await?;
    let mut archive = Archive::new(destination, &recipients, u64::try_from(now.as_second())?)?;
    let options = Options {
        doctor: (!args.no_doctor).then(|| doctor(&args)).transpose()?,
        namespaces: args.namespaces,
        since: args.since,
        kubeconfig: args.cluster.kubeconfig,
    };
    let Collected { page, missed } = collect(client, options, now, &mut archive).await?;
    let (files, scrubbed) = (archive.entries.len(), total(&archive.entries).values().sum::<usize>());
    let place = archive.finish(&page)?.finish()?;
    say!("Wrote {files} files to {place}; removed secrets in {scrubbed} places.");
    for line in missed {
        say!("Not in it: {line}");
    }
    say!(
        "contents.txt lists what the bundle contains and what it leaves out. Review the bundle before you hand it over."
    );
    Ok(())
}

/// What is collected.
struct Options {
    namespaces: Vec<String>,
    since: Option<Duration>,
    kubeconfig: Option<PathBuf>,
    doctor: Option<Command>,
}

/// What remains to be written, and to be shown.
struct Collected {
    page: Scrubbed,
    missed: Vec<String>,
}

/// Writes everything but the list of contents.
async fn collect<W: Write>(
    client: Client,
    options: Options,
    now: Timestamp,
    archive: &mut Archive<W>,
) -> Result<Collected> {
    let Options { namespaces, since, kubeconfig, doctor } = options;
    let mut contents = Contents::default();
    let version = answer(client.apiserver_version())
        .await
        .context("cannot reach the API server: check --kubeconfig and --context")?;
    let source = Source { scope: scope(&client, namespaces, &mut contents).await?, client };
    contents.made.push(format!("Made by layercake {} at {now}", env!("CARGO_PKG_VERSION")));
    contents.made.push(format!("API server: Kubernetes {}", version.git_version));
    contents.made.push(match &source.scope {
        Scope::All => "Namespaces: all".to_owned(),
        Scope::Only(names) => format!("Namespaces: {}, and those of the programs", names.join(", ")),
    });
    let scrubber = write_secrets(&source, archive, &mut contents).await?;
    let mut parts = Parts { source: &source, scrubber: &scrubber, archive, contents: &mut contents, since };
    let clusters = parts.write_objects(&allowlist::rules()?).await?;
    parts.write_trees(clusters).await?;
    parts.write_pod_logs().await?;
    parts.write_process_logs(kubeconfig.as_deref())?;
    if let Some(command) = doctor {
        parts.write_diagnosis(command).await?;
    }
    let page = scrubber.text(&contents.text(&archive.entries, archive.omitted));
    let missed = contents.missed().iter().map(|line| scrubber.text(line).text).collect();
    Ok(Collected { page, missed })
}

/// Reads the Secrets, writes what may be seen of them, and has their values looked for in everything else.
async fn write_secrets<W: Write>(
    source: &Source,
    archive: &mut Archive<W>,
    contents: &mut Contents,
) -> Result<Scrubber> {
    let SecretsRead { values, objects, tables } = secrets::read(source, contents).await;
    contents.made.push(format!(
        "Removed wherever they occur: {} values from {objects} Secrets and bootstrap ConfigMaps, and texts that look like secrets",
        values.len(),
    ));
    if values.omitted > 0 {
        contents.shorten(&format!("{} more values of Secrets were not searched for", values.omitted));
    }
    let scrubber = Scrubber::new(&values)?;
    for (namespace, table) in &tables {
        archive.add(&format!("namespaces/{namespace}/secrets.txt"), scrubber.text(table))?;
    }
    Ok(scrubber)
}

/// The namespaces that are named, else all; who may not list namespaces gets that of the context.
async fn scope(client: &Client, named: Vec<String>, contents: &mut Contents) -> Result<Scope> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    if named.is_empty() {
        let listed = answer(namespaces.list_metadata(&ListParams::default().limit(1))).await;
        let Err(error) = listed else { return Ok(Scope::All) };
        let own = client.default_namespace().to_owned();
        contents.miss(&format!("namespaces other than {own} (add them with -n)"), None, &error);
        return Ok(Scope::Only(vec![own]));
    }
    for name in &named {
        // Who may not look finds out when it is read.
        if let Ok(None) = answer(namespaces.get_opt(name)).await {
            bail!("namespace {name} does not exist: list them with `kubectl get namespaces`");
        }
    }
    Ok(Scope::Only(named))
}

/// The command that runs the checks: as a process of its own, so that one that hangs costs no more than its report.
fn doctor(args: &Bundle) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find the path of this program")?);
    command.arg("doctor").stdin(Stdio::null()).kill_on_drop(true);
    for (flag, value) in [
        ("--kubeconfig", args.cluster.kubeconfig.as_deref().map(Path::as_os_str)),
        ("--context", args.cluster.context.as_deref().map(OsStr::new)),
    ] {
        if let Some(value) = value {
            command.arg(flag).arg(value);
        }
    }
    Ok(command)
}
