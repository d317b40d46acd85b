//! `layercake init`: installs or upgrades Cluster API and the programs on any Kubernetes.
//!
//! It gathers [`facts`], lets [`decision`] judge them, and only then writes. Every write is server-side apply or leaves what exists
//! alone, so the same command continues after an interruption.

pub mod decision;
pub mod facts;
mod install;
pub mod site_file;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, anyhow, ensure};
use components::catalogue::{COMPONENTS, Component};
use components::plan::{self, Installation, Upstream};
use components::render::{Certificates, Options};
use k8s_openapi::api::core::v1::Secret;
use kit::diagnosis::Outcome;
use kube::{Api, Client};

use crate::args::{Init, InitCommand, Manifests, Uninstall};
use crate::exit::{ExitStatus, failed, status_of};
use crate::output::{say, write_out};
use crate::session::read_password;
use crate::up::manifest;
use decision::Decision;
use facts::{Facts, Installer, OPERATOR_NAMESPACE};
use install::Installer as Writer;
use site_file::{SiteFile, networks};

/// Installs, or lists the images of an installation.
pub async fn run(args: Init) -> ExitStatus {
    match &args.command {
        Some(InitCommand::ListImages { registries }) => {
            let registries = registries.registries();
            let images = COMPONENTS.iter().map(|one| one.image_reference(&registries) + "\n");
            write_out(&images.collect::<String>());
            ExitStatus::Done
        }
        None => match args.cluster.client().await {
            Ok(client) => status_of(install(client, &args).await),
            Err(error) => failed(&error),
        },
    }
}

/// Installs into the cluster of a client.
pub async fn install(client: Client, args: &Init) -> Result<()> {
    let site = read_site(args)?;
    let facts = Facts::gather(&client).await?;
    let decisions = decision::decide(&facts, site.as_ref().map(SiteFile::vcenter))
        .map_err(|refusals| refuse(&refusals.join("\nerror: ")))?;
    let credentials = match &site {
        Some(site) => {
            let credentials = credentials(&client, args, site).await?;
            if let Some(credentials) = &credentials {
                check_vcenter(&client, site, credentials.clone()).await?;
            }
            credentials
        }
        None => None,
    };
    let options = options(args, &facts, site.as_ref());
    let certificates = match options.certificates {
        Certificates::CertManager => "cert-manager makes the certificates of webhooks",
        Certificates::Own => "no cert-manager: Layercake makes the certificates of webhooks",
    };
    say!("{:<22} Kubernetes {}; {certificates}", "cluster", facts.kubernetes);
    if args.dry_run {
        for (component, decision) in &decisions {
            say!("{:<22} {}", component.name, shown(component, decision));
        }
        say!("Nothing was changed.");
        return Ok(());
    }
    let upstream = upstream().await?;
    let writer = Writer::new(&client, args.timeout);
    let wanted = plan::wanted_certificates(&upstream, &options)?;
    let pairs = writer.certificates(&wanted, &decisions).await?;
    let installation = plan::installation(&upstream, &options, &pairs)?;
    writer.install(&installation, &decisions).await?;
    if let Some(site) = &site {
        let given = credentials.filter(|_| args.user.is_some());
        writer.apply_site(site, given.as_ref()).await?;
    }
    say!("{:<22} {}", "done", next_step(site.as_ref(), args));
    Ok(())
}

fn refuse(reason: &str) -> anyhow::Error {
    ExitStatus::Refused.error(format!("{reason}. Nothing was changed"))
}

/// The last line: what the user does next.
fn next_step(site: Option<&SiteFile>, args: &Init) -> String {
    match site {
        None => "no site file: connect the VM operator to vCenter with layercake site discover and layercake init -f (docs/install.md)".to_owned(),
        Some(site) if args.user.is_none() => format!(
            "Secret {} has the credentials of vCenter. Next: layercake doctor",
            site.secret()
        ),
        Some(_) => "Next: layercake doctor".to_owned(),
    }
}

fn read_site(args: &Init) -> Result<Option<SiteFile>> {
    if args.filename.is_empty() {
        ensure!(
            args.user.is_none(),
            ExitStatus::Usage.error("--user needs the site file: pass -f".to_owned())
        );
        return Ok(None);
    }
    let mut objects = Vec::new();
    for path in &args.filename {
        objects.extend(manifest::read(path).map_err(|error| ExitStatus::Usage.error(format!("{error:#}")))?);
    }
    SiteFile::new(objects).map(Some).map_err(|error| refuse(&error.to_string()))
}

/// The credentials for vCenter: those of the command line, or those that the cluster has.
async fn credentials(
    client: &Client,
    args: &Init,
    site: &SiteFile,
) -> Result<Option<BTreeMap<String, Vec<u8>>>> {
    if let (Some(user), Some(file)) = (&args.user, &args.password_file) {
        let password = read_password(file)?;
        let data =
            [("username", user.clone().into_bytes()), ("password", password.expose().as_bytes().to_vec())];
        return Ok(Some(data.map(|(key, value)| (key.to_owned(), value)).into()));
    }
    let secrets: Api<Secret> = Api::namespaced(client.clone(), OPERATOR_NAMESPACE);
    let secret = secrets
        .get_opt(site.secret())
        .await
        .context("cannot read the Secret with the credentials of vCenter")?;
    let data = secret.map(|secret| secret.data.unwrap_or_default());
    let data = data.map(|data| data.into_iter().map(|(key, value)| (key, value.0)).collect());
    ensure!(
        data.is_some(),
        refuse(&format!(
            "there is no Secret {OPERATOR_NAMESPACE}/{} with the credentials of vCenter. Pass --user and --password-file",
            site.secret()
        ))
    );
    Ok(data)
}

/// Refuses a site file with which the VM operator could not work.
async fn check_vcenter(
    client: &Client,
    site: &SiteFile,
    credentials: BTreeMap<String, Vec<u8>>,
) -> Result<()> {
    let options = vmop::doctor::Options {
        namespace: OPERATOR_NAMESPACE.to_owned(),
        ca: None,
        recorder: vsphere::Recorder::default(),
    };
    let found = vmop::doctor::new_site::check(client, &options, &site.new_site(credentials)).await;
    let mut errors = Vec::new();
    for one in found {
        let text = format!("{} {}. {}", one.check.code, one.found, one.remedy.trim_end_matches('.'));
        match one.outcome {
            Outcome::Error => errors.push(text.trim_end_matches([' ', '.']).to_owned()),
            Outcome::Warning => say!("warning: {text}"),
            _ => {}
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(refuse(&errors.join("\nerror: "))) }
}

fn options(args: &Init, facts: &Facts, site: Option<&SiteFile>) -> Options {
    Options {
        registries: args.registries.registries(),
        certificates: if facts.cert_manager { Certificates::CertManager } else { Certificates::Own },
        networks: match (site, args.network_provider) {
            (Some(site), _) => site.networks(),
            (None, Some(provider)) => provider.networks(),
            // As it was installed before.
            (None, None) => networks(facts.network_provider.as_deref().unwrap_or_default()),
        },
        nodes_pull_images: args.nodes_pull_images.unwrap_or(facts.nodes_pull_images),
    }
}

fn shown(component: &Component, decision: &Decision) -> String {
    match decision {
        Decision::Install => format!("{} is installed", component.version()),
        Decision::Replace(Some(old)) if old != component.version() => {
            format!("{} replaces {old}", component.version())
        }
        Decision::Replace(_) => format!("{} is applied again", component.version()),
        Decision::Leave(what) => format!("stays as it is: {what}"),
    }
}

/// The manifests of Cluster API, which are rendered if that was not done before.
async fn upstream() -> Result<Upstream> {
    let render = || plane::tools::ensure_manifests(plane::tools::progress().as_ref());
    Ok(tokio::task::spawn_blocking(render).await??)
}

/// Prints everything that `init` applies.
pub async fn manifests(args: Manifests) -> ExitStatus {
    status_of(print_manifests(&args).await)
}

async fn print_manifests(args: &Manifests) -> Result<()> {
    let upstream = upstream().await?;
    let options = Options {
        registries: args.registries.registries(),
        certificates: Certificates::CertManager,
        networks: args.network_provider.networks(),
        nodes_pull_images: args.nodes_pull_images,
    };
    let installation: Installation = plan::installation(&upstream, &options, &BTreeMap::new())?;
    let objects: Vec<_> = installation.documents().cloned().collect();
    write_out(&crate::site::manifests::yaml(&objects)?);
    Ok(())
}

/// Lists what an uninstallation would delete, and what prevents it.
pub async fn uninstall(args: Uninstall) -> ExitStatus {
    status_of(plan_uninstallation(&args).await)
}

async fn plan_uninstallation(args: &Uninstall) -> Result<()> {
    let client = args.cluster.client().await?;
    let facts = Facts::gather(&client).await?;
    let mut text = String::new();
    for component in COMPONENTS.iter().rev() {
        let Some(installed) = facts.installed.get(component.name) else { continue };
        let version = installed.version.as_deref().unwrap_or("of an unknown version");
        let plan = match installed.by {
            Installer::Init => {
                format!(
                    "namespace {} with everything in it, its definitions, roles and webhooks",
                    installed.namespace
                )
            }
            _ => "stays, another tool installed it".to_owned(),
        };
        let _ = writeln!(text, "{:<22} {version}: {plan}", component.name);
    }
    ensure!(!text.is_empty(), "nothing of Layercake or Cluster API is installed in this cluster");
    write_out(&text);
    let left = install::remaining(&client).await?;
    if left.is_empty() {
        say!("No cluster and no VM is left, so nothing is orphaned.");
        return Ok(());
    }
    let counts: Vec<_> = left.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    Err(anyhow!(ExitStatus::Refused.error(format!(
        "there are {}. Delete them first: their VMs stay in vCenter without a program that manages them. Nothing was changed",
        counts.join(", ")
    ))))
}
