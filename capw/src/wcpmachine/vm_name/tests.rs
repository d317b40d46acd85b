use api::capw::VirtualMachineNaming;
use kit::apply::build_controller_reference;

use crate::fixtures::wcp_machine;

use super::*;

const MACHINE: &str = "quick-start-md-0-wqc85-8nxwc";

fn with_template(template: &str) -> WCPMachine {
    let mut wcp_machine = wcp_machine();
    wcp_machine.spec.naming = Some(VirtualMachineNaming { template: template.to_owned() });
    wcp_machine
}

#[test]
fn a_template_makes_the_name_of_the_machines() {
    assert_eq!(vm_name(&wcp_machine(), MACHINE), Ok(MACHINE.to_owned()));
    for (template, name) in [
        ("{{ .machine.name }}", MACHINE),
        ("prod-{{ .machine.name }}.site-1", "prod-quick-start-md-0-wqc85-8nxwc.site-1"),
        ("{{ trimSuffix \"-8nxwc\" .machine.name }}", "quick-start-md-0-wqc85"),
        ("{{ .machine.name | trimSuffix \"-other\" }}", MACHINE),
        ("{{ trunc 5 .machine.name }}", "quick"),
        ("vm-{{ .machine.name | trunc -5 }}", "vm-8nxwc"),
        ("{{ .machine.name | trunc 100 }}{{ trunc -100 .machine.name }}{{ trunc 0 .machine.name }}x", &{
            format!("{MACHINE}{MACHINE}x")
        }),
        (
            "{{ if gt (len .machine.name) 15 }}{{ trunc 9 .machine.name }}-{{ trunc -5 .machine.name }}{{ else }}\
             {{ .machine.name }}{{ end }}",
            "quick-sta-8nxwc",
        ),
        ("{{ .machine.name }}-{{ .machine.name }}-{{ .machine.name }}", &{
            format!("{MACHINE}-{MACHINE}-{MACHINE}")[..63].to_owned()
        }),
    ] {
        assert_eq!(vm_name(&with_template(template), MACHINE).as_deref(), Ok(name), "{template}");
    }
}

#[test]
fn a_template_that_makes_no_name_is_refused_with_a_remedy() {
    for (template, why) in [
        ("{{ .machine.name", "line 1, column"),
        ("{{ .machine.nam }}", "the field does not exist"),
        ("{{ .cluster.name }}", "line 1, column 4: the field does not exist"),
        ("{{ upper .machine.name }}", "the function does not exist"),
        ("{{ trunc \"5\" .machine.name }}", "an argument is not a whole number"),
        ("{{ trunc 5 }}", "it needs 2 arguments and has 1"),
        ("{{ trimSuffix 5 .machine.name }}", "an argument is not a string"),
        ("VM-{{ .machine.name }}", "it produces \"VM-quick-start-md-0-wqc85-8nxwc\""),
        ("{{ trunc 6 .machine.name }}", "it produces \"quick-\""),
        ("{{ .machine.name }}\n", "8nxwc\\n\""),
        ("{{ trunc 0 .machine.name }}", "it produces \"\""),
        ("{{ .machine.name }}..a", "..a\""),
        ("{{ .machine }}", "it produces \"map[name:"),
    ] {
        let invalid = vm_name(&with_template(template), MACHINE).unwrap_err();
        let message = invalid.to_string();
        assert!(
            message.starts_with("spec.naming.template of Machine quick-start-md-0-wqc85-8nxwc: "),
            "{message}"
        );
        assert!(message.contains(why), "{template}: {message}");
        assert!(message.ends_with("Use another WCPMachineTemplate and replace the Machine"), "{message}");
        assert_eq!((invalid.reason(), invalid.look_again()), ("VMNameInvalid", None));
    }
}

#[test]
fn a_template_that_multiplies_a_value_makes_no_name() {
    let grows = format!("{{{{ $a := .machine.name }}}}{}", "{{ $a = print $a $a $a $a }}".repeat(30));
    let invalid = vm_name(&with_template(&grows), MACHINE).unwrap_err();
    assert!(
        invalid.to_string().contains("the computation needs more than 1048576 bytes of memory"),
        "{invalid}"
    );
    assert_eq!((invalid.reason(), invalid.look_again()), ("VMNameInvalid", None));
    let full = "{{ .machine.name | trunc 1 }}".repeat(1024 / 29);
    assert!(vm_name(&with_template(&full), MACHINE).is_ok(), "a template of full length is carried out");
}

#[test]
fn a_name_that_two_machines_were_given_is_one_machines_and_both_are_named() {
    let mut other = wcp_machine();
    other.metadata.name = Some("other".into());
    let mut vm = VirtualMachine::default();
    vm.metadata.namespace = Some("ben-test".into());
    vm.metadata.name = Some("vm-1".into());
    let says = |wcp_machine: &WCPMachine, vm: &VirtualMachine| {
        let invalid = name_taken(wcp_machine, MACHINE, vm);
        assert_eq!(invalid.reason(), "NameTaken");
        assert!(invalid.look_again().is_some(), "no watch shows when the name is free");
        invalid.to_string()
    };
    let users =
        "VirtualMachine ben-test/vm-1 belongs to another owner. Rename or delete it, or replace the Machine";
    assert_eq!(says(&with_template("vm-1"), &vm), users);
    vm.metadata.owner_references = Some(vec![build_controller_reference(&other)]);
    insta::assert_snapshot!(says(&with_template("vm-1"), &vm));
    assert_eq!(says(&wcp_machine(), &vm), users);
}
