//! How the processors of machines are had: by KVM where it works, else by emulation.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use plane::Stack;
use plane::process::{self, Command};
use serde::{Deserialize, Serialize};

use super::error::Error;
use super::host::HostPrograms;
use crate::boot_image::BootImage;

/// A kernel that KVM runs is there long before.
const TRIAL: Duration = Duration::from_secs(20);
/// What a kernel says that found no root file system, with `panic=-1`: then it has come through all of its start.
const CAME_THROUGH: &str = "Unable to mount root fs";

/// What QEMU says where KVM cannot go on, before it halts the machine.
const GIVEN_UP: &str = "KVM internal error";

/// How machines are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Accelerator {
    /// By the host's processors.
    Kvm,
    /// By emulation. A machine's clock counts its instructions: a busy host makes a boot slower, and no timeout fire.
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

/// What the output of a trial shows so far.
fn verdict(output: &str) -> Option<bool> {
    if output.contains(CAME_THROUGH) {
        return Some(true);
    }
    output.contains(GIVEN_UP).then_some(false)
}

impl Accelerator {
    /// Tries whether KVM runs the kernel of an image: a device that is there may be of no use.
    pub async fn find(stack: &Stack, programs: &HostPrograms, image: &BootImage) -> Result<Self, Error> {
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
        // One that ends before it says anything of use failed.
        let runs = trial.until("a kernel under KVM", TRIAL, verdict).await.unwrap_or(false);
        trial.kill().await;
        Ok(if runs { Self::Kvm } else { Self::Emulation })
    }

    /// QEMU's arguments for it.
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
                // QEMU 7.2 sets wrong flags with cmpxchg16b: an interrupt just after it is a double fault in the kernel. The others
                // are slow where they are emulated: erms clears and copies memory byte by byte, la57 is a page table level more, and
                // with smap or pku each access to a program's memory changes the mode of the processor.
                "max,-cx16,-erms,-la57,-smap,-pku,-mpx",
            ],
        }
    }
}
