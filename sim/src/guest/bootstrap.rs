//! Simulates `kubeadm init` and `kubeadm join`. The real kubeadm is only used to validate the configuration. This
//! module creates the certificates, tokens and static Pods.
//!
//! The real `kubeadm init phase …` would be fast enough (about half a second each for certificates and kubeconfigs), but
//! doesn't work:
//! - It deploys only its own release and the previous release, so `kubeadm-config`, add-ons and images would have wrong versions.
//! - It doesn't advertise loopback addresses, but guests listen only on loopback addresses.
//! - `kubeadm join` starts the kubelet with systemd.

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use pki::{Pair, Subject};
use serde_json::json;

use super::certs::{der, issue, unusable};
use super::commands::Kubeadm;
use super::control_plane::{API_PORT, ControlPlaneSettings, Kubeconfigs};
use super::deadline::{Deadline, retry_until};
use super::discovery::{DiscoveredCluster, discover};
use super::etcd::Etcd;
use super::failure::{Failure, Reason, api_error};
use super::guest_vm::GuestVm;
use super::kubeadm::{
    ClusterConfiguration, Documents, Endpoint, InitConfiguration, JoinConfiguration, NodeRegistration,
};
use super::kubeconfig::{Credential, client, cluster_info, kubeconfig};
use super::kubelet::Kubelet;
use super::objects::{ObjectWriter, kubelet_config_name};
use super::registration::{Registration, release_version};
use super::validate::validate;
use super::virtual_ip::Joins;
use crate::kubeadm_images::minor;

/// The node label in which gcm records the node's release.
const RELEASE_LABEL: &str = "run.tanzu.vmware.com/kubernetesDistributionVersion";

/// Turns the VM into a node and returns its registration.
pub(super) async fn run(
    kubeadm: &Kubeadm,
    guest_vm: &GuestVm,
    kubelet: &mut Kubelet,
) -> Result<Registration, Failure> {
    let (Kubeadm::Init(path) | Kubeadm::Join(path)) = kubeadm;
    let text = guest_vm.disk.read(path).ok_or_else(|| missing(path))?;
    let documents = Documents::parse(&text)?;
    validate(guest_vm, &text).await?;
    let joins_as_worker = documents.join.as_ref().is_some_and(|join| join.control_plane.is_none());
    guest_vm.disk.preflight(!joins_as_worker)?;
    let mut node = Bootstrap { guest_vm, kubelet };
    match (kubeadm, &documents.cluster, &documents.init, &documents.join) {
        (Kubeadm::Init(_), Some((cluster, _)), Some(init), None) => {
            node.init(&documents, cluster, init).await
        }
        (Kubeadm::Join(_), None, None, Some(join)) => node.join(join).await,
        (Kubeadm::Init(_), ..) => {
            Err(incomplete("init needs ClusterConfiguration and InitConfiguration, and nothing else"))
        }
        (Kubeadm::Join(_), ..) => Err(incomplete("join needs JoinConfiguration, and nothing else")),
    }
}

fn missing(path: &str) -> Failure {
    Failure::new(Reason::KubeadmConfig, format!("{path} is not there"))
}

fn incomplete(what: &str) -> Failure {
    Failure::new(Reason::KubeadmConfig, what)
}

/// Returns the user name of a node's kubelet.
fn user_of(node: &str) -> String {
    format!("system:node:{node}")
}

fn port(endpoint: &Endpoint) -> u16 {
    if endpoint.bind_port == 0 { API_PORT } else { endpoint.bind_port }
}

struct Bootstrap<'a> {
    guest_vm: &'a GuestVm,
    kubelet: &'a mut Kubelet,
}

impl Bootstrap<'_> {
    async fn init(
        &mut self,
        documents: &Documents,
        cluster: &ClusterConfiguration,
        init: &InitConfiguration,
    ) -> Result<Registration, Failure> {
        cluster.check()?;
        let guest_vm = self.guest_vm;
        let version = self.image_version(cluster)?;
        self.pull_images(cluster, &init.node_registration)?;
        let registration = Registration::of(&init.node_registration, &version, true)?;
        let node = ControlPlaneSettings {
            cluster,
            node: &registration.name,
            address: guest_vm.address,
            port: port(&init.local_api_endpoint),
        };
        let ca = node.write_certificates(&guest_vm.disk)?;
        let kubeconfigs = node.write_kubeconfigs(&guest_vm.disk, &ca)?;
        node.write_manifests(&guest_vm.disk, &[])?;
        let leaf = issue(&ca, &Subject::client(&user_of(node.node), &["system:nodes"]))?;
        self.configure_kubelet(&registration, cluster, &node.local_server(), ca.certificate(), &leaf)?;

        self.kubelet.start_virtual_ip(node.port, Joins::First)?;
        self.kubelet.start_pod("etcd")?;
        self.kubelet.etcd_started(guest_vm.deadline()).await?;
        let writer = ObjectWriter(self.start_control_plane(&kubeconfigs).await?);
        writer.admins().await?;
        self.kubelet.register(&registration).await?;
        mark_control_plane(&writer.0, &registration).await?;
        // Publish the objects for joining only now, because other nodes join as soon as they find the cluster.
        writer
            .bootstrap(&cluster_info(&node.cluster_server(), ca.certificate()), &init.bootstrap_tokens)
            .await?;
        writer.configuration(documents).await?;
        writer.addons(cluster, &init.skip_phases).await?;
        Ok(registration)
    }

    async fn join(&mut self, join: &JoinConfiguration) -> Result<Registration, Failure> {
        join.node_registration.check()?;
        let guest_vm = self.guest_vm;
        let found = discover(&join.discovery, guest_vm.deadline()).await?;
        let cluster = cluster_configuration(&found, guest_vm.deadline()).await?;
        let version = self.joining_version(join, &cluster)?;
        let registration = Registration::of(&join.node_registration, &version, join.control_plane.is_some())?;
        match &join.control_plane {
            None => self.join_worker(&found, &cluster, registration).await,
            Some(own) => {
                let node = ControlPlaneSettings {
                    cluster: &cluster,
                    node: &registration.name,
                    address: guest_vm.address,
                    port: port(&own.local_api_endpoint),
                };
                self.pull_images(&cluster, &join.node_registration)?;
                self.join_control_plane(&found, &node, &registration).await?;
                Ok(registration)
            }
        }
    }

    async fn join_worker(
        &mut self,
        found: &DiscoveredCluster,
        cluster: &ClusterConfiguration,
        registration: Registration,
    ) -> Result<Registration, Failure> {
        let disk = &self.guest_vm.disk;
        disk.write(&format!("{}/ca.crt", cluster.certificates_dir()), &found.ca)?;
        let leaf = self.client_certificate(found, &registration.name).await?;
        self.configure_kubelet(&registration, cluster, &found.server, &found.ca, &leaf)?;
        self.kubelet.register(&registration).await?;
        Ok(registration)
    }

    async fn join_control_plane(
        &mut self,
        found: &DiscoveredCluster,
        node: &ControlPlaneSettings<'_>,
        registration: &Registration,
    ) -> Result<(), Failure> {
        let guest_vm = self.guest_vm;
        let cluster = node.cluster;
        let ca = node.write_certificates(&guest_vm.disk)?;
        if der(ca.certificate())? != der(&found.ca)? {
            return Err(Failure::new(Reason::Certificate, "the CA on the disk is not the cluster's"));
        }
        let kubeconfigs = node.write_kubeconfigs(&guest_vm.disk, &ca)?;
        let leaf = self.client_certificate(found, node.node).await?;
        self.configure_kubelet(registration, cluster, &node.local_server(), &found.ca, &leaf)?;
        self.kubelet.start_virtual_ip(node.port, Joins::Later)?;

        let admin = client(&kubeconfigs.admin).await?;
        let etcd = Etcd::of_cluster(admin, &guest_vm.disk, cluster.certificates_dir()).await?;
        let members = etcd.add_learner(node.node, &node.peer_url(), guest_vm.deadline()).await?;
        node.write_manifests(&guest_vm.disk, &members)?;
        self.kubelet.start_pod("etcd")?;
        etcd.promote(&node.peer_url(), guest_vm.deadline()).await?;
        self.kubelet.etcd_announced(cluster.certificates_dir()).await;
        self.kubelet.etcd_ready(cluster.certificates_dir(), guest_vm.deadline()).await?;

        let local = self.start_control_plane(&kubeconfigs).await?;
        self.kubelet.register(registration).await?;
        mark_control_plane(&local, registration).await
    }

    /// Writes a kubelet kubeconfig for the API server at `server`, with the client certificate `leaf`.
    fn configure_kubelet(
        &self,
        registration: &Registration,
        cluster: &ClusterConfiguration,
        server: &str,
        ca: &str,
        leaf: &Pair,
    ) -> Result<(), Failure> {
        let (user, credential) = (user_of(&registration.name), Credential::Certificate(leaf));
        let own = kubeconfig(cluster.cluster_name(), server, ca, &user, &credential);
        self.kubelet.configure(registration, &own)
    }

    /// Starts the control plane components that need etcd. Returns a super-admin client for the local API server.
    async fn start_control_plane(&mut self, kubeconfigs: &Kubeconfigs) -> Result<kube::Client, Failure> {
        self.kubelet.start_pod("kube-apiserver")?;
        let client = client(&kubeconfigs.super_admin).await?;
        self.kubelet.api_ready(&client, self.guest_vm.deadline()).await?;
        self.kubelet.start_pod("kube-controller-manager")?;
        self.kubelet.start_pod("kube-scheduler")?;
        Ok(client)
    }

    /// Requests a client certificate by TLS bootstrap. The cluster's controllers approve the request and sign the certificate.
    async fn client_certificate(&self, found: &DiscoveredCluster, node: &str) -> Result<Pair, Failure> {
        let subject = Subject::client(&user_of(node), &["system:nodes"]);
        let (request, key) = subject.request().map_err(|error| unusable("certificate request", &error))?;
        let requests: Api<CertificateSigningRequest> = Api::all(found.client.clone());
        let object = CertificateSigningRequest {
            metadata: ObjectMeta { generate_name: Some("node-csr-".into()), ..ObjectMeta::default() },
            spec: CertificateSigningRequestSpec {
                request: ByteString(request.into_bytes()),
                signer_name: "kubernetes.io/kube-apiserver-client-kubelet".into(),
                usages: Some(vec!["digital signature".into(), "client auth".into()]),
                ..CertificateSigningRequestSpec::default()
            },
            status: None,
        };
        let made = requests
            .create(&PostParams::default(), &object)
            .await
            .map_err(|error| by_token("ask for a certificate", &error))?;
        let name = made.metadata.name.unwrap_or_default();
        let signed = || async {
            let request =
                requests.get(&name).await.map_err(|error| by_token("read the certificate", &error))?;
            let certificate = request.status.and_then(|status| status.certificate);
            certificate.ok_or_else(|| {
                Failure::new(Reason::Registration, "the certificate request was not approved and signed")
            })
        };
        let certificate = retry_until(self.guest_vm.deadline(), signed).await?;
        let certificate = String::from_utf8(certificate.0)
            .map_err(|error| Failure::host("read the certificate", &error))?;
        Ok(Pair { certificate, key })
    }

    /// Runs kubeadm's ImagePull check, which applies only to control plane nodes. The check is skipped with
    /// `imagePullPolicy: Never`, and its errors are ignored if `ignorePreflightErrors` contains `ImagePull` or `all`.
    fn pull_images(
        &self,
        cluster: &ClusterConfiguration,
        registration: &NodeRegistration,
    ) -> Result<(), Failure> {
        if registration.image_pull_policy.as_deref() == Some("Never") {
            return Ok(());
        }
        let ignored = |name: &String| ["all", "imagepull"].contains(&name.to_ascii_lowercase().as_str());
        let is_ignored = registration.ignore_preflight_errors.iter().any(ignored);
        let GuestVm { images, disk, .. } = self.guest_vm;
        let pull = |image: String| {
            let found = |error| format!("failed to pull image {image}: {error}");
            let pulled = images.pull(disk, &image);
            if is_ignored {
                return Ok(());
            }
            pulled.map_err(|error| Failure::preflight("ImagePull", &found(error)))
        };
        cluster.images().into_iter().try_for_each(pull)
    }

    /// Returns the first node's kubelet version, which is the version of the node image or, if the image doesn't have
    /// one, the cluster's version. Fails if their minor versions differ. The real kubeadm rejects a cluster version
    /// that is older than the kubelet. It accepts a newer one, but the node image's programs don't match that version.
    fn image_version(&self, cluster: &ClusterConfiguration) -> Result<String, Failure> {
        let version = &cluster.kubernetes_version;
        let Some(image) = &self.guest_vm.kubernetes_version else { return Ok(version.clone()) };
        let (of_image, wanted) = (minor(image), minor(version));
        let message = if of_image == wanted {
            return Ok(image.clone());
        } else if of_image == wanted + 1 {
            let found = format!(
                "the kubelet version is higher than the control plane version. This is not a supported version skew and may \
                 lead to a malfunctional cluster. Kubelet version: {image:?} Control plane version: {version:?}"
            );
            return Err(Failure::preflight("KubeletVersion", &found));
        } else if of_image > wanted {
            format!(
                "this version of kubeadm only supports deploying clusters with the control plane version >= 1.{}.0. \
                 Current version: {version}",
                of_image - 1
            )
        } else {
            format!("kubeadm's kubernetesVersion {version} does not fit the node image, which has {image}")
        };
        Err(Failure::new(Reason::Version, message))
    }

    /// Returns a joining node's kubelet version: the version of the node image, the version in the node's labels, or
    /// the cluster's version, whichever exists first. Fails if its minor version is newer than the cluster's.
    fn joining_version(
        &self,
        join: &JoinConfiguration,
        cluster: &ClusterConfiguration,
    ) -> Result<String, Failure> {
        let labels = join.node_registration.kubelet_extra_args.get("node-labels").unwrap_or_default();
        let label = labels
            .split(',')
            .filter_map(|label| label.split_once('='))
            .find(|(key, _)| *key == RELEASE_LABEL);
        let known = self.guest_vm.kubernetes_version.clone().or_else(|| release_version(label?.1));
        let version = known.unwrap_or_else(|| cluster.kubernetes_version.clone());
        // A kubelet may be up to three minor versions older than its API server, but never newer.
        if minor(&version) > minor(&cluster.kubernetes_version) {
            let message =
                format!("a kubelet {version} is newer than the cluster's {}", cluster.kubernetes_version);
            return Err(Failure::new(Reason::Version, message));
        }
        Ok(version)
    }
}

fn by_token(doing: &str, error: &kube::Error) -> Failure {
    let message = format!("{doing} with the bootstrap token: {}", api_error(error));
    match error {
        kube::Error::Api(status) if status.code == 401 => {
            Failure::new(Reason::BootstrapToken, message).for_good()
        }
        kube::Error::Api(status) if status.code == 403 => Failure::new(Reason::BootstrapToken, message),
        _ => Failure::new(Reason::Registration, message),
    }
}

/// Waits until the cluster's first node has published the configurations of kubeadm and the kubelet. Returns the
/// ClusterConfiguration.
async fn cluster_configuration(
    found: &DiscoveredCluster,
    deadline: Deadline,
) -> Result<ClusterConfiguration, Failure> {
    let maps: Api<ConfigMap> = Api::namespaced(found.client.clone(), "kube-system");
    let read = |name: String| {
        let maps = &maps;
        let get = move || {
            let name = name.clone();
            async move { maps.get(&name).await.map_err(|error| by_token(&format!("read {name}"), &error)) }
        };
        retry_until(deadline, get)
    };
    let mut data = read("kubeadm-config".to_owned()).await?.data.unwrap_or_default();
    let text = data.remove("ClusterConfiguration").unwrap_or_default();
    let (cluster, _) = Documents::parse(&text)?
        .cluster
        .ok_or_else(|| incomplete("kubeadm-config holds no ClusterConfiguration"))?;
    read(kubelet_config_name(&cluster.kubernetes_version)).await?;
    Ok(cluster)
}

/// Sets the control plane labels, as kubeadm does. The node isn't allowed to set them itself.
async fn mark_control_plane(client: &kube::Client, registration: &Registration) -> Result<(), Failure> {
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = Patch::Merge(json!({ "metadata": { "labels": registration.control_plane_labels() } }));
    let marked = nodes.patch(&registration.name, &PatchParams::default(), &patch).await;
    marked.map(drop).map_err(|error| {
        Failure::new(Reason::Registration, format!("mark the control plane: {}", api_error(&error)))
    })
}
