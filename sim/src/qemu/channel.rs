//! The host side of guestinfo and of VMware Tools reports, which an ESXi host provides.
//!
//! The guest side is added to an unmodified image with systemd credentials: `vmware-rpctool` in /usr/local/bin, the
//! first folder that cloud-init searches for it, and a unit that sends the periodic VMware Tools reports.

use std::collections::BTreeMap;
use std::path::Path;

use axum::serve::Listener;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

use super::error::Error;
use crate::vcsim::control::{ControlApi, GuestReport};

const RPC: &str = include_str!("guest-rpc.sh");
const TOOLS: &str = include_str!("guest-tools.sh");
/// Installs the guest side before cloud-init's first unit, which reads guestinfo. The tools unit starts after that unit.
const INSTALL: &str = "[Service]\nExecStartPre=/bin/sh -c \"install -D -m 755 /run/credentials/@system/layercake.rpc \
                       /usr/local/bin/vmware-rpctool; install -m 755 /run/credentials/@system/layercake.rpc /usr/local/bin/vmtoolsd; \
                       install -m 755 /run/credentials/@system/layercake.tools /usr/local/bin/layercake-tools\"\n";
const UNIT: &str = "[Unit]\nDescription=What VMware Tools report by themselves\nAfter=cloud-init-main.service\n\
                    [Service]\nExecStart=/usr/local/bin/layercake-tools\nRestart=always\n";
const WANTED: &str = "[Unit]\nWants=layercake-tools.service\n";

/// Returns SMBIOS strings, each of which contains a credential for the guest's systemd.
pub fn credentials() -> Vec<String> {
    let parts = [
        ("layercake.rpc", RPC),
        ("layercake.tools", TOOLS),
        ("systemd.unit-dropin.cloud-init-main.service~10-guestinfo", INSTALL),
        ("systemd.extra-unit.layercake-tools.service", UNIT),
        ("systemd.unit-dropin.multi-user.target~10-tools", WANTED),
    ];
    parts.map(credential).into()
}

/// Returns SMBIOS strings that make the guest run a shell script before cloud-init, to simulate a node that is already damaged.
pub fn damage(script: &str) -> Vec<String> {
    let parts = [
        ("layercake.damage", script),
        (
            "systemd.unit-dropin.cloud-init-main.service~20-damage",
            "[Service]\nExecStartPre=/bin/sh /run/credentials/@system/layercake.damage\n",
        ),
    ];
    parts.map(credential).into()
}

fn credential((name, text): (&str, &str)) -> String {
    format!("io.systemd.credential.binary:{name}={}", STANDARD.encode(text))
}

/// A guest's request to its host.
#[derive(Debug, PartialEq, Eq)]
enum Request<'a> {
    Get(&'a str),
    Set(&'a str, &'a str),
    Report { host_name: &'a str, addresses: Vec<&'a str> },
    Unknown,
}

impl<'a> Request<'a> {
    fn read(text: &'a str) -> Self {
        let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
        match (verb, rest.split_once(' ')) {
            ("info-get", None) if !rest.is_empty() => Self::Get(rest),
            ("info-set", Some((key, value))) => Self::Set(key, value),
            ("info-set", None) if !rest.is_empty() => Self::Set(rest, ""),
            ("tools", Some((host_name, addresses))) => {
                Self::Report { host_name, addresses: addresses.split_whitespace().collect() }
            }
            _ => Self::Unknown,
        }
    }
}

/// The server for one machine's requests.
#[derive(Debug)]
pub struct Channel {
    moid: String,
    control: ControlApi,
    /// The last report from VMware Tools.
    pub reported: tokio::sync::watch::Sender<Option<GuestReport>>,
}

impl Channel {
    /// Creates a channel for the VM with this managed object id.
    pub fn new(moid: &str, control: ControlApi) -> Self {
        Self { moid: moid.to_owned(), control, reported: tokio::sync::watch::Sender::default() }
    }

    /// Serves machines that connect to `socket`, one connection at a time. Returns only if it can't listen.
    pub async fn serve(&self, socket: &Path) -> Result<(), Error> {
        let _ = std::fs::remove_file(socket);
        let mut listener = UnixListener::bind(socket).map_err(Error::at(socket))?;
        loop {
            // The trait's `accept` waits and tries again if the process runs out of file descriptors.
            let (stream, _) = Listener::accept(&mut listener).await;
            if let Err(error) = self.converse(stream).await {
                tracing::debug!(%error, vm = self.moid, "the machine's channel broke");
            }
        }
    }

    async fn converse(&self, stream: UnixStream) -> std::io::Result<()> {
        let (read, mut write) = stream.into_split();
        let mut lines = BufReader::new(read).lines();
        while let Some(line) = lines.next_line().await? {
            let asked = STANDARD.decode(line.trim()).ok().and_then(|text| String::from_utf8(text).ok());
            let (status, text) = match self.answer(Request::read(asked.as_deref().unwrap_or_default())).await
            {
                Ok(text) => (1, text),
                Err(text) => (0, text),
            };
            write.write_all(format!("{status} {}\n", STANDARD.encode(text)).as_bytes()).await?;
        }
        Ok(())
    }

    /// Returns the host's response, or the error message that VMware's tool prints.
    async fn answer(&self, request: Request<'_>) -> Result<String, String> {
        match request {
            Request::Get(key) => {
                let info = self.control.guestinfo(&self.moid).await.map_err(|error| error.to_string())?;
                // cloud-init recognizes only this exact string, without a newline.
                info.get(key)
                    .filter(|value| !value.is_empty())
                    .cloned()
                    .ok_or_else(|| "No value found".to_owned())
            }
            Request::Set(key, value) => {
                let values = BTreeMap::from([(key.to_owned(), Some(value.to_owned()))]);
                let set = self.control.set_guestinfo(&self.moid, &values).await;
                set.map(|()| String::new()).map_err(|error| error.to_string())
            }
            Request::Report { host_name, addresses } => {
                let report = GuestReport {
                    ip: addresses.first().map(|&address| address.to_owned()),
                    host_name: Some(host_name.to_owned()),
                    tools_running: true,
                };
                if self.reported.borrow().as_ref() != Some(&report) {
                    let sent = self.control.report(&self.moid, &report).await;
                    sent.map_err(|error| error.to_string())?;
                    self.reported.send_replace(Some(report));
                }
                Ok(Timestamp::now().as_second().to_string())
            }
            Request::Unknown => Err("Unknown command".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_those_of_the_rpc_tool() {
        for (text, request) in [
            ("info-get guestinfo.metadata", Request::Get("guestinfo.metadata")),
            ("info-set guestinfo.userdata ---", Request::Set("guestinfo.userdata", "---")),
            ("info-set guestinfo.a b c\nd", Request::Set("guestinfo.a", "b c\nd")),
            ("info-set guestinfo.a", Request::Set("guestinfo.a", "")),
            (
                "tools cp-0 10.1.0.1 10.1.0.2 ",
                Request::Report { host_name: "cp-0", addresses: vec!["10.1.0.1", "10.1.0.2"] },
            ),
            ("", Request::Unknown),
            ("info-get", Request::Unknown),
            ("log hello", Request::Unknown),
        ] {
            assert_eq!(Request::read(text), request, "{text}");
        }
    }
}
