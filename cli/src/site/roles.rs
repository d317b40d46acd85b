//! Formats the commands that grant a vCenter user exactly the privileges that Layercake needs. This module doesn't
//! perform I/O.

use std::fmt::Write as _;

use vsphere::{MoRef, PRIVILEGES, PrivilegeScope};

/// The role with all of Layercake's privileges.
const ROLE: &str = "layercake";
/// The role with only the content library privileges. It is granted globally, so it applies to the whole inventory.
pub const LIBRARY_ROLE: &str = "layercake-library";

/// A role assignment in vCenter.
#[derive(Clone, Debug)]
pub struct Grant {
    pub scope: PrivilegeScope,
    /// The object as a govc argument, such as a path or reference.
    pub govc: String,
    /// The object, if it is known.
    pub object: Option<MoRef>,
    /// The object's name. PowerCLI needs it for standard networks.
    pub name: String,
}

impl Grant {
    /// Returns a grant on a known object.
    pub fn on(scope: PrivilegeScope, object: &MoRef, name: &str) -> Self {
        Self { scope, govc: object.to_string(), object: Some(object.clone()), name: name.to_owned() }
    }

    /// Returns a grant on an object that isn't known here. The user replaces the placeholder in `path`.
    pub fn of_path(scope: PrivilegeScope, path: &str) -> Self {
        Self { scope, govc: path.to_owned(), object: None, name: String::new() }
    }

    /// Returns the name of the role, and true if the role also applies to the object's children.
    fn role(&self) -> (&'static str, bool) {
        match self.scope {
            // This role applies to all VMs in the datacenter, so it must be read-only.
            PrivilegeScope::Datacenter => ("ReadOnly", true),
            PrivilegeScope::Folder | PrivilegeScope::ResourcePool => (ROLE, true),
            PrivilegeScope::VCenter | PrivilegeScope::Datastore | PrivilegeScope::Network => (ROLE, false),
        }
    }
}

/// Returns the role's privileges, except the privileges that all roles include.
fn ids() -> impl Iterator<Item = &'static str> {
    PRIVILEGES.iter().map(|privilege| privilege.id).filter(|id| !id.starts_with("System."))
}

/// Returns both roles with their privileges.
fn roles() -> [(&'static str, Vec<&'static str>); 2] {
    let of_libraries = ids().filter(|id| id.starts_with("ContentLibrary."));
    [(ROLE, ids().collect()), (LIBRARY_ROLE, of_libraries.collect())]
}

/// Returns the govc commands for a POSIX shell.
pub fn govc(user: &str, grants: &[Grant]) -> String {
    let is_plain = user.chars().all(|c| c.is_ascii_alphanumeric() || "@.-_".contains(c));
    let user = if is_plain { user.to_owned() } else { format!("'{}'", user.replace('\'', "'\\''")) };
    let mut text = String::new();
    for (role, ids) in roles() {
        let _ = writeln!(text, "govc role.create {role} {}", ids.join(" "));
    }
    for grant in grants {
        let ((role, propagate), object, scope) = (grant.role(), &grant.govc, grant.scope.name());
        let _ = writeln!(
            text,
            "govc permissions.set -principal {user} -role {role} -propagate={propagate} {object}   # {scope}"
        );
    }
    text
}

/// Returns the PowerCLI commands that create the roles and grant them to `user`. Skips grants whose object isn't known.
pub fn power_cli(user: &str, grants: &[Grant]) -> String {
    let mut text = String::new();
    for (role, ids) in roles() {
        let quoted: Vec<_> = ids.into_iter().map(quote).collect();
        let _ =
            writeln!(text, "New-VIRole -Name {role} -Privilege (Get-VIPrivilege -Id {})", quoted.join(","));
    }
    for grant in grants {
        let Some(object) = &grant.object else { continue };
        let (role, propagate) = grant.role();
        let id = quote(format!("{}-{}", object.kind(), object.id()));
        let entity = match object.kind() {
            "Datastore" => format!("Get-Datastore -Id {id}"),
            "DistributedVirtualPortgroup" => format!("Get-VDPortgroup -Id {id}"),
            "Network" => format!("Get-VirtualNetwork -Name {}", quote(&grant.name)),
            _ => format!("Get-Inventory -Id {id}"),
        };
        let _ = writeln!(
            text,
            "New-VIPermission -Principal {} -Role {role} -Propagate:${propagate} -Entity ({entity})   # {}",
            quote(user),
            grant.scope.name()
        );
    }
    text
}

/// Quotes a string for PowerShell.
fn quote(text: impl AsRef<str>) -> String {
    format!("'{}'", text.as_ref().replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_gets_the_role_that_its_scope_needs() {
        let object = |scope, kind: &str, id: &str| Grant::on(scope, &MoRef::new(kind, id), "it's");
        let grants = [
            object(PrivilegeScope::VCenter, "Folder", "group-d1"),
            object(PrivilegeScope::Datacenter, "Datacenter", "datacenter-2"),
            object(PrivilegeScope::Folder, "Folder", "group-v3"),
            object(PrivilegeScope::ResourcePool, "ResourcePool", "resgroup-8"),
            object(PrivilegeScope::Datastore, "Datastore", "datastore-9"),
            object(PrivilegeScope::Network, "DistributedVirtualPortgroup", "dvportgroup-7"),
            object(PrivilegeScope::Network, "Network", "network-7"),
        ];
        let without_ids = |text: String| text.lines().skip(2).collect::<Vec<_>>().join("\n");
        let all = without_ids(govc("user@domain", &grants))
            + "\n\n"
            + &without_ids(power_cli("user@domain", &grants));
        insta::assert_snapshot!(all);
        let principal = govc(r"CORP\o'neil", &grants[..1]);
        assert!(principal.contains(r"-principal 'CORP\o'\''neil' -role"), "{principal}");
        for text in [govc("u", &[]), power_cli("u", &[])] {
            assert!(text.contains("VirtualMachine.Inventory.Delete") && !text.contains("System."), "{text}");
            let of_libraries = text.lines().find(|line| line.contains(LIBRARY_ROLE)).unwrap();
            assert!(of_libraries.contains("ContentLibrary.DownloadSession"), "{of_libraries}");
            assert!(!of_libraries.contains("VirtualMachine."), "{of_libraries}");
        }
    }
}
