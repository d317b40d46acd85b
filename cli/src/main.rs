//! See the library of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    layercake::main(std::env::args_os().collect())
}
