//! Starts bootstrap clusters, permanently or for one command.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use components::catalogue::LAYERCAKE;
use kit::diagnosis::CheckOutcome;
use kube::Client;

use super::progress::StartProgress;
use super::summary;
use crate::args::{BootstrapStart, CredentialFlags};
use crate::doctor;
use crate::files::read_text;
use crate::init::given::{GivenSite, operator_flags};
use crate::init::install::InstallationWriter;
use crate::init::programs::flags::local_arguments;
use crate::kube::connection::client;
use crate::kubeconfig;
use crate::local::configure::{WITHIN, apply_site, wait_for_images};
use crate::local::guarded::ensure_programs;
use crate::local::simulate;
use crate::state::folder::{AppliedPart, BootstrapFolder, SiteSettings};
use crate::state::record::Record;
use crate::state::trouble;
use crate::terminal::exit::{ExitStatus, refuse};
use crate::terminal::output::{say, write_err};

/// The timeout for the process to start. The process might first have to build programs, if an interrupted command
/// didn't finish that.
const START: Duration = Duration::from_mins(40);

/// A running bootstrap cluster.
pub struct Opened {
    folder: BootstrapFolder,
    /// The path to the administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// True if a command started the bootstrap cluster and will stop it.
    is_transient: bool,
    /// The lock that a command holds while it starts or stops the cluster.
    _lock: Option<File>,
}

/// Runs `layercake bootstrap start`.
pub async fn start(args: &BootstrapStart) -> Result<()> {
    let folder = BootstrapFolder::of(&args.name)?;
    let name = &args.name;
    let file = kubeconfig::users_file(args.kubeconfig.as_deref())?;
    let replaces_password = args.filename.is_empty() && args.credentials.password_file.is_some();
    let given = if replaces_password { None } else { GivenSite::read(&args.filename, &args.credentials)? };
    let began = Instant::now();
    let opened = start_with(&folder, given.as_ref(), args.nodes_pull_images, false).await?;
    let client = client(Some(&opened.kubeconfig), None).await?;
    say!("{name}: ready after {:.1} s, in {}", began.elapsed().as_secs_f64(), folder.path().display());
    if replaces_password {
        replace_credentials(&client, &args.credentials).await?;
        say!("{name}: the VM operator has the new password of vCenter");
    }
    write_err(&doctor::problems(&client, &operator_flags(None).doctor_options()?).await);
    summary::warn_of_certificates(&client).await?;
    if folder.is_from_elsewhere()? {
        say!(
            "warning: the folder of {name} comes from another machine. If the original runs there, stop one of them: two management clusters must not manage the same VMs"
        );
    }
    let text = read_text(&opened.kubeconfig)?;
    let context = kubeconfig::add_bootstrap(name, &text, &file).await?;
    say!("{name}: kubectl uses context {context} of {} now", file.display());
    say!(
        "{name} runs in the background until `layercake bootstrap stop {name}`. Its VMs run on after that, but nothing repairs them."
    );
    Ok(())
}

/// Replaces the VM operator's vCenter credentials if vCenter accepts the new credentials.
async fn replace_credentials(client: &Client, flags: &CredentialFlags) -> Result<()> {
    let site = GivenSite::of_cluster(client, flags).await?;
    site.check(client).await?;
    InstallationWriter::quiet(client, WITHIN).apply_configuration(&site.file, site.credentials.as_ref()).await
}

/// Opens a bootstrap cluster for one command. Starts it if it is stopped, or creates it if it doesn't exist and a site
/// file is given.
///
/// # Errors
/// Returns an error if the bootstrap cluster doesn't exist or can't be started, or if the VM operator can't use
/// vCenter. In the last case, stops the bootstrap cluster again if this command started it.
pub async fn open(name: &str, given: Option<&GivenSite>) -> Result<Opened> {
    let folder = BootstrapFolder::of(name)?;
    folder.check()?;
    if let Some(record) = folder.daemon().read::<Record>()?.filter(|record| record.ready)
        && given.is_none()
    {
        let lock = if record.transient { Some(folder.lock()?) } else { None };
        return Ok(Opened::new(folder, record, lock));
    }
    say!("starting management components...");
    let opened = start_with(&folder, given, false, true).await?;
    say!("started management components");
    let client = client(Some(&opened.kubeconfig), None).await?;
    summary::warn_of_certificates(&client).await?;
    if let Err(found) = vmop::doctor::connect(&client, &operator_flags(None).doctor_options()?, None).await {
        let reasons: Vec<_> = found
            .iter()
            .filter(|one| one.outcome == CheckOutcome::Error)
            .map(|one| format!("{} {}. {}", one.check.code, one.found, one.remedy.trim_end_matches('.')))
            .collect();
        opened.close().await?;
        return Err(refuse(&reasons.join("\nerror: ")));
    }
    Ok(opened)
}

impl Opened {
    fn new(folder: BootstrapFolder, record: Record, lock: Option<File>) -> Self {
        Self { folder, kubeconfig: record.kubeconfig, is_transient: record.transient, _lock: lock }
    }

    pub fn folder(&self) -> &BootstrapFolder {
        &self.folder
    }

    /// Returns true if a command started the bootstrap cluster and will stop it.
    pub fn is_transient(&self) -> bool {
        self.is_transient
    }

    /// Stops the bootstrap cluster if a command started it.
    ///
    /// # Errors
    /// Returns an error if the bootstrap cluster doesn't stop.
    pub async fn close(&self) -> Result<()> {
        if !self.is_transient {
            return Ok(());
        }
        say!("stopping management components...");
        self.folder.daemon().stop().await?;
        say!("stopped management components");
        summary::say_certificates(&self.folder)
    }
}

/// Starts the bootstrap cluster if it isn't running, and applies the site if one is given. After a failure, stops a
/// process that it started and deletes a folder that it created.
async fn start_with(
    folder: &BootstrapFolder,
    given: Option<&GivenSite>,
    nodes_pull_images: bool,
    transient: bool,
) -> Result<Opened> {
    folder.check()?;
    let known = folder.settings()?;
    let for_command = known.as_ref().map_or(transient, |known| known.for_command);
    let wanted =
        given.map(|given| wanted(given, known.as_ref(), nodes_pull_images, for_command)).transpose()?;
    match (&known, &wanted) {
        (None, None) => {
            return Err(folder.missing(
                "To create it, pass a site file: layercake site discover writes one. The existing ones: layercake bootstrap list",
            ));
        }
        (Some(known), None) if known.applied == AppliedPart::Configuration => {
            return Err(refuse(&format!(
                "the site of bootstrap cluster {} was not applied completely. Pass the site file again",
                folder.name()
            )));
        }
        (Some(known), Some(wanted)) if known.network_provider != wanted.network_provider => {
            return Err(refuse(&format!(
                "the site file has NetworkProvider {}, and bootstrap cluster {} has {}, which cannot be changed. Use another name",
                wanted.network_provider,
                folder.name(),
                known.network_provider
            )));
        }
        _ => {}
    }
    trouble::check_space(folder)?;
    let is_new = !folder.exists();
    let lock = folder.lock()?;
    let daemon = folder.daemon();
    if !transient && daemon.read::<Record>()?.is_some_and(|record| record.transient) {
        // A command left a transient process running. Restart it as a permanent one.
        daemon.stop().await?;
    }
    let arguments = |transient: bool| {
        let command = ["bootstrap", "serve", folder.name()].map(str::to_owned);
        command.into_iter().chain(transient.then(|| "--transient".to_owned())).collect::<Vec<_>>()
    };
    // Build the programs here, where the user sees the progress. The process then finds them.
    ensure_programs(BTreeMap::new(), Vec::new()).await?;
    let runs = runs(folder).await?;
    if runs && let Some(release) = folder.other_release()? {
        say!(
            "warning: {name} runs with layercake {release}, and this is {LAYERCAKE}. To upgrade it: layercake bootstrap stop {name}; layercake bootstrap start {name}",
            name = folder.name()
        );
    }
    let progress = StartProgress::begin(folder.name());
    let is_served = || Ok(daemon.read::<Record>()?.is_some());
    if !runs {
        progress.show("starting etcd and the API server");
        let started = daemon.start(&arguments(transient), is_served, std::future::pending()).await;
        if started.is_err() && is_new {
            folder.delete()?;
        }
        started?;
        progress.show("started etcd and the API server");
    }
    let configured = async {
        let record = configure(folder, given, wanted.as_ref(), &progress).await?;
        if wanted.is_none_or(|wanted| wanted.args == record.args) {
            return Ok(record);
        }
        progress.show("starting the components again, with the arguments in the site file");
        daemon.stop().await?;
        daemon.start(&arguments(record.transient), is_served, std::future::pending()).await?;
        wait_for(folder, WITHIN, |record| progress.show_started(record)).await
    };
    match configured.await {
        Ok(record) => Ok(Opened::new(folder.clone(), record, Some(lock))),
        Err(error) => {
            if !runs {
                daemon.stop().await?;
            }
            if is_new {
                folder.delete()?;
            }
            Err(error)
        }
    }
}

/// Returns true if the bootstrap cluster is running. First waits for a start or stop in progress. Fails if the
/// bootstrap cluster is running but can't work.
async fn runs(folder: &BootstrapFolder) -> Result<bool> {
    let daemon = folder.daemon();
    let what = format!("bootstrap cluster {}", folder.name());
    crate::state::wait::until(&what, START, async || {
        Ok(daemon.holder()?.is_none() || daemon.read::<Record>()?.is_some())
    })
    .await?;
    let runs = daemon.holder()?.is_some();
    match trouble::of_running(folder).filter(|_| runs) {
        Some(trouble) => Err(ExitStatus::Failed.error(trouble)),
        None => Ok(runs),
    }
}

/// Returns the settings for a site. If the site file doesn't set the programs' arguments, keeps those in `known`.
fn wanted(
    given: &GivenSite,
    known: Option<&SiteSettings>,
    nodes_pull_images: bool,
    for_command: bool,
) -> Result<SiteSettings> {
    let simulated = simulate::is_simulated(&given.file)?;
    let args = given.file.programs.as_ref().map(local_arguments);
    let args = args.or_else(|| known.map(|known| known.args.clone())).unwrap_or_default();
    Ok(SiteSettings {
        network_provider: given.file.network_provider().to_owned(),
        nodes_pull_images: nodes_pull_images || simulated,
        simulated,
        applied: AppliedPart::Configuration,
        for_command,
        args,
    })
}

async fn configure(
    folder: &BootstrapFolder,
    given: Option<&GivenSite>,
    wanted: Option<&SiteSettings>,
    progress: &StartProgress<'_>,
) -> Result<Record> {
    let record = wait_for(folder, START, |_| true).await?;
    let client = client(Some(&record.kubeconfig), None).await?;
    if let (Some(given), Some(wanted)) = (given, wanted) {
        let start = async || {
            folder.keep_settings(wanted)?;
            wait_for_components(folder, progress).await
        };
        progress.show("checking the site file");
        apply_site(&client, given, start).await?;
        folder.keep_settings(&SiteSettings { applied: AppliedPart::All, ..wanted.clone() })?;
        progress.show("waiting for the node images in the content library");
        wait_for_images(&client, &given.file).await?;
    }
    wait_for_components(folder, progress).await
}

/// Waits until all components have started, and shows each of them.
async fn wait_for_components(folder: &BootstrapFolder, progress: &StartProgress<'_>) -> Result<Record> {
    if let Some(record) = folder.daemon().read::<Record>()?.filter(|record| record.ready) {
        return Ok(record);
    }
    progress.show("starting Cluster API, gcm, capw and vmop");
    wait_for(folder, WITHIN, |record| progress.show_started(record)).await
}

/// Waits until `is_so` returns true for the process's record. Fails after `limit`, or if the process ends.
async fn wait_for(
    folder: &BootstrapFolder,
    limit: Duration,
    is_so: impl Fn(&Record) -> bool,
) -> Result<Record> {
    let daemon = folder.daemon();
    let mut found = None;
    crate::state::wait::until(&format!("bootstrap cluster {}", folder.name()), limit, async || {
        if daemon.holder()?.is_none() {
            return Err(ExitStatus::Failed.error(format!(
                "bootstrap cluster {} has ended. Its log is {}",
                folder.name(),
                daemon.log().display()
            )));
        }
        found = daemon.read::<Record>()?.filter(&is_so);
        Ok(found.is_some())
    })
    .await?;
    found.context("the bootstrap cluster has no record")
}
