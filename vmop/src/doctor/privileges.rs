//! Checks that the vCenter user has the privileges that the VM operator needs on each object.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kit::diagnosis::Diagnosis;
use vsphere::{MoRef, ObjectContent, PRIVILEGES, Privilege, PrivilegeScope, PrivilegeUse};

use super::checks::{OPTIONAL_PRIVILEGES, PRIVILEGES as REQUIRED};
use super::site::ConnectedSite;

type Held = HashMap<MoRef, BTreeSet<String>>;

/// Checks the user's privileges on all objects with one call.
pub async fn check(site: &ConnectedSite<'_>) -> Vec<Diagnosis> {
    match read(site).await {
        Ok((objects, held)) => judge(&objects, &held, &site.settings.username),
        Err(error) => {
            let failed = |check: kit::diagnosis::Check| check.error(error.to_string(), error.advice());
            vec![failed(REQUIRED), failed(OPTIONAL_PRIVILEGES)]
        }
    }
}

/// Reads the objects by scope, and the user's privileges on each.
async fn read(site: &ConnectedSite<'_>) -> vsphere::Result<(BTreeMap<PrivilegeScope, Vec<MoRef>>, Held)> {
    let objects = objects(site).await?;
    let all: Vec<MoRef> = objects.values().flatten().cloned().collect();
    let held = site.vcenter.own_privileges(&all).await?;
    Ok((objects, held))
}

/// Returns the objects on which privileges are needed, by scope.
async fn objects(site: &ConnectedSite<'_>) -> vsphere::Result<BTreeMap<PrivilegeScope, Vec<MoRef>>> {
    let datastores = site.vcenter.list_datastores(&site.datacenter).await?;
    let configured = site.settings.datastore.as_deref();
    let datastores = datastores.into_iter().filter(|datastore| {
        configured.is_none_or(|name| datastore.name == name || datastore.moref.id() == name)
    });
    let networks = site.vcenter.networks(&site.datacenter).await?;
    let configured = site.settings.network.as_deref();
    let networks = networks
        .into_iter()
        .filter(|network| configured.is_some_and(|name| network.name == name || network.moref.id() == name));
    let root = site.vcenter.root_folder().ok();
    Ok(BTreeMap::from([
        (PrivilegeScope::VCenter, root.into_iter().collect()),
        (PrivilegeScope::Datacenter, vec![site.datacenter.clone()]),
        (PrivilegeScope::Folder, site.folders.keys().cloned().collect()),
        (
            PrivilegeScope::ResourcePool,
            site.pools.iter().map(|pool: &ObjectContent| pool.obj.clone()).collect(),
        ),
        (PrivilegeScope::Datastore, datastores.map(|datastore| datastore.moref).collect()),
        (PrivilegeScope::Network, networks.map(|network| network.moref).collect()),
    ]))
}

/// Reports missing privileges: each as an error if every VM needs it, and otherwise as a warning that names the feature.
fn judge(objects: &BTreeMap<PrivilegeScope, Vec<MoRef>>, held: &Held, user: &str) -> Vec<Diagnosis> {
    let none = BTreeSet::new();
    let lacking = |privilege: &Privilege| {
        let on = objects.get(&privilege.scope).into_iter().flatten();
        on.filter(|object| !held.get(object).unwrap_or(&none).contains(privilege.id))
            .map(MoRef::to_string)
            .collect()
    };
    let mut found = Vec::new();
    for privilege in PRIVILEGES {
        let objects: Vec<String> = lacking(privilege);
        if objects.is_empty() {
            continue;
        }
        let Privilege { id, scope, calls, used } = privilege;
        let lacks = format!("{user} lacks {id} on {} ({calls})", objects.join(", "));
        let remedy = format!("Add {id} to the user's role on the {}", scope.name());
        found.push(match used {
            PrivilegeUse::Always => REQUIRED.error(lacks, remedy),
            PrivilegeUse::Only(feature) => {
                OPTIONAL_PRIVILEGES.warning(format!("{lacks}: needed for {feature}"), remedy)
            }
        });
    }
    for check in [REQUIRED, OPTIONAL_PRIVILEGES] {
        if found.iter().all(|diagnosis| diagnosis.check != check) {
            let always = check == REQUIRED;
            let count = PRIVILEGES
                .iter()
                .filter(|privilege| (privilege.used == PrivilegeUse::Always) == always)
                // Scopes without objects weren't checked.
                .filter(|privilege| objects.get(&privilege.scope).is_some_and(|on| !on.is_empty()))
                .count();
            found.push(check.ok(format!("{user} has all {count} privileges that were checked")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use kit::diagnosis::CheckOutcome;

    use super::*;

    #[test]
    fn each_privilege_that_is_taken_away_is_named_with_its_object() {
        let objects: BTreeMap<_, _> =
            PrivilegeScope::ALL.map(|scope| (scope, vec![MoRef::new("Object", scope.name())])).into();
        for taken in PRIVILEGES {
            let held = PrivilegeScope::ALL.map(|scope| {
                let has = PRIVILEGES.iter().filter(|has| has.scope == scope && **has != *taken);
                (MoRef::new("Object", scope.name()), has.map(|has| has.id.to_owned()).collect())
            });
            let found = judge(&objects, &Held::from(held), "user");
            let bad: Vec<_> =
                found.iter().filter(|diagnosis| diagnosis.outcome != CheckOutcome::Ok).collect();
            let [bad] = bad.as_slice() else { panic!("{}: {found:?}", taken.id) };
            assert!(bad.found.contains(taken.id) && bad.remedy.contains(taken.scope.name()), "{bad:?}");
            let wanted =
                if taken.used == PrivilegeUse::Always { CheckOutcome::Error } else { CheckOutcome::Warning };
            assert_eq!(bad.outcome, wanted);
        }
    }
}
