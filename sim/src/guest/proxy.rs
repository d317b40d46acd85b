//! Checks a kubelet's HTTP proxy settings.

use std::net::IpAddr;

use ipnet::IpNet;

use super::disk::Disk;
use super::failure::{Failure, Reason};
use super::registration::Registration;
use crate::kubeadm_images::minor;

/// The drop-in with the kubelet's environment variables.
const UNIT: &str = "/etc/systemd/system/kubelet.service.d/http-proxy.conf";
/// The first minor version in which a control plane node's kubelet connects to the API server on its own node, at the
/// node's address. Older kubelets connect to the control plane's address.
const LOCAL_MODE: u64 = 33;

/// Fails if a control plane node's kubelet would use a proxy for the API server on its own node. Proxies can't reach that server
/// before the cluster exists.
pub fn check(disk: &Disk, registration: &Registration, own: IpAddr) -> Result<(), Failure> {
    let is_local = registration.control_plane && minor(&registration.kubernetes_version) >= LOCAL_MODE;
    let unit = disk.read(UNIT).unwrap_or_default();
    let variable = |name: &str| {
        let start = format!("Environment=\"{name}=");
        unit.lines().find_map(|line| line.strip_prefix(&start)?.strip_suffix('"'))
    };
    let is_proxied = variable("HTTPS_PROXY").is_some_and(|proxy| !proxy.is_empty());
    if is_local && is_proxied && !is_excluded(variable("NO_PROXY").unwrap_or_default(), own) {
        let name = &registration.name;
        let why = format!(
            "error execution phase mark-control-plane: nodes {name:?} not found. kubelet: Post \"https://{own}:6443/api/v1/nodes\": Bad Gateway"
        );
        return Err(Failure::new(Reason::Registration, why).for_good());
    }
    Ok(())
}

/// Returns true if Go programs connect to the address without the proxy. Domains in `no_proxy` don't match addresses.
fn is_excluded(no_proxy: &str, address: IpAddr) -> bool {
    address.is_loopback()
        || no_proxy.split(',').map(str::trim).any(|entry| {
            entry == "*"
                || entry.parse() == Ok(address)
                || entry.parse::<IpNet>().is_ok_and(|net| net.contains(&address))
        })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::guest::sample;

    #[test]
    fn a_control_plane_node_reaches_itself_without_the_proxy() {
        let (_folder, disk) = sample::disk();
        let judge = |version: &str, control_plane: bool| {
            let registration = Registration {
                name: "cp".to_owned(),
                kubernetes_version: version.to_owned(),
                provider_id: None,
                labels: BTreeMap::new(),
                taints: Vec::new(),
                control_plane,
            };
            check(&disk, &registration, "10.20.1.2".parse().unwrap())
        };
        let unit = |without: &str| {
            let text = format!(
                "[Service]\nEnvironment=\"HTTPS_PROXY=http://10.0.0.1:80\"\nEnvironment=\"NO_PROXY={without}\"\n"
            );
            disk.write(UNIT, text).unwrap();
        };
        assert_eq!(judge("v1.36.3", true), Ok(()));
        for without in ["10.20.0.0/16", "localhost,10.20.1.2", "*"] {
            unit(without);
            assert_eq!(judge("v1.36.3", true), Ok(()), "{without}");
        }
        unit("localhost,127.0.0.1,10.21.0.0/16,.svc");
        let failure = judge("v1.36.3", true).unwrap_err();
        assert!(failure.message.contains("mark-control-plane: nodes \"cp\" not found"), "{failure}");
        assert_eq!(judge("v1.32.0", true), Ok(()));
        assert_eq!(judge("v1.36.3", false), Ok(()));
    }
}
