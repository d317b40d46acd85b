//! The KubeadmControlPlane.

use std::collections::BTreeMap;

use api::capi::{
    KubeadmControlPlane, KubeadmControlPlaneKubeadmConfigSpec as ConfigSpec,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfiguration as ClusterConfiguration,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfigurationApiServer as ApiServer,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfigurationApiServerExtraArgs as ApiServerArgument,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfigurationControllerManager as ControllerManager,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfigurationControllerManagerExtraArgs as ControllerManagerArgument,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfigurationDns as Dns,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfigurationEtcd as Etcd,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfigurationEtcdLocal as LocalEtcd,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfigurationScheduler as Scheduler,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfigurationSchedulerExtraArgs as SchedulerArgument,
    KubeadmControlPlaneKubeadmConfigSpecDiskSetup as DiskSetup,
    KubeadmControlPlaneKubeadmConfigSpecDiskSetupFilesystems as DiskFilesystem,
    KubeadmControlPlaneKubeadmConfigSpecDiskSetupPartitions as DiskPartition,
    KubeadmControlPlaneKubeadmConfigSpecFiles as ConfigFile,
    KubeadmControlPlaneKubeadmConfigSpecInitConfiguration as InitConfiguration,
    KubeadmControlPlaneKubeadmConfigSpecInitConfigurationNodeRegistration as InitRegistration,
    KubeadmControlPlaneKubeadmConfigSpecInitConfigurationNodeRegistrationKubeletExtraArgs as InitArgument,
    KubeadmControlPlaneKubeadmConfigSpecJoinConfiguration as JoinConfiguration,
    KubeadmControlPlaneKubeadmConfigSpecJoinConfigurationNodeRegistration as JoinRegistration,
    KubeadmControlPlaneKubeadmConfigSpecJoinConfigurationNodeRegistrationKubeletExtraArgs as JoinArgument,
    KubeadmControlPlaneMachineTemplate as MachineTemplate,
    KubeadmControlPlaneMachineTemplateSpec as MachineTemplateSpec,
    KubeadmControlPlaneMachineTemplateSpecDeletion as MachineDeletion,
    KubeadmControlPlaneMachineTemplateSpecInfrastructureRef as InfrastructureRef,
    KubeadmControlPlaneRemediation as Remediation, KubeadmControlPlaneRollout as Rollout,
    KubeadmControlPlaneRolloutBefore as RolloutBefore, KubeadmControlPlaneSpec,
};
use api::capw::WCPMachineTemplate;
use api::gcm::parts::ControlPlane;
use api::gcm::release::ContainerImage;
use api::names::{self, finalizer, label};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::bootstrap::{
    NODE_DELETION_SECONDS, NODE_NAME, NodeSetup, drain_seconds, kubelet_arguments, node_setup,
};
use super::group_input::GroupInput;
use crate::cluster::input::{Input, TypedReference};
use crate::cluster::login::objects::NodeUser;
use crate::cluster::volumes::setup::{VolumeFilesystem, VolumeSetup, VolumesAs, volume_setup};
use crate::release::KubernetesRelease;

/// Machines of the control plane are replaced so many days before their certificates expire, which kubeadm issues for
/// a year. The original's `controlPlaneCertificateRotation` has the same number.
const CERTIFICATE_DAYS: i32 = 90;

/// The KubeadmControlPlane, whose machines are made from the template of this name and have their volumes like this.
pub fn control_plane(
    input: &GroupInput<'_>,
    template: &str,
    volumes_as: VolumesAs,
    replicas: i32,
) -> KubeadmControlPlane {
    let cluster = &input.cluster;
    let ControlPlane { replicas: _, vm_class: _, storage_class: _, volumes, tkr: _, node_drain_timeout } =
        &cluster.tkc.spec.topology.control_plane;
    // Cluster API's first look at it adds its finalizer and nothing else, and its second comes a second later.
    let metadata = ObjectMeta {
        finalizers: Some(vec![finalizer::CONTROL_PLANE.to_owned()]),
        ..cluster.metadata(&names::control_plane(&cluster.name()), &[(label::TKR, &cluster.release_label())])
    };
    let TypedReference { api_group, kind, name } = TypedReference::to::<WCPMachineTemplate>(template);
    let machine = MachineTemplateSpec {
        infrastructure_ref: InfrastructureRef { api_group, kind, name },
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
            kubeadm_config_spec: Some(config(input, volume_setup(volumes.as_deref(), volumes_as))),
            ..KubeadmControlPlaneSpec::default()
        },
        status: None,
    }
}

fn config(input: &GroupInput<'_>, volumes: VolumeSetup) -> ConfigSpec {
    let cluster = &input.cluster;
    let NodeSetup { commands, files } = node_setup(cluster, &volumes);
    let VolumeSetup { boot_commands, filesystems, mounts, files: _, commands: _ } = volumes;
    let files: Vec<ConfigFile> = files.into_iter().map(Into::into).collect();
    let mut config = ConfigSpec {
        cluster_configuration: Some(cluster_configuration(cluster.release)),
        init_configuration: Some(InitConfiguration {
            node_registration: Some(init_registration(cluster)),
            ..InitConfiguration::default()
        }),
        join_configuration: Some(JoinConfiguration {
            node_registration: Some(join_registration(cluster)),
            ..JoinConfiguration::default()
        }),
        boot_commands: (!boot_commands.is_empty()).then_some(boot_commands),
        disk_setup: (!filesystems.is_empty()).then(|| disk_setup(filesystems)),
        mounts: (!mounts.is_empty()).then_some(mounts),
        pre_kubeadm_commands: Some(commands),
        files: (!files.is_empty()).then_some(files),
        users: Some(vec![NodeUser::of(cluster, input.login).into()]),
        ..ConfigSpec::default()
    };
    input.virtual_ip.clone().put_into(&mut config);
    config
}

fn cluster_configuration(release: &KubernetesRelease) -> ClusterConfiguration {
    const PROFILING: (&str, &str) = ("profiling", "false");
    ClusterConfiguration {
        certificates_dir: Some("/etc/kubernetes/pki".to_owned()),
        api_server: Some(ApiServer {
            extra_args: Some(
                [PROFILING, ("tls-min-version", "VersionTLS12")]
                    .map(|(name, value)| ApiServerArgument { name: name.to_owned(), value: value.to_owned() })
                    .to_vec(),
            ),
            ..ApiServer::default()
        }),
        controller_manager: Some(ControllerManager {
            extra_args: Some(vec![ControllerManagerArgument {
                name: PROFILING.0.to_owned(),
                value: PROFILING.1.to_owned(),
            }]),
            ..ControllerManager::default()
        }),
        scheduler: Some(Scheduler {
            extra_args: Some(vec![SchedulerArgument {
                name: PROFILING.0.to_owned(),
                value: PROFILING.1.to_owned(),
            }]),
            ..Scheduler::default()
        }),
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

/// Whether a release says anything of an image.
pub fn names_something(image: &ContainerImage) -> bool {
    let ContainerImage { image_repository, image_tag } = image;
    image_repository.is_some() || image_tag.is_some()
}

fn init_registration(input: &Input<'_>) -> InitRegistration {
    let arguments = kubelet_arguments(input, &BTreeMap::new());
    InitRegistration {
        name: Some(NODE_NAME.to_owned()),
        kubelet_extra_args: Some(
            arguments.map(|(name, value)| InitArgument { name: name.to_owned(), value }).to_vec(),
        ),
        ..InitRegistration::default()
    }
}

fn join_registration(input: &Input<'_>) -> JoinRegistration {
    let arguments = kubelet_arguments(input, &BTreeMap::new());
    JoinRegistration {
        name: Some(NODE_NAME.to_owned()),
        kubelet_extra_args: Some(
            arguments.map(|(name, value)| JoinArgument { name: name.to_owned(), value }).to_vec(),
        ),
        ..JoinRegistration::default()
    }
}

fn disk_setup(volumes: Vec<VolumeFilesystem>) -> DiskSetup {
    // Of each disk, since Cluster API writes a `disk_setup` that is nothing otherwise, which cloud-init warns of.
    let whole = |volume: &VolumeFilesystem| DiskPartition {
        device: volume.device.clone(),
        layout: Some(false),
        ..DiskPartition::default()
    };
    let partitions = volumes.iter().map(whole).collect();
    let filesystem = |volume: VolumeFilesystem| DiskFilesystem {
        device: volume.device,
        filesystem: volume.filesystem,
        label: Some(volume.label),
        partition: Some(volume.partition),
        ..DiskFilesystem::default()
    };
    let filesystems = volumes.into_iter().map(filesystem).collect();
    DiskSetup { filesystems: Some(filesystems), partitions: Some(partitions) }
}
