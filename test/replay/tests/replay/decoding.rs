//! Decodes all recorded responses, and compares names that the client doesn't know with a reviewed list.

use std::collections::{BTreeMap, BTreeSet};

use replay::allowed::compare;
use replay::names::Names;
use replay::vocabulary::Vocabulary;
use vsphere::untrusted::Decoded;

use super::{read, recordings};

const TYPES: &str = "test/replay/ignored-types.txt";
const PROPERTIES: &str = "test/replay/ignored-properties.txt";
const SKIPPED: &str = "test/replay/skipped-files.txt";

#[test]
fn the_client_decodes_every_recorded_answer() {
    let Some(folder) = recordings("the_client_decodes_every_recorded_answer") else { return };
    let mut unreadable = Vec::new();
    let mut decoded: BTreeMap<String, usize> = BTreeMap::new();
    for (place, exchange) in folder.exchanges() {
        match exchange.decode() {
            Some(Decoded::Unreadable(why)) => unreadable.push(format!("{place}: {} {why}", exchange.call())),
            _ => *decoded.entry(exchange.release().unwrap_or("no release").to_owned()).or_default() += 1,
        }
    }
    println!("decoded by the release that was spoken: {decoded:?}");
    assert!(unreadable.is_empty(), "{}", unreadable.join("\n"));
}

#[test]
fn what_the_client_does_not_know_was_reviewed() {
    let Some(folder) = recordings("what_the_client_does_not_know_was_reviewed") else { return };
    let mut names = Names::default();
    for (_, exchange) in folder.exchanges() {
        exchange.decode().iter().for_each(|decoded| names.add(decoded));
    }
    let unknown = Vocabulary::of_client().unwrap().unknown(&names);
    println!("{} types, {} properties", names.types.len(), names.properties.len());
    let mut differences = compare(&unknown.types, &read(TYPES), TYPES);
    differences.extend(compare(&unknown.properties, &read(PROPERTIES), PROPERTIES));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn files_that_are_skipped_were_reviewed() {
    let Some(folder) = recordings("files_that_are_skipped_were_reviewed") else { return };
    for (name, why) in &folder.skipped {
        println!("skipped: {name}: {why}");
    }
    let names: BTreeSet<String> = folder.skipped.into_iter().map(|(name, _)| name).collect();
    let differences = compare(&names, &read(SKIPPED), SKIPPED);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
