// The services in `examples/` of the repository, as their pages start them.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'

for (const name of ['express', 'fastify']) {
  test(`${name}: the sixth request is denied`, async () => {
    // Only files below the package can load it by its name without an installation.
    const folder = mkdtempSync(join(import.meta.dirname, 'example-'))
    const file = join(folder, 'server.mjs')
    copyFileSync(join(import.meta.dirname, '../../../examples', name, 'server.mjs'), file)
    const options = { env: { ...process.env, PORT: '0' }, stdio: ['ignore', 'pipe', 'inherit'] }
    const service = spawn(process.execPath, [file], options)
    try {
      const [url] = await once(createInterface(service.stdout), 'line')
      for (let number = 1; number <= 5; number += 1) {
        const response = await fetch(url)
        assert.equal(`${response.status} ${await response.text()}`, '200 hello\n')
      }
      const denied = await fetch(url)
      assert.equal(denied.status, 429)
      assert.match(denied.headers.get('retry-after'), /^\d+$/)
    } finally {
      service.kill()
      rmSync(folder, { recursive: true })
    }
  })
}
