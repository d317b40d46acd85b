//! The infrastructure provider `wcp` as a program.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    capw::main(std::env::args_os().collect())
}
