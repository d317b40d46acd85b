use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::{ERROR, FALSE, INFO, WARNING, capi};
use super::*;

/// One list of reasons: its name, the reasons, and the function that returns their severity.
type List = (&'static str, &'static [&'static str], fn(&str) -> Option<Severity>);
const LISTS: [List; 8] = [
    ("tkc", tkc::REASONS, tkc::severity),
    ("release", release::REASONS, release::severity),
    ("contract", contract::REASONS, contract::severity),
    ("wcp_cluster", wcp_cluster::REASONS, wcp_cluster::severity),
    ("wcp_machine", wcp_machine::REASONS, wcp_machine::severity),
    ("vmop", vmop::REASONS, vmop::severity),
    ("vmop::publish", vmop::publish::REASONS, vmop::publish::severity),
    ("vcenter", vcenter::REASONS, vcenter::severity),
];

/// Fails if a reason or its severity changes without an update of the snapshot.
#[test]
fn every_reason_has_its_severity() {
    let mut table: BTreeMap<Severity, Vec<String>> = BTreeMap::new();
    for (list, reasons, of) in LISTS {
        for reason in reasons {
            let severity = of(reason).unwrap();
            table.entry(severity).or_default().push(format!("{list} {reason}"));
        }
    }
    let mut text = String::new();
    for (severity, reasons) in &table {
        let _ = writeln!(text, "{severity:?}\n    {}", reasons.join("\n    "));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_reason_has_one_severity_wherever_it_stands() {
    for (list, reasons, of) in LISTS {
        for reason in reasons {
            assert_eq!(of(reason), of_reason(reason), "{list} {reason}");
        }
    }
}

#[test]
fn the_gravest_comes_first_and_of_equals_the_first() {
    let table: [(&[Condition], Option<&str>); 7] = [
        (&[], None),
        (&[Condition::is_true("A")], None),
        (&[Condition::is_false("A", INFO, "X", ""), Condition::is_false("B", INFO, "X", "")], Some("A")),
        (
            &[
                Condition::is_false("A", INFO, "X", ""),
                Condition::is_false("B", WARNING, "X", ""),
                Condition::is_false("C", ERROR, "X", ""),
                Condition::is_false("D", ERROR, "X", ""),
            ],
            Some("C"),
        ),
        // A condition's own severity overrides its reason's severity.
        (
            &[
                Condition::is_false("A", INFO, vmop::VIRTUAL_MACHINE_IMAGE_NOT_READY, ""),
                Condition::is_false("B", WARNING, vmop::CLONING, ""),
            ],
            Some("B"),
        ),
        // A reason that waits for other objects ranks last, regardless of the condition's severity.
        (
            &[
                Condition::is_false("A", WARNING, tkc::WAITING_FOR_NODES_HEALTHY, ""),
                Condition::is_false("B", INFO, vmop::CLONING, ""),
            ],
            Some("B"),
        ),
        // A VM that vCenter can't reach ranks before a missing guest address.
        (
            &[
                Condition::is_false("A", INFO, vmop::WAITING_FOR_ADDRESS, ""),
                Condition::is_unknown("B", vcenter::UNREACHABLE, ""),
            ],
            Some("B"),
        ),
    ];
    for (conditions, expected) in table {
        assert_eq!(first(conditions, &[]).map(|found| found.type_.as_ref()), expected, "{conditions:?}");
    }
}

#[test]
fn types_can_be_left_out() {
    let conditions = [Condition::is_false("A", ERROR, "X", ""), Condition::is_false("B", INFO, "X", "")];
    assert_eq!(first(&conditions, &["A"]).map(|found| found.type_.as_ref()), Some("B"));
}

#[test]
fn a_condition_without_a_severity_has_its_reasons() {
    let table = [
        (FALSE, wcp_machine::VM_LOST, Severity::Error),
        (FALSE, wcp_machine::WAITING_FOR_BOOTSTRAP_DATA, Severity::Waiting),
        (FALSE, contract::PROVISIONING, Severity::Info),
        (FALSE, "", Severity::Info),
        (FALSE, "SomebodyElsesReason", Severity::Warning),
        (UNKNOWN, "SomebodyElsesReason", Severity::Waiting),
    ];
    for (status, reason, expected) in table {
        assert_eq!(severity(status, reason, None), expected, "{status} {reason}");
    }
}

#[test]
fn cluster_api_is_ranked_by_type_and_reason() {
    let table = [
        (capi::BOOTSTRAP_CONFIG_READY, FALSE, capi::NOT_READY, Severity::Info),
        (capi::BOOTSTRAP_CONFIG_READY, FALSE, capi::DOES_NOT_EXIST, Severity::Warning),
        (capi::INFRASTRUCTURE_READY, FALSE, capi::DELETED, Severity::Warning),
        (capi::INFRASTRUCTURE_READY, FALSE, wcp_machine::POWERING_ON, Severity::Waiting),
        (capi::NODE_READY, FALSE, "KubeletNotReady", Severity::Warning),
        (capi::NODE_READY, UNKNOWN, "InspectionFailed", Severity::Waiting),
        (capi::SCALING_UP, TRUE, "ScalingUp", Severity::Info),
        (capi::AVAILABLE, FALSE, "NotAvailable", Severity::Waiting),
    ];
    for (type_, status, reason, expected) in table {
        assert_eq!(capi::severity(type_, status, reason), expected, "{type_} {status} {reason}");
    }
}

#[test]
fn a_cause_reads_as_one_phrase() {
    let cause = |reason: &str, message: &str| {
        let (reason, message) = (reason.to_owned(), message.to_owned());
        Cause { object: "Machine a".into(), reason, message, severity: Severity::Info }.to_string()
    };
    assert_eq!(cause("NotReady", ""), "Machine a: NotReady");
    assert_eq!(cause("", "it waits"), "Machine a: it waits");
    assert_eq!(cause("Why", "Why: so"), "Machine a: Why: so");
    assert_eq!(cause("Why", "* a\n* b"), "Machine a: Why: a; b");
}

#[test]
fn lists_of_causes_become_one_line() {
    let text = "* RemoteConnectionProbe: not established yet\n* WorkersAvailable:\n  * MachineDeployment a: 0 available";
    let line =
        "RemoteConnectionProbe: not established yet; WorkersAvailable: MachineDeployment a: 0 available";
    assert_eq!(one_line(text), line);
    assert_eq!(one_line(" plain\n"), "plain");
}
