//! Linker arguments that addons need on some platforms.

fn main() {
    napi_build::setup();
}
