//! The tree as text: one line an object, the three objects of one node on one line.

use std::fmt::Write as _;

use jiff::{Timestamp, Unit};

use super::tree::{Blocking, Node};

/// What one line shows.
struct Line {
    tree: String,
    ready: String,
    reason: String,
    age: String,
    message: String,
}

/// The whole text: the blocking cause on top, then the tree as a table.
pub fn text(blocking: Option<&Blocking>, tree: &Node, now: Timestamp) -> String {
    let mut out = String::new();
    if let Some(blocking) = blocking {
        let _ = writeln!(out, "Blocked by {}: {}: {}\n", blocking.object, blocking.reason, blocking.message);
    }
    let mut lines = vec![Line {
        tree: "NAME".into(),
        ready: "READY".into(),
        reason: "REASON".into(),
        age: "AGE".into(),
        message: "MESSAGE".into(),
    }];
    add(&mut lines, tree, "", "", now);
    let width =
        |field: fn(&Line) -> &str| lines.iter().map(|line| field(line).chars().count()).max().unwrap_or(0);
    let widths = [width(|l| &l.tree), width(|l| &l.ready), width(|l| &l.reason), width(|l| &l.age)];
    for line in &lines {
        let row = format!(
            "{:<a$}   {:<b$}   {:<c$}   {:<d$}   {}",
            line.tree,
            line.ready,
            line.reason,
            line.age,
            line.message,
            a = widths[0],
            b = widths[1],
            c = widths[2],
            d = widths[3],
        );
        let _ = writeln!(out, "{}", row.trim_end());
    }
    out
}

fn add(lines: &mut Vec<Line>, node: &Node, branch: &str, indent: &str, now: Timestamp) {
    let chain = chain(node);
    let names =
        chain.iter().map(|part| format!("{}/{}", part.kind, part.name)).collect::<Vec<_>>().join("  ");
    // Of the objects on one line, the deepest that is not ready knows most.
    let told = chain.iter().rev().find(|part| part.ready != "True" && !part.message.is_empty());
    let told = told.copied().unwrap_or(node);
    lines.push(Line {
        tree: format!("{branch}{names}"),
        ready: node.ready.clone(),
        reason: told.reason.clone(),
        age: told.since.as_deref().map_or_else(String::new, |since| age(since, now)),
        message: told.message.clone(),
    });
    let below = &chain[chain.len() - 1].children;
    for (at, child) in below.iter().enumerate() {
        let last = at + 1 == below.len();
        let branch = format!("{indent}{}", if last { "└─" } else { "├─" });
        let indent = format!("{indent}{}", if last { "  " } else { "│ " });
        add(lines, child, &branch, &indent, now);
    }
}

/// A Machine with the WCPMachine, the VirtualMachine and the vSphere VM below it; any other object alone.
fn chain(node: &Node) -> Vec<&Node> {
    let mut chain = vec![node];
    if node.kind != "Machine" {
        return chain;
    }
    while let [only] = chain[chain.len() - 1].children.as_slice() {
        chain.push(only);
    }
    chain
}

/// A duration as kubectl prints ages: `42s`, `3m5s`, `2h`, `5d`.
pub fn age(since: &str, now: Timestamp) -> String {
    let Ok(since) = since.parse::<Timestamp>() else { return String::new() };
    let seconds = now.since((Unit::Second, since)).map_or(0, |span| span.get_seconds()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => format!("{}m{}s", seconds / 60, seconds % 60),
        600..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(kind: &str, name: &str, ready: &str, children: Vec<Node>) -> Node {
        let since = Some("2026-01-01T00:00:00Z".to_owned());
        let message = if ready == "True" { String::new() } else { format!("{name} waits") };
        let reason = if ready == "True" { String::new() } else { "Waiting".to_owned() };
        Node { kind: kind.into(), name: name.into(), ready: ready.into(), reason, message, since, children }
    }

    #[test]
    fn one_node_is_one_line() {
        let vm = node("VirtualMachine", "c-1", "False", vec![]);
        let machine = node("Machine", "c-1", "False", vec![node("WCPMachine", "c-x", "False", vec![vm])]);
        let tree = node(
            "TanzuKubernetesCluster",
            "c",
            "False",
            vec![node(
                "Cluster",
                "c",
                "False",
                vec![machine, node("MachineDeployment", "c-p", "True", vec![])],
            )],
        );
        let now = "2026-01-01T00:03:05Z".parse().unwrap();
        insta::assert_snapshot!(text(None, &tree, now), @r"
        NAME                                               READY   REASON    AGE    MESSAGE
        TanzuKubernetesCluster/c                           False   Waiting   3m5s   c waits
        └─Cluster/c                                        False   Waiting   3m5s   c waits
          ├─Machine/c-1  WCPMachine/c-x  VirtualMachine/c-1   False   Waiting   3m5s   c-1 waits
          └─MachineDeployment/c-p                          True              3m5s
        ");
    }

    #[test]
    fn ages_read_as_in_kubectl() {
        let now: Timestamp = "2026-01-03T00:00:00Z".parse().unwrap();
        let ages = [
            "2026-01-02T23:59:30Z",
            "2026-01-02T23:55:00Z",
            "2026-01-02T23:00:00Z",
            "2026-01-02T12:00:00Z",
            "2025-12-01T00:00:00Z",
        ];
        assert_eq!(ages.map(|since| age(since, now)), ["30s", "5m0s", "60m", "12h", "33d"]);
    }
}
