//! The environment variables that identify a stack's processes.

/// The environment variable that contains the stack ID in every process of a stack.
pub const MARK: &str = "LAYERCAKE_STACK";
/// The environment variable that contains the name of a process in its stack.
pub const NAME: &str = "LAYERCAKE_PROCESS";
