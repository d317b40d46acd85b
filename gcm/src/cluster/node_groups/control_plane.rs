//! Builds the KubeadmControlPlane.

use std::collections::BTreeMap;

use api::capi::{
    KubeadmArgument as Argument, KubeadmConfigSpec as ConfigSpec,
    KubeadmConfigSpecClusterConfiguration as ClusterConfiguration,
    KubeadmConfigSpecClusterConfigurationApiServer as ApiServer,
    KubeadmConfigSpecClusterConfigurationControllerManager as ControllerManager,
    KubeadmConfigSpecClusterConfigurationDns as Dns, KubeadmConfigSpecClusterConfigurationEtcd as Etcd,
    KubeadmConfigSpecClusterConfigurationEtcdLocal as LocalEtcd,
    KubeadmConfigSpecClusterConfigurationScheduler as Scheduler,
    KubeadmConfigSpecInitConfiguration as InitConfiguration, KubeadmControlPlane,
    KubeadmControlPlaneMachineTemplate as MachineTemplate,
    KubeadmControlPlaneMachineTemplateSpec as MachineTemplateSpec,
    KubeadmControlPlaneRemediation as Remediation, KubeadmControlPlaneRollout as Rollout,
    KubeadmControlPlaneRolloutBefore as RolloutBefore, KubeadmControlPlaneSpec,
    KubeadmNodeRegistration as NodeRegistration, MachineDeletion,
};
use api::capw::WCPMachineTemplate;
use api::gcm::parts::ControlPlane;
use api::gcm::release::ContainerImage;
use api::names::{self, finalizer, label};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::api_server::ApiServerSetup;
use super::bootstrap::{NODE_DELETION_SECONDS, build_node_config, drain_seconds, node_registration};
use super::group_input::GroupInput;
use crate::cluster::input::reference_to;
use crate::cluster::volumes::{VolumeSetup, volume_setup};
use crate::release::KubernetesRelease;

/// The number of days before certificate expiry at which control plane machines are replaced. kubeadm's certificates are valid
/// for a year. In vSphere with Tanzu, `controlPlaneCertificateRotation` uses the same number.
const CERTIFICATE_DAYS: i32 = 90;

/// Returns the KubeadmControlPlane. `template` is the name of the machines' template.
pub fn build_control_plane(input: &GroupInput<'_>, template: &str, replicas: i32) -> KubeadmControlPlane {
    let cluster = &input.cluster;
    let ControlPlane { replicas: _, vm_class: _, storage_class: _, volumes, tkr: _, node_drain_timeout } =
        &cluster.tkc.spec.topology.control_plane;
    // Set Cluster API's finalizer to save a second: the first reconcile of an object without the finalizer only adds it, and
    // the next reconcile starts a second later.
    let metadata = ObjectMeta {
        finalizers: Some(vec![finalizer::CONTROL_PLANE.to_owned()]),
        ..cluster.metadata(&names::control_plane(&cluster.name()), &[(label::TKR, &cluster.release_label())])
    };
    let machine = MachineTemplateSpec {
        infrastructure_ref: reference_to::<WCPMachineTemplate>(template),
        deletion: Some(MachineDeletion {
            node_drain_timeout_seconds: drain_seconds(node_drain_timeout.as_deref()),
            node_deletion_timeout_seconds: Some(NODE_DELETION_SECONDS),
            ..MachineDeletion::default()
        }),
        ..MachineTemplateSpec::default()
    };
    KubeadmControlPlane {
        metadata,
        spec: KubeadmControlPlaneSpec {
            replicas: Some(replicas),
            rollout: Some(Rollout {
                before: Some(RolloutBefore { certificates_expiry_days: Some(CERTIFICATE_DAYS) }),
                ..Rollout::default()
            }),
            remediation: (input.health.max_remediations > 0).then_some(Remediation {
                max_retry: Some(input.health.max_remediations),
                min_healthy_period_seconds: Some(input.health.remediation_window),
                retry_period_seconds: None,
            }),
            version: cluster.release.kubernetes.clone(),
            machine_template: MachineTemplate { spec: machine, ..MachineTemplate::default() },
            kubeadm_config_spec: Some(config(input, volume_setup(volumes.as_deref()))),
            ..KubeadmControlPlaneSpec::default()
        },
        status: None,
    }
}

fn config(input: &GroupInput<'_>, volumes: VolumeSetup) -> ConfigSpec {
    let registration = node_registration(&input.cluster, &BTreeMap::new());
    let joins = NodeRegistration {
        ignore_preflight_errors: ignored_preflight_errors(input.cluster.release),
        ..registration.clone()
    };
    let mut config = ConfigSpec {
        cluster_configuration: Some(cluster_configuration(input.cluster.release)),
        init_configuration: Some(InitConfiguration {
            node_registration: Some(registration),
            ..InitConfiguration::default()
        }),
        ..build_node_config(input, volumes, joins)
    };
    input.virtual_ip.clone().put_into(&mut config);
    let kubernetes = &input.cluster.release.kubernetes;
    ApiServerSetup::new(&input.cluster.name(), kubernetes).put_into(&mut config);
    config
}

/// Returns the preflight errors that joining nodes ignore. During an upgrade, the cluster configuration names the previous
/// release's CoreDNS image until Cluster API upgrades CoreDNS. If that image was bundled, new nodes can't pull it, but kubeadm
/// doesn't need the image to join.
fn ignored_preflight_errors(release: &KubernetesRelease) -> Option<Vec<String>> {
    release.coredns.as_ref().filter(|image| names_something(image)).map(|_| vec!["ImagePull".to_owned()])
}

fn cluster_configuration(release: &KubernetesRelease) -> ClusterConfiguration {
    let argument = |name: &str, value: &str| Argument { name: name.to_owned(), value: value.to_owned() };
    let profiling = || argument("profiling", "false");
    ClusterConfiguration {
        certificates_dir: Some("/etc/kubernetes/pki".to_owned()),
        api_server: Some(ApiServer {
            extra_args: Some(vec![profiling(), argument("tls-min-version", "VersionTLS12")]),
            ..ApiServer::default()
        }),
        controller_manager: Some(ControllerManager {
            extra_args: Some(vec![profiling()]),
            ..ControllerManager::default()
        }),
        scheduler: Some(Scheduler { extra_args: Some(vec![profiling()]), ..Scheduler::default() }),
        image_repository: release.image_repository.clone(),
        dns: release
            .coredns
            .clone()
            .filter(names_something)
            .map(|image| Dns { image_repository: image.image_repository, image_tag: image.image_tag }),
        etcd: release.etcd.clone().filter(names_something).map(|image| Etcd {
            local: Some(LocalEtcd {
                image_repository: image.image_repository,
                image_tag: image.image_tag,
                ..LocalEtcd::default()
            }),
            ..Etcd::default()
        }),
        ..ClusterConfiguration::default()
    }
}

/// Returns true if the release specifies the image's repository or tag.
pub fn names_something(image: &ContainerImage) -> bool {
    let ContainerImage { image_repository, image_tag } = image;
    image_repository.is_some() || image_tag.is_some()
}
