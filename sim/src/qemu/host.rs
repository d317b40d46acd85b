//! The programs of the host.

use std::path::{Path, PathBuf};

use super::error::Error;

/// Where a package manager puts programs that are not for every user.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// The programs that real machines need.
#[derive(Clone, Debug)]
pub struct HostPrograms {
    /// `qemu-system-x86_64`.
    pub qemu: PathBuf,
    /// `qemu-img`.
    pub qemu_img: PathBuf,
    /// `dnsmasq`, which gives machines their addresses.
    pub dnsmasq: PathBuf,
    /// `ip`.
    pub ip: PathBuf,
    /// `unshare`.
    pub unshare: PathBuf,
    /// `nsenter`.
    pub nsenter: PathBuf,
}

impl HostPrograms {
    /// Finds them, or says which is missing.
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

/// What a network of machines takes.
const NETWORK: &str =
    "ip link add br0 type bridge && ip link add a0 type veth peer name b0 && ip tuntap add dev t0 mode tap";

/// Says what is missing on this host for real machines, if something is: programs, or the right to make a network.
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

/// Runs a command of the host to its end; what it wrote on standard error is the reason of a failure.
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
