//! `layercake init`: installs or upgrades Cluster API and the programs in any Kubernetes cluster.
//!
//! The command gathers [`facts`], makes a [`decision`] for each component, and only then writes. All writes use
//! server-side apply or skip existing objects, so the same command continues after an interruption.

pub mod availability;
mod certificates;
pub mod decision;
pub mod facts;
pub mod given;
pub mod install;
pub mod programs;
mod progress;
mod release_notes;
pub mod site_file;
mod uninstall;
pub mod version;

use std::collections::BTreeMap;

use anyhow::Result;
use components::catalogue::{COMPONENTS, Component, LAYERCAKE, Registries};
use components::plan::{self, InstallationObjects};
use components::render::{Certificates, Options};
use components::settings::SettingsByProgram;
use futures::FutureExt as _;
use kube::Client;
use serde_json::Value;

pub use uninstall::{run as run_uninstall, uninstall};

use crate::args::{Init, InitCommand, ManifestsFlags, SiteNetworkProvider};
use crate::terminal::exit::{ExitStatus, refuse, status_of};
use crate::terminal::interrupts::until_interrupted;
use crate::terminal::output::{say, write_out};
use decision::{Decision, Decisions};
use facts::Facts;
use given::GivenSite;
use install::InstallationWriter;
use site_file::SiteFile;

/// Runs `layercake init` or `layercake init list-images`.
pub async fn run(args: Init) -> ExitStatus {
    if let Some(InitCommand::ListImages { registries }) = &args.command {
        let registries = registries.registries();
        let images = COMPONENTS.iter().map(|component| component.image_reference(&registries) + "\n");
        write_out(&images.collect::<String>());
        return ExitStatus::Done;
    }
    interruptible(async { install(args.cluster.client().await?, &args).await }).await
}

/// Runs `work` until it ends or the user interrupts it.
async fn interruptible(work: impl Future<Output = Result<()>>) -> ExitStatus {
    let explain = || say!("interrupted. Run the same command again to continue");
    until_interrupted(work.map(status_of), explain).await
}

/// Installs Cluster API and the programs in the cluster of `client`.
pub async fn install(client: Client, args: &Init) -> Result<()> {
    check_tag(args)?;
    let given = GivenSite::read(&args.filename, &args.credentials)?;
    let site = given.as_ref().map(|given| &given.file);
    let facts = Facts::gather(&client).await?;
    let decisions = decision::decide(&facts, site.map(SiteFile::vcenter))
        .map_err(|refusals| refuse(&refusals.join("\nerror: ")))?;
    if let Some(given) = &given {
        given.check(&client).await?;
    }
    let networks = site.map(SiteFile::networks);
    let networks = networks.or(args.network_provider.map(SiteNetworkProvider::networks));
    let programs = program_settings(&facts, site)?;
    let summary = programs::summary(&programs);
    warn_of_unused_settings(&decisions, &programs);
    let registries = args.registries.registries();
    let options = decision::options(&facts, registries, networks, args.nodes_pull_images, programs);
    let wanted: Vec<_> = decisions.iter().filter_map(to_install).collect();
    let certificates = plan::wanted_certificates(&options, &wanted)?;
    let pairs = certificates::read_or_generate(&client, &certificates).await?;
    let installation = plan::installation(&options, &wanted, &pairs)?;
    check_resources(&installation)?;
    let certificates = match options.certificates {
        Certificates::CertManager => "cert-manager issues the certificates of webhooks",
        Certificates::Own => {
            "the cluster has no cert-manager, so Layercake issues the certificates of webhooks"
        }
    };
    for step in release_notes::required_steps(&decisions) {
        say!("{:<22} {}: {}", "you must", step.release, step.text);
    }
    say!("{:<22} Kubernetes {}; {certificates}", "cluster", facts.kubernetes);
    if !summary.is_empty() {
        say!("{:<22} {summary}", "settings");
    }
    if args.dry_run {
        for (component, decision) in &decisions {
            say!("{}", shown(component, decision, &options.registries));
        }
        if let Some(site) = site {
            say!("{:<22} {}", "site", site.summary());
        }
        say!("Nothing was changed.");
        return Ok(());
    }
    let writer = InstallationWriter::new(&client, args.timeout);
    writer.install(&installation).await?;
    for (component, decision) in decisions.iter().filter(|one| to_install(one).is_none()) {
        say!("{}", shown(component, decision, &options.registries));
    }
    if let Some(given) = &given {
        writer.apply_site(&given.file, given.credentials.as_ref()).await?;
    }
    say!("{:<22} {}", "done", next_step(&facts, site.is_some()));
    Ok(())
}

/// Returns the program settings in the site file. Without them, returns the stored settings.
fn program_settings(facts: &Facts, site: Option<&SiteFile>) -> Result<SettingsByProgram> {
    match (site.and_then(|site| site.programs.as_ref()), &facts.programs) {
        (Some(programs), _) => Ok(programs.clone()),
        (None, Some(stored)) => {
            programs::read_stored(stored).map_err(|errors| refuse(&errors.join("\nerror: ")))
        }
        (None, None) => Ok(SettingsByProgram::new()),
    }
}

/// Warns about settings for components that another tool manages.
fn warn_of_unused_settings(decisions: &Decisions, programs: &SettingsByProgram) {
    for (component, decision) in decisions {
        if let (Decision::Leave(what), Some(_)) = (decision, programs.get(component.name)) {
            say!("warning: the settings of {} have no effect: {what}", component.name);
        }
    }
}

/// Rejects resources that the API server would refuse.
fn check_resources(installation: &InstallationObjects) -> Result<()> {
    let found = programs::find_contradictions(installation);
    let found: Vec<_> = found.into_iter().collect();
    if found.is_empty() { Ok(()) } else { Err(refuse(&found.join("\nerror: "))) }
}

/// Returns the component, or `None` if the decision leaves it unchanged.
fn to_install((component, decision): &(&'static Component, Decision)) -> Option<&'static Component> {
    (!matches!(decision, Decision::Leave(_))).then_some(*component)
}

/// Returns the next step for the user.
fn next_step(facts: &Facts, has_site: bool) -> &'static str {
    if has_site || facts.configuration.is_some() {
        return "Next: layercake doctor";
    }
    "Next: connect the VM operator to vCenter with layercake site discover and layercake init -f (docs/install.md)"
}

/// Rejects a tag from another version, because its images might not match this program's manifests.
fn check_tag(args: &Init) -> Result<()> {
    match args.registries.layercake_tag.as_deref() {
        Some(tag) if decision::is_of_another_version(tag) => Err(refuse(&format!(
            "--layercake-tag {tag} is of another version than this program, {LAYERCAKE}. Pass a tag of this version, such as {LAYERCAKE}-2, or run layercake of the other version"
        ))),
        _ => Ok(()),
    }
}

/// Returns a component's line in the installation plan.
fn shown(component: &Component, decision: &Decision, registries: &Registries) -> String {
    let image = component.image_reference(registries);
    let tag = component.tag(registries);
    let text = match decision {
        Decision::Install => format!("install {image}"),
        Decision::Replace(Some(old)) if old != tag => format!("replace {old} by {image}"),
        Decision::Replace(_) => format!("apply {image} again"),
        Decision::Leave(what) => format!("stays: {what}"),
    };
    format!("{:<22} {text}", component.name)
}

/// Prints the objects that `init` applies to a cluster, for all or some components.
pub fn manifests(args: &ManifestsFlags) -> ExitStatus {
    status_of(print_manifests(args))
}

fn print_manifests(args: &ManifestsFlags) -> Result<()> {
    write_out(&crate::kube::manifest::yaml(&manifest_objects(args)?)?);
    Ok(())
}

/// Returns the objects that `manifests` prints.
///
/// # Errors
/// Returns an error if the site file is invalid, or if a component can't create the certificate for its webhooks.
pub fn manifest_objects(args: &ManifestsFlags) -> Result<Vec<Value>> {
    let site = given::read_file(&args.filename)?;
    let options = Options {
        registries: args.registries.registries(),
        certificates: args.webhook_certificates.certificates(),
        networks: site.as_ref().map_or(args.network_provider.networks(), SiteFile::networks),
        nodes_pull_images: args.nodes_pull_images,
        programs: site.and_then(|site| site.programs).unwrap_or_default(),
    };
    let is_wanted = |component: &&Component| {
        args.component.is_empty() || args.component.iter().any(|name| name == component.name)
    };
    let components: Vec<_> = COMPONENTS.iter().filter(is_wanted).collect();
    if let Some(needy) = plan::wanted_certificates(&options, &components)?.first() {
        return Err(ExitStatus::Usage.error(format!(
            "{} cannot create the certificate of its webhooks. Use cert-manager, or layercake init, or name only gcm, capw and vmop with --component",
            needy.component
        )));
    }
    let installation = plan::installation(&options, &components, &BTreeMap::new())?;
    check_resources(&installation)?;
    Ok(installation.documents().cloned().collect())
}
