//! `layercake bundle`: collects the data that support needs to debug a cluster or VM into one archive.
//!
//! Secrets are kept out in two steps. `allowlist` and `select` take only listed fields from objects. The scrubber
//! (`scrub`) then removes Secret values, and text that looks like a secret (`shapes`), from every file. `contents.txt`
//! (`contents`) lists everything that was left out or removed. The command only reads from the cluster, and keeps Secret
//! values only in memory.

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

use crate::args::BundleFlags;
use crate::terminal::exit::{ExitStatus, status_of};
use crate::terminal::interrupts::until_interrupted;
use crate::terminal::output::say;
use archive::{Archive, recipient};
use contents::{Contents, total};
use destination::Destination;
use parts::BundleContext;
use scrub::{Scrubbed, Scrubber};
use secrets::SecretsRead;
use source::{NamespaceScope, ObjectSource, answer};

/// Writes a bundle, then prints its path and the missing parts to stderr. An interrupted run doesn't leave a file behind.
pub async fn run(args: BundleFlags) -> ExitStatus {
    until_interrupted(make(args).map(status_of), || {}).await
}

async fn make(args: BundleFlags) -> Result<()> {
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

/// The collection settings, apart from the destination.
struct Options {
    namespaces: Vec<String>,
    since: Option<Duration>,
    kubeconfig: Option<PathBuf>,
    doctor: Option<Command>,
}

/// The results of [`collect`]: the text of `contents.txt`, and the parts that are missing from the bundle.
struct Collected {
    page: Scrubbed,
    missed: Vec<String>,
}

/// Writes all files except `contents.txt`, whose text it returns.
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
    let source = ObjectSource { scope: scope(&client, namespaces, &mut contents).await?, client };
    contents.made.push(format!("Made by layercake {} at {now}", env!("CARGO_PKG_VERSION")));
    contents.made.push(format!("API server: Kubernetes {}", version.git_version));
    contents.made.push(match &source.scope {
        NamespaceScope::All => "Namespaces: all".to_owned(),
        NamespaceScope::Only(names) => format!("Namespaces: {}, and those of the programs", names.join(", ")),
    });
    let scrubber = write_secrets(&source, archive, &mut contents).await?;
    let mut parts =
        BundleContext { source: &source, scrubber: &scrubber, archive, contents: &mut contents, since };
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

/// Reads the Secrets, writes a table per namespace, and returns a scrubber that searches for their values.
async fn write_secrets<W: Write>(
    source: &ObjectSource,
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

/// Returns the named namespaces, or all if none are named. If the user can't list namespaces, falls back to the
/// context's namespace. Fails if a named namespace doesn't exist.
async fn scope(client: &Client, named: Vec<String>, contents: &mut Contents) -> Result<NamespaceScope> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    if named.is_empty() {
        let listed = answer(namespaces.list_metadata(&ListParams::default().limit(1))).await;
        let Err(error) = listed else { return Ok(NamespaceScope::All) };
        let own = client.default_namespace().to_owned();
        contents.miss(&format!("namespaces other than {own} (add them with -n)"), None, &error);
        return Ok(NamespaceScope::Only(vec![own]));
    }
    for name in &named {
        // If the user can't get the namespace, reading its objects reports that later.
        if let Ok(None) = answer(namespaces.get_opt(name)).await {
            bail!("namespace {name} does not exist: list them with `kubectl get namespaces`");
        }
    }
    Ok(NamespaceScope::Only(named))
}

/// Returns the `layercake doctor` command. It runs as a separate process, so that only its report is missing from the
/// bundle if it hangs.
fn doctor(args: &BundleFlags) -> Result<Command> {
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
