//! Formats the tree as text, one object per line. A Machine shares its line with the objects below it.

use std::fmt::Write as _;

use api::conditions::cause::one_line;
use api::conditions::tree::Suspicion;
use jiff::Timestamp;

use super::cause::Blocking;
use super::next::next;
use super::node::TreeNode;
use super::words::{age, cut, phrase};
use crate::terminal::output::align;

/// The columns of a line: tree, readiness, reason, age and message.
type Row = [String; 5];

/// Formats the blocking cause, the next command, and the tree as a table.
///
/// `width` is the maximum number of columns in the table's lines. Names are limited to half of that number, but to at
/// least 20. For `consoles` see [`next`].
pub fn text(
    blocking: Option<&Blocking>,
    tree: &TreeNode,
    now: Timestamp,
    width: Option<usize>,
    consoles: bool,
) -> String {
    let mut out = String::new();
    if let Some(blocking) = blocking {
        let _ = writeln!(out, "Blocked by {}", cause(blocking));
        if let Some(command) = next(blocking, consoles) {
            let _ = writeln!(out, "Next: {command}");
        }
        out.push('\n');
    }
    out + &table(tree, now, width)
}

/// Formats a blocking cause as one line.
pub fn cause(blocking: &Blocking) -> String {
    format!("{}: {}", blocking.object, phrase(&blocking.reason, &blocking.message))
}

/// Formats the tree as a table with a heading, one object per line.
pub fn table(tree: &TreeNode, now: Timestamp, width: Option<usize>) -> String {
    let mut rows = vec![["NAME", "READY", "REASON", "AGE", "MESSAGE"].map(str::to_owned)];
    add(&mut rows, tree, "", "", now);
    if let Some(width) = width {
        for [tree, ..] in &mut rows {
            *tree = cut(tree, (width / 2).max(20));
        }
    }
    let mut out = String::new();
    for line in align(&rows) {
        let line = width.map_or_else(|| line.clone(), |width| cut(&line, width));
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

fn add(rows: &mut Vec<Row>, node: &TreeNode, branch: &str, indent: &str, now: Timestamp) {
    let chain = chain(node);
    let last = chain[chain.len() - 1];
    // Show the deepest object that isn't ready. If the node is ready, show the deepest object, which names the host.
    let shown = chain.iter().rev().find(|part| part.ready != "True" && !part.message.is_empty());
    let shown = shown.copied().unwrap_or(if node.ready == "True" { last } else { node });
    let (reason, message) = match &node.suspicion {
        Some(Suspicion { cause, own: true }) => (&cause.reason, &cause.message),
        _ if shown.reason.is_empty() => (&node.reason, &shown.message),
        _ => (&shown.reason, &shown.message),
    };
    let tree = format!("{branch}{}", names(&chain));
    let age = node.since.as_deref().map_or_else(String::new, |since| age(since, now));
    let message = without_repetition(message, &last.children);
    rows.push([tree, node.ready.clone(), reason.clone(), age, one_line(&message)]);
    for (at, child) in last.children.iter().enumerate() {
        let last = at + 1 == last.children.len();
        let branch = format!("{indent}{}", if last { "└─" } else { "├─" });
        let indent = format!("{indent}{}", if last { "  " } else { "│ " });
        add(rows, child, &branch, &indent, now);
    }
}

/// The length in bytes below which an object's message isn't replaced in the message of the object above it.
const SHORT: usize = 60;

/// Replaces the parts of the message that repeat the message of an object below with "see below".
fn without_repetition(message: &str, children: &[TreeNode]) -> String {
    children.iter().fold(message.to_owned(), |message, child| {
        let message = without_repetition(&message, &child.children);
        if child.ready == "True" || child.message.len() < SHORT {
            return message;
        }
        message.replace(&child.message, "see below")
    })
}

/// Formats a line's objects as `Machine/x (WCPMachine, VirtualMachine, vm-72)`. Omits names that equal the first name.
fn names(chain: &[&TreeNode]) -> String {
    let first = chain[0];
    let others = chain[1..].iter().map(|part| {
        if part.name == first.name {
            part.kind.clone()
        } else if part.kind == "vSphere VM" {
            part.name.clone()
        } else {
            format!("{}/{}", part.kind, part.name)
        }
    });
    let others: Vec<_> = others.collect();
    let more = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
    format!("{}/{}{more}", first.kind, first.name)
}

/// Returns a Machine with the objects below it, down to the vSphere VM. Returns any other object alone.
fn chain(node: &TreeNode) -> Vec<&TreeNode> {
    let mut chain = vec![node];
    if node.kind != "Machine" {
        return chain;
    }
    while let [only] = chain[chain.len() - 1].children.as_slice() {
        chain.push(only);
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(kind: &str, name: &str, ready: &str, children: Vec<TreeNode>) -> TreeNode {
        let since = Some("2026-01-01T00:00:00Z".to_owned());
        let (reason, message) = match ready {
            "True" => (String::new(), String::new()),
            _ => ("Waiting".to_owned(), format!("* {name} waits:\n  * for a\n  * for b")),
        };
        let (kind, name, ready) = (kind.into(), name.into(), ready.into());
        TreeNode { kind, name, ready, reason, message, since, children, ..TreeNode::default() }
    }

    fn tree() -> TreeNode {
        let mut vm = node("vSphere VM", "vm-7", "True", vec![]);
        vm.message = "poweredOn 10.1.2.3; last task: clone".to_owned();
        let machine = |ready: &str| {
            let virtual_machine = node("VirtualMachine", "c-1", ready, vec![vm.clone()]);
            node("Machine", "c-1", ready, vec![node("WCPMachine", "c-x", ready, vec![virtual_machine])])
        };
        let pool = node("MachineDeployment", "c-p", "True", vec![machine("True")]);
        let cluster = node("Cluster", "c", "False", vec![machine("False"), pool]);
        node("TanzuKubernetesCluster", "c", "False", vec![cluster])
    }

    #[test]
    fn one_node_is_one_line() {
        let now = "2026-01-01T00:03:05Z".parse().unwrap();
        insta::assert_snapshot!(text(None, &tree(), now, None, false));
    }

    #[test]
    fn what_an_object_below_says_is_not_repeated() {
        const FULL: &str = "GlobalInClusterIPPool control-planes has no free address, 3 are in use";
        let mut infrastructure = node("WCPCluster", "c", "False", vec![]);
        infrastructure.message = FULL.to_owned();
        let mut cluster = node("Cluster", "c", "False", vec![infrastructure]);
        cluster.message = format!("* InfrastructureReady: {FULL}");
        let mut root = node("TanzuKubernetesCluster", "c", "False", vec![cluster]);
        root.message = format!("0 of 2 nodes are ready. WCPCluster c: {FULL}");
        let text = table(&root, Timestamp::UNIX_EPOCH, None);
        assert_eq!(text.matches(FULL).count(), 1, "{text}");
        assert!(text.contains("0 of 2 nodes are ready. WCPCluster c: see below"), "{text}");
    }

    #[test]
    fn on_a_terminal_no_line_is_too_long() {
        let now = "2026-01-01T00:03:05Z".parse().unwrap();
        let text = text(None, &tree(), now, Some(60), false);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        insta::assert_snapshot!(text);
    }
}
