/** `bench profile` as users start it: a service of its own, loaded and taken down. */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, describe, test } from 'node:test'
import { readProcesses } from '../../bench/measure/proc-stat.ts'
import { readDocument } from '../support/bench-document.ts'

const MAIN = path.resolve(import.meta.dirname, '../../bench/main.js')

describe('the profile', { skip: process.platform === 'linux' ? false : 'reads /proc' }, () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'profile-test-'))
  chmodSync(folder, 0o755)
  after(() => rmSync(folder, { recursive: true }))

  function run(...args: string[]): Promise<{ code: unknown; stdout: string; stderr: string }> {
    return new Promise((resolve) => {
      const options = { env: { ...process.env, TMPDIR: folder } }
      execFile(process.execPath, [MAIN, 'profile', ...args], options, (error, stdout, stderr) =>
        resolve({ code: error?.code ?? 0, stdout, stderr }),
      )
    })
  }

  test('says where the CPU of a certificate goes, and leaves nothing behind', async () => {
    const file = path.join(folder, 'profile.json')
    const page = path.join(folder, 'profile.html')
    const short = [
      '--duration',
      '2',
      '--warmup',
      '0',
      '--clients',
      '4',
      '--workers',
      '1',
      '--json',
      file,
      '--html',
      page,
    ]
    const { code, stdout, stderr } = await run(...short)
    assert.equal(code, 0, stderr)
    assert.match(stdout, /^\| verify: request .*\|$/m)

    const { format, command, machine, profiles } = readDocument(file)
    assert.deepEqual([format, command[0]], ['chancery-bench', 'profile'])
    assert.ok(machine.processors > 0)
    assert.match(readFileSync(page, 'utf8'), /where the CPU of one operation goes<\/h2>[\s\S]*verify: request/)
    const [profile] = profiles
    assert.ok(profile && profile.result.certificatesChecked > 0)
    const places = (name: string) => profile.cpu.find((row) => row.name === name)?.places
    assert.ok((places('verify: request')?.fronts ?? 0) > 0)
    assert.ok((places('validation: look-ups and fetches')?.validation ?? 0) > 0)
    assert.ok((places('sign')?.signer ?? 0) > 0)
    assert.ok(profile.elsewhere['PostgreSQL: backends'])
    assert.deepEqual(
      profile.loopDelays
        .map(({ thread }) => thread)
        .filter((thread) => !thread.startsWith('validation'))
        .sort(),
      ['front-1', 'main', 'signer'],
    )
    assert.ok(profile.allocations.some(({ places: { fronts } }) => fronts > 1000))

    const { statements } = profile.database
    const { succeeded } = profile.result
    const orders = statements.find(({ text }) => /INSERT INTO orders/.test(text))
    assert.ok(orders && orders.rows >= succeeded, `${orders?.rows} rows for ${succeeded} orders`)

    assert.deepEqual(readdirSync(folder).toSorted(), ['profile.html', 'profile.json'])
    assert.deepEqual(
      readProcesses().filter(({ commandLine }) => commandLine.join(' ').includes(folder)),
      [],
    )
  })

  test('refuses what it does not know before it starts anything', async () => {
    const { code, stderr } = await run('--workers', 'x')
    assert.equal(code, 2)
    assert.match(stderr, /^--workers x: .*\nSee --help\.$/m)
  })
})
