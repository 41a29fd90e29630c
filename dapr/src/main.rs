//! The program `statestore-dapr`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    statestore_dapr::run()
}
