//! What vCenter was asked for, sorted into what changes something and what does not.

use std::collections::BTreeMap;

use sim::control::Requests;

/// Calls that only read, wait, or keep a view or the session; whatever is not here changes something.
const PASSIVE: [&str; 24] = [
    "CancelWaitForUpdates",
    "ContinueRetrievePropertiesEx",
    "CreateContainerView",
    "CreateFilter",
    "CreateListView",
    "CreatePropertyCollector",
    "CurrentTime",
    "DestroyPropertyCollector",
    "DestroyPropertyFilter",
    "DestroyView",
    "FindByInventoryPath",
    "FindByUuid",
    "FindChild",
    "Login",
    "Logout",
    "ModifyListView",
    "POST /api/session",
    "POST /api/vcenter/system?action=hello",
    "POST /com/vmware/cis/session",
    "RetrieveProperties",
    "RetrievePropertiesEx",
    "RetrieveServiceContent",
    "SessionIsActive",
    "WaitForUpdatesEx",
];

/// Whether a call changes something in vCenter.
pub fn changes(method: &str) -> bool {
    // A property of an object by GET, a search, a session's end.
    let reads = method.starts_with("GET ")
        || method.ends_with("action=find")
        || method.starts_with("DELETE /") && method.ends_with("/session")
        || method.split_once('.').is_some_and(|(kind, _)| kind.chars().all(char::is_alphanumeric));
    !reads && !PASSIVE.contains(&method)
}

/// The calls that change something.
pub fn mutating(requests: &Requests) -> u64 {
    by_method(requests).iter().filter(|(method, _)| changes(method)).map(|(_, count)| count).sum()
}

/// The calls by method, whatever the wire.
pub fn by_method(requests: &Requests) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (method, count) in requests.by_wire.values().flatten() {
        *all.entry(method.clone()).or_default() += count;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_read_changes_something() {
        for method in ["CloneVM_Task", "Destroy_Task", "CreateFolder", "POST /api/vcenter/cluster/modules"] {
            assert!(changes(method), "{method}");
        }
        for method in ["WaitForUpdatesEx", "GET /api/content/library/{id}", "VirtualMachine.config"] {
            assert!(!changes(method), "{method}");
        }
        assert!(!changes("POST /com/vmware/content/library?~action=find"));
    }
}
