//! A cluster in any state, for tests: its plan, and the reports that Cluster API and capw would write.

use std::sync::Arc;

use api::capi::{Cluster, KubeadmControlPlane, Machine, MachineDeployment, MachineSet};
use api::capw::{WCPCluster, WCPMachine};
use api::gcm::release::{ContainerImage, KubernetesSpec, LocalReference};
use api::gcm::{TanzuKubernetesCluster, TanzuKubernetesRelease, TanzuKubernetesReleaseSpec};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::encryption::gather::Encryption;
use super::facts::{Facts, ReleaseLookup};
use super::invalid::Invalid;
use super::login::gather::Login;
use super::plan::Plan;
use crate::addons::bundle::AddonType;
use crate::addons::choice::{BundleSource, ChosenAddon, bundled_classes};
use crate::addons::report::{AddonReport, AddonState};
use crate::addons::survey::{GuestSecret, GuestSurvey, ProgramPresence, TokenUse};
use crate::admission::defaults::with_defaults;
use crate::release::cache::ReleaseCache;
use crate::release::resolution::resolve_release;
use crate::release::virtual_ip::{VirtualIpFlags, VirtualIpKind};
use crate::release::{KubernetesRelease, ReleaseImage};
use crate::spec::release::release_request;
use crate::sync;
use crate::testing::{SITE_VERSIONS, node_image};

/// Returns a release like those of the simulated vCenter.
pub(crate) fn tkr(version: &str) -> TanzuKubernetesRelease {
    let kubernetes =
        version.rsplit_once("-tkg").or_else(|| version.rsplit_once("-vkr")).map_or(version, |(k, _)| k);
    let image = |tag: &str| Some(ContainerImage { image_repository: None, image_tag: Some(tag.to_owned()) });
    let spec = TanzuKubernetesReleaseSpec {
        version: version.to_owned(),
        kubernetes: KubernetesSpec {
            version: kubernetes.to_owned(),
            image_repository: Some("localhost:5000/vmware.io".to_owned()),
            etcd: image("v3.5.11_vmware.4"),
            coredns: image("v1.11.3_vmware.5"),
            pause: image("3.9"),
            kube_vip: None,
        },
        os_images: vec![LocalReference { name: "photon".to_owned() }],
        bootstrap_packages: Vec::new(),
    };
    TanzuKubernetesRelease::new(&version.replace('+', "---"), spec)
}

/// Returns facts about a cluster without objects.
pub(crate) fn nothing() -> Facts {
    let images = vec![node_image("ob-1-photon-5-amd64", &[("os-name", "photon")])];
    let facts = Facts {
        virtual_ip: VirtualIpFlags { virtual_ip: VirtualIpKind::None, ..VirtualIpFlags::default() },
        ..Facts::default()
    };
    with_releases(facts, release_cache(SITE_VERSIONS.map(tkr)), images)
}

/// Returns a cache with these releases.
pub(crate) fn release_cache(releases: impl IntoIterator<Item = TanzuKubernetesRelease>) -> ReleaseCache {
    let cache = ReleaseCache::default();
    for release in releases {
        cache.set(&release.name_any(), Some(KubernetesRelease::of(&release).unwrap()));
    }
    cache
}

/// Returns the facts with these releases and images instead of their own.
pub(crate) fn with_releases(facts: Facts, releases: ReleaseCache, images: Vec<ReleaseImage>) -> Facts {
    Facts { available_releases: releases.available(), releases: ReleaseLookup::of(releases, images), ..facts }
}

/// Plans a cluster whose Secrets exist.
pub(crate) fn plan(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Result<Plan, Invalid> {
    super::plan::plan(tkc, facts, &login(), &Encryption::default())
}

/// Returns the release that a cluster requests, and its first image.
pub(crate) fn release_and_image(
    tkc: &TanzuKubernetesCluster,
    facts: &Facts,
) -> (Arc<KubernetesRelease>, ReleaseImage) {
    let candidate = resolve_release(release_request(tkc), &facts.available_releases).unwrap();
    let release = facts.releases.release(candidate).unwrap();
    let image = facts.releases.images(&release.os_images).remove(0);
    (release, image)
}

/// Returns a login whose Secrets exist.
pub(crate) fn login() -> Login {
    Login { public_key: "ssh-ed25519 AAAA".to_owned(), ..Login::default() }
}

/// Returns the cluster as admission stores it.
pub(crate) fn stored(mut tkc: TanzuKubernetesCluster) -> TanzuKubernetesCluster {
    tkc.metadata.uid = Some("5e434bbe-7b24-4fbd-81c0-aecc72326002".to_owned());
    tkc.metadata.generation = Some(1);
    with_defaults(&tkc, None, &nothing().available_releases)
}

/// The state of one machine.
#[derive(Clone, Copy, Default)]
pub(crate) struct MachineFixture {
    pub vm: &'static str,
    /// The reason and message of the WCPMachine, if it isn't ready.
    pub below: Option<(&'static str, &'static str)>,
    /// The node's `Ready` status if it has joined: `True`, `False` or `Unknown`.
    pub node: Option<&'static str>,
}

impl MachineFixture {
    /// Returns a machine without a node, whose WCPMachine isn't ready for this reason.
    pub(crate) const fn unready(vm: &'static str, reason: &'static str, message: &'static str) -> Self {
        Self { vm, below: Some((reason, message)), node: None }
    }

    /// Returns a machine whose WCPMachine is ready. `node` is the status of its node, if the node has joined.
    pub(crate) const fn ready(node: Option<&'static str>) -> Self {
        Self { vm: "ready", below: None, node }
    }
}

/// A machine whose node is ready.
pub(crate) const READY: MachineFixture = MachineFixture::ready(Some("True"));
/// A machine that was just requested.
pub(crate) const ASKED: MachineFixture =
    MachineFixture::unready("pending", "WaitingForBootstrapData", "Waiting for bootstrap data");

/// Returns a condition as Cluster API and capw write it.
pub(crate) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2020-04-16T17:06:53Z",
    })
}

/// A cluster, and the state that Cluster API and capw report about it.
pub(crate) struct ClusterFixture {
    pub tkc: TanzuKubernetesCluster,
    pub plan: Plan,
    /// The machines of the control plane, followed by those of each pool.
    pub groups: Vec<Vec<MachineFixture>>,
    /// The state of the infrastructure: the reason and message if it isn't ready.
    pub infrastructure: Result<(), (&'static str, &'static str)>,
    /// True if the first API server answers.
    pub initialized: bool,
    /// The container network's state, once the first API server answers.
    pub network: AddonReport,
}

impl ClusterFixture {
    /// Returns a cluster whose objects were just created.
    pub(crate) fn new(tkc: TanzuKubernetesCluster) -> Self {
        let tkc = stored(tkc);
        let plan = plan(&tkc, &nothing()).unwrap();
        let groups = vec![Vec::new(); 1 + plan.deployments.len()];
        let network = AddonReport {
            name: "antrea".to_owned(),
            type_: Some(AddonType::Cni),
            version: Some("v2.3.0".to_owned()),
            state: AddonState::Applied,
        };
        Self { tkc, plan, groups, infrastructure: Ok(()), initialized: false, network }
    }

    /// Returns a cluster in which everything is ready.
    pub(crate) fn running(tkc: TanzuKubernetesCluster) -> Self {
        let mut fixture = Self::new(tkc);
        fixture.initialized = true;
        fixture.plan.control_plane.spec.replicas =
            fixture.tkc.spec.topology.control_plane.replicas.or(Some(1));
        fixture.groups = std::iter::once(fixture.plan.control_plane.spec.replicas)
            .chain(fixture.plan.deployments.iter().map(|deployment| deployment.spec.replicas))
            .map(|replicas| vec![READY; usize::try_from(replicas.unwrap_or(1)).unwrap()])
            .collect();
        fixture
    }

    pub(crate) fn facts(&self) -> Facts {
        let mut facts = nothing();
        facts.cluster = Some(Arc::new(self.cluster()));
        facts.wcp_cluster = Some(Arc::new(self.wcp_cluster()));
        facts.control_plane = Some(Arc::new(self.control_plane()));
        facts.addons = self.initialized.then(|| Arc::new(vec![self.network.clone()]));
        facts.addons_for = self.initialized.then(|| self.plan.control_plane.spec.version.clone());
        facts.synced = self.initialized.then(|| Arc::new(self.synced(&facts)));
        facts.survey = self.initialized.then(|| Arc::new(self.survey()));
        facts.machine_templates = self.plan.machine_templates.iter().cloned().map(Arc::new).collect();
        facts.config_templates = self.plan.config_templates.iter().cloned().map(Arc::new).collect();
        facts.checks = self.plan.checks.iter().cloned().map(Arc::new).collect();
        facts.accounts = self.plan.accounts.iter().cloned().map(Arc::new).collect();
        for (at, group) in self.groups.iter().enumerate() {
            if at > 0 {
                let (deployment, set) = self.deployment(at - 1, group);
                facts.deployments.push(Arc::new(deployment));
                facts.sets.push(Arc::new(set));
            }
            for (number, state) in group.iter().enumerate() {
                let (machine, wcp) = self.machine(at, number, *state);
                facts.machines.push(Arc::new(machine));
                facts.wcp_machines.push(Arc::new(wcp));
            }
        }
        facts
    }

    /// Returns a survey without storage driver and cloud provider.
    fn survey(&self) -> GuestSurvey {
        let tokens = self.plan.accounts.iter().map(|account| TokenUse {
            secret: GuestSecret {
                namespace: account.spec.target_namespace.clone(),
                name: account.spec.target_secret_name.clone(),
            },
            program: ProgramPresence::Missing,
            is_required: false,
        });
        GuestSurvey {
            driver: ProgramPresence::Missing,
            tokens: tokens.collect(),
            left_in_image: Vec::new(),
            authentication: None,
        }
    }

    /// Returns reports that all objects from the namespace are applied.
    pub(crate) fn synced(&self, facts: &Facts) -> Vec<AddonReport> {
        let report = |set: ChosenAddon| {
            let BundleSource::Generated(generated) = &set.source else { panic!("a set of others") };
            let version = Some(generated.version().to_owned());
            AddonReport { name: set.name, type_: None, version, state: AddonState::Applied }
        };
        sync::sets(
            &self.tkc,
            &facts.namespace,
            bundled_classes(&facts.bundles, &self.tkc.name_any()).as_ref(),
        )
        .into_iter()
        .map(report)
        .collect()
    }

    fn cluster(&self) -> Cluster {
        let mut cluster = self.plan.cluster.clone();
        let provisioned = self.infrastructure.is_ok();
        if provisioned {
            cluster.spec.control_plane_endpoint = Some(from(json!({"host": "127.2.255.1", "port": 6443})));
        }
        cluster.status = Some(from(json!({
            "initialization": {"infrastructureProvisioned": provisioned, "controlPlaneInitialized": self.initialized},
            "phase": if provisioned { "Provisioned" } else { "Provisioning" },
        })));
        cluster
    }

    fn wcp_cluster(&self) -> WCPCluster {
        let mut wcp = self.plan.wcp_cluster.clone();
        let conditions = match self.infrastructure {
            Ok(()) => json!([condition("Ready", "True", "Ready", "")]),
            Err((reason, message)) => json!([
                condition("Ready", "False", reason, message),
                condition("LoadBalancerReady", "False", reason, message),
            ]),
        };
        wcp.status = Some(from(json!({ "conditions": conditions })));
        wcp
    }

    fn control_plane(&self) -> KubeadmControlPlane {
        let mut kcp = self.plan.control_plane.clone();
        kcp.metadata.generation = Some(1);
        let group = &self.groups[0];
        let available = if self.initialized { "True" } else { "False" };
        let mut status = counts(group);
        status["version"] = json!(kcp.spec.version);
        status["conditions"] =
            json!([condition("Available", available, "NotAvailable", "Control plane not yet initialized")]);
        kcp.status = Some(from(status));
        kcp
    }

    fn deployment(&self, pool: usize, group: &[MachineFixture]) -> (MachineDeployment, MachineSet) {
        let mut deployment = self.plan.deployments[pool].clone();
        deployment.metadata.generation = Some(1);
        deployment.status = Some(from(counts(group)));
        let set = json!({
            "metadata": {
                "name": format!("{}-abcde", deployment.name_any()),
                "labels": {"cluster.x-k8s.io/deployment-name": deployment.name_any()},
            },
            "status": {"replicas": group.len()},
            "spec": {
                "clusterName": deployment.spec.cluster_name,
                "selector": {},
                "template": serde_json::to_value(&deployment.spec.template).unwrap(),
            },
        });
        (deployment, from(set))
    }

    fn machine(&self, group: usize, number: usize, state: MachineFixture) -> (Machine, WCPMachine) {
        let cluster = self.tkc.name_any();
        let (parent, template) = match group {
            0 => (self.plan.control_plane.name_any(), &self.plan.machine_templates[0]),
            pool => (
                format!("{}-abcde", self.plan.deployments[pool - 1].name_any()),
                &self.plan.machine_templates[pool],
            ),
        };
        let name = format!("{parent}-{number}");
        let mut labels = json!({"cluster.x-k8s.io/cluster-name": cluster});
        match group {
            0 => labels["cluster.x-k8s.io/control-plane"] = json!(""),
            pool => {
                labels["cluster.x-k8s.io/deployment-name"] =
                    json!(self.plan.deployments[pool - 1].name_any());
            }
        }
        let mut status = json!({"conditions": machine_conditions(state)});
        if state.node.is_some() {
            status["nodeRef"] = json!({"name": name});
        }
        let machine = json!({
            "metadata": {"name": name, "namespace": "ns", "labels": labels},
            "spec": {
                "clusterName": cluster,
                "bootstrap": {},
                "infrastructureRef": {"apiGroup": "infrastructure.cluster.vmware.com", "kind": "WCPMachine", "name": name},
            },
            "status": status,
        });
        let mut below = json!({"vmstatus": state.vm, "conditions": below(state)});
        if state.vm == "ready" {
            below["vmIp"] = json!(format!("10.2.{group}.{number}"));
        }
        let wcp = json!({
            "metadata": {
                "name": name, "namespace": "ns", "labels": labels,
                "annotations": {"cluster.x-k8s.io/cloned-from-name": template.name_any()},
            },
            "spec": template.spec.template.spec,
            "status": below,
        });
        (from(machine), from(wcp))
    }
}

fn below(state: MachineFixture) -> Value {
    match state.below {
        None => json!([condition("Ready", "True", "Ready", "")]),
        Some((reason, message)) => json!([
            condition("Ready", "False", reason, message),
            condition("VirtualMachineProvisioned", "False", reason, message),
            condition("Paused", "False", "NotPaused", ""),
        ]),
    }
}

fn machine_conditions(state: MachineFixture) -> Value {
    let ready = if state.below.is_none() && state.node == Some("True") { "True" } else { "False" };
    let waiting = "Waiting for the control plane to be initialized";
    let of_node =
        |status| condition("NodeReady", status, "KubeletNotReady", "* Node.Ready: container runtime is down");
    let mut conditions = vec![
        condition("Ready", ready, "NotReady", "* NodeHealthy: waiting"),
        condition("BootstrapConfigReady", "False", "NotReady", waiting),
    ];
    conditions.extend(state.node.map(of_node));
    json!(conditions)
}

fn counts(group: &[MachineFixture]) -> Value {
    let ready = group.iter().filter(|state| state.below.is_none() && state.node == Some("True")).count();
    json!({
        "observedGeneration": 1, "replicas": group.len(), "readyReplicas": ready,
        "availableReplicas": ready, "upToDateReplicas": group.len(),
    })
}

/// Returns a Secret in the cluster's namespace.
pub(crate) fn secret(name: &str, data: &[(&str, &str)]) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    secret.metadata.namespace = Some("ns".to_owned());
    let data = data.iter().map(|(key, text)| ((*key).to_owned(), ByteString((*text).into())));
    secret.data = Some(data.collect());
    secret
}

/// Deserializes an object, or a part of one.
pub(crate) fn from<T: serde::de::DeserializeOwned>(mut value: Value) -> T {
    if let Some(object) = value.as_object_mut()
        && object.contains_key("metadata")
    {
        object.insert("apiVersion".to_owned(), json!("test/v1"));
        object.insert("kind".to_owned(), json!("Test"));
    }
    serde_json::from_value(value).unwrap()
}
