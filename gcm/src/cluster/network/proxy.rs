//! The proxy of a cluster's nodes, and the addresses that bypass it.

use std::fmt::Write;

use api::gcm::parts::Proxy;

use crate::admission::proxy::is_no_proxy_entry;
use crate::cluster::node_file::NodeFile;
use crate::spec::network::ClusterNetwork;

/// The systemd units that use the proxy. containerd pulls images, and the kubelet fetches the credentials that pulling
/// requires.
const UNITS: [&str; 2] = ["containerd", "kubelet"];
/// The addresses that each node reaches without the proxy. `controlPlaneHost` in the node's metadata is the control plane's
/// address. From Kubernetes 1.33 on, the kubelet on a control plane node connects to the API server on the same node, at the
/// node's own address.
const OWN: [&str; 6] =
    ["localhost", "127.0.0.1", "::1", NODE_ADDRESS, "{{ ds.meta_data.controlPlaneHost }}", ".svc"];
/// A placeholder for the node's own address, until [`address_command`] replaces it.
const NODE_ADDRESS: &str = "@NODE_ADDRESS@";

/// The file that sets the proxy in login shells. They source each `*.sh` file in this folder that the user can read.
pub const SHELL_FILE: &str = "/etc/profile.d/http-proxy.sh";
/// The variable names. Most programs read upper case, but curl reads `http_proxy` only in lower case.
const VARIABLES: [(&str, &str); 3] =
    [("HTTP_PROXY", "http_proxy"), ("HTTPS_PROXY", "https_proxy"), ("NO_PROXY", "no_proxy")];

/// Escapes a value for a systemd unit. `%` begins a specifier, and URL-encoded passwords contain this character. Control
/// characters are dropped, because a line break would begin a directive. Admission rejects them too.
fn escape_for_unit(value: &str) -> String {
    let line: String = value.trim().chars().filter(|c| !c.is_control()).collect();
    line.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%")
}

/// Quotes a value for a POSIX shell. Control characters are dropped.
fn quote_for_shell(value: &str) -> String {
    let line: String = value.trim().chars().filter(|c| !c.is_control()).collect();
    format!("'{}'", line.replace('\'', "'\\''"))
}

/// Returns the path of the drop-in file that sets a unit's environment.
fn unit_file(unit: &str) -> String {
    format!("/etc/systemd/system/{unit}.service.d/http-proxy.conf")
}

/// Returns the command that writes the node's own address into the files. Only the node knows this address.
pub fn address_command() -> String {
    let files = UNITS.map(unit_file).into_iter().chain([SHELL_FILE.to_owned()]);
    format!(
        "sed -i \"s/{NODE_ADDRESS}/$(ip -o route get {{{{ ds.meta_data.controlPlaneHost }}}} | sed 's/.* src \\([^ ]*\\).*/\\1/')/g\" {}",
        files.collect::<Vec<_>>().join(" ")
    )
}

/// Returns the files that configure the proxy for the units and for login shells. They can contain a password, so only root can
/// read them. A command makes the node's user the owner of the shell file.
pub fn build_proxy_files(network: &ClusterNetwork<'_>) -> Vec<NodeFile> {
    let Some(proxy) = network.proxy else { return Vec::new() };
    let Proxy { http_proxy, https_proxy, no_proxy } = proxy;
    let (Some(http), Some(https)) = (http_proxy.as_deref(), https_proxy.as_deref()) else {
        return Vec::new();
    };
    let without = without_proxy(network, no_proxy.as_deref().unwrap_or_default()).join(",");
    let (mut unit, mut shell) = ("[Service]\n".to_owned(), String::new());
    for ((large, small), value) in VARIABLES.into_iter().zip([http, https, &without]) {
        let _ = writeln!(unit, "Environment=\"{large}={}\"", escape_for_unit(value));
        let _ = writeln!(shell, "export {large}={value} {small}={value}", value = quote_for_shell(value));
    }
    let file =
        |path: String, content: &String| NodeFile { path, permissions: "0600", content: content.clone() };
    let units = UNITS.map(|name| file(unit_file(name), &unit));
    units.into_iter().chain([file(SHELL_FILE.to_owned(), &shell)]).collect()
}

/// Returns the addresses to reach without the proxy: the entries in the spec, and the cluster's own addresses.
fn without_proxy(network: &ClusterNetwork<'_>, written: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let own = OWN.map(str::to_owned).into_iter();
    let ranges = network.pods_or_default().chain(network.services_or_default()).map(str::to_owned);
    let domain = format!(".{}", network.domain);
    // Skip entries that admission would reject, because they could have been stored without admission.
    let written = written.iter().map(|entry| entry.trim());
    let written = written.filter(|entry| is_no_proxy_entry(entry)).map(str::to_owned);
    for entry in written.chain(own).chain(ranges).chain([domain]) {
        let entry = entry.trim();
        if !entry.is_empty() && !all.iter().any(|there| there == entry) {
            all.push(entry.to_owned());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use api::gcm::TanzuKubernetesClusterSpec;
    use serde_json::json;

    use super::*;

    fn spec(network: &serde_json::Value) -> TanzuKubernetesClusterSpec {
        let spec = json!({
            "topology": {"controlPlane": {"vmClass": "c", "storageClass": "s"}, "nodePools": []},
            "settings": {"network": network},
        });
        serde_json::from_value(spec).unwrap()
    }

    fn written(spec: &TanzuKubernetesClusterSpec) -> Vec<NodeFile> {
        build_proxy_files(&ClusterNetwork::read(spec))
    }

    #[test]
    fn the_clusters_own_addresses_are_reached_without_the_proxy() {
        let proxy = json!({"httpProxy": "http://u:p%40@10.0.0.1:80", "httpsProxy": "http://10.0.0.1:80",
            "noProxy": ["10.0.0.0/8", "localhost", ".corp"]});
        let files = written(&spec(&json!({
            "proxy": proxy, "serviceDomain": "corp.local",
            "pods": {"cidrBlocks": ["192.0.2.0/16"]}, "services": {"cidrBlocks": ["198.51.100.0/12"]},
        })));
        assert_eq!(files.len(), 3);
        assert!(files.iter().all(|file| file.permissions == "0600"), "it carries a password");
        insta::assert_snapshot!(files[0].content);
        let defaults = written(&spec(&json!({ "proxy": proxy })));
        assert!(defaults[1].content.contains("192.168.0.0/16,10.96.0.0/12,.cluster.local\""));
        assert_eq!(written(&spec(&json!({}))), []);
    }

    #[test]
    fn no_value_begins_a_directive_or_a_template() {
        let entries = [
            "x\nExecStartPre=/usr/bin/touch /pwned",
            "x\"\nEnvironment=\"Y=",
            "{{ ds }}",
            "a b",
            "'",
            "$(reboot)",
            "fine.example",
            "10.0.0.0/8",
            "[fd00::1]:8080",
        ];
        let url = "http://10.0.0.1:80\r\nExecStartPre=/usr/bin/touch /pwned";
        let proxy = json!({"httpProxy": url, "httpsProxy": url, "noProxy": entries});
        for file in written(&spec(&json!({ "proxy": proxy }))) {
            let lines: Vec<_> = file.content.lines().collect();
            let known = |line: &&str| line.starts_with("Environment=\"") || line.starts_with("export ");
            assert_eq!(lines.iter().filter(|line| known(line)).count(), 3, "{}", file.content);
            assert!(lines.len() <= 4, "{}", file.content);
            let written = file.content.replace("{{ ds.meta_data.controlPlaneHost }}", "");
            assert!(!written.contains("{{") && !written.contains("reboot"), "{written}");
            assert!(written.contains("fine.example,10.0.0.0/8,[fd00::1]:8080,localhost"), "{written}");
        }
    }

    #[test]
    fn shells_of_people_go_through_the_proxy_and_run_nothing_of_it() {
        let proxy = json!({"httpProxy": "http://u:p%40'$(reboot)@10.0.0.1:80", "httpsProxy": " http://10.0.0.1:80 ",
            "noProxy": [".corp"]});
        let files = written(&spec(&json!({ "proxy": proxy })));
        let shell = files.iter().find(|file| file.path == "/etc/profile.d/http-proxy.sh").unwrap();
        assert_eq!(shell.permissions, "0600", "it carries a password");
        insta::assert_snapshot!(shell.content, @r"
        export HTTP_PROXY='http://u:p%40'\''$(reboot)@10.0.0.1:80' http_proxy='http://u:p%40'\''$(reboot)@10.0.0.1:80'
        export HTTPS_PROXY='http://10.0.0.1:80' https_proxy='http://10.0.0.1:80'
        export NO_PROXY='.corp,localhost,127.0.0.1,::1,@NODE_ADDRESS@,{{ ds.meta_data.controlPlaneHost }},.svc,192.168.0.0/16,10.96.0.0/12,.cluster.local' no_proxy='.corp,localhost,127.0.0.1,::1,@NODE_ADDRESS@,{{ ds.meta_data.controlPlaneHost }},.svc,192.168.0.0/16,10.96.0.0/12,.cluster.local'
        ");
    }
}
