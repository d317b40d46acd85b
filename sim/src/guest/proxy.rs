//! The proxy of a node's kubelet.

use std::net::IpAddr;

use ipnet::IpNet;

use super::disk::Disk;
use super::failure::{Failure, Reason};
use super::registration::Registration;
use crate::kubeadm_images::minor;

/// The environment of the kubelet.
const UNIT: &str = "/etc/systemd/system/kubelet.service.d/http-proxy.conf";
/// The minor from which on the kubelet of a control plane node asks the API server of its own node, at the node's address. Before, it
/// asks at the address of the control plane.
const LOCAL_MODE: u64 = 33;

/// Fails if the kubelet of a control plane node would ask a proxy for the API server of its own node, which no proxy reaches before the
/// cluster exists.
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

/// Returns true if a program in Go asks an address without the proxy. Domains do not fit addresses.
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
