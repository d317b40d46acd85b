//! Writes a control plane node's files, as kubeadm does: leaf certificates, kubeconfigs and static Pods.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::Pod;
use pki::{Authority, Subject};
use serde_json::{Value, json};

use super::certs::{check_service_account_keys, issue, read_authority, write_pair};
use super::disk::Disk;
use super::failure::{Failure, Reason};
use super::host_path::volumes_of_kubeadm;
use super::kubeadm::{Arguments, ClusterConfiguration, Component, ExtraVolume};
use super::kubeconfig::{Credential, kubeconfig};
use crate::addresses::GuestAddress;

/// The group in kubeadm's admin kubeconfig.
pub const ADMINS: &str = "kubeadm:cluster-admins";
/// The folder for static Pod manifests.
pub const MANIFESTS: &str = "/etc/kubernetes/manifests";
/// The default API server port.
pub const API_PORT: u16 = 6443;
/// The control plane components in their start order.
pub const COMPONENTS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// The controllers that add-ons and nodes need. All other controllers are disabled, because they would only use memory.
const CONTROLLERS: [&str; 17] = [
    "bootstrap-signer-controller",
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "clusterrole-aggregation-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "token-cleaner-controller",
];

/// Flags whose valid values differ between Kubernetes releases. User-specified values are ignored, because the site
/// runs the components of one release for all node images.
const OF_ONE_RELEASE: [&str; 5] =
    ["admission-control-config-file", "cloud-config", "cloud-provider", "feature-gates", "runtime-config"];

/// The settings of a new control plane node.
#[derive(Clone, Copy, Debug)]
pub struct ControlPlaneSettings<'a> {
    pub cluster: &'a ClusterConfiguration,
    /// The node name.
    pub node: &'a str,
    pub address: GuestAddress,
    pub port: u16,
}

/// The administrator kubeconfigs with which a cluster is set up.
pub struct Kubeconfigs {
    /// The kubeconfig of the administrator whose rights come from RBAC.
    pub admin: String,
    /// The kubeconfig of the administrator whose rights don't depend on RBAC.
    pub super_admin: String,
}

impl ControlPlaneSettings<'_> {
    /// Signs kubeadm's leaf certificates with the CAs on the disk, and writes them to the disk. Returns the cluster CA.
    pub fn write_certificates(&self, disk: &Disk) -> Result<Authority, Failure> {
        let folder = self.cluster.certificates_dir();
        let etcd_folder = format!("{folder}/etcd");
        let ca = read_authority(disk, folder, "ca")?;
        let front_proxy = read_authority(disk, folder, "front-proxy-ca")?;
        let etcd = read_authority(disk, &etcd_folder, "ca")?;
        check_service_account_keys(disk, folder)?;

        let hosts = self.api_server_hosts()?;
        let sign = |authority: &Authority, folder: &str, file: &str, subject: &Subject| {
            write_pair(disk, folder, file, &issue(authority, subject)?)
        };
        sign(&ca, folder, "apiserver", &Subject::server("kube-apiserver", &hosts))?;
        sign(
            &ca,
            folder,
            "apiserver-kubelet-client",
            &Subject::client("kube-apiserver-kubelet-client", &[]),
        )?;
        sign(&ca, "/var/lib/kubelet/pki", "kubelet", &Subject::server(self.node, &self.etcd_hosts()))?;
        sign(&front_proxy, folder, "front-proxy-client", &Subject::client("front-proxy-client", &[]))?;
        let members = self.etcd_hosts();
        sign(&etcd, &etcd_folder, "server", &Subject::peer(self.node, &members))?;
        sign(&etcd, &etcd_folder, "peer", &Subject::peer(self.node, &members))?;
        sign(
            &etcd,
            &etcd_folder,
            "healthcheck-client",
            &Subject::client("kube-etcd-healthcheck-client", &[]),
        )?;
        sign(&etcd, folder, "apiserver-etcd-client", &Subject::client("kube-apiserver-etcd-client", &[]))?;
        Ok(ca)
    }

    fn api_server_hosts(&self) -> Result<Vec<String>, Failure> {
        let cluster = self.cluster;
        let mut hosts: Vec<String> =
            ["kubernetes", "kubernetes.default", "kubernetes.default.svc"].map(str::to_owned).to_vec();
        hosts.push(self.node.to_owned());
        hosts.push(format!("kubernetes.default.svc.{}", cluster.dns_domain()));
        hosts.extend([
            self.address.served.to_string(),
            self.address.reported.to_string(),
            "127.0.0.1".to_owned(),
        ]);
        // The `kubernetes` Service uses the first address of the range.
        hosts.push(service_address(cluster.service_subnet(), 1)?);
        hosts.extend(cluster.control_plane_endpoint.rsplit_once(':').map(|(host, _)| host.to_owned()));
        hosts.extend(cluster.api_server.cert_sans.iter().filter(|san| !san.is_empty()).cloned());
        hosts.sort();
        hosts.dedup();
        Ok(hosts)
    }

    fn etcd_hosts(&self) -> Vec<String> {
        let addresses = [self.address.served, self.address.reported, Ipv4Addr::LOCALHOST];
        let mut hosts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        hosts.extend([self.node.to_owned(), "localhost".to_owned()]);
        if let Some(local) = &self.cluster.etcd.local {
            hosts.extend(local.server_cert_sans.iter().chain(&local.peer_cert_sans).cloned());
        }
        hosts.sort();
        hosts.dedup();
        hosts
    }

    /// Writes the kubeconfigs for administrators and components. Returns the administrator kubeconfigs.
    pub fn write_kubeconfigs(&self, disk: &Disk, ca: &Authority) -> Result<Kubeconfigs, Failure> {
        let local = self.local_server();
        let write = |file: &str, server: &str, user: &str, groups: &[&str]| {
            let leaf = issue(ca, &Subject::client(user, groups))?;
            let credential = Credential::Certificate(&leaf);
            let text = kubeconfig(self.cluster.cluster_name(), server, ca.certificate(), user, &credential);
            disk.write(&format!("/etc/kubernetes/{file}"), &text)?;
            Ok(text)
        };
        write("controller-manager.conf", &local, "system:kube-controller-manager", &[])?;
        write("scheduler.conf", &local, "system:kube-scheduler", &[])?;
        Ok(Kubeconfigs {
            admin: write("admin.conf", &self.cluster_server(), "kubernetes-admin", &[ADMINS])?,
            super_admin: write("super-admin.conf", &local, "kubernetes-super-admin", &["system:masters"])?,
        })
    }

    /// Returns the URL of this node's API server.
    pub fn local_server(&self) -> String {
        format!("https://{}:{}", self.address.served, self.port)
    }

    /// Returns the URL of the control plane endpoint.
    pub fn cluster_server(&self) -> String {
        format!("https://{}", self.cluster.control_plane_endpoint)
    }

    /// Returns the URL at which other etcd members reach this node's member.
    pub fn peer_url(&self) -> String {
        format!("https://{}:2380", self.address.served)
    }

    fn client_url(&self) -> String {
        format!("https://{}:2379", self.address.served)
    }

    /// Writes the manifests of the static Pods. If the node joins a cluster, `members` lists all etcd members as
    /// `(name, peer URL)`, including the node's own member. For the first node, `members` is empty.
    pub fn write_manifests(&self, disk: &Disk, members: &[(String, String)]) -> Result<(), Failure> {
        let cluster = self.cluster;
        let of = |component: &'static str, arguments, configured: &Component| {
            (component, merged(arguments, Some(&configured.extra_args)), configured.extra_volumes.clone())
        };
        let of_etcd = cluster.etcd.local.as_ref().map(|local| &local.extra_args);
        for (component, arguments, extra_volumes) in [
            ("etcd", merged(self.etcd(members), of_etcd), Vec::new()),
            of("kube-apiserver", self.api_server(), &cluster.api_server),
            of("kube-controller-manager", self.controller_manager(), &cluster.controller_manager),
            of("kube-scheduler", self.scheduler(), &cluster.scheduler),
        ] {
            let mut volumes = volumes_of_kubeadm(cluster, component);
            // As in kubeadm, an extra volume replaces a default volume with the same name.
            volumes.retain(|own| extra_volumes.iter().all(|extra| extra.name != own.name));
            volumes.extend(extra_volumes);
            let pod = json!(self.pod(component, &arguments, &volumes)?);
            disk.write(&format!("{MANIFESTS}/{component}.json"), pod.to_string())?;
        }
        Ok(())
    }

    fn pod(
        &self,
        component: &str,
        arguments: &[(String, String)],
        volumes: &[ExtraVolume],
    ) -> Result<Pod, Failure> {
        let mount = |volume: &ExtraVolume| json!({"name": volume.name, "mountPath": volume.mount_path, "readOnly": volume.read_only});
        let source = |volume: &ExtraVolume| json!({"name": volume.name, "hostPath": {"path": volume.host_path, "type": volume.path_type}});
        let mut command = vec![component.to_owned()];
        command.extend(arguments.iter().map(|(name, value)| format!("--{name}={value}")));
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": component,
                "namespace": "kube-system",
                "labels": { "component": component, "tier": "control-plane" },
                "annotations": self.annotations(component),
            },
            "spec": {
                "hostNetwork": true,
                "priority": 2_000_001_000,
                "priorityClassName": "system-node-critical",
                "containers": [{
                    "name": component,
                    "image": self.cluster.image_of(component),
                    "imagePullPolicy": "IfNotPresent",
                    "command": command,
                    "volumeMounts": volumes.iter().map(mount).collect::<Vec<_>>(),
                }],
                "volumes": volumes.iter().map(source).collect::<Vec<_>>(),
            },
        });
        serde_json::from_value(pod).map_err(|error| Failure::host("make a static pod", &error))
    }

    /// Returns the annotations that joining control plane nodes and Cluster API read.
    fn annotations(&self, component: &str) -> Value {
        match component {
            "etcd" => json!({ "kubeadm.kubernetes.io/etcd.advertise-client-urls": self.client_url() }),
            "kube-apiserver" => json!({
                "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint":
                    format!("{}:{}", self.address.served, self.port),
            }),
            _ => json!({}),
        }
    }

    fn etcd(&self, members: &[(String, String)]) -> Vec<(&'static str, String)> {
        let folder = format!("{}/etcd", self.cluster.certificates_dir());
        let peers: Vec<_> = members.iter().map(|(name, url)| format!("{name}={url}")).collect();
        let (state, peers) = match peers.as_slice() {
            [] => ("new", format!("{}={}", self.node, self.peer_url())),
            peers => ("existing", peers.join(",")),
        };
        vec![
            ("name", self.node.to_owned()),
            ("data-dir", self.cluster.etcd_data_dir().to_owned()),
            ("listen-client-urls", self.client_url()),
            ("advertise-client-urls", self.client_url()),
            ("listen-peer-urls", self.peer_url()),
            ("initial-advertise-peer-urls", self.peer_url()),
            ("initial-cluster", peers),
            ("initial-cluster-state", state.to_owned()),
            ("cert-file", format!("{folder}/server.crt")),
            ("key-file", format!("{folder}/server.key")),
            ("trusted-ca-file", format!("{folder}/ca.crt")),
            ("client-cert-auth", "true".to_owned()),
            ("peer-cert-file", format!("{folder}/peer.crt")),
            ("peer-key-file", format!("{folder}/peer.key")),
            ("peer-trusted-ca-file", format!("{folder}/ca.crt")),
            ("peer-client-cert-auth", "true".to_owned()),
            ("snapshot-count", "10000".to_owned()),
            // Omits kubeadm's watch-progress-notify-interval=5s, because notifying every watch would be half of an idle
            // control plane's work. The API server requests progress notifications when a list needs them.
            // unsafe-no-fsync is safe here: unsynced writes are lost if a machine is killed, but not if a process is
            // killed.
            ("unsafe-no-fsync", "true".to_owned()),
        ]
    }

    fn api_server(&self) -> Vec<(&'static str, String)> {
        let folder = self.cluster.certificates_dir();
        let file = |name: &str| format!("{folder}/{name}");
        vec![
            ("advertise-address", self.address.served.to_string()),
            ("bind-address", self.address.served.to_string()),
            ("secure-port", self.port.to_string()),
            // Kubernetes rejects loopback addresses in Endpoints. Guests don't use the `kubernetes` Service.
            ("endpoint-reconciler-type", "none".to_owned()),
            ("allow-privileged", "true".to_owned()),
            ("authorization-mode", "Node,RBAC".to_owned()),
            ("client-ca-file", file("ca.crt")),
            ("enable-admission-plugins", "NodeRestriction".to_owned()),
            ("enable-bootstrap-token-auth", "true".to_owned()),
            ("etcd-cafile", file("etcd/ca.crt")),
            ("etcd-certfile", file("apiserver-etcd-client.crt")),
            ("etcd-keyfile", file("apiserver-etcd-client.key")),
            ("etcd-servers", self.client_url()),
            ("kubelet-client-certificate", file("apiserver-kubelet-client.crt")),
            ("kubelet-client-key", file("apiserver-kubelet-client.key")),
            ("kubelet-preferred-address-types", "InternalIP,ExternalIP,Hostname".to_owned()),
            ("proxy-client-cert-file", file("front-proxy-client.crt")),
            ("proxy-client-key-file", file("front-proxy-client.key")),
            ("requestheader-allowed-names", "front-proxy-client".to_owned()),
            ("requestheader-client-ca-file", file("front-proxy-ca.crt")),
            ("requestheader-extra-headers-prefix", "X-Remote-Extra-".to_owned()),
            ("requestheader-group-headers", "X-Remote-Group".to_owned()),
            ("requestheader-username-headers", "X-Remote-User".to_owned()),
            (
                "service-account-issuer",
                format!("https://kubernetes.default.svc.{}", self.cluster.dns_domain()),
            ),
            ("service-account-key-file", file("sa.pub")),
            ("service-account-signing-key-file", file("sa.key")),
            ("service-cluster-ip-range", self.cluster.service_subnet().to_owned()),
            ("tls-cert-file", file("apiserver.crt")),
            ("tls-private-key-file", file("apiserver.key")),
        ]
    }

    fn controller_manager(&self) -> Vec<(&'static str, String)> {
        let folder = self.cluster.certificates_dir();
        let file = |name: &str| format!("{folder}/{name}");
        vec![
            ("kubeconfig", "/etc/kubernetes/controller-manager.conf".to_owned()),
            ("cluster-name", self.cluster.cluster_name().to_owned()),
            ("cluster-signing-cert-file", file("ca.crt")),
            ("cluster-signing-key-file", file("ca.key")),
            ("controllers", CONTROLLERS.join(",")),
            ("leader-elect", "true".to_owned()),
            ("root-ca-file", file("ca.crt")),
            // Disabled, because all guests would listen on the same port. The process state replaces the health check.
            ("secure-port", "0".to_owned()),
            ("service-account-private-key-file", file("sa.key")),
            ("use-service-account-credentials", "true".to_owned()),
        ]
    }

    fn scheduler(&self) -> Vec<(&'static str, String)> {
        let kubeconfig = "/etc/kubernetes/scheduler.conf".to_owned();
        vec![
            ("bind-address", self.address.served.to_string()),
            ("kubeconfig", kubeconfig),
            ("leader-elect", "true".to_owned()),
        ]
    }
}

/// Merges extra arguments into the defaults. Extra arguments take precedence. Ignores extra arguments that would change
/// the guest's addresses, ports or controllers, or whose valid values differ between releases.
fn merged(own: Vec<(&'static str, String)>, extra: Option<&Arguments>) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> =
        own.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    for (name, value) in extra.map_or([].as_slice(), |extra| extra.0.as_slice()) {
        let fixed = name.contains("address")
            || name.contains("port")
            || name.contains("urls")
            || name == "controllers";
        if fixed || OF_ONE_RELEASE.contains(&name.as_str()) {
            continue;
        }
        match all.iter_mut().find(|(own, _)| own == name) {
            Some((_, own)) => own.clone_from(value),
            None => all.push((name.clone(), value.clone())),
        }
    }
    all
}

/// Returns an address in the first Service CIDR of the comma-separated `subnets`. Number 0 is the network address.
pub(super) fn service_address(subnets: &str, number: u32) -> Result<String, Failure> {
    let first = subnets.split(',').next().unwrap_or_default();
    let net: ipnet::IpNet = first
        .parse()
        .map_err(|_| Failure::new(Reason::KubeadmConfig, format!("serviceSubnet {first:?} is no CIDR")))?;
    Ok(match net.trunc() {
        ipnet::IpNet::V4(net) => Ipv4Addr::from(u32::from(net.network()) + number).to_string(),
        ipnet::IpNet::V6(net) => {
            std::net::Ipv6Addr::from(u128::from(net.network()) + u128::from(number)).to_string()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_arguments_win_where_they_may() {
        let own = vec![("bind-address", "127.9.0.1".to_owned()), ("allow-privileged", "true".to_owned())];
        let extra = [
            ("bind-address", "0.0.0.0"),
            ("allow-privileged", "false"),
            ("audit-log-path", "/var/log/a"),
            ("cloud-provider", "x"),
        ];
        let extra = Arguments(extra.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec());
        let all = merged(own, Some(&extra));
        let shown: Vec<_> = all.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(shown, ["bind-address=127.9.0.1", "allow-privileged=false", "audit-log-path=/var/log/a"]);
    }

    #[test]
    fn host_bits_do_not_move_the_first_service() {
        assert_eq!(service_address("198.51.100.0/12", 1).unwrap(), "198.48.0.1");
        assert_eq!(service_address("10.96.0.0/12,fd00::/108", 1).unwrap(), "10.96.0.1");
        assert!(service_address("x", 1).is_err());
    }
}
