//! Selects KVM if it works on this host, or emulation if it doesn't.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use plane::StackIdentity;
use plane::process::{self, Command};
use serde::{Deserialize, Serialize};

use super::error::Error;
use super::host::HostPrograms;
use crate::boot_image::BootImage;

/// The timeout for the KVM trial. A kernel under KVM needs far less.
const TRIAL: Duration = Duration::from_secs(20);
/// The kernel's panic message for a missing root file system. The kernel prints it only if everything earlier in the
/// boot has worked.
const CAME_THROUGH: &str = "Unable to mount root fs";

/// The message that QEMU prints before it halts a machine that KVM can't run further.
const GIVEN_UP: &str = "KVM internal error";

/// The QEMU accelerator for machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Accelerator {
    /// Hardware virtualization.
    Kvm,
    /// Emulation (TCG). The guest clock counts instructions, so a busy host slows a boot down but doesn't trigger guest timeouts.
    Emulation,
}

impl fmt::Display for Accelerator {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Kvm => "KVM",
            Self::Emulation => "emulation",
        })
    }
}

/// Returns true if a trial's output shows that KVM works, false if KVM failed, or `None` if the output doesn't show a result yet.
fn verdict(output: &str) -> Option<bool> {
    if output.contains(CAME_THROUGH) {
        return Some(true);
    }
    output.contains(GIVEN_UP).then_some(false)
}

impl Accelerator {
    /// Returns KVM if it works on this host, or emulation if it doesn't. Boots the image's kernel to test KVM, because
    /// `/dev/kvm` can exist without being usable.
    pub async fn find(
        stack: &StackIdentity,
        programs: &HostPrograms,
        image: &BootImage,
    ) -> Result<Self, Error> {
        if !Path::new("/dev/kvm").exists() {
            return Ok(Self::Emulation);
        }
        let trial = Command::new(stack, "qemu-kvm-trial", &programs.qemu)?
            .args(Self::Kvm.arguments())
            .args(["-machine", "q35", "-m", "256", "-nodefaults", "-display", "none", "-no-reboot"])
            .args(["-serial", "stdio", "-append", "console=ttyS0 panic=-1", "-kernel"])
            .arg(&image.kernel)
            .spawn()?;
        let verdict =
            async || verdict(&process::tail(trial.log(), trial.log_from(), 100)).ok_or_else(String::new);
        // An early exit or a timeout counts as a failure.
        let runs = trial.until("a kernel under KVM", TRIAL, verdict).await.unwrap_or(false);
        trial.kill().await;
        Ok(if runs { Self::Kvm } else { Self::Emulation })
    }

    /// Returns the QEMU arguments for this accelerator.
    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Kvm => &["-accel", "kvm", "-cpu", "host"],
            Self::Emulation => &[
                "-accel",
                "tcg,thread=single,tb-size=512",
                "-icount",
                "shift=0,sleep=on",
                "-rtc",
                "base=utc,clock=vm",
                "-cpu",
                // QEMU 7.2 sets wrong flags for cmpxchg16b: an interrupt right after it causes a kernel double fault.
                // The other disabled features are slow under emulation: erms copies byte by byte, la57 adds a page
                // table level, and with smap or pku each access to user memory changes the processor mode.
                "max,-cx16,-erms,-la57,-smap,-pku,-mpx",
            ],
        }
    }
}
