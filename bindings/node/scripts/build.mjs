// Compiles the TypeScript, and copies a built native module next to it.
//
//   node scripts/build.mjs [LIBRARY]
//
// LIBRARY is the file that `cargo build -p slidegate-node` made, by default that of the release profile.

import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const require = createRequire(import.meta.url)
const tsc = join(dirname(require.resolve('typescript/package.json')), 'bin/tsc')

rmSync(join(root, 'dist'), { recursive: true, force: true })
for (const project of ['tsconfig.json', 'tsconfig.client.json']) {
  execFileSync(process.execPath, [tsc, '-p', join(root, project)], { stdio: 'inherit' })
}
// The package is CommonJS. Browsers load the client as ES modules.
writeFileSync(join(root, 'dist/esm/package.json'), '{ "type": "module" }\n')

const [library] = process.argv.slice(2)
const source = resolve(library ?? join(root, '../../target/release', libraryName()))
// Without a native module, the client can still be built.
if (library !== undefined || existsSync(source)) {
  const { platformName } = require('../dist/platform.js')
  copyFileSync(source, join(root, `slidegate.${platformName()}.node`))
}

function libraryName() {
  switch (process.platform) {
    case 'win32':
      return 'slidegate_node.dll'
    case 'darwin':
      return 'libslidegate_node.dylib'
    default:
      return 'libslidegate_node.so'
  }
}
