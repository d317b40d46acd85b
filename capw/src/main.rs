//! The `capw` binary: runs the infrastructure provider `wcp`.

fn main() -> std::process::ExitCode {
    capw::main(std::env::args_os().collect())
}
