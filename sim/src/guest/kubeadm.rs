//! Parses kubeadm configuration files (v1beta3 and v1beta4) strictly.

mod types;

use std::collections::BTreeMap;

use serde_json::Value;

use super::failure::{Failure, Reason, without_values};
use crate::kubeadm_images::{DefaultTags, REGISTRY, minor};
pub use types::{
    Arguments, BootstrapToken, BootstrapTokenDiscovery, ClusterConfiguration, Component, Discovery, Endpoint,
    ExtraVolume, InitConfiguration, JoinConfiguration, NodeRegistration,
};

/// kubeadm's default certificate directory.
pub const CERTIFICATES_DIR: &str = "/etc/kubernetes/pki";

/// The YAML documents of one configuration file.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    /// The ClusterConfiguration, parsed and in its original form.
    pub cluster: Option<(ClusterConfiguration, Value)>,
    pub init: Option<InitConfiguration>,
    pub join: Option<JoinConfiguration>,
    /// Configurations for other components (kubelet, kube-proxy), by kind.
    pub components: BTreeMap<String, Value>,
}

impl Documents {
    /// Parses a file with one or more YAML documents.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let mut documents = Self::default();
        for part in split(text) {
            let value: Value = serde_saphyr::from_str(&part)
                .map_err(|error| invalid("file", &without_values(&error.without_snippet().to_string())))?;
            if !value.is_null() {
                documents.add(value)?;
            }
        }
        Ok(documents)
    }

    fn add(&mut self, value: Value) -> Result<(), Failure> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        match version.as_str() {
            "kubeadm.k8s.io/v1beta3" => check_arguments(&value, &kind, Value::is_object, "a map")?,
            "kubeadm.k8s.io/v1beta4" => check_arguments(&value, &kind, Value::is_array, "a list")?,
            "kubelet.config.k8s.io/v1beta1" | "kubeproxy.config.k8s.io/v1alpha1" => {
                self.components.insert(kind, value);
                return Ok(());
            }
            _ => return Err(invalid(&kind, &format!("apiVersion {version:?} is not known"))),
        }
        match kind.as_str() {
            "ClusterConfiguration" => self.cluster = Some((read(&kind, value.clone())?, value)),
            "InitConfiguration" => self.init = Some(read(&kind, value)?),
            "JoinConfiguration" => self.join = Some(read(&kind, value)?),
            _ => return Err(invalid(&kind, "is no kind of kubeadm's configuration")),
        }
        Ok(())
    }
}

fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        match parts.last_mut() {
            Some(part) if line.trim_end() != "---" => part.extend([line, "\n"]),
            _ => parts.push(String::new()),
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

fn invalid(kind: &str, what: &str) -> Failure {
    Failure::new(Reason::KubeadmConfig, format!("{kind}: {what}"))
}

fn read<T: serde::de::DeserializeOwned>(kind: &str, value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| invalid(kind, &without_values(&error.to_string())))
}

/// Checks that extra arguments are a map in v1beta3 and a list in v1beta4.
fn check_arguments(value: &Value, kind: &str, fits: fn(&Value) -> bool, wanted: &str) -> Result<(), Failure> {
    match value {
        Value::Object(map) => map.iter().try_for_each(|(key, inner)| match key.as_str() {
            "extraArgs" | "kubeletExtraArgs" if !inner.is_null() && !fits(inner) => {
                Err(invalid(kind, &format!("{key} is not {wanted}, as this apiVersion has it")))
            }
            _ => check_arguments(inner, kind, fits, wanted),
        }),
        Value::Array(list) => list.iter().try_for_each(|inner| check_arguments(inner, kind, fits, wanted)),
        _ => Ok(()),
    }
}

impl ClusterConfiguration {
    /// Returns the certificate directory.
    pub fn certificates_dir(&self) -> &str {
        or(&self.certificates_dir, CERTIFICATES_DIR)
    }

    pub fn cluster_name(&self) -> &str {
        or(&self.cluster_name, "kubernetes")
    }

    /// Returns etcd's data directory.
    pub fn etcd_data_dir(&self) -> &str {
        or(self.etcd.local.as_ref().map_or("", |local| &local.data_dir), "/var/lib/etcd")
    }

    /// Returns the Service CIDR.
    pub fn service_subnet(&self) -> &str {
        or(&self.networking.service_subnet, "10.96.0.0/12")
    }

    /// Returns the cluster's DNS domain.
    pub fn dns_domain(&self) -> &str {
        or(&self.networking.dns_domain, "cluster.local")
    }

    /// Returns the registry and path prefix of the images.
    pub fn image_repository(&self) -> &str {
        or(&self.image_repository, REGISTRY)
    }

    /// Returns the image reference for a component, as kubeadm composes it.
    pub fn image_of(&self, component: &str) -> String {
        let tag_of_release =
            || format!("v{}", self.kubernetes_version.trim_start_matches('v')).replace('+', "_");
        let DefaultTags { etcd, coredns, .. } = DefaultTags::of(minor(&self.kubernetes_version));
        let own = match component {
            "etcd" => self.etcd.local.as_ref().map(|local| (&local.image_repository, &local.image_tag)),
            "coredns" => Some((&self.dns.image_repository, &self.dns.image_tag)),
            _ => None,
        };
        let written = |text: Option<&String>| text.filter(|text| !text.is_empty()).cloned();
        let tag = written(own.map(|(_, tag)| tag)).unwrap_or_else(|| match component {
            "etcd" => etcd.to_owned(),
            "coredns" => coredns.to_owned(),
            _ => tag_of_release(),
        });
        let repository = written(own.map(|(repository, _)| repository)).unwrap_or_else(|| {
            let all = self.image_repository();
            // Only the upstream registry stores CoreDNS below an additional path element.
            if component == "coredns" && all == REGISTRY { format!("{all}/coredns") } else { all.to_owned() }
        });
        format!("{repository}/{component}:{tag}")
    }

    /// Returns the images that kubeadm pulls before it creates a control plane. The pause image is omitted, because its
    /// tag is built into each vendor's kubeadm.
    pub fn images(&self) -> Vec<String> {
        let components =
            ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "coredns", "etcd"];
        components.map(|component| self.image_of(component)).to_vec()
    }

    /// Checks the values that kubeadm validates before it changes anything. Also rejects an external etcd, which a site
    /// doesn't have.
    pub fn check(&self) -> Result<(), Failure> {
        let refused = |what: String| invalid("ClusterConfiguration", &what);
        if semver::Version::parse(self.kubernetes_version.trim_start_matches('v')).is_err() {
            return Err(refused(format!("kubernetesVersion {:?} is no version", self.kubernetes_version)));
        }
        match self.control_plane_endpoint.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0) => {}
            _ => return Err(refused("controlPlaneEndpoint is not host:port".into())),
        }
        let subnets = [self.service_subnet(), &self.networking.pod_subnet];
        for subnet in subnets.iter().flat_map(|list| list.split(',')).filter(|subnet| !subnet.is_empty()) {
            if subnet.parse::<ipnet::IpNet>().is_err() {
                return Err(refused(format!("{subnet:?} is no CIDR")));
            }
        }
        if self.etcd.external.is_some() {
            return Err(refused("an external etcd is not what this site has".into()));
        }
        Ok(())
    }
}

impl NodeRegistration {
    /// Checks that the node name is a DNS subdomain with at most 253 characters, as Kubernetes requires.
    pub fn check(&self) -> Result<(), Failure> {
        let part = |part: &str| {
            let inner =
                part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
            !part.is_empty() && inner && !part.starts_with('-') && !part.ends_with('-')
        };
        if self.name.len() <= 253 && self.name.split('.').all(part) {
            return Ok(());
        }
        Err(invalid("nodeRegistration", &format!("name {:?} is no node name", self.name)))
    }
}

/// Splits a bootstrap token into its public ID (6 characters) and its secret (16 characters). Both consist of lowercase
/// letters and digits.
pub fn token_parts(token: &str) -> Result<(&str, &str), Failure> {
    let fits = |part: &str, length| {
        part.len() == length && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    match token.split_once('.') {
        Some((id, secret)) if fits(id, 6) && fits(secret, 16) => Ok((id, secret)),
        _ => Err(invalid("bootstrap token", "is not of the form id.secret")),
    }
}

fn or<'a>(value: &'a str, default: &'a str) -> &'a str {
    if value.is_empty() { default } else { value }
}
