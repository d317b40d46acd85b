//! Finds import cycles between a crate's files, and between the rooms in each folder. Doesn't read files.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use crate::tree::{Import, ModuleTree};

/// The maximum number of names that a printed arrow lists.
const SHOWN: usize = 4;

type Arrows = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Returns all cycles in a crate, one line each. A cycle between single-file rooms is a file cycle too, and is listed
/// once.
pub fn find(tree: &ModuleTree) -> BTreeSet<String> {
    let imports = tree.imports();
    let mut levels = vec![file_arrows(tree, &imports)];
    for folder in 0..tree.files.len() {
        levels.push(room_arrows(tree, &imports, folder));
    }
    levels.iter().flat_map(shortest).collect()
}

fn file_arrows(tree: &ModuleTree, imports: &BTreeSet<Import>) -> Arrows {
    let mut arrows = Arrows::new();
    for (from, to, name) in imports {
        let names = arrows.entry(shown(&tree.files[*from].path)).or_default();
        names.entry(shown(&tree.files[*to].path)).or_default().insert(name.clone());
    }
    arrows
}

/// Returns the imports between the rooms directly below a file's module. The file itself is their roof.
fn room_arrows(tree: &ModuleTree, imports: &BTreeSet<Import>, top: usize) -> Arrows {
    let level = tree.files[top].chain.len();
    let has_rooms_below =
        |room: usize| tree.files.iter().any(|file| file.chain.len() > level + 1 && file.chain[level] == room);
    let room = |file: usize| {
        let chain = &tree.files[file].chain;
        let below = chain.get(level - 1) == Some(&top);
        below.then(|| match chain.get(level) {
            Some(room) if has_rooms_below(*room) => folder(&tree.files[*room].path),
            _ => shown(&tree.files[file].path),
        })
    };
    let mut arrows = Arrows::new();
    for (from, to, name) in imports {
        let (Some(one), Some(other)) = (room(*from), room(*to)) else { continue };
        if one != other {
            let file = shown(&tree.files[*from].path);
            let name = if file == one { name.clone() } else { format!("{file}: {name}") };
            arrows.entry(one).or_default().entry(other).or_default().insert(name);
        }
    }
    arrows
}

/// Returns the shortest cycle through each node, if any. Cycles with the same nodes are returned once.
fn shortest(arrows: &Arrows) -> BTreeSet<String> {
    let mut circles = BTreeMap::new();
    for start in arrows.keys() {
        if let Some(circle) = way_back(arrows, start) {
            let nodes = circle.iter().copied().collect::<BTreeSet<_>>();
            circles.entry(nodes).or_insert(circle);
        }
    }
    circles.values().map(|circle| print(arrows, circle)).collect()
}

fn way_back<'a>(arrows: &'a Arrows, start: &'a str) -> Option<Vec<&'a str>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for next in arrows.get(node).into_iter().flat_map(BTreeMap::keys) {
            if next == start {
                let mut way = vec![node];
                while let Some(before) = way.last().and_then(|last| came_from.get(last)) {
                    way.push(before);
                }
                way.reverse();
                return Some(way);
            }
            if !came_from.contains_key(next.as_str()) {
                came_from.insert(next, node);
                queue.push_back(next);
            }
        }
    }
    None
}

fn print(arrows: &Arrows, circle: &[&str]) -> String {
    let arrow = |at: usize| {
        let to = circle[(at + 1) % circle.len()];
        let names = &arrows[circle[at]][to];
        let first = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = names.len().checked_sub(SHOWN).filter(|more| *more > 0);
        format!(" -> {to} ({first}{})", more.map(|more| format!(" and {more} more")).unwrap_or_default())
    };
    circle[0].to_owned() + &(0..circle.len()).map(arrow).collect::<String>()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Returns the folder for a module file, which is `x.rs` or `x/mod.rs`.
fn folder(path: &Path) -> String {
    let folder = if path.ends_with("mod.rs") { path.with_file_name("") } else { path.with_extension("") };
    format!("{}/", folder.display().to_string().trim_end_matches('/'))
}
