//! The program `statestore`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    statestore_cli::run()
}
