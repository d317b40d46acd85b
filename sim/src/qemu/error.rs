//! The error type for QEMU machines.

use std::path::PathBuf;

/// The reasons why the host can't be prepared or a machine can't run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A required program isn't installed on the host.
    #[error(
        "{0} is not there. Real nodes need QEMU, dnsmasq, iproute2 and util-linux: apt-get install --no-install-recommends \
         qemu-system-x86 qemu-utils dnsmasq-base iproute2 util-linux"
    )]
    Program(&'static str),
    /// The machines' network can't be created, usually because privileges are missing.
    #[error(
        "cannot make a network for real nodes: {0}. They need the right to make one (CAP_NET_ADMIN): run it as root, or in a \
         namespace of its own: unshare --user --map-root-user --net layercake up --nodes qemu"
    )]
    Network(String),
    /// The list of node images is empty.
    #[error("no node image is given. `layercake image build` makes one")]
    NoImage,
    /// A VM can't run as a machine.
    #[error("VM {vm} cannot be run: {why}")]
    Machine {
        /// The VM name, or the disk UUID if a disk file can't be prepared.
        vm: String,
        /// The cause, as a clause for the message.
        why: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The path to the file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// A process could not be started, or a stack folder could not be created.
    #[error(transparent)]
    Process(#[from] plane::Error),
    /// A control API call failed.
    #[error(transparent)]
    Control(#[from] crate::vcsim::control::Error),
}

impl Error {
    /// Returns a function for `map_err` that adds the path to an I/O error.
    pub(super) fn at(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}
