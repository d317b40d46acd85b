//! The infrastructure provider `wcp` as a program.

fn main() -> std::process::ExitCode {
    capw::main(std::env::args_os().collect())
}
