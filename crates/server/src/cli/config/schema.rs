//! `config schema`.

use std::io::Write;

use super::written;
use crate::cli::exit;
use crate::config;

/// Writes the JSON Schema of the own format, or its reference as Markdown.
pub fn schema(markdown: bool, out: &mut dyn Write) -> u8 {
    let result = if markdown {
        out.write_all(config::reference().as_bytes())
    } else {
        writeln!(out, "{:#}", config::schema())
    };
    written(result, exit::OK)
}
