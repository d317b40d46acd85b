//! Simulates keepalived or kube-vip in a static Pod. With it, one of the control plane nodes holds the control plane's
//! virtual IP.
//!
//! Configurations are parsed strictly: a file that keepalived or kube-vip couldn't use ends the boot. [`HeldAddress`]
//! decides which node holds the address.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::container_images::ContainerImages;
use super::control_plane::MANIFESTS;
use super::disk::Disk;
use super::failure::{Failure, Reason};
use crate::addresses::is_of_guests;
use crate::network::held_address::{HeldAddress, HeldAddresses};

/// The interval at which a node checks whether the address is free.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The interval at which the holder checks its API server, the same as in keepalived's configuration.
const CHECKED: Duration = Duration::from_secs(2);
/// The number of failed API server checks in a row after which the holder releases the address.
const FALL: usize = 3;
/// The folder in the image with a file that Debian's keepalived needs to start. A mount must not hide the folder.
const OWN_FOLDER: &str = "/etc/keepalived";
/// The required beginning of the check script, with the program's real path. keepalived rejects symbolic links to
/// programs as insecure.
const CHECK: &str = "script \"/usr/bin/busybox wget ";
const DIAL_DEADLINE: Duration = Duration::from_secs(2);

/// The order in which a node joins its cluster. It determines the kubeconfig that kube-vip needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joins {
    /// The first node. Only the super-administrator has rights in the cluster yet.
    First,
    /// A node that joins an existing cluster, or that reboots.
    Later,
}

/// A node that competes for the address. Dropping it simulates a power failure: the other nodes aren't notified.
pub struct VirtualIpCandidate {
    resign: CancellationToken,
    holding: AbortOnDropHandle<()>,
}

impl VirtualIpCandidate {
    /// Starts to compete for the virtual IP of a static Pod on the disk. Returns `None` if the disk doesn't contain
    /// such a Pod. `local` is the address of the node's API server.
    pub fn start(
        disk: &Disk,
        images: &ContainerImages,
        addresses: &HeldAddresses,
        local: SocketAddr,
        joins: Joins,
    ) -> Result<Option<Self>, Failure> {
        let Some(address) = address(disk, images, joins)? else { return Ok(None) };
        let (address, resign) =
            (addresses.at(SocketAddr::from((address, local.port()))), CancellationToken::new());
        let holding = tokio::spawn(hold(address, local, resign.clone()));
        Ok(Some(Self { resign, holding: AbortOnDropHandle::new(holding) }))
    }

    /// Stops competing and notifies the other nodes, like keepalived at a graceful stop.
    pub async fn resign(self) {
        self.resign.cancel();
        let _ = self.holding.await;
    }
}

async fn hold(address: Arc<HeldAddress>, local: SocketAddr, resign: CancellationToken) {
    while !is_over(&resign, POLL_INTERVAL).await {
        if !answers(local).await {
            continue;
        }
        let Some(holding) = address.take(local) else { continue };
        tracing::info!(%local, "the node holds the control plane's address");
        let mut failures = 0;
        while failures < FALL && !is_over(&resign, CHECKED).await {
            failures = if answers(local).await { 0 } else { failures + 1 };
        }
        holding.resign();
        tracing::info!(%local, "the node lets the control plane's address go");
    }
}

/// Waits for the duration or until resignation. Returns true if the node resigned.
async fn is_over(resign: &CancellationToken, wait: Duration) -> bool {
    tokio::time::timeout(wait, resign.cancelled()).await.is_ok()
}

async fn answers(local: SocketAddr) -> bool {
    matches!(tokio::time::timeout(DIAL_DEADLINE, TcpStream::connect(local)).await, Ok(Ok(_)))
}

/// Returns the virtual IP in the configuration of a keepalived or kube-vip Pod on the disk, or `None` if the disk
/// doesn't contain such a Pod.
fn address(disk: &Disk, images: &ContainerImages, joins: Joins) -> Result<Option<Ipv4Addr>, Failure> {
    for name in ["keepalived", "kube-vip"] {
        let Some(text) = disk.read(&format!("{MANIFESTS}/{name}.yaml")) else { continue };
        let pod = pod(name, &text)?;
        let address =
            if name == "keepalived" { keepalived(&pod, disk)? } else { kube_vip(&pod, disk, joins)? };
        return pulled(name, &pod, disk, images).map(|()| Some(address));
    }
    Ok(None)
}

fn refused(name: &str, what: impl std::fmt::Display) -> Failure {
    Failure::new(Reason::StaticPod, format!("static pod {name}: {what}"))
}

/// Pulls the container's image. Without the image, the container doesn't start and the node can't hold the address.
fn pulled(name: &str, pod: &Value, disk: &Disk, images: &ContainerImages) -> Result<(), Failure> {
    let image = pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
    images.pull(disk, image).map_err(|error| refused(name, format!("ErrImagePull: {error}")))
}

/// Parses a static Pod. Checks its kind and name, that it uses the host network, and that its container has an image
/// and the capabilities to announce an address (NET_ADMIN and NET_RAW).
fn pod(name: &str, text: &str) -> Result<Value, Failure> {
    let pod: Value = serde_saphyr::from_str(text).map_err(|_| refused(name, "is no YAML"))?;
    if pod["apiVersion"] != "v1" || pod["kind"] != "Pod" || pod["metadata"]["name"] != name {
        return Err(refused(name, "is no Pod of that name"));
    }
    if pod["spec"]["hostNetwork"] != true {
        return Err(refused(name, "is not on the host's network"));
    }
    let container = &pod["spec"]["containers"][0];
    if container["image"].as_str().is_none_or(str::is_empty) {
        return Err(refused(name, "has no image"));
    }
    let added = container["securityContext"]["capabilities"]["add"].as_array().cloned().unwrap_or_default();
    match ["NET_ADMIN", "NET_RAW"].iter().find(|wanted| !added.iter().any(|one| one == *wanted)) {
        Some(lacks) => Err(refused(name, format!("lacks the capability {lacks}"))),
        None => Ok(pod),
    }
}

/// Returns the host path of the volume that is mounted at `mount`, or `None` if there isn't one.
fn host_path<'a>(pod: &'a Value, mount: &str) -> Option<&'a str> {
    let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array()?;
    let name = &mounts.iter().find(|one| one["mountPath"] == mount)?["name"];
    let volumes = pod["spec"]["volumes"].as_array()?;
    volumes.iter().find(|one| one["name"] == *name)?["hostPath"]["path"].as_str()
}

fn is_mounted(pod: &Value, path: &str) -> bool {
    let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array();
    mounts.is_some_and(|mounts| mounts.iter().any(|mount| mount["mountPath"] == path))
}

fn keepalived(pod: &Value, disk: &Disk) -> Result<Ipv4Addr, Failure> {
    let name = "keepalived";
    let command = pod["spec"]["containers"][0]["command"].as_array().cloned().unwrap_or_default();
    let file = command.iter().filter_map(Value::as_str).find_map(|one| one.strip_prefix("--use-file="));
    let file = file.ok_or_else(|| refused(name, "is given no --use-file"))?;
    let folder = file.rsplit_once('/').map_or("/", |(folder, _)| folder);
    if host_path(pod, folder) != Some(folder) {
        return Err(refused(name, format!("{folder} of the host is not mounted")));
    }
    if is_mounted(pod, OWN_FOLDER) {
        return Err(refused(
            name,
            format!("Unable to read build config options file: a mount hides {OWN_FOLDER}"),
        ));
    }
    if !is_mounted(pod, "/run") {
        return Err(refused(name, "daemon is already running: it can't write /run/keepalived"));
    }
    let text = disk.read(file).ok_or_else(|| refused(name, format!("{file} is not there")))?;
    if !text.contains(CHECK) {
        return Err(refused(
            name,
            format!("no vrrp_script runs {CHECK}, the only program of its image that asks over HTTPS"),
        ));
    }
    let words: Vec<_> = text.split_whitespace().collect();
    let after =
        |word: &str| words.iter().position(|one| *one == word).and_then(|at| words.get(at + 1)).copied();
    match after("interface") {
        Some("eth0") => {}
        other => return Err(refused(name, format!("there is no interface {other:?}"))),
    }
    if after("virtual_router_id").and_then(|id| id.parse::<u8>().ok()).is_none_or(|id| id == 0) {
        return Err(refused(name, "virtual_router_id is not 1 to 255"));
    }
    let list = text.split_once("virtual_ipaddress").map(|(_, rest)| rest).unwrap_or_default();
    let address = list.trim_start().strip_prefix('{').and_then(|rest| rest.split_whitespace().next());
    read_address(name, address)
}

fn kube_vip(pod: &Value, disk: &Disk, joins: Joins) -> Result<Ipv4Addr, Failure> {
    let name = "kube-vip";
    let environment = pod["spec"]["containers"][0]["env"].as_array().cloned().unwrap_or_default();
    let value = |key: &str| {
        environment
            .iter()
            .find(|one| one["name"] == key)
            .and_then(|one| one["value"].as_str().map(str::to_owned))
    };
    for (key, wanted) in [("vip_arp", "true"), ("cp_enable", "true"), ("vip_leaderelection", "true")] {
        if value(key).as_deref() != Some(wanted) {
            return Err(refused(name, format!("{key} is not {wanted}")));
        }
    }
    let kubeconfig = host_path(pod, "/etc/kubernetes/admin.conf");
    // On the first node, kubeadm grants the administrator's rights through the address that kube-vip is about to hold,
    // so kube-vip must use the super-administrator's kubeconfig.
    let opens = match joins {
        Joins::First => "/etc/kubernetes/super-admin.conf",
        Joins::Later => "/etc/kubernetes/admin.conf",
    };
    if kubeconfig != Some(opens) && !(joins == Joins::Later && kubeconfig.is_some_and(|path| disk.has(path)))
    {
        return Err(refused(name, format!("{kubeconfig:?} does not open the cluster here, {opens} does")));
    }
    read_address(name, value("address").as_deref())
}

fn read_address(name: &str, text: Option<&str>) -> Result<Ipv4Addr, Failure> {
    match text.and_then(|text| text.parse::<IpAddr>().ok()) {
        Some(IpAddr::V4(address)) if is_of_guests(address) => Ok(address),
        _ => Err(refused(name, format!("{text:?} is no address of this network"))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::container_images::Registry;
    use super::super::sample;
    use super::*;

    const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: keepalived}\nspec:\n  hostNetwork: true\n  containers:\n  - name: k\n    image: x\n    command: [keepalived, --use-file=/etc/virtual-ip/keepalived.conf]\n    securityContext: {capabilities: {add: [NET_ADMIN, NET_RAW]}}\n    volumeMounts: [{name: c, mountPath: /etc/virtual-ip}, {name: r, mountPath: /run}]\n  volumes: [{name: c, hostPath: {path: /etc/virtual-ip}}, {name: r, emptyDir: {}}]\n";
    const CONFIG: &str = "vrrp_script s {\n  script \"/usr/bin/busybox wget -q https://localhost:6443/livez\"\n}\nvrrp_instance a {\n  interface eth0\n  virtual_router_id 7\n  virtual_ipaddress {\n    127.9.255.7\n  }\n}\n";

    fn held(pod: &str, config: &str) -> Result<Option<Ipv4Addr>, String> {
        let (_folder, disk) = sample::disk();
        disk.write(&format!("{MANIFESTS}/keepalived.yaml"), pod).unwrap();
        disk.write("/etc/virtual-ip/keepalived.conf", config).unwrap();
        let images = ContainerImages::new(Arc::new(["x".to_owned()].into()), Registry::default());
        address(&disk, &images, Joins::First).map_err(|failure| failure.message)
    }

    #[test]
    fn keepalived_is_read_as_it_reads_itself() {
        assert_eq!(held(POD, CONFIG), Ok(Some(Ipv4Addr::new(127, 9, 255, 7))));
        for (pod, config) in [
            (POD.replace("hostNetwork: true", "hostNetwork: false"), CONFIG.to_owned()),
            (POD.replace("NET_ADMIN, ", ""), CONFIG.to_owned()),
            (POD.replace("path: /etc/virtual-ip", "path: /etc/other"), CONFIG.to_owned()),
            (POD.replace("/etc/virtual-ip", "/etc/keepalived"), CONFIG.to_owned()),
            (POD.replace("mountPath: /run", "mountPath: /var/run"), CONFIG.to_owned()),
            (POD.to_owned(), CONFIG.replace("/usr/bin/busybox wget", "/bin/wget")),
            (POD.to_owned(), CONFIG.replace("eth0", "@INTERFACE@")),
            (POD.to_owned(), CONFIG.replace("_id 7", "_id 0")),
            (POD.to_owned(), CONFIG.replace("127.9.255.7", "here")),
            (POD.replace("image: x", "image: y"), CONFIG.to_owned()),
        ] {
            assert!(held(&pod, &config).is_err(), "{pod}\n{config}");
        }
    }
}
