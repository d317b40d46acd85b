//! Classifies vCenter calls as mutating or read-only.

use std::collections::BTreeMap;

use sim::control::RequestStatistics;

/// Calls that only read, wait, or maintain a view or a session. All other calls count as mutating.
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

/// Returns true if the call changes something in vCenter.
pub fn is_mutating(method: &str) -> bool {
    // A GET of an object property, a search, or a logout.
    let reads = method.starts_with("GET ")
        || method.ends_with("action=find")
        || method.starts_with("DELETE /") && method.ends_with("/session")
        || method.split_once('.').is_some_and(|(kind, _)| kind.chars().all(char::is_alphanumeric));
    !reads && !PASSIVE.contains(&method)
}

/// Counts the mutating calls.
pub fn count_mutating(requests: &RequestStatistics) -> u64 {
    count_by_method(requests).iter().filter(|(method, _)| is_mutating(method)).map(|(_, count)| count).sum()
}

/// Counts the calls by method, summed over all wires.
pub fn count_by_method(requests: &RequestStatistics) -> BTreeMap<String, u64> {
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
            assert!(is_mutating(method), "{method}");
        }
        for method in ["WaitForUpdatesEx", "GET /api/content/library/{id}", "VirtualMachine.config"] {
            assert!(!is_mutating(method), "{method}");
        }
        assert!(!is_mutating("POST /com/vmware/content/library?~action=find"));
    }
}
