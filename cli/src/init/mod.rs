//! `layercake init`: installs or upgrades Cluster API and the programs on any Kubernetes.
//!
//! It gathers [`facts`], lets [`decision`] judge them, and only then writes. Every write is server-side apply or leaves existing
//! objects alone, so the same command continues after an interruption.

mod availability;
mod certificates;
pub mod decision;
pub mod facts;
mod install;
mod progress;
pub mod site_file;
mod uninstall;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use components::catalogue::{COMPONENTS, Component, LAYERCAKE, Registries};
use components::plan::{self, Upstream};
use components::render::{Certificates, Options};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::storage::v1::StorageClass;
use kit::diagnosis::{Diagnosis, Outcome};
use kube::{Api, Client, ResourceExt};

pub use uninstall::{run as run_uninstall, uninstall};

use crate::args::{Init, InitCommand, Manifests, OperatorFlags, SiteNetworkProvider};
use crate::exit::{ExitStatus, failed, status_of};
use crate::interrupts::Interrupts;
use crate::manifest;
use crate::output::{say, write_out};
use crate::session::read_password;
use decision::{Decision, Decisions};
use facts::{CONFIGURATION, Facts, OPERATOR_NAMESPACE};
use install::Writer;
use site_file::SiteFile;

/// The check of the login at vCenter.
const LOGIN: &str = "LC0304";

/// The data of the Secret with the credentials of vCenter.
type Credentials = BTreeMap<String, Vec<u8>>;

/// Installs, or lists the images of an installation.
pub async fn run(args: Init) -> ExitStatus {
    if let Some(InitCommand::ListImages { registries }) = &args.command {
        let registries = registries.registries();
        let images = COMPONENTS.iter().map(|component| component.image_reference(&registries) + "\n");
        write_out(&images.collect::<String>());
        return ExitStatus::Done;
    }
    interruptible(connect_and_install(&args)).await
}

/// Runs something until it ends or the user interrupts it.
async fn interruptible(work: impl Future<Output = ExitStatus>) -> ExitStatus {
    match Interrupts::listening() {
        Ok(mut interrupts) => tokio::select! {
            status = work => status,
            () = interrupts.next() => {
                say!("interrupted. Run the same command again to continue");
                ExitStatus::Interrupted
            }
        },
        Err(error) => failed(&error),
    }
}

async fn connect_and_install(args: &Init) -> ExitStatus {
    match args.cluster.client().await {
        Ok(client) => status_of(install(client, args).await),
        Err(error) => failed(&error),
    }
}

/// Installs into the cluster of a client.
pub async fn install(client: Client, args: &Init) -> Result<()> {
    check_tag(args)?;
    let site = read_site(args)?;
    let facts = Facts::gather(&client).await?;
    let decisions = decision::decide(&facts, site.as_ref().map(SiteFile::vcenter))
        .map_err(|refusals| refuse(&refusals.join("\nerror: ")))?;
    let given = given_credentials(args)?;
    if let Some(site) = &site {
        let credentials = match &given {
            Some(given) => given.clone(),
            None => stored_credentials(&client, site).await?,
        };
        check_vcenter(&client, args, site, credentials).await?;
        check_storage_classes(&client, site).await?;
    }
    let networks = site.as_ref().map(SiteFile::networks);
    let networks = networks.or(args.network_provider.map(SiteNetworkProvider::networks));
    let options = decision::options(&facts, args.registries.registries(), networks, args.nodes_pull_images);
    let certificates = match options.certificates {
        Certificates::CertManager => "cert-manager issues the certificates of webhooks",
        Certificates::Own => {
            "the cluster has no cert-manager, so Layercake issues the certificates of webhooks"
        }
    };
    say!("{:<22} Kubernetes {}; {certificates}", "cluster", facts.kubernetes);
    if args.dry_run {
        show_decisions(&decisions, &options.registries);
        if let Some(site) = &site {
            say!("{:<22} {}", "site", site.summary());
        }
        say!("Nothing was changed.");
        return Ok(());
    }
    let wanted: Vec<_> = decisions.iter().filter_map(to_install).collect();
    let upstream = upstream().await?;
    let certificates = plan::wanted_certificates(&upstream, &options, &wanted)?;
    let pairs = certificates::read_or_generate(&client, &certificates).await?;
    let installation = plan::installation(&upstream, &options, &wanted, &pairs)?;
    let writer = Writer::new(&client, args.timeout);
    writer.install(&installation).await?;
    for (component, decision) in decisions.iter().filter(|one| to_install(one).is_none()) {
        say!("{}", shown(component, decision, &options.registries));
    }
    if let Some(site) = &site {
        writer.apply_site(site, given.as_ref()).await?;
    }
    say!("{:<22} {}", "done", next_step(&facts, site.is_some()));
    Ok(())
}

/// The component, unless it stays as it is.
fn to_install((component, decision): &(&'static Component, Decision)) -> Option<&'static Component> {
    (!matches!(decision, Decision::Leave(_))).then_some(*component)
}

fn refuse(reason: &str) -> anyhow::Error {
    ExitStatus::Refused.error(format!("{reason}. Nothing was changed"))
}

/// The next step of the user.
fn next_step(facts: &Facts, has_site: bool) -> &'static str {
    if has_site || !facts.configuration.is_empty() {
        return "Next: layercake doctor";
    }
    "Next: connect the VM operator to vCenter with layercake site discover and layercake init -f (docs/install.md)"
}

/// Refuses the tag of another version: its images do not fit the manifests of this program.
fn check_tag(args: &Init) -> Result<()> {
    match args.registries.layercake_tag.as_deref() {
        Some(tag) if decision::is_of_another_version(tag) => Err(refuse(&format!(
            "--layercake-tag {tag} is of another version than this program, {LAYERCAKE}. Pass a tag of this version, such as {LAYERCAKE}-2, or run layercake of the other version"
        ))),
        _ => Ok(()),
    }
}

fn read_site(args: &Init) -> Result<Option<SiteFile>> {
    if args.filename.is_empty() {
        return Ok(None);
    }
    let mut objects = Vec::new();
    for path in &args.filename {
        objects.extend(manifest::read(path).map_err(|error| ExitStatus::Usage.error(format!("{error:#}")))?);
    }
    SiteFile::new(objects).map(Some).map_err(|error| refuse(&format!("{error:#}")))
}

/// The credentials of the command line.
fn given_credentials(args: &Init) -> Result<Option<Credentials>> {
    let (Some(user), Some(file)) = (&args.user, &args.password_file) else { return Ok(None) };
    let password = read_password(file).map_err(|error| ExitStatus::Usage.error(format!("{error:#}")))?;
    let data = [("username", user.as_bytes()), ("password", password.expose().as_bytes())];
    Ok(Some(data.map(|(key, value)| (key.to_owned(), value.to_vec())).into()))
}

/// The credentials that the cluster has.
async fn stored_credentials(client: &Client, site: &SiteFile) -> Result<Credentials> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), OPERATOR_NAMESPACE);
    let secret = secrets.get_opt(site.secret()).await;
    let secret = secret.context("cannot read the Secret with the credentials of vCenter")?;
    let Some(secret) = secret else {
        return Err(refuse(&format!(
            "there is no Secret {OPERATOR_NAMESPACE}/{} with the credentials of vCenter. Pass --user and --password-file",
            site.secret()
        )));
    };
    Ok(secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect())
}

/// Refuses a site file with which the VM operator could not work.
async fn check_vcenter(
    client: &Client,
    args: &Init,
    site: &SiteFile,
    credentials: Credentials,
) -> Result<()> {
    let flags = OperatorFlags {
        cluster: args.cluster.clone(),
        operator_namespace: OPERATOR_NAMESPACE.to_owned(),
        vcenter_ca: args.vcenter_ca.clone(),
    };
    let site = site.new_site(credentials);
    let found = vmop::doctor::new_site::check(client, &flags.doctor_options()?, &site).await;
    let mut errors = Vec::new();
    for diagnosis in found {
        let text = finding(&diagnosis, args.user.is_some());
        match diagnosis.outcome {
            Outcome::Error => errors.push(text),
            Outcome::Warning => say!("warning: {text}"),
            Outcome::Ok | Outcome::Skipped => {}
        }
    }
    ensure!(errors.is_empty(), refuse(&errors.join("\nerror: ")));
    Ok(())
}

/// Refuses a StorageClass with other parameters than those of the existing one, because Kubernetes does not change them.
async fn check_storage_classes(client: &Client, site: &SiteFile) -> Result<()> {
    let existing: Api<StorageClass> = Api::all(client.clone());
    for wanted in site.storage_classes() {
        let name = wanted.name_any();
        let found =
            existing.get_opt(&name).await.with_context(|| format!("cannot read StorageClass {name}"))?;
        if found.is_some_and(|found| !can_become(&found, &wanted)) {
            return Err(refuse(&format!(
                "StorageClass {name} exists with other settings, which cannot be changed. Delete it first (kubectl delete storageclass {name}), or rename the class in the site file"
            )));
        }
    }
    Ok(())
}

/// Returns true if Kubernetes accepts the wanted class over the existing one.
fn can_become(existing: &StorageClass, wanted: &StorageClass) -> bool {
    let parameters = |class: &StorageClass| class.parameters.clone().unwrap_or_default();
    let stays = |old: &Option<String>, new: &Option<String>| new.is_none() || old == new;
    existing.provisioner == wanted.provisioner
        && parameters(existing) == parameters(wanted)
        && stays(&existing.reclaim_policy, &wanted.reclaim_policy)
        && stays(&existing.volume_binding_mode, &wanted.volume_binding_mode)
}

/// A finding with its remedy, without a full stop at the end.
fn finding(diagnosis: &Diagnosis, has_user: bool) -> String {
    let remedy = match diagnosis.check.code {
        LOGIN if has_user => "Correct --user or the password in --password-file".to_owned(),
        // It is not in the cluster yet.
        _ => diagnosis
            .remedy
            .trim_end_matches('.')
            .replace(&format!("ConfigMap {CONFIGURATION}"), "the site file"),
    };
    let separator = if remedy.is_empty() { "" } else { ". " };
    format!("{} {}{separator}{remedy}", diagnosis.check.code, diagnosis.found)
}

fn show_decisions(decisions: &Decisions, registries: &Registries) {
    for (component, decision) in decisions {
        say!("{}", shown(component, decision, registries));
    }
}

/// The line of a component in a plan.
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

/// The manifests of Cluster API. They are rendered the first time.
async fn upstream() -> Result<Upstream> {
    let render = || plane::tools::ensure_manifests(plane::tools::progress().as_ref());
    Ok(tokio::task::spawn_blocking(render).await??)
}

/// Prints everything that `init` applies to a cluster with cert-manager.
pub async fn manifests(args: Manifests) -> ExitStatus {
    status_of(print_manifests(&args).await)
}

async fn print_manifests(args: &Manifests) -> Result<()> {
    let options = Options {
        registries: args.registries.registries(),
        certificates: Certificates::CertManager,
        networks: args.network_provider.networks(),
        nodes_pull_images: args.nodes_pull_images,
    };
    let components: Vec<_> = COMPONENTS.iter().collect();
    let installation = plan::installation(&upstream().await?, &options, &components, &BTreeMap::new())?;
    let objects: Vec<_> = installation.documents().cloned().collect();
    write_out(&crate::site::manifests::yaml(&objects)?);
    Ok(())
}
