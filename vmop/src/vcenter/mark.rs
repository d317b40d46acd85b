//! What tells our VMs from everybody else's.
//!
//! A VM is adopted, changed or destroyed only if it carries the mark of its object. Names and
//! UUIDs can be claimed by anyone who writes a manifest; the mark is written only by us, in vCenter.

use api::vmop::VirtualMachine;
use kube::runtime::reflector::ObjectRef;
use vsphere::{ManagedBy, Vm};

/// The extension under which vCenter shows our VMs as managed; every vCenter since 7.0 has it.
const EXTENSION: &str = "com.vmware.vcenter.wcp";
/// The type within the extension, as vm-operator gives it.
const KIND: &str = "VirtualMachine";
/// ExtraConfig: `namespace/name` of the object that a VM belongs to.
pub(super) const OWNER: &str = "vmservice.namespacedName";
/// ExtraConfig: the stack that made a VM; travels in the provider configuration.
pub(super) const STACK: &str = "vmservice.stackID";
/// ExtraConfig of a VM: the name of the golden template that its disks may rest on.
pub const BASE: &str = "layercake.base";
/// The first line of an item's description, as vm-operator writes it: whose request made the item.
pub const PUBLISHED_BY: &str = "virtualmachinepublishrequest.vmoperator.vmware.com: ";
/// ExtraConfig of a golden template: the library item and the content version it was made of.
const TEMPLATE: &str = "layercake.template";

/// The mark of one object's VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    owner: String,
    stack: String,
}

impl Mark {
    /// The mark of the VM of `namespace/name`, made by `stack`.
    pub fn new(namespace: &str, name: &str, stack: &str) -> Self {
        Self { owner: format!("{namespace}/{name}"), stack: stack.to_owned() }
    }

    /// The ExtraConfig entries; the template's own mark is blanked, because clones inherit it.
    pub fn extra_config(&self) -> [(String, String); 3] {
        [(OWNER, self.owner.as_str()), (STACK, self.stack.as_str()), (TEMPLATE, "")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
    }

    /// Whether `vm` carries this mark.
    pub fn is_on(&self, vm: &Vm) -> bool {
        entry(vm, OWNER) == self.owner && entry(vm, STACK) == self.stack && not_anothers(vm)
    }

    /// The VM that is in the way of this one, in words for the namespace's users: `None` where it is not of their namespace.
    /// The log has it in any case.
    pub fn describe_holder(&self, vm: &Vm) -> Option<String> {
        let described = described(vm);
        tracing::warn!(
            vm = self.owner,
            holder = described,
            "another VM has an identity or name that this VirtualMachine needs"
        );
        let namespace = |owner: &str| owner.split_once('/').map(|(namespace, _)| namespace.to_owned());
        let own = entry(vm, STACK) == self.stack && namespace(entry(vm, OWNER)) == namespace(&self.owner);
        own.then_some(described)
    }
}

/// The object that `vm` belongs to, if it is one of this stack's.
pub fn owner(vm: &Vm, stack: &str) -> Option<ObjectRef<VirtualMachine>> {
    if entry(vm, STACK) != stack || !not_anothers(vm) {
        return None;
    }
    let (namespace, name) = entry(vm, OWNER).split_once('/')?;
    Some(ObjectRef::new(name).within(namespace))
}

/// What administrators should know of whose VM `vm` is.
pub fn described(vm: &Vm) -> String {
    let owner = match (entry(vm, OWNER), vm.managed_by.as_ref()) {
        ("", None) => "without an owner".to_owned(),
        ("", Some(by)) => format!("managed by {}", by.extension_key),
        (owner, _) => format!("of VirtualMachine {owner}"),
    };
    format!("{} ({}, {owner})", vm.name, vm.moref.id())
}

/// Who manages our VMs, as vCenter shows it.
pub fn managed_by() -> ManagedBy {
    ManagedBy { extension_key: EXTENSION.to_owned(), kind: KIND.to_owned() }
}

/// The uid of the VirtualMachinePublishRequest that made the item of this description; none for other items.
pub fn publish_request(description: &str) -> Option<&str> {
    Some(description.lines().next()?.strip_prefix(PUBLISHED_BY)?.trim())
}

/// The ExtraConfig entries of the golden template of this library item's content.
pub fn template_extra_config(item: &str, content: &str, stack: &str) -> Vec<(String, String)> {
    vec![(TEMPLATE.to_owned(), format!("{item}@{content}")), (STACK.to_owned(), stack.to_owned())]
}

/// How `vm` relates to the golden template of this library item's content.
pub fn template_mark(vm: &Vm, item: &str, content: &str) -> TemplateMark {
    match entry(vm, TEMPLATE) {
        "" if entry(vm, OWNER).is_empty() && not_anothers(vm) => TemplateMark::Unmarked,
        mark if mark == format!("{item}@{content}") => TemplateMark::Marked,
        _ => TemplateMark::Foreign,
    }
}

/// The library item and the content version of which `vm` is a golden template, if this stack made it.
pub fn template_content<'a>(vm: &'a Vm, stack: &str) -> Option<(&'a str, &'a str)> {
    let ours = entry(vm, STACK) == stack && entry(vm, OWNER).is_empty() && not_anothers(vm);
    entry(vm, TEMPLATE).rsplit_once('@').filter(|_| ours)
}

/// The golden template that a VM says it was made from.
pub fn base(vm: &Vm) -> Option<&str> {
    Some(entry(vm, BASE)).filter(|base| !base.is_empty())
}

/// How a VM of a golden template's name relates to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateMark {
    /// It is the template.
    Marked,
    /// It bears no mark: a deployment that was cut short.
    Unmarked,
    /// It is something else.
    Foreign,
}

fn entry<'a>(vm: &'a Vm, key: &str) -> &'a str {
    vm.extra_config.get(key).map_or("", String::as_str)
}

fn not_anothers(vm: &Vm) -> bool {
    vm.managed_by.as_ref().is_none_or(|by| by.extension_key.is_empty() || by.extension_key == EXTENSION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures;

    #[test]
    fn only_the_whole_mark_counts() {
        let mark = Mark::new("ns", "cp-0", "s1");
        let mut vm = fixtures::unmarked_vm("vm-1", "cp-0");
        assert!(!mark.is_on(&vm));
        vm.extra_config.extend(mark.extra_config());
        assert!(mark.is_on(&vm));
        assert!(!Mark::new("ns", "cp-0", "s2").is_on(&vm));
        assert!(!Mark::new("other", "cp-0", "s1").is_on(&vm));
        assert_eq!(owner(&vm, "s1"), Some(ObjectRef::new("cp-0").within("ns")));
        assert_eq!(owner(&vm, "s2"), None);
        vm.managed_by = Some(ManagedBy { extension_key: "com.example.backup".into(), kind: "x".into() });
        assert!(!mark.is_on(&vm));
        assert_eq!(described(&vm), "cp-0 (vm-1, of VirtualMachine ns/cp-0)");
    }

    #[test]
    fn who_is_in_the_way_is_for_the_own_namespace_to_know() {
        let mut vm = fixtures::unmarked_vm("vm-1", "cp-0");
        assert_eq!(Mark::new("ns", "cp-0", "s1").describe_holder(&vm), None, "an administrator's");
        vm.extra_config.extend(Mark::new("ns", "cp-0", "s1").extra_config());
        let own = Mark::new("ns", "cp-1", "s1").describe_holder(&vm);
        assert_eq!(own.as_deref(), Some("cp-0 (vm-1, of VirtualMachine ns/cp-0)"));
        for (namespace, stack) in [("other", "s1"), ("ns", "s2"), ("n", "s1")] {
            assert_eq!(Mark::new(namespace, "cp-1", stack).describe_holder(&vm), None);
        }
    }

    #[test]
    fn a_clone_does_not_look_like_its_template() {
        let mut vm = fixtures::unmarked_vm("vm-2", "golden");
        assert_eq!(template_mark(&vm, "item", "3"), TemplateMark::Unmarked);
        vm.extra_config.extend(template_extra_config("item", "3", "s1"));
        assert_eq!(template_mark(&vm, "item", "3"), TemplateMark::Marked);
        assert_eq!(template_mark(&vm, "item", "4"), TemplateMark::Foreign);
        vm.extra_config.extend(Mark::new("ns", "n", "s1").extra_config());
        assert_eq!(template_mark(&vm, "item", "3"), TemplateMark::Foreign);
    }
}
