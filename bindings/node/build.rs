//! Sets the linker options that a native module of Node needs.

fn main() {
    napi_build::setup();
}
