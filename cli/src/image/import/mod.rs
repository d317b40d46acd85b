//! `layercake image import`: imports an OVA into a content library, at most once.
//!
//! | file | contents |
//! |---|---|
//! | `ova.rs` | reads the OVA and verifies it against its manifest, before vCenter is changed |
//! | `item.rs` | finds, creates and removes the library item, and recognizes items from earlier imports |
//! | `fill.rs` | uploads the item's files, or completes an earlier upload |
//! | `progress.rs` | shows the progress |
//! | `appearance.rs` | makes the VM operator read the library, and waits for the image and its release |
//!
//! The item's description contains the OVA's SHA-256 from creation on, and an item gets all its files in one step. An
//! interrupted run therefore leaves no item, an empty item with Layercake's mark, or a complete item, and the next run
//! can see which.

pub mod appearance;
mod fill;
mod item;
mod ova;
mod progress;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use kit::diagnosis::{CheckOutcome, Diagnosis};
use serde::Serialize;
use vmop::doctor::Account;
use vsphere::Client;

use crate::args::{ImageImport, Output};
use crate::files::read_password;
use crate::terminal::exit::{ExitStatus, failed, status_of_error, with_causes};
use crate::terminal::interrupts::Interrupts;
use crate::terminal::output::{say, write_out};
use appearance::Appearance;
use fill::{Filling, OthersWork, may_help_again};
use item::{FoundItem, OthersItem, WantedItem, find_library};
use ova::Ova;
use progress::{TransferProgress, megabytes};

/// The interval between requests that keep the upload session alive.
const KEEP_ALIVE: Duration = Duration::from_mins(1);
/// The timeout for removing an incomplete item.
const CLEANUP: Duration = Duration::from_secs(30);

/// The output of a successful import.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    library: String,
    name: String,
    item: String,
    sha256: String,
    bytes: u64,
    /// False if the item already existed.
    imported: bool,
    /// The item's image and release, if the command waited for them.
    #[serde(flatten)]
    appearance: Option<Appearance>,
}

/// Imports an OVA. With `--wait`, waits for its image and release. An interrupt removes the incomplete item.
pub async fn run(args: ImageImport) -> ExitStatus {
    match import(&args).await {
        Ok(Some(report)) => {
            write_out(&shown(&report, args.output));
            let without =
                report.appearance.as_ref().and_then(|appearance| appearance.without_release.as_ref());
            match without {
                Some(why) => failed(&anyhow!(
                    "{}/{} is imported, but provides no TanzuKubernetesRelease: {why}. The item stays",
                    report.library,
                    report.name
                )),
                None => ExitStatus::Done,
            }
        }
        Ok(None) => ExitStatus::Interrupted,
        Err(error) => {
            say!("error: {}{}", with_causes(&error), advice(&error));
            status_of_error(&error)
        }
    }
}

fn shown(report: &Report, output: Option<Output>) -> String {
    let Report { library, name, item, bytes, imported, appearance, .. } = report;
    let mut lines = vec![match output {
        Some(Output::Json) => return format!("{}\n", serde_json::json!(report)),
        None if *imported => format!("{library}/{name}: imported, {} MB, item {item}", megabytes(*bytes)),
        None => format!("{library}/{name}: already imported, item {item}"),
    }];
    if let Some(Appearance { image, release, .. }) = appearance {
        lines.push(format!("VirtualMachineImage {image}"));
        lines.extend(release.iter().map(|release| format!("TanzuKubernetesRelease {release}")));
    }
    lines.join("\n") + "\n"
}

/// Returns the remedy for a vCenter error.
fn advice(error: &anyhow::Error) -> String {
    match error.downcast_ref::<vsphere::Error>() {
        Some(error) if item::has_type(error, "Unauthorized") => {
            ". Give the user the privileges for imports that docs/vcenter.md lists, or pass another user with --user"
                .to_owned()
        }
        Some(error) if error.retryable() => {
            ". Run the command again: it continues where it stopped".to_owned()
        }
        Some(error) if error.fault().is_none() => format!(". {}", error.advice().trim_end_matches('.')),
        _ => String::new(),
    }
}

/// Imports the OVA, and waits for its image and release with `--wait`. Returns `None` if the command was interrupted.
async fn import(args: &ImageImport) -> Result<Option<Report>> {
    let mut interrupts = Interrupts::listening()?;
    let prepared = tokio::select! {
        prepared = prepare(args) => prepared?,
        () = interrupts.next() => return Ok(None),
    };
    let (ova, vcenter, wanted) = prepared;
    let result = bring(&vcenter, &ova, &wanted, KEEP_ALIVE, &mut interrupts).await;
    vcenter.logout().await;
    match result? {
        Some(report) => read_library(args, report, &mut interrupts).await,
        None => Ok(None),
    }
}

/// Tells the VM operator to read the library, and waits for image and release with `--wait`. Returns `None` if the
/// command was interrupted.
async fn read_library(
    args: &ImageImport,
    mut report: Report,
    interrupts: &mut Interrupts,
) -> Result<Option<Report>> {
    let client = args.operator.cluster.client().await?;
    if let Err(error) = appearance::request_read(&client, &args.operator.operator_namespace).await {
        say!(
            "the item exists, but the request to the VM operator to read the library failed ({error:#}). The VM operator finds the item when it next reads the library, after at most --image-sync-period"
        );
    }
    if !args.wait {
        return Ok(Some(report));
    }
    say!("waiting for the image and its release");
    tokio::select! {
        appearance = appearance::wait(&client, &report.library, &report.item, args.timeout) => {
            report.appearance = Some(appearance?);
            Ok(Some(report))
        }
        () = interrupts.next() => {
            say!("the item {} exists, and its image will appear without this command", report.name);
            Ok(None)
        }
    }
}

/// Reads the OVA, connects, and finds the library, without changing anything.
async fn prepare(args: &ImageImport) -> Result<(Ova, Client, WantedItem)> {
    let name = item_name(args)?;
    let ova = read(&args.file).await?;
    if !ova.has_manifest {
        say!("{} has no manifest, so its files can't be verified", args.file.display());
    }
    let vcenter = connect(args).await?;
    let library = find_library(&vcenter, &args.library).await?;
    let file = args.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let wanted = WantedItem { library, name, sha256: ova.sha256.clone(), file };
    Ok((ova, vcenter, wanted))
}

/// Returns the item's name, which defaults to the file name without extension.
fn item_name(args: &ImageImport) -> Result<String> {
    let of_file = || args.file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    check_name(args.name.clone().or_else(of_file).unwrap_or_default())
}

fn check_name(name: String) -> Result<String> {
    match name.chars().count() {
        1..=80 if !name.contains(|c: char| c.is_ascii_alphanumeric()) => bail!(
            "{name:?} has no letter a to z and no digit, of which the name of its VirtualMachineImage could be made. Pass another name with --name"
        ),
        1..=80 if !name.contains(['/', '\\']) => Ok(name),
        _ => bail!(
            "{name:?} is not a valid name for a library item: a name has 1 to 80 characters and no slash. Pass one with --name"
        ),
    }
}

async fn read(path: &Path) -> Result<Ova> {
    let size =
        tokio::fs::metadata(path).await.with_context(|| format!("cannot read {}", path.display()))?.len();
    let progress = TransferProgress::begin("reading", size);
    let (path, done) = (path.to_owned(), Arc::clone(&progress.done));
    progress.shown(tokio::task::spawn_blocking(move || Ova::read(&path, &done))).await?
}

/// Connects to the vCenter in the VM operator's configuration.
async fn connect(args: &ImageImport) -> Result<Client> {
    let options = args.operator.doctor_options()?;
    let account = match (&args.user, &args.password_file) {
        (Some(user), Some(file)) => Some(Account { username: user.clone(), password: read_password(file)? }),
        _ => None,
    };
    let client = args.operator.cluster.client().await?;
    vmop::doctor::connect(&client, &options, account).await.map_err(|found| {
        let wrong = found.iter().filter(|diagnosis| diagnosis.outcome == CheckOutcome::Error);
        let texts: Vec<_> =
            wrong.map(|Diagnosis { found, remedy, .. }| format!("{found}. {remedy}")).collect();
        anyhow::anyhow!(texts.join("; "))
    })
}

/// Imports the item. An interrupt or a permanent error removes an incomplete item. Returns `None` after an interrupt.
async fn bring(
    vcenter: &Client,
    ova: &Ova,
    wanted: &WantedItem,
    keep_alive: Duration,
    interrupts: &mut Interrupts,
) -> Result<Option<Report>> {
    let progress = TransferProgress::begin("uploading", ova.size());
    let outcome = tokio::select! {
        outcome = brought(vcenter, ova, wanted, keep_alive, &progress) => outcome,
        () = interrupts.next() => {
            tokio::select! {
                () = clean_up(vcenter, wanted) => {}
                () = interrupts.next() => say!("not cleaned up; run the command again to continue"),
            }
            return Ok(None);
        }
    };
    if let Err(error) = &outcome
        && !may_help_again(error)
        && !error.is::<OthersWork>()
        && !error.is::<OthersItem>()
    {
        clean_up(vcenter, wanted).await;
    }
    let (item, imported) = outcome?;
    let WantedItem { library, name, sha256, .. } = wanted;
    let (library, name, sha256) = (library.name.clone(), name.clone(), sha256.clone());
    Ok(Some(Report { library, name, item, sha256, bytes: ova.size(), imported, appearance: None }))
}

/// Uploads the OVA unless a complete item exists. Returns the item's ID, and true if this run uploaded the OVA.
async fn brought(
    vcenter: &Client,
    ova: &Ova,
    wanted: &WantedItem,
    keep_alive: Duration,
    progress: &TransferProgress,
) -> Result<(String, bool)> {
    let found = match wanted.find(vcenter).await? {
        FoundItem::Nothing => wanted.create(vcenter).await?,
        FoundItem::Begun(item) => {
            say!("an import of this OVA was interrupted; continuing with item {item}");
            FoundItem::Begun(item)
        }
        found @ FoundItem::Whole(_) => found,
    };
    match found {
        FoundItem::Whole(item) => Ok((item, false)),
        FoundItem::Begun(item) => {
            let filling = Filling { vcenter, ova, progress, keep_alive };
            progress.shown(filling.fill(&item)).await?;
            Ok((item, true))
        }
        FoundItem::Nothing => bail!("the item {} was removed during the import", wanted.name),
    }
}

/// Removes an incomplete item, and reports the result.
async fn clean_up(vcenter: &Client, wanted: &WantedItem) {
    match tokio::time::timeout(CLEANUP, wanted.remove_begun(vcenter)).await {
        Ok(Ok(true)) => say!("removed the item {}, which has no files", wanted.name),
        Ok(Ok(false)) => {}
        Ok(Err(error)) => say!("the item {} remains, without files: {error:#}", wanted.name),
        Err(_) => {
            say!("the item {} may remain, without files: vCenter did not answer in time", wanted.name);
        }
    }
}
