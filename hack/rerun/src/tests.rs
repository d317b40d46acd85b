use std::path::Path;

use crate::log::{FailedTest, failed_runs};

/// A log with two programs. The first succeeds. In the second, two tests fail.
const LOG: &str = "\
     Running unittests src/lib.rs (/target/debug/deps/api-1)

running 2 tests
test names::a ... ok
test names::b ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

     Running /src/test/stories/main.rs (/target/debug/deps/stories-2)

running 4 tests
test clusters::slow ... ignored, needs an hour
test clusters::late ... FAILED
[late] some output of a story
test clusters::fine ... ok
test nodes::wrong ... FAILED

failures:

---- clusters::late stdout ----
[late] a step: after 1.0 s

thread 'clusters::late' panicked at test/stories/clusters.rs:7:9:
not within 90s: the cluster runs
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace

---- nodes::wrong stdout ----

thread 'nodes::wrong' (7) panicked at test/stories/nodes.rs:7:9:
assertion `left == right` failed
  left: 1


failures:
    clusters::late
    nodes::wrong

test result: FAILED. 1 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 9.00s

error: test failed, to rerun pass `-p layercake --test stories`
error: 1 target failed:
    `-p layercake --test stories`
";

fn failure(name: &str, cause: &str) -> FailedTest {
    FailedTest { name: name.to_owned(), cause: cause.to_owned() }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn failed_tests_have_the_first_line_of_their_panic() {
    let runs = failed_runs(LOG);
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].executable, Path::new("/target/debug/deps/stories-2"));
    let expected = [
        failure("clusters::late", "not within 90s: the cluster runs"),
        failure("nodes::wrong", "assertion `left == right` failed"),
    ];
    assert_eq!(runs[0].failed, expected);
    assert!(runs[0].unfinished(&names(&["clusters::fine", "filtered::out"])).is_empty());
}

#[test]
fn tests_of_a_program_that_hangs_are_unfinished() {
    let log = "     Running /src/test/stories/main.rs (/target/debug/deps/stories-2)\n\
        running 4 tests\ntest a ... ok\ntest b ... FAILED\n\
        HANGING STORY c: it blocks its thread after 600 s\n\
        error: test failed, to rerun pass `-p layercake --test stories`\n\n\
        Caused by:\n  process didn't exit successfully: `/target/debug/deps/stories-2` (exit status: 1)\n";
    let runs = failed_runs(log);
    let expected = [failure("b", "it printed no cause"), failure("c", "it blocks its thread after 600 s")];
    assert_eq!(runs[0].failed, expected);
    assert_eq!(runs[0].unfinished(&names(&["a", "b", "c", "d"])), ["d"]);
}

#[test]
fn a_failed_documentation_test_is_not_lost() {
    let log = "   Doc-tests kit\n\nrunning 1 test\ntest kit/src/lib.rs - (line 7) ... FAILED\n\n\
        test result: FAILED. 0 passed; 1 failed; 0 ignored\n\nerror: doctest failed, to rerun pass `-p kit --doc`\n";
    let runs = failed_runs(log);
    assert_eq!((runs.len(), runs[0].executable.as_os_str().len()), (1, 0));
}

#[test]
fn a_log_without_failures_names_none() {
    assert!(failed_runs("error: could not compile `kit`\n").is_empty());
}
