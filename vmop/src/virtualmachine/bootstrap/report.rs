//! The guest's report on its bootstrap, and the meaning of a missing report. Reports are untrusted input.

use api::conditions::{self, Condition, INFO, TRUE, WARNING, vmop as known};
use api::vmop::VirtualMachine;
use cloudinit::{BOOTSTRAP_CONDITION, BOOTSTRAP_REPORTED};
use jiff::{SignedDuration, Timestamp};
use vsphere::Vm;
use vsphere::inventory::PowerState;

use crate::virtualmachine::condition_types;
use crate::virtualmachine::power::operation::tools_running;

/// The maximum number of characters that are copied from a guest's message.
const MESSAGE: usize = 512;
/// The maximum length of a guest's reason, in bytes.
const REASON: usize = 64;
/// The ExtraConfig key for the address that cloud-init writes when it has found its data.
const CLOUD_INIT_ADDRESS: &str = "guestinfo.local-ipv4";

/// Returns the condition that the guest reports, or an unknown condition if an expected report is missing after `timeout`.
/// Otherwise returns `None`.
pub fn bootstrap_condition(
    vm: &VirtualMachine,
    vsphere_vm: &Vm,
    timeout: Option<SignedDuration>,
    now: Option<Timestamp>,
) -> Option<Condition> {
    if let Some(reported) = reported(vsphere_vm) {
        return Some(parse_report(reported));
    }
    let (timeout, now) = (timeout?, now?);
    let due = report_due(vm, vsphere_vm, Some(timeout), now)?;
    (due <= now).then(|| {
        let message = describe_silence(vsphere_vm, timeout);
        Condition::is_unknown(condition_types::GUEST_BOOTSTRAP, known::NO_BOOTSTRAP_STATUS, message)
    })
}

/// Returns when the guest's report is due, or `None` if there isn't a timeout, the VM isn't on, the guest doesn't have to
/// report, or the guest has already reported.
pub fn report_due(
    vm: &VirtualMachine,
    vsphere_vm: &Vm,
    timeout: Option<SignedDuration>,
    now: Timestamp,
) -> Option<Timestamp> {
    let brings_reporter =
        vsphere_vm.extra_config.get(BOOTSTRAP_REPORTED).is_some_and(|value| value == "true");
    if !brings_reporter || reported(vsphere_vm).is_some() || vsphere_vm.power_state != Some(PowerState::On) {
        return None;
    }
    let status = vm.status.as_ref();
    let known = status.and_then(|status| conditions::find(&status.conditions, condition_types::POWER));
    let on = known.filter(|power| power.status == TRUE).and_then(|power| power.last_transition_time.as_ref());
    on.map_or(now, |on| on.0).checked_add(timeout?).ok()
}

fn reported(vsphere_vm: &Vm) -> Option<&str> {
    vsphere_vm.extra_config.get(BOOTSTRAP_CONDITION).map(String::as_str).filter(|value| !value.is_empty())
}

fn parse_report(reported: &str) -> Condition {
    let mut parts = reported.splitn(3, ',').map(str::trim);
    let status = parts.next().unwrap_or_default();
    let reason = parts.next().filter(|reason| is_reason(reason)).map(str::to_owned);
    let message = parts.next().map(make_printable).filter(|message| !message.is_empty());
    // The values that Go's ParseBool accepts, which VM Operator uses.
    if ["1", "t", "T", "true", "TRUE", "True"].contains(&status) {
        return Condition { reason, message, ..Condition::is_true(condition_types::GUEST_BOOTSTRAP) };
    }
    let severity = if reason.as_deref() == Some(known::BOOTSTRAP_IN_PROGRESS) { INFO } else { WARNING };
    let reason = reason.as_deref().unwrap_or("False");
    Condition {
        message,
        ..Condition::is_false(condition_types::GUEST_BOOTSTRAP, severity, reason, String::new())
    }
}

/// Returns true if the API server accepts the string as a reason: at most [`REASON`] ASCII letters, digits and underscores that
/// begin with a letter and don't end with an underscore.
fn is_reason(text: &str) -> bool {
    text.len() <= REASON
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns the text as a single line of letters, digits and ASCII characters, limited to [`MESSAGE`] characters. Terminal and
/// text direction control characters are replaced.
fn make_printable(text: &str) -> String {
    let shown = |c: char| match c {
        c if c.is_whitespace() || c.is_control() => ' ',
        c if c.is_ascii() || c.is_alphanumeric() => c,
        _ => '?',
    };
    let line: String = text.chars().map(shown).collect();
    let line = line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    line.chars().take(MESSAGE).collect()
}

/// Describes the state of a guest that doesn't report, and says where the user should look.
fn describe_silence(vsphere_vm: &Vm, timeout: SignedDuration) -> String {
    let has_begun =
        vsphere_vm.extra_config.get(CLOUD_INIT_ADDRESS).is_some_and(|address| !address.is_empty());
    let (found, advice) = match (tools_running(vsphere_vm), has_begun) {
        (_, true) => (
            "cloud-init has started but not finished",
            "Read /var/log/cloud-init-output.log in the guest, or check the VM's console",
        ),
        (true, false) => (
            "VMware Tools are running, but cloud-init has not started",
            "Check the VM's console: the image lacks cloud-init with its VMware datasource, or the guest waits for a network",
        ),
        (false, false) => (
            "VMware Tools are not running, and cloud-init has not started",
            "Check the VM's console: the guest hangs before cloud-init, or the image lacks cloud-init or VMware Tools",
        ),
    };
    format!(
        "The VM is powered on, but its guest has not reported the result of its first boot within {timeout:#}: {found}. {advice}"
    )
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use vsphere::inventory::ToolsState;

    use super::*;
    use crate::testing::fixtures::{at, condition_line, unmarked_vm, virtual_machine};

    const TIMEOUT: SignedDuration = SignedDuration::from_mins(20);

    fn line(vsphere_vm: &Vm) -> Option<String> {
        bootstrap_condition(&virtual_machine(), vsphere_vm, None, None).as_ref().map(condition_line)
    }

    #[test]
    fn a_report_is_read_as_vm_operator_reads_it() {
        let mut vsphere_vm = unmarked_vm("vm-1", "cp-0");
        assert_eq!(line(&vsphere_vm), None);
        for (reported, expected) in [
            ("", None),
            ("1", Some("GuestBootstrap | True")),
            ("True", Some("GuestBootstrap | True")),
            (" true , Done ,  a, b ", Some("GuestBootstrap | True | Done | a, b")),
            ("yes", Some("GuestBootstrap | False | Warning | False")),
            (
                "false,Disk,the disk, it is full",
                Some("GuestBootstrap | False | Warning | Disk | the disk, it is full"),
            ),
            ("false,BootstrapInProgress,x", Some("GuestBootstrap | False | Info | BootstrapInProgress | x")),
        ] {
            vsphere_vm.extra_config.insert(BOOTSTRAP_CONDITION.into(), reported.into());
            assert_eq!(line(&vsphere_vm).as_deref(), expected, "{reported}");
        }
    }

    #[test]
    fn a_hostile_guest_can_neither_flood_nor_steer_who_reads() {
        let mut vsphere_vm = unmarked_vm("vm-1", "cp-0");
        let hostile = format!("false,no reason; rm -rf,\x1b[2Ja\u{202e}b\r\n\0{}", "x".repeat(1 << 20));
        vsphere_vm.extra_config.insert(BOOTSTRAP_CONDITION.into(), hostile);
        let condition = bootstrap_condition(&virtual_machine(), &vsphere_vm, None, None).unwrap();
        let message = condition.message.unwrap();
        assert_eq!(condition.reason.as_deref(), Some("False"));
        assert!(message.starts_with("[2Ja?b xxx") && message.len() == MESSAGE, "{message}");
    }

    #[test]
    fn silence_means_something_once_a_reporter_had_its_time() {
        let (mut vm, mut vsphere_vm) = (virtual_machine(), unmarked_vm("vm-1", "cp-0"));
        let silence_at = |vm: &VirtualMachine, vsphere_vm: &Vm, minute| {
            bootstrap_condition(vm, vsphere_vm, Some(TIMEOUT), Some(at(minute))).and_then(|c| c.message)
        };
        let mut power = Condition::is_true(condition_types::POWER);
        power.last_transition_time = Some(Time(at(0)));
        vm.status.get_or_insert_default().conditions = vec![power];
        assert_eq!(silence_at(&vm, &vsphere_vm, 60), None, "nobody promised a report");

        vsphere_vm.extra_config.insert(BOOTSTRAP_REPORTED.into(), "true".into());
        assert_eq!(report_due(&vm, &vsphere_vm, Some(TIMEOUT), at(1)), Some(at(20)));
        assert_eq!(report_due(&virtual_machine(), &vsphere_vm, Some(TIMEOUT), at(1)), Some(at(21)));
        assert_eq!(report_due(&vm, &vsphere_vm, None, at(1)), None);
        assert_eq!(silence_at(&vm, &vsphere_vm, 19), None);
        let dead = silence_at(&vm, &vsphere_vm, 20).unwrap();
        vsphere_vm.guest.tools = Some(ToolsState::Running);
        let lost = silence_at(&vm, &vsphere_vm, 20).unwrap();
        vsphere_vm.extra_config.insert(CLOUD_INIT_ADDRESS.into(), "10.0.0.1".into());
        let stuck = silence_at(&vm, &vsphere_vm, 20).unwrap();
        for (message, words) in [
            (dead, "within 20m: VMware Tools are not running"),
            (lost, "VMware Tools are running, but cloud-init has not started. Check the VM's console"),
            (stuck, "cloud-init has started but not finished. Read /var/log/cloud-init-output.log"),
        ] {
            assert!(message.contains(words), "{message}");
        }

        vsphere_vm.power_state = Some(PowerState::Off);
        assert_eq!(silence_at(&vm, &vsphere_vm, 20), None);
        vsphere_vm.power_state = Some(PowerState::On);
        vsphere_vm.extra_config.insert(BOOTSTRAP_CONDITION.into(), "true".into());
        assert_eq!(silence_at(&vm, &vsphere_vm, 20), None);
        assert_eq!(report_due(&vm, &vsphere_vm, Some(TIMEOUT), at(1)), None);
    }
}
