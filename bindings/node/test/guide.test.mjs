// The pages of the guide about Node: their code is written to files and run.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

/** Returns the code blocks of a page, each with the file name in the line before it, if there is one. */
async function blocks(page) {
  const text = await readFile(join(ROOT, 'docs', page), 'utf8')
  const found = text.matchAll(/(?:^`([\w.]+)`:\n\n)?^```js\n(.*?)^```$/gms)
  return [...found].map(([, name, code]) => ({ name, code }))
}

/** Writes files to a directory of this package, where `slidegate` and Express are found, and removes it at the end. */
async function withFiles(files, use) {
  const folder = await mkdtemp(join(ROOT, 'bindings/node/dist/guide-'))
  try {
    for (const { name, code } of files) await writeFile(join(folder, name), code)
    await use(folder)
  } finally {
    await rm(folder, { recursive: true })
  }
}

test('tutorials/express.md: the app passes its test', async () => {
  const files = await blocks('tutorials/express.md')
  assert.deepEqual(files.map(({ name }) => name), ['app.mjs', 'server.mjs', 'app.test.mjs'])
  await withFiles(files, async (folder) => {
    // Without the variable, the inner run reports to this one.
    const env = { ...process.env, NODE_TEST_CONTEXT: undefined }
    const { stdout } = await promisify(execFile)('node', ['--test', 'app.test.mjs'], { cwd: folder, env })
    assert.match(stdout, /^(# |ℹ )?pass 1$/m)
    assert.match(stdout, /fail 0$/m)
  })
})

test('how-to/from-express-rate-limit.md: all three apps allow three requests and deny the fourth', async () => {
  const pages = await blocks('how-to/from-express-rate-limit.md')
  const files = pages.map(({ code }, index) => ({ name: `app${index}.mjs`, code }))
  await withFiles(files, async (folder) => {
    const tried = []
    for (const { name } of files) {
      const [[title, create]] = Object.entries(await import(join(folder, name)))
      const server = create().listen(0, '127.0.0.1')
      await once(server, 'listening')
      const statuses = []
      let denied
      for (let number = 0; number < 4; number++) {
        denied = await fetch(`http://127.0.0.1:${server.address().port}/`)
        statuses.push(denied.status)
        await denied.arrayBuffer()
      }
      assert.deepEqual(statuses, [200, 200, 200, 429], title)
      assert.equal(denied.headers.get('x-ratelimit-limit'), '3', title)
      const wait = Number(denied.headers.get('retry-after'))
      assert.ok(wait > 0 && wait <= 60, `${title}: retry after ${wait}`)
      server.close()
      tried.push(title)
    }
    assert.deepEqual(tried, ['before', 'afterStore', 'afterMiddleware'])
  })
})
