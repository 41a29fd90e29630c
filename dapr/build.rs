//! Makes the messages and services of Dapr's components from its own files, without `protoc`.
use prost::Message as _;
use std::error::Error;
use std::path::Path;

const FOLDER: &str = "proto";
const STATE: &str = "dapr/proto/components/v1/state.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let files = protox::compile([STATE], [FOLDER])?;
    let out = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    std::fs::write(
        Path::new(&out).join("components.bin"),
        files.encode_to_vec(),
    )?;
    tonic_prost_build::configure()
        .bytes(".")
        .codec_path("crate::codec::Codec")
        .compile_fds(files)?;
    Ok(())
}
