//! Why real machines can't be had.

use std::path::PathBuf;

/// Why a real machine could not be made, or its site prepared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program of the host is missing.
    #[error(
        "{0} is not there. Real nodes need QEMU, dnsmasq, iproute2 and util-linux: apt-get install --no-install-recommends \
         qemu-system-x86 qemu-utils dnsmasq-base iproute2 util-linux"
    )]
    Program(&'static str),
    /// The host does not let networks be made.
    #[error(
        "cannot make a network for real nodes: {0}. They need the right to make one (CAP_NET_ADMIN): run it as root, or in a \
         namespace of its own: unshare --user --map-root-user --net layercake up --nodes qemu"
    )]
    Network(String),
    /// There is nothing to boot.
    #[error("no node image is given. `layercake image build` makes one")]
    NoImage,
    /// A VM cannot be run.
    #[error("VM {vm} cannot be run: {why}")]
    Machine {
        /// Its name.
        vm: String,
        /// What is wrong.
        why: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A process could not be had.
    #[error(transparent)]
    Process(#[from] plane::Error),
    /// The control API did not answer.
    #[error(transparent)]
    Control(#[from] crate::vcsim::control::Error),
}

impl Error {
    /// For `map_err` of what is done with a file.
    pub(super) fn at(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}
