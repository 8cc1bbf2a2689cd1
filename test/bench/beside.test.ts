/** Pebble and Caddy as `--beside` starts them, where they are installed: real certificates, checked to their roots, and nothing left behind. */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { leftIn, readDocument, runBench } from '../support/bench.ts'
import { requireAll, requireCommand } from '../support/requirements.ts'

const canMount = () => process.getuid?.() === 0 && spawnSync('unshare', ['--mount', 'true']).status === 0
// Its ports and its resolver are fixed, so it gets a mount namespace, which no package brings.
const NEEDS_MOUNT = { skip: canMount() ? (false as const) : 'needs root, and leave to mount' }

const OTHERS = [
  { name: 'pebble', challenge: 'http-01', needs: requireCommand('pebble') },
  { name: 'pebble', challenge: 'accept-all-01', needs: requireCommand('pebble') },
  { name: 'caddy', challenge: 'http-01', needs: requireAll(requireCommand('caddy'), NEEDS_MOUNT) },
]

const folder = mkdtempSync(path.join(tmpdir(), 'beside-'))
after(() => rmSync(folder, { recursive: true }))

for (const { name, challenge, needs } of OTHERS) {
  test(`${name} issues beside this server, challenge ${challenge}`, needs, async () => {
    const file = path.join(folder, 'out.json')
    const times = ['--repeat', '1', '--count', '6', '--warmup', '0', '--clients', '2', '--timeout', '120']
    // Nobody is there as the first server: it is reported as broken, and the others go on.
    const ours = ['--directory', 'https://127.0.0.1:1/', '--challenge', challenge]
    const { output } = await runBench(folder, ...ours, '--beside', name, ...times, '--json', file)
    const { servers, measurements } = readDocument(file)
    assert.match(servers[1]?.name ?? '', new RegExp(name, 'i'), output)
    const other = measurements[0]?.rounds[0]?.[1]
    assert.ok(other && 'succeeded' in other, output)
    // Caddy 2.6 has answered one flow of many with serverInternal. That is its own, and told as such; nothing else may fail.
    const itsOwn = other.failures.find(({ kind }) => name === 'caddy' && kind === 'serverInternal')?.count ?? 0
    assert.deepEqual([other.failed, other.succeeded], [itsOwn, 6 - itsOwn], output)
    assert.ok(other.succeeded > 0, output)
    assert.equal(other.certificatesChecked, other.succeeded, output)
    if (process.platform === 'linux') assert.ok(other.cpu?.server.service !== undefined, 'its CPU was found')

    assert.deepEqual(leftIn(folder), [])
  })
}
