//! Reads docs/vcenter.md from standard input, replaces its tables of privileges and checks with tables generated from
//! the code, and writes the page to standard output.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Read as _;

use layercake::doctor;
use layercake::site::roles::{Grant, govc};
use vsphere::{IMPORT_PRIVILEGES, PRIVILEGES, Privilege, PrivilegeScope, PrivilegeUse};

fn main() -> Result<(), Box<dyn Error>> {
    let mut page = String::new();
    std::io::stdin().read_to_string(&mut page)?;
    let page =
        with(&page, "privileges", &privileges()).ok_or("docs/vcenter.md has no marks of its privileges")?;
    let page = with(&page, "privileges of imports", &import_privileges())
        .ok_or("docs/vcenter.md has no marks of the privileges of imports")?;
    let page = with(&page, "checks", &checks()).ok_or("docs/vcenter.md has no marks of the checks")?;
    print!("{page}");
    Ok(())
}

/// Returns the page with `made` in place of the text between the marks for `name`, or `None` if the marks are missing.
fn with(page: &str, name: &str, made: &str) -> Option<String> {
    let (begin, end) =
        (format!("<!-- {name}: written by hack/generate -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{made}\n{end}{after}"))
}

fn table(privileges: &[Privilege]) -> String {
    let mut text = String::from("| privilege | on | for the calls | needed |\n|---|---|---|---|\n");
    for privilege in privileges {
        let needed = match privilege.used {
            PrivilegeUse::Always => "always",
            PrivilegeUse::Only(feature) => feature,
        };
        let (id, scope, calls) = (privilege.id, privilege.scope.name(), privilege.calls);
        let _ = writeln!(text, "| `{id}` | {scope} | {calls} | {needed} |");
    }
    text
}

/// Returns the IDs of the privileges, except those that every role includes.
fn ids(privileges: &[Privilege]) -> String {
    let ids = privileges.iter().map(|privilege| privilege.id).filter(|id| !id.starts_with("System."));
    ids.collect::<Vec<_>>().join(" ")
}

fn import_privileges() -> String {
    let mut text = table(IMPORT_PRIVILEGES);
    text += "\n```sh\n";
    let _ = writeln!(text, "govc role.create layercake-import {}", ids(IMPORT_PRIVILEGES));
    text + "```\n"
}

fn privileges() -> String {
    let mut text = table(PRIVILEGES);
    text += "\nThese govc commands create both roles, and assign `layercake`. Every role has the privileges of `System`:\n\n```sh\n";
    let grants = PrivilegeScope::ALL.map(|scope| {
        let path = match scope {
            PrivilegeScope::VCenter => "/",
            PrivilegeScope::Datacenter => "/DATACENTER",
            PrivilegeScope::Folder => "/DATACENTER/vm/FOLDER",
            PrivilegeScope::ResourcePool => "/DATACENTER/host/CLUSTER/Resources/POOL",
            PrivilegeScope::Datastore => "/DATACENTER/datastore/DATASTORE",
            PrivilegeScope::Network => "/DATACENTER/network/NETWORK",
        };
        Grant::of_path(scope, path)
    });
    text += &govc("USER@DOMAIN", &grants);
    text + "```\n"
}

fn checks() -> String {
    let mut text = String::from("| code | what the check verifies |\n|---|---|\n");
    for check in doctor::checks() {
        let (code, title) = (check.code, check.title);
        let _ = writeln!(text, "| [{code}](checks.md#{}) | {title} |", code.to_lowercase());
    }
    text
}
