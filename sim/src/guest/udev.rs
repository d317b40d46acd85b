//! Simulates udev: the device names of a VM's disks in its guest.
//!
//! Rules are parsed strictly, because a rule that this parser misunderstands could match all disks or not match any.

use std::collections::BTreeMap;

use super::failure::{Failure, Reason};
use crate::pattern::fits;
use crate::vcsim::control::VmDisk;

/// The attributes of a disk by which the kernel and udev rules name it.
struct BlockDevice {
    /// The kernel name, such as `sda`.
    kernel: String,
    /// The SCSI address, such as `2:0:1:0`.
    scsi: Option<String>,
}

/// Returns the index in `disks` for each device path. Fails if a rule is invalid, or if rules create the same link for
/// two disks.
pub fn names(disks: &[VmDisk], rules: &[String]) -> Result<BTreeMap<String, usize>, Failure> {
    let mut names = BTreeMap::new();
    for (at, disk) in disks.iter().enumerate() {
        // The kernel probes controllers concurrently, so letters don't reflect the disk order. Reverse the letters, so
        // that a guest that relies on the order fails.
        let letter = char::from(b'a' + u8::try_from((disks.len() - 1 - at) % 26).unwrap_or_default());
        let device = BlockDevice {
            kernel: format!("sd{letter}"),
            // SCSI host numbers start at 2, as if the kernel had found two SATA controllers first.
            scsi: (disk.bus == "scsi").then(|| format!("{}:0:{}:0", disk.controller + 2, disk.unit)),
        };
        names.insert(format!("/dev/{}", device.kernel), at);
        if !disk.uuid.is_empty() {
            let wwn = disk.uuid.replace('-', "").to_lowercase();
            names.insert(format!("/dev/disk/by-id/wwn-0x{wwn}"), at);
        }
        for rule in rules {
            for link in links_of(rule, &device)? {
                // A link that two devices claim could point to either device, so it isn't safe to format.
                let claimed = names.insert(format!("/dev/{link}"), at);
                if claimed.is_some_and(|other| other != at) {
                    return Err(wrong(&format!("two devices are /dev/{link}")));
                }
            }
        }
    }
    Ok(names)
}

/// Returns the links that a rule creates for a device, relative to /dev. Empty if the rule doesn't match the device.
fn links_of(rule: &str, device: &BlockDevice) -> Result<Vec<String>, Failure> {
    let (mut matches, mut links) = (true, Vec::new());
    for (key, operator, value) in items(rule)? {
        match (key.as_str(), operator) {
            ("SUBSYSTEM", "==") => matches &= value == "block",
            ("ENV{DEVTYPE}", "==") => matches &= value == "disk",
            ("KERNEL", "==") => matches &= fits(&value, &device.kernel),
            ("KERNELS", "==") => {
                matches &= fits(&value, &device.kernel)
                    || device.scsi.as_deref().is_some_and(|scsi| fits(&value, scsi));
            }
            ("SYMLINK", "+=") => links.push(value),
            _ => return Err(wrong(&format!("the rule's {key}{operator} is not known"))),
        }
    }
    Ok(if matches { links } else { Vec::new() })
}

/// Splits a rule into its comma-separated items, such as `KEY=="value"`. Returns key, operator (`==` or `+=`) and value.
fn items(rule: &str) -> Result<Vec<(String, &'static str, String)>, Failure> {
    let mut items = Vec::new();
    let mut rest = rule.trim();
    while !rest.is_empty() {
        let (key, after) =
            rest.split_once(['=', '+']).ok_or_else(|| wrong("a rule has a word without operator"))?;
        let sign = &rest[key.len()..rest.len() - after.len()];
        let value = after.strip_prefix('=').and_then(|after| after.strip_prefix('"'));
        let (value, after) = value
            .and_then(|value| value.split_once('"'))
            .ok_or_else(|| wrong("a value of a rule is not in double quotes"))?;
        items.push((key.trim().to_owned(), if sign == "=" { "==" } else { "+=" }, value.to_owned()));
        rest = after.trim_start();
        rest = match rest.strip_prefix(',') {
            Some(after) => after.trim_start(),
            None if rest.is_empty() => rest,
            None => return Err(wrong("the items of a rule are not separated by commas")),
        };
    }
    Ok(items)
}

fn wrong(what: &str) -> Failure {
    Failure::new(Reason::Disk, format!("udev: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(controller: i32, unit: i32) -> VmDisk {
        VmDisk { bus: "scsi".into(), controller, unit, uuid: format!("6000C29-{unit}"), ..VmDisk::default() }
    }

    fn rule(place: &str) -> String {
        format!(
            r#"SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk", KERNELS=="{place}", SYMLINK+="disk/by-volume/etcd""#
        )
    }

    #[test]
    fn a_disk_is_named_by_its_place_and_never_by_its_letter() {
        let disks = [disk(0, 0), disk(0, 1), disk(0, 10)];
        let names = names(&disks, &[rule("*:0:1:0")]).unwrap();
        assert_eq!(names["/dev/disk/by-volume/etcd"], 1);
        assert_eq!((names["/dev/sda"], names["/dev/sdc"]), (2, 0));
        assert_eq!(names["/dev/disk/by-id/wwn-0x6000c2910"], 2);
    }

    #[test]
    fn a_rule_that_is_not_understood_or_not_unique_is_refused() {
        let disks = [disk(0, 0), disk(0, 1), disk(1, 1)];
        for wrong in [
            rule("*:0:1:0"),
            r#"KERNEL=="sd*", SYMLINK+="x""#.to_owned(),
            "KERNEL=sd*".to_owned(),
            r#"KERNEL=="sda" SYMLINK+="x""#.to_owned(),
            r#"ATTR{size}=="1", SYMLINK+="x""#.to_owned(),
        ] {
            assert_eq!(
                names(&disks, std::slice::from_ref(&wrong)).unwrap_err().reason,
                Reason::Disk,
                "{wrong}"
            );
        }
        assert!(!names(&disks, &[rule("*:0:2:0")]).unwrap().contains_key("/dev/disk/by-volume/etcd"));
    }
}
