// The packages as users get them: packed, installed into an empty project, and the README run there.

import assert from 'node:assert/strict'
import { execFileSync, fork, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'

import express from 'express'

import { startRedis } from './support/redis.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const require = createRequire(import.meta.url)
const project = mkdtempSync(join(tmpdir(), 'slidegate-project-'))

const OTHERS = ['@hono', '@nestjs', '@types', 'axios', 'express', 'express-rate-limit', 'fastify', 'hono', 'reflect-metadata']

let redis
let api
before(async () => {
  const packed = execFileSync(process.execPath, [join(root, 'scripts/pack.mjs'), join(project, 'packed')], { encoding: 'utf8' })
  const tarballs = packed.trim().split('\n')
  assert.equal(tarballs.length, 2, 'the package, and that of this platform')
  writeFileSync(join(project, 'package.json'), '{ "private": true }\n')
  const args = ['install', '--offline', '--ignore-scripts', '--no-audit', '--no-fund', ...tarballs]
  execFileSync('npm', args, { cwd: project, stdio: 'pipe' })
  assert.equal(installed().length, 2)
  // What else the examples import is not packed by this repository.
  for (const name of OTHERS) {
    symlinkSync(join(root, 'node_modules', name), join(project, 'node_modules', name))
  }
  redis = await startRedis()
  const app = express().get('/', (_, response) => response.send('hello'))
  api = app.listen(0, '127.0.0.1')
  await once(api, 'listening')
})
after(async () => {
  api?.close()
  await redis?.stop()
  rmSync(project, { recursive: true, force: true })
})

function installed() {
  return readdirSync(join(project, 'node_modules')).filter((name) => name.startsWith('slidegate'))
}

/** The blocks of the README in a language, by the heading above. */
function examples(language) {
  const list = []
  let heading = ''
  let lines
  for (const line of readFileSync(join(root, 'README.md'), 'utf8').split('\n')) {
    if (lines === undefined && line.startsWith('#')) heading = line.replace(/^#+ /, '')
    if (line === '```' && lines !== undefined) {
      list.push({ name: `${heading} ${list.length + 1}`, code: lines.join('\n') })
      lines = undefined
    } else if (line === `\`\`\`${language}`) lines = []
    else lines?.push(line)
  }
  return list
}

/** Writes an example into the project, and starts it. */
function start({ name, code }) {
  const file = join(project, `${name.replace(/\W+/g, '-')}.${code.includes('require(') ? 'cjs' : 'mjs'}`)
  writeFileSync(file, code)
  return startFile(file)
}

/** Starts a program in the project. A server sends its port. */
function startFile(file) {
  const preload = new URL('support/report-port.mjs', import.meta.url).href
  const env = {
    ...process.env,
    REDIS_URL: redis.url,
    API_URL: `http://127.0.0.1:${api.address().port}/`,
  }
  const child = fork(file, { cwd: project, env, execArgv: ['--import', preload], stdio: ['ignore', 'pipe', 'pipe', 'ipc'] })
  const output = { stdout: '', stderr: '' }
  child.stdout.on('data', (data) => (output.stdout += data))
  child.stderr.on('data', (data) => (output.stderr += data))
  return { child, output, ended: once(child, 'close') }
}

test('every example of the README runs in the project', async (t) => {
  const all = examples('js')
  assert.ok(all.length >= 8, `${all.length} examples`)
  for (const example of all) {
    await t.test(example.name, async () => {
      const { child, output, ended } = start(example)
      if (!/\.listen\(|\bserve\(/.test(example.code)) {
        const [status] = await ended
        assert.equal(status, 0, output.stderr)
        // What `console.log` prints is in the comment behind it.
        const expected = [...example.code.matchAll(/console\.log\(.*\) \/\/ (.*)$/gm)].map(([, text]) => `${text}\n`)
        assert.equal(output.stdout, expected.join(''))
        return
      }
      const failed = ended.then(() => assert.fail(`the server ended: ${output.stderr}`))
      const [port] = await Promise.race([once(child, 'message'), failed])
      const response = await fetch(`http://127.0.0.1:${port}/`)
      const fields = [...response.headers.keys()].filter((name) => name.includes('ratelimit'))
      assert.ok(fields.length > 0, `${response.status} ${[...response.headers.keys()]}`)
      child.kill()
      await ended.catch(() => {})
    })
  }
})

/** Compiles files in the project. Returns the errors. */
function compile(...args) {
  const tsc = join(dirname(require.resolve('typescript/package.json')), 'bin/tsc')
  const options = ['--strict', '--module', 'nodenext', '--target', 'es2022', '--types', 'node', '--skipLibCheck']
  const { stdout, status } = spawnSync(process.execPath, [tsc, ...options, ...args], { cwd: project, encoding: 'utf8' })
  return stdout || (status === 0 ? '' : `tsc ended with ${status}`)
}

test('the types compile for ES modules and for CommonJS', () => {
  for (const file of ['consumer.mts', 'consumer.cts']) copyFileSync(join(root, 'test/types', file), join(project, file))
  assert.equal(compile('--noEmit', 'consumer.mts', 'consumer.cts'), '')
})

test('the guard of the README limits an app of NestJS', async () => {
  writeFileSync(join(project, 'guard.mts'), examples('ts')[0].code)
  copyFileSync(join(root, 'test/types/nest.mts'), join(project, 'nest.mts'))
  assert.equal(compile('--experimentalDecorators', 'nest.mts'), '')
  const { child, output, ended } = startFile(join(project, 'nest.mjs'))
  const failed = ended.then(() => assert.fail(`the server ended: ${output.stderr}`))
  const [port] = await Promise.race([once(child, 'message'), failed])
  const statuses = []
  for (let turn = 0; turn < 101; turn++) statuses.push((await fetch(`http://127.0.0.1:${port}/`)).status)
  child.kill()
  await failed.catch(() => {})
  assert.deepEqual(statuses, [...Array(100).fill(200), 429])
})

test('the client has no native code, and every import of a browser can be loaded', () => {
  const folder = join(project, 'node_modules/slidegate/dist/esm')
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.js'))) {
    const code = readFileSync(join(folder, file), 'utf8')
    assert.doesNotMatch(code, /require\(|\bnode:|\bprocess\b|Buffer/)
    for (const [, path] of code.matchAll(/from '([^']+)'/g)) assert.ok(existsSync(join(folder, path)), `${file}: ${path}`)
  }
})

test('without the package of the platform, the error says what to do', () => {
  const lonely = join(project, 'lonely')
  mkdirSync(lonely)
  execFileSync('cp', ['-r', join(project, 'node_modules/slidegate'), lonely])
  const load = () => execFileSync(process.execPath, ['-e', `require('./slidegate')`], { cwd: lonely, encoding: 'utf8', stdio: 'pipe' })
  rmSync(join(project, 'node_modules', installed().find((name) => name.startsWith('slidegate-'))), { recursive: true })
  assert.throws(load, /slidegate has no native module for .*--omit=optional/)
})
