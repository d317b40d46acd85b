//! The machines' network: a bridge in its own network namespace, whose only connection is a veth pair to this host.
//!
//! The namespace exists as long as a process runs in it: dnsmasq and the machines. When the last process ends, the
//! kernel removes the bridge and all interfaces, including the host's end of the veth pair. So a killed stack doesn't
//! leave anything behind.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use plane::StackIdentity;
use plane::process::{Command, Process};

use super::error::Error;
use super::host::{HostPrograms, run};

const READY: Duration = Duration::from_secs(10);
/// The bridge name inside the namespace.
const BRIDGE: &str = "br0";

/// The running network.
#[derive(Debug)]
pub struct Segment {
    server: Process,
    number: u8,
    namespace: String,
    /// The script with which QEMU adds a tap interface to the bridge.
    script: PathBuf,
    nsenter: PathBuf,
}

impl Segment {
    /// Creates the network 10.NUMBER.0.0/16 and starts its DHCP server.
    pub async fn make(stack: &StackIdentity, programs: &HostPrograms, number: u8) -> Result<Self, Error> {
        let folder = stack.subfolder("segment")?;
        let script = folder.join("join");
        write_script(
            &script,
            &format!("#!/bin/sh\nexec {} link set dev \"$1\" master {BRIDGE} up\n", programs.ip.display()),
        )?;
        let leases = folder.join("leases");
        let server = Command::new(stack, "dnsmasq", &programs.unshare)?
            .args(["--net", "/bin/sh", "-ceu"])
            .arg(setup(programs, number, &leases.display().to_string()))
            .spawn()?;
        let namespace = format!("/proc/{}/ns/net", server.pid());
        let segment = Self { server, number, namespace, script, nsenter: programs.nsenter.clone() };
        segment.connect(programs).await?;
        Ok(segment)
    }

    /// Connects this host to the bridge with a veth pair and assigns the host's address.
    async fn connect(&self, programs: &HostPrograms) -> Result<(), Error> {
        let (pid, host) = (self.server.pid().to_string(), self.host_interface());
        let look = [
            format!("--net={}", self.namespace),
            programs.ip.display().to_string(),
            "link".into(),
            "show".into(),
            BRIDGE.into(),
        ];
        let made = async || run(&self.nsenter, &look).await;
        self.server
            .until("the network of the machines", READY, made)
            .await
            .map_err(|error| Error::Network(error.to_string()))?;
        let address = format!("{}/16", host_address(self.number));
        let steps: [(&PathBuf, Vec<&str>); 4] = [
            (
                &programs.ip,
                vec!["link", "add", &host, "type", "veth", "peer", "name", "host0", "netns", &pid],
            ),
            (
                &programs.nsenter,
                vec![&look[0], "--", "ip", "link", "set", "dev", "host0", "master", BRIDGE, "up"],
            ),
            (&programs.ip, vec!["address", "add", &address, "dev", &host]),
            (&programs.ip, vec!["link", "set", "dev", &host, "up"]),
        ];
        for (program, args) in steps {
            run(program, args).await.map_err(Error::Network)?;
        }
        Ok(())
    }

    /// Returns the interface name on the host side, which is unique per stack.
    fn host_interface(&self) -> String {
        format!("layercake{}", self.number)
    }

    /// Returns the program and arguments that precede the QEMU command line to run it in the namespace.
    pub fn entering(&self) -> (PathBuf, [String; 2]) {
        (self.nsenter.clone(), [format!("--net={}", self.namespace), "--".to_owned()])
    }

    /// Returns the QEMU arguments for a NIC with this MAC address.
    pub fn interface(&self, id: usize, mac: &str) -> [String; 4] {
        [
            "-netdev".to_owned(),
            format!("tap,id=net{id},script={},downscript=no", self.script.display()),
            "-device".to_owned(),
            // Don't load an option ROM, because network boot attempts take a minute under emulation.
            format!("vmxnet3,netdev=net{id},mac={mac},romfile="),
        ]
    }

    /// Returns this host's address in the network.
    pub fn host_address(&self) -> Ipv4Addr {
        host_address(self.number)
    }

    /// Stops the DHCP server. The network disappears when the machines have ended, too.
    pub async fn end(&self) {
        self.server.kill().await;
    }
}

/// Returns this host's address in the network 10.NUMBER.0.0/16.
pub fn host_address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, number, 0, 1)
}

/// Returns the shell script that creates the bridge and runs the DHCP server.
///
/// dnsmasq is also the upstream DNS server that CoreDNS requires, but it doesn't resolve any names.
fn setup(programs: &HostPrograms, number: u8, leases: &str) -> String {
    let (ip, dnsmasq) = (programs.ip.display(), programs.dnsmasq.display());
    format!(
        "{ip} link set dev lo up; {ip} link add {BRIDGE} type bridge; {ip} address add 10.{number}.0.2/16 dev {BRIDGE}; \
         {ip} link set dev {BRIDGE} up; exec {dnsmasq} --keep-in-foreground --conf-file=/dev/null --user=root --pid-file= \
         --log-facility=- --log-dhcp --no-resolv --no-hosts --bind-interfaces --interface={BRIDGE} --dhcp-authoritative --no-ping \
         --dhcp-leasefile={leases} --dhcp-range=10.{number}.1.1,10.{number}.249.254,255.255.0.0,12h \
         --dhcp-option=option:router,10.{number}.0.2"
    )
}

fn write_script(path: &std::path::Path, text: &str) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, text).map_err(Error::at(path))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).map_err(Error::at(path))
}
