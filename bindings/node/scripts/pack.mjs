// Packs the npm packages: the main one, and one per platform whose native module is in this folder.
//
//   node scripts/pack.mjs FOLDER
//
// Users install the main package. It has all platforms as optional packages of the same version, of
// which npm installs the one that fits `os`, `cpu` and `libc`.

import { execFileSync } from 'node:child_process'
import { copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const out = resolve(process.argv[2] ?? '.')
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const { name, version, license } = manifest
const stage = mkdtempSync(join(tmpdir(), 'slidegate-pack-'))

/** Returns the platform of a target of Rust, such as `x86_64-unknown-linux-gnu`. */
export function platformOf(target) {
  const cpu = target.startsWith('x86_64') ? 'x64' : 'arm64'
  if (target.includes('apple')) return { id: `darwin-${cpu}`, os: 'darwin', cpu }
  if (target.includes('windows')) return { id: `win32-${cpu}-msvc`, os: 'win32', cpu }
  const libc = target.endsWith('musl') ? 'musl' : 'glibc'
  return { id: `linux-${cpu}-${libc === 'musl' ? 'musl' : 'gnu'}`, os: 'linux', cpu, libc }
}

/** Packs a folder, and returns the path of the tarball. */
function pack(folder) {
  for (const license of ['LICENSE-MIT', 'LICENSE-APACHE']) copyFileSync(join(root, '../..', license), join(folder, license))
  const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm'
  const args = ['pack', '--json', '--silent', '--pack-destination', out]
  const packed = JSON.parse(execFileSync(npm, args, { cwd: folder, encoding: 'utf8' }))
  const [{ filename }] = Array.isArray(packed) ? packed : Object.values(packed)
  return join(out, filename)
}

try {
  mkdirSync(out, { recursive: true })
  const tarballs = []
  const platforms = manifest.napi.targets.map(platformOf)
  for (const { id, os, cpu, libc } of platforms) {
    const module = join(root, `slidegate.${id}.node`)
    if (!existsSync(module)) continue
    const folder = join(stage, id)
    mkdirSync(folder)
    const file = `slidegate.${id}.node`
    copyFileSync(module, join(folder, file))
    const description = `The native module of ${name} for ${id}`
    const own = { name: `${name}-${id}`, version, description, license, main: file, files: [file, 'LICENSE-*'], os: [os], cpu: [cpu] }
    writeFileSync(join(folder, 'package.json'), JSON.stringify(libc ? { ...own, libc: [libc] } : own, null, 2))
    tarballs.push(pack(folder))
  }
  const { devDependencies, scripts, napi, ...published } = manifest
  published.optionalDependencies = Object.fromEntries(platforms.map(({ id }) => [`${name}-${id}`, version]))
  const folder = join(stage, 'main')
  mkdirSync(folder)
  writeFileSync(join(folder, 'package.json'), JSON.stringify(published, null, 2))
  cpSync(join(root, 'dist'), join(folder, 'dist'), { recursive: true })
  copyFileSync(join(root, 'README.md'), join(folder, 'README.md'))
  tarballs.unshift(pack(folder))
  process.stdout.write(`${tarballs.join('\n')}\n`)
} finally {
  rmSync(stage, { recursive: true, force: true })
}
