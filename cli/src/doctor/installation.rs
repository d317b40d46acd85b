//! Checks that Kubernetes, Cluster API and the programs are installed and work.

mod memory;
mod rights;

use api::names::{CAPW_NAMESPACE, GCM_NAMESPACE, VMOP_NAMESPACE};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kit::diagnosis::{Check, CheckOutcome, Diagnosis};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::init::availability::pod_cause;
use crate::terminal::exit::with_causes;

use rights::INSTALL_AGAIN;

const VERSION: Check = Check::new("LC0101", "the API server can be reached and is new enough");
const CRDS: Check = Check::new("LC0102", "all CustomResourceDefinitions exist");
const CLUSTER_API: Check = Check::new("LC0103", "Cluster API is installed");
const LEADERS: Check = Check::new("LC0104", "each program has a leader that renews its lease");
const WEBHOOKS: Check = Check::new("LC0105", "the webhooks have a CA bundle");

const RIGHTS: Check = Check::new("LC0106", "the programs' ServiceAccounts have the rights that they need");

/// The checks in this file.
pub const ALL: &[Check] = &[VERSION, CRDS, CLUSTER_API, LEADERS, WEBHOOKS, RIGHTS];

/// The oldest Kubernetes minor version with all features that the CRDs and webhooks use.
const OLDEST_MINOR: u32 = 31;
/// The Cluster API CRDs that gcm and capw need, in version [`CONTRACT`].
const OF_CLUSTER_API: [&str; 6] = [
    "clusters.cluster.x-k8s.io",
    "machines.cluster.x-k8s.io",
    "machinedeployments.cluster.x-k8s.io",
    "machinehealthchecks.cluster.x-k8s.io",
    "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",
    "kubeadmconfigtemplates.bootstrap.cluster.x-k8s.io",
];
const CONTRACT: &str = "v1beta2";
/// A Layercake program. Each can be installed without the programs before it in [`PROGRAMS`].
#[derive(Debug, PartialEq, Eq)]
struct Program {
    name: &'static str,
    namespace: &'static str,
    groups: &'static [&'static str],
    /// True if the program needs Cluster API.
    is_above_cluster_api: bool,
}

const PROGRAMS: &[Program] = &[
    Program {
        name: "gcm",
        namespace: GCM_NAMESPACE,
        groups: &["run.tanzu.vmware.com"],
        is_above_cluster_api: true,
    },
    Program {
        name: "capw",
        namespace: CAPW_NAMESPACE,
        groups: &["infrastructure.cluster.vmware.com"],
        is_above_cluster_api: true,
    },
    Program {
        name: "vmop",
        namespace: VMOP_NAMESPACE,
        groups: &["vmoperator.vmware.com", "vmware.com"],
        is_above_cluster_api: false,
    },
];
/// The resource name in messages.
const DEFINITIONS: &str = "CustomResourceDefinitions";
/// The age in seconds after which a lease doesn't count as held.
const STALE_S: i64 = 30;

/// Runs the checks.
pub async fn check(client: &Client) -> Vec<Diagnosis> {
    let version = match client.apiserver_version().await {
        Ok(version) => judge_version(&version.major, &version.minor),
        Err(error) => {
            let error = anyhow::Error::new(error).context("the API server does not answer");
            let broken =
                VERSION.error(with_causes(&error), "Correct the kubeconfig, or start the API server");
            let open =
                ALL.iter().filter(|check| **check != VERSION).map(|check| check.skipped("no API server"));
            return std::iter::once(broken).chain(open).collect();
        }
    };
    let crds = Api::<CustomResourceDefinition>::all(client.clone()).list(&ListParams::default()).await;
    let installed = installed(client).await;
    let mut found = vec![version];
    match crds {
        Ok(crds) => {
            found.push(judge_crds(&installed, &api::crds::all(), &crds.items));
            let cluster_api = judge_cluster_api(&installed, &crds.items);
            found.push(match cluster_api.outcome {
                CheckOutcome::Ok => memory::check(client, CLUSTER_API).await.unwrap_or(cluster_api),
                _ => cluster_api,
            });
        }
        Err(error) => {
            found.push(CRDS.unread(DEFINITIONS, &error));
            found.push(CLUSTER_API.unread(DEFINITIONS, &error));
        }
    }
    let (leases, webhooks, rights) =
        tokio::join!(leaders(client, &installed), webhooks(client), rights::check(client, RIGHTS));
    found.extend(leases);
    found.push(webhooks);
    found.extend(rights);
    found
}

/// Returns the programs whose namespace exists or can't be read.
async fn installed(client: &Client) -> Vec<&'static Program> {
    let namespaces = Api::<Namespace>::all(client.clone());
    let mut installed = Vec::new();
    for program in PROGRAMS {
        if !matches!(namespaces.get_opt(program.namespace).await, Ok(None)) {
            installed.push(program);
        }
    }
    installed
}

fn judge_version(major: &str, minor: &str) -> Diagnosis {
    let found = format!("Kubernetes {major}.{minor}");
    let number: u32 = minor.trim_end_matches('+').parse().unwrap_or(0);
    if number < OLDEST_MINOR {
        VERSION.error(found, format!("Upgrade it to 1.{OLDEST_MINOR} or later"))
    } else {
        VERSION.ok(found)
    }
}

fn served(crd: &CustomResourceDefinition) -> impl Iterator<Item = &str> {
    crd.spec.versions.iter().filter(|version| version.served).map(|version| version.name.as_str())
}

/// Checks that the CRDs of the installed programs exist and serve the expected versions.
fn judge_crds(
    installed: &[&Program],
    ours: &[CustomResourceDefinition],
    there: &[CustomResourceDefinition],
) -> Diagnosis {
    let is_needed = |crd: &&CustomResourceDefinition| {
        installed.iter().any(|program| program.groups.contains(&crd.spec.group.as_str()))
    };
    let ours: Vec<_> = ours.iter().filter(is_needed).collect();
    let missing: Vec<_> = ours
        .iter()
        .filter_map(|ours| {
            let name = ours.name_any();
            let Some(crd) = there.iter().find(|crd| crd.name_any() == name) else { return Some(name) };
            let lacks: Vec<_> =
                served(ours).filter(|version| !served(crd).any(|served| served == *version)).collect();
            (!lacks.is_empty()).then(|| format!("{name} ({})", lacks.join(", ")))
        })
        .collect();
    if missing.is_empty() {
        CRDS.ok(format!("{} kinds", ours.len()))
    } else {
        CRDS.error(format!("missing: {}", missing.join(", ")), INSTALL_AGAIN)
    }
}

fn judge_cluster_api(installed: &[&Program], there: &[CustomResourceDefinition]) -> Diagnosis {
    if !installed.iter().any(|program| program.is_above_cluster_api) {
        return CLUSTER_API.skipped("neither gcm nor capw is installed");
    }
    let has = |name: &&&str| {
        there.iter().any(|crd| crd.name_any() == **name && served(crd).any(|version| version == CONTRACT))
    };
    let missing: Vec<_> = OF_CLUSTER_API.iter().filter(|name| !has(name)).copied().collect();
    if missing.is_empty() {
        CLUSTER_API.ok(format!("contract {CONTRACT}"))
    } else {
        let remedy = "Run layercake init, or upgrade Cluster API with the tool that installed it";
        CLUSTER_API.error(format!("missing in version {CONTRACT}: {}", missing.join(", ")), remedy)
    }
}

async fn leaders(client: &Client, installed: &[&Program]) -> Vec<Diagnosis> {
    if installed.is_empty() {
        let namespaces: Vec<_> = PROGRAMS.iter().map(|program| program.namespace).collect();
        let found =
            format!("no program is installed: none of the namespaces {} exists", namespaces.join(", "));
        return vec![LEADERS.error(found, "Install the programs: docs/install.md")];
    }
    let now = server_time(client).await;
    let mut found = Vec::new();
    for Program { name, namespace, .. } in installed {
        match Api::<Lease>::namespaced(client.clone(), namespace).list(&ListParams::default()).await {
            Ok(leases) => {
                let mut judged = judge_lease(name, namespace, &leases.items, now);
                if judged.outcome == CheckOutcome::Error {
                    name_pod_cause(client, namespace, &mut judged).await;
                }
                found.push(judged);
            }
            Err(error) => found.push(LEADERS.unread(&format!("the lease of {name}"), &error)),
        }
    }
    found
}

/// Adds the reason why a Pod of the program isn't ready, such as an image that can't be pulled, and the matching
/// remedy.
async fn name_pod_cause(client: &Client, namespace: &str, found: &mut Diagnosis) {
    let pods = Api::<Pod>::namespaced(client.clone(), namespace).list(&ListParams::default()).await;
    if let Some(cause) = pods.iter().flat_map(|pods| &pods.items).find_map(pod_cause) {
        let is_pull = cause.contains("ImagePull");
        found.found = format!("{}. {cause}", found.found);
        found.remedy = if is_pull {
            "Push the images that `layercake init list-images` lists to a registry that the nodes reach, and pass it to layercake init with --image-registry".to_owned()
        } else {
            format!("Remove this cause. For more: kubectl -n {namespace} describe pods")
        };
    }
}

/// Returns the API server's time, or the local time if the response doesn't contain it. Leases are renewed in the
/// cluster, whose clock may differ from the local clock.
async fn server_time(client: &Client) -> Timestamp {
    let request = http::Request::get("/version").body(kube::client::Body::empty());
    let answer = match request {
        Ok(request) => client.send(request).await.ok(),
        Err(_) => None,
    };
    let date = answer.as_ref().and_then(|answer| answer.headers().get(http::header::DATE)?.to_str().ok());
    date.and_then(read_date).unwrap_or_else(Timestamp::now)
}

/// Parses the value of a `Date` header. Returns `None` if it is invalid.
fn read_date(date: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::parse(date).ok().map(|date| date.timestamp())
}

fn judge_lease(program: &str, namespace: &str, leases: &[Lease], now: Timestamp) -> Diagnosis {
    let renewed =
        leases.iter().filter_map(|lease| lease.spec.as_ref()?.renew_time.as_ref()).map(|time| time.0).max();
    let remedy = format!("Check its pods (kubectl -n {namespace} get pods) and their logs");
    match renewed {
        None => LEADERS.error(
            format!("{program} has never run: its lease does not exist in {namespace}"),
            INSTALL_AGAIN,
        ),
        Some(renewed) if now.duration_since(renewed).as_secs() > STALE_S => LEADERS
            .error(format!("{program} has no leader: its lease was renewed last at {renewed:.0}"), remedy),
        Some(_) => LEADERS.ok(program),
    }
}

async fn webhooks(client: &Client) -> Diagnosis {
    let all = ListParams::default();
    let validating = Api::<ValidatingWebhookConfiguration>::all(client.clone());
    let mutating = Api::<MutatingWebhookConfiguration>::all(client.clone());
    let (validating, mutating) = tokio::join!(validating.list(&all), mutating.list(&all));
    let (validating, mutating) = match (validating, mutating) {
        (Ok(validating), Ok(mutating)) => (validating.items, mutating.items),
        (Err(error), _) | (_, Err(error)) => {
            return WEBHOOKS.unread("webhook configurations", &error);
        }
    };
    let of = |name: &str| name.starts_with("vmware-system-");
    let validating = validating.into_iter().filter(|one| of(&one.name_any())).flat_map(|one| {
        let name = one.name_any();
        one.webhooks.unwrap_or_default().into_iter().map(move |hook| (name.clone(), hook.client_config))
    });
    let mutating = mutating.into_iter().filter(|one| of(&one.name_any())).flat_map(|one| {
        let name = one.name_any();
        one.webhooks.unwrap_or_default().into_iter().map(move |hook| (name.clone(), hook.client_config))
    });
    judge_webhooks(&validating.chain(mutating).collect::<Vec<_>>())
}

fn judge_webhooks(webhooks: &[(String, WebhookClientConfig)]) -> Diagnosis {
    if webhooks.is_empty() {
        return WEBHOOKS.error("no webhook is configured", INSTALL_AGAIN);
    }
    let empty =
        |config: &WebhookClientConfig| config.ca_bundle.as_ref().is_none_or(|bundle| bundle.0.is_empty());
    let mut without: Vec<_> =
        webhooks.iter().filter(|(_, config)| empty(config)).map(|(name, _)| name.as_str()).collect();
    without.dedup();
    if without.is_empty() {
        WEBHOOKS.ok(format!("{} webhooks", webhooks.len()))
    } else {
        let remedy = "Check that cert-manager and its cainjector are running, and check the Certificates in the programs' namespaces";
        WEBHOOKS.error(format!("no CA bundle in {}", without.join(", ")), remedy)
    }
}

#[cfg(test)]
mod tests;
