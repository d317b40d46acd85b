//! The `layercake` executable. The library contains the code.

use std::process::ExitCode;

fn main() -> ExitCode {
    layercake::main(std::env::args_os().collect())
}
