//! Finds and runs the host programs that QEMU machines need.

use std::path::{Path, PathBuf};

use super::error::Error;

/// Folders for administration programs, which `PATH` often doesn't contain.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// The paths to the host programs that QEMU machines need.
#[derive(Clone, Debug)]
pub struct HostPrograms {
    /// The path to `qemu-system-x86_64`.
    pub qemu: PathBuf,
    pub qemu_img: PathBuf,
    /// The DHCP server for machines.
    pub dnsmasq: PathBuf,
    pub ip: PathBuf,
    pub unshare: PathBuf,
    pub nsenter: PathBuf,
}

impl HostPrograms {
    /// Finds all programs. The error names the first missing one.
    pub fn find() -> Result<Self, Error> {
        Ok(Self {
            qemu: program("qemu-system-x86_64")?,
            qemu_img: program("qemu-img")?,
            dnsmasq: program("dnsmasq")?,
            ip: program("ip")?,
            unshare: program("unshare")?,
            nsenter: program("nsenter")?,
        })
    }
}

/// Shell commands that succeed only if this host allows all interface types that the machines' network uses.
const NETWORK: &str =
    "ip link add br0 type bridge && ip link add a0 type veth peer name b0 && ip tuntap add dev t0 mode tap";

/// Checks that this host can run QEMU machines: it must have the programs, and allow network creation.
pub async fn check_host() -> Result<(), Error> {
    let programs = HostPrograms::find()?;
    run(&programs.unshare, ["--net", "/bin/sh", "-c", NETWORK]).await.map_err(Error::Network)
}

fn program(name: &'static str) -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    let mut found = folders.map(|folder| folder.join(name));
    found.find(|path| path.is_file()).ok_or(Error::Program(name))
}

/// Runs a host command to completion. The error contains the command's standard error output.
pub async fn run<A: AsRef<std::ffi::OsStr>>(
    program: &Path,
    args: impl IntoIterator<Item = A>,
) -> Result<(), String> {
    let mut command = tokio::process::Command::new(program);
    command.args(args).stdin(std::process::Stdio::null()).kill_on_drop(true);
    let output = command.output().await.map_err(|error| format!("{}: {error}", program.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("{}: {} ({})", program.display(), text.trim(), output.status))
}
