//! The `gcm` executable.

fn main() -> std::process::ExitCode {
    gcm::main(std::env::args_os().collect())
}
