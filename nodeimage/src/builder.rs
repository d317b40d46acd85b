//! Runs build steps with tools from the locked Debian packages instead of this machine's tools.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::run;
use crate::error::{Error, Result};

/// Runs build steps in separate mount and PID namespaces.
pub(crate) struct Builder {
    work: PathBuf,
    privileges: &'static [&'static str],
}

/// Arguments for `unshare` that create mount and PID namespaces. When `unshare` exits, all processes in the namespaces
/// are killed.
const NAMESPACES: [&str; 5] = ["--mount", "--pid", "--fork", "--kill-child", "--propagation=private"];
/// Arguments for `unshare` that make an unprivileged user root in a namespace, with the id ranges from /etc/subuid and
/// /etc/subgid.
const USER_NAMESPACE: [&str; 3] = ["--user", "--map-root-user", "--map-auto"];

impl Builder {
    /// Detects if build steps need a user namespace. Fails if this machine isn't x86_64 or can't create the namespaces.
    pub(crate) fn new(work: &Path) -> Result<Self> {
        if std::env::consts::ARCH != "x86_64" {
            return Err(Error::Host(format!(
                "images can only be built on x86_64, but this machine is {}",
                std::env::consts::ARCH
            )));
        }
        let ways: [&'static [&'static str]; 2] = [&[], &USER_NAMESPACE];
        for privileges in ways {
            let mut probe = Command::new("unshare");
            probe.args(privileges).args(NAMESPACES).args(["mount", "-t", "tmpfs", "none", "/proc"]);
            if run(&mut probe, "make namespaces").is_ok() {
                return Ok(Self { work: work.to_owned(), privileges });
            }
        }
        Err(Error::Host(
            "neither root nor user namespaces are available. Run it as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1), install uidmap and util-linux 2.38, and give the user a range in /etc/subuid and /etc/subgid"
                .to_owned(),
        ))
    }

    /// Runs the script `steps/NAME` with `epoch` as SOURCE_DATE_EPOCH. `what` describes the purpose in error messages
    /// and begins with a verb.
    pub(crate) fn step(&self, name: &str, epoch: i64, what: &str) -> Result<()> {
        let mut command = self.unshared();
        command.arg("/bin/sh").arg(self.work.join("steps/enter")).arg(&self.work).arg(name);
        run(command.env("SOURCE_DATE_EPOCH", epoch.to_string()), what).map(drop)
    }

    /// Removes the work folder. This needs the namespaces, because files can belong to mapped user ids.
    pub(crate) fn remove_work(&self) -> Result<()> {
        run(
            self.unshared().args(["rm", "-rf", "--one-file-system"]).arg(&self.work),
            "remove the build files",
        )
        .map(drop)
    }

    fn unshared(&self) -> Command {
        let mut command = Command::new("unshare");
        command.args(self.privileges).args(NAMESPACES);
        command
    }
}
