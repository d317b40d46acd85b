//! Writes docs/checks.md to standard output.

use layercake::doctor;

const HEAD: &str = "\
<!-- Written by hack/generate from cli/src/doctor/explanations.txt. Do not edit. -->
# Checks of the doctor

[`layercake doctor`](cli.md#layercake-doctor) prints a code for each finding. This page has the cause, an example and commands for each code.
`layercake doctor --explain CODE` prints the same without a network.
";

fn main() {
    print!("{HEAD}\n{}", doctor::explain::page(&doctor::checks()));
}
