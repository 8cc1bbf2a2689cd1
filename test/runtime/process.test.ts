/** The death of a thread that holds a server must not become the death, or the bad exit code, of the process. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const HOST = fileURLToPath(new URL('./host.entry.js', import.meta.url))

for (const how of ['throw', 'reject', 'exit', 'silent', '/reject', '/exit']) {
  test(`a process whose front died by ${how} goes on, and ends with code 0`, async () => {
    // Rejects for any other exit code, and for an abort.
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [HOST, how])
    const lines = stdout.trim().split('\n')
    const ofDying = lines.filter((line) => line.startsWith('dying'))
    assert.deepEqual(ofDying, ['dying ready', 'dying crashed', 'dying ready', 'dying stopped'])
    assert.deepEqual(
      [...new Set(lines.filter((line) => line.startsWith('steady')))],
      ['steady ready', 'steady stopped'],
    )
    assert.equal(stderr, '')
  })
}
