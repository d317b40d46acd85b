//! Marks that distinguish this installation's VMs from others.
//!
//! A VM is adopted, changed or destroyed only if it has the mark of its VirtualMachine. Names and UUIDs can be claimed by
//! anyone who writes a manifest, but only the operator writes marks in vCenter.

use api::vmop::VirtualMachine;
use kube::runtime::reflector::ObjectRef;
use vsphere::{ManagedBy, Vm};

/// The extension that vCenter shows as the manager of this operator's VMs. This extension exists in every vCenter since 7.0.
const EXTENSION: &str = "com.vmware.vcenter.wcp";
/// The managed entity type within the extension, as vm-operator sets it.
const KIND: &str = "VirtualMachine";
/// The ExtraConfig key for the VM's VirtualMachine (`namespace/name`).
pub(super) const OWNER: &str = "vmservice.namespacedName";
/// The ExtraConfig key for the id of the stack that created the VM. The id is set in the provider configuration, or generated.
pub(super) const STACK: &str = "vmservice.stackID";
/// The ExtraConfig key for the golden template that the VM's disks can depend on.
pub const BASE: &str = "layercake.base";
/// The text that begins the description of a published library item. The request's UID follows it, as in vm-operator.
pub const PUBLISHED_BY: &str = "virtualmachinepublishrequest.vmoperator.vmware.com: ";
/// The ExtraConfig key on a golden template for its library item and content version.
const TEMPLATE: &str = "layercake.template";

/// The mark on the VM of a VirtualMachine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    owner: String,
    stack: String,
}

impl Mark {
    /// Returns the mark for the VM of `namespace/name`, created by `stack`.
    pub fn new(namespace: &str, name: &str, stack: &str) -> Self {
        Self { owner: format!("{namespace}/{name}"), stack: stack.to_owned() }
    }

    /// Returns the ExtraConfig entries for the mark. The template's own mark is blanked, because clones inherit it.
    pub fn extra_config(&self) -> [(String, String); 3] {
        [(OWNER, self.owner.as_str()), (STACK, self.stack.as_str()), (TEMPLATE, "")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
    }

    /// Returns true if `vm` has this mark and isn't managed by another extension.
    pub fn is_on(&self, vm: &Vm) -> bool {
        entry(vm, OWNER) == self.owner && entry(vm, STACK) == self.stack && not_anothers(vm)
    }

    /// Logs that `vm` has the identity or name that this mark's VM needs. Returns a description of `vm` if it belongs to the
    /// same namespace in this installation. Otherwise returns `None`, because users may not see other namespaces' VMs.
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

/// Returns the VirtualMachine that `vm` belongs to, if this stack created the VM and another extension doesn't manage it.
pub fn owner(vm: &Vm, stack: &str) -> Option<ObjectRef<VirtualMachine>> {
    if entry(vm, STACK) != stack || !not_anothers(vm) {
        return None;
    }
    let (namespace, name) = entry(vm, OWNER).split_once('/')?;
    Some(ObjectRef::new(name).within(namespace))
}

/// Describes `vm` and its owner for administrators.
pub fn described(vm: &Vm) -> String {
    let owner = match (entry(vm, OWNER), vm.managed_by.as_ref()) {
        ("", None) => "without an owner".to_owned(),
        ("", Some(by)) => format!("managed by {}", by.extension_key),
        (owner, _) => format!("of VirtualMachine {owner}"),
    };
    format!("{} ({}, {owner})", vm.name, vm.moref.id())
}

/// Returns the extension that vCenter shows as the manager of this operator's VMs.
pub fn managed_by() -> ManagedBy {
    ManagedBy { extension_key: EXTENSION.to_owned(), kind: KIND.to_owned() }
}

/// Returns the UID of the VirtualMachinePublishRequest in an item's description, if a request created the item.
pub fn publish_request(description: &str) -> Option<&str> {
    Some(description.lines().next()?.strip_prefix(PUBLISHED_BY)?.trim())
}

/// Returns the ExtraConfig entries for the golden template of this item and content version.
pub fn template_extra_config(item: &str, content: &str, stack: &str) -> Vec<(String, String)> {
    vec![(TEMPLATE.to_owned(), format!("{item}@{content}")), (STACK.to_owned(), stack.to_owned())]
}

/// Compares `vm` with the golden template mark for this item and content version.
pub fn template_mark(vm: &Vm, item: &str, content: &str) -> TemplateMark {
    match entry(vm, TEMPLATE) {
        "" if entry(vm, OWNER).is_empty() && not_anothers(vm) => TemplateMark::Unmarked,
        mark if mark == format!("{item}@{content}") => TemplateMark::Marked,
        _ => TemplateMark::Foreign,
    }
}

/// Returns the library item and the content version of a golden template, or `None` if `vm` isn't a template from this stack.
pub fn template_content<'a>(vm: &'a Vm, stack: &str) -> Option<(&'a str, &'a str)> {
    let ours = entry(vm, STACK) == stack && entry(vm, OWNER).is_empty() && not_anothers(vm);
    entry(vm, TEMPLATE).rsplit_once('@').filter(|_| ours)
}

/// Returns the name of the golden template that the VM was cloned from, if the VM records one.
pub fn base(vm: &Vm) -> Option<&str> {
    Some(entry(vm, BASE)).filter(|base| !base.is_empty())
}

/// The relation between a VM and the golden template whose name it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateMark {
    /// The VM is the template.
    Marked,
    /// The VM isn't marked, because its deployment was interrupted.
    Unmarked,
    /// The VM is neither the template nor an incomplete deployment.
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
