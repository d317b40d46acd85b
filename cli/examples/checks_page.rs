//! Writes docs/checks.md to standard output.

use layercake::doctor;

fn main() {
    print!(
        "<!-- Written by hack/generate from cli/src/doctor/explanations.txt. Do not edit. -->\n# Checks of the doctor\n\n{}\n{}",
        "[`layercake doctor`](cli.md#layercake-doctor) prints a code for each finding. This page has the cause, an example and commands for each code.\n`layercake doctor --explain CODE` prints the same without a network.\n",
        doctor::explain::page(&doctor::checks())
    );
}
