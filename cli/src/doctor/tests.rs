//! Tests the output formats and the exit status.

use kit::diagnosis::Check;

use super::*;

const A: Check = Check::new("LC0101", "a is so");
const B: Check = Check::new("LC0301", "b is so");
const C: Check = Check::new("LC0302", "c is so");

fn found() -> Vec<Diagnosis> {
    vec![
        A.ok("a"),
        B.error("b <is> not so", "Mend b"),
        C.warning("c is nearly so", "Watch c"),
        C.skipped("b is not so"),
    ]
}

#[test]
fn each_form_has_what_was_found_and_what_to_do() {
    insta::assert_snapshot!("table", print::table(&found()));
    insta::assert_snapshot!("short", print::short(&found()));
    insta::assert_snapshot!("json", print::json(&found()));
    insta::assert_snapshot!("junit", print::junit(&found()));
}

#[test]
fn a_remedy_ends_in_one_full_stop() {
    let found = [B.error("b is not so.", "Mend b.")];
    for text in [print::table(&found), print::short(&found)] {
        assert!(text.contains("Mend b.") && !text.contains(".."), "{text}");
    }
}

#[test]
fn the_status_is_that_of_the_worst() {
    let found = found();
    let (fine, warning) = (&[A.ok(""), A.skipped("")][..], &found[2..]);
    for (found, on_error, on_warning) in [
        (&found[..], ExitStatus::Failed, ExitStatus::Failed),
        (warning, ExitStatus::Done, ExitStatus::Failed),
        (fine, ExitStatus::Done, ExitStatus::Done),
    ] {
        assert_eq!(status(found, FailOn::Error), on_error);
        assert_eq!(status(found, FailOn::Warning), on_warning);
    }
}

#[test]
fn codes_are_unique() {
    let codes = checks();
    assert!(codes.windows(2).all(|pair| pair[0].code < pair[1].code), "{codes:?}");
}

#[test]
fn codes_and_their_beginnings_select() {
    let (only, skip) = (vec!["LC03".to_owned()], vec!["LC0302".to_owned()]);
    let selection = CheckSelection::new(&[A, B, C], &only, &skip).unwrap();
    assert_eq!([A, B, C].map(|check| selection.has(check)), [false, true, false]);
    let wrong = vec!["LC99".to_owned()];
    let error = CheckSelection::new(&[A], &wrong, &[]).err().unwrap().to_string();
    assert!(error.contains("check LC99 does not exist"), "{error}");
}
