//! The Service `default/supervisor`, through which programs in a workload cluster find the management cluster, as in vSphere with
//! Tanzu.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::Kubeconfig;
use serde_json::json;

use super::wanted::{ObjectProblem, WantedObjects};

/// The port that programs for vSphere with Tanzu use.
const PORT: u16 = 6443;
const NAMESPACE: &str = "default";
const NAME: &str = "supervisor";
/// The namespace and name of kubeadm's public ConfigMap about a cluster.
pub const CLUSTER_INFO: (&str, &str) = ("kube-public", "cluster-info");
const KUBECONFIG: &str = "kubeconfig";

/// The address at which workload clusters reach the management cluster's API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupervisorEndpoint {
    address: IpAddr,
    port: u16,
}

impl FromStr for SupervisorEndpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let with_port = text.parse::<SocketAddr>().map(|both| (both.ip(), both.port()));
        let (address, port) = with_port
            .or_else(|_| text.trim_matches(['[', ']']).parse().map(|address| (address, PORT)))
            .map_err(|_| format!("{text:?} is not an IP address, with or without a port"))?;
        if address.is_loopback() || address.is_unspecified() {
            return Err(format!("{address} is not reachable from other machines"));
        }
        Ok(Self { address, port })
    }
}

impl fmt::Display for SupervisorEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::from((self.address, self.port)).fmt(f)
    }
}

/// Reads the address from kubeadm's ConfigMap. Returns `None` if the ConfigMap doesn't contain an address, and a problem if
/// workload clusters can't use the address.
pub fn of_cluster_info(map: &ConfigMap) -> Option<Result<SupervisorEndpoint, ObjectProblem>> {
    let text = map.data.as_ref()?.get(KUBECONFIG)?;
    let clusters = Kubeconfig::from_yaml(text).ok()?.clusters;
    let server = clusters.into_iter().find_map(|named| named.cluster?.server)?;
    let host = server.strip_prefix("https://")?.split('/').next()?;
    let problem = |why: &str| {
        let message = format!(
            "{why}. Start gcm with --supervisor-endpoint=ADDRESS:PORT, the address at which guests reach this cluster's API server"
        );
        ObjectProblem::new(format!("ConfigMap {}/{}", CLUSTER_INFO.0, CLUSTER_INFO.1), message)
    };
    Some(host.parse().map_err(|why: String| problem(&why)))
}

/// Returns the Service and its EndpointSlice. Programs expect a headless Service. The Service gets a cluster IP only if the
/// management cluster uses a different port than `PORT`, because headless Services can't map ports.
pub fn wanted(endpoint: &Result<SupervisorEndpoint, ObjectProblem>) -> WantedObjects {
    let endpoint = match endpoint {
        Ok(endpoint) => endpoint,
        Err(problem) => return WantedObjects::of(Vec::new(), vec![problem.clone()]),
    };
    let port = json!({"name": "https", "protocol": "TCP", "port": PORT, "targetPort": endpoint.port});
    let mut spec = json!({"type": "ClusterIP", "ports": [port]});
    if endpoint.port == PORT {
        spec["clusterIP"] = "None".into();
    }
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec,
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": NAME, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": NAME},
        },
        "addressType": if endpoint.address.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [endpoint.address.to_string()], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "protocol": "TCP", "port": endpoint.port}],
    });
    WantedObjects::of(vec![service, slice], Vec::new())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_address_has_the_usual_port_unless_it_names_another() {
        for (text, expected) in [
            ("10.0.0.1", "10.0.0.1:6443"),
            ("10.0.0.1:443", "10.0.0.1:443"),
            ("fd00::1", "[fd00::1]:6443"),
            ("[fd00::1]:443", "[fd00::1]:443"),
        ] {
            assert_eq!(text.parse::<SupervisorEndpoint>().unwrap().to_string(), expected);
        }
        for (text, why) in [
            ("sup.example.com:6443", "not an IP address"),
            ("127.0.0.1:6443", "not reachable from other machines"),
            ("0.0.0.0", "not reachable from other machines"),
            ("", "not an IP address"),
        ] {
            let error = text.parse::<SupervisorEndpoint>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    fn cluster_info(server: &str) -> ConfigMap {
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: ''\n  cluster:\n    certificate-authority-data: QQ==\n    server: {server}\n"
        );
        ConfigMap { data: Some(BTreeMap::from([(KUBECONFIG.to_owned(), text)])), ..ConfigMap::default() }
    }

    #[test]
    fn kubeadm_says_where_a_management_cluster_answers() {
        let found = of_cluster_info(&cluster_info("https://10.0.0.5:6443"));
        assert_eq!(found.unwrap().unwrap().to_string(), "10.0.0.5:6443");
        let problem = of_cluster_info(&cluster_info("https://k8s.example.com:6443")).unwrap().unwrap_err();
        assert_eq!(problem.object, "ConfigMap kube-public/cluster-info");
        for part in ["k8s.example.com:6443", "--supervisor-endpoint=ADDRESS:PORT"] {
            assert!(problem.message.contains(part), "{}", problem.message);
        }
        assert_eq!(of_cluster_info(&ConfigMap::default()), None);
        assert_eq!(of_cluster_info(&cluster_info("http://10.0.0.5")), None);
        assert_eq!(wanted(&Err(problem.clone())).problems, [problem]);
    }

    #[test]
    fn a_headless_service_leads_to_the_same_port_and_another_to_any() {
        let of = |text: &str| {
            wanted(&text.parse::<SupervisorEndpoint>().map_err(|why| ObjectProblem::new("", why)))
        };
        assert_eq!(of("10.0.0.5").problems, []);
        let texts = |text: &str| -> String {
            of(text).objects.manifests().iter().map(|manifest| manifest.json.as_str()).collect()
        };
        assert!(texts("10.0.0.5").contains("None"), "{}", texts("10.0.0.5"));
        assert!(!texts("10.0.0.5:443").contains("\"None\""));
        assert!(texts("fd00::1").contains("IPv6"));
        assert_ne!(of("10.0.0.5").objects, of("10.0.0.6").objects);
    }
}
