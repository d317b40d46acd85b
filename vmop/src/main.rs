//! The `vmop` program.

fn main() -> std::process::ExitCode {
    vmop::main(std::env::args_os().collect())
}
