/** SIGHUP puts the issuers of the configuration in place of the running ones, under load, and the front takes them up. */

import assert from 'node:assert/strict'
import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { verifyAuditChain } from '../../signer/audit/audit-commands.ts'
import type { CaBackend } from '../../src/ca/backend.ts'
import { SignerBackend } from '../../src/ca/signer-backend.ts'
import { type Authority, leafTbs, makeAuthority, type SignerFiles, writeSignerFiles } from './authority.ts'
import { type Daemon, startDaemon } from './daemon.ts'

const timeoutMs = 60_000
/** The front looks every five seconds; a busy machine takes its time. */
const LEARN_MS = 60_000

describe('rollover', () => {
  const current = makeAuthority('P-256')
  const next = makeAuthority('P-384')
  let files: SignerFiles
  let daemon: Daemon
  let backend: CaBackend
  let learned: string[][]
  beforeEach(async () => {
    learned = []
    files = writeSignerFiles({ current })
    daemon = await startDaemon(files.config)
    backend = new SignerBackend({
      socketPath: files.socket,
      secret: files.secret,
      onIssuersChanged: (issuers) => learned.push(issuers.map(({ id }) => id)),
    })
    await backend.testSign({ timeoutMs })
  })
  afterEach(async () => {
    await backend.close()
    await daemon.stop()
    rmSync(files.folder, { recursive: true })
  })

  const sign = (issuer: string, authority: Authority) =>
    backend.signCertificate(issuer, leafTbs(authority), { timeoutMs, requester: 'x' })

  /** The configuration of other issuers, in the place of the daemon's. */
  function configure(authorities: Record<string, Authority>, extraYaml = ''): void {
    const other = writeSignerFiles(authorities, extraYaml)
    for (const id of Object.keys(authorities))
      for (const end of ['pem', 'key'])
        copyFileSync(path.join(other.folder, `${id}.${end}`), path.join(files.folder, `${id}.${end}`))
    writeFileSync(files.config, readFileSync(other.config))
    rmSync(other.folder, { recursive: true })
  }

  async function hangUp(line: string): Promise<void> {
    daemon.process.kill('SIGHUP')
    const deadline = Date.now() + timeoutMs
    while (!daemon.output().includes(line)) {
      assert.ok(Date.now() < deadline, `no line "${line}" in:\n${daemon.output()}`)
      await sleep(20)
    }
  }

  test('a new issuer in front of the old one signs, while not one request of the old one fails', async () => {
    let stop = false
    let signed = 0
    const load = Promise.all(
      Array.from({ length: 8 }, async () => {
        while (!stop) {
          await sign('current', current)
          signed++
        }
      }),
    )
    configure({ next, current })
    await hangUp('"issuers read again"')
    const deadline = Date.now() + LEARN_MS
    while (learned.length === 0 && Date.now() < deadline) await sleep(50)
    await sign('next', next)
    assert.match(
      daemon.output(),
      /^\{"level":"info","time":"\d{4}-\d\d-\d\dT[\d:.]+Z",.*"message":"issuers read again"\}$/m,
    )
    while (signed <= 100) await sleep(20)
    stop = true
    await load
    assert.deepEqual(learned, [['next', 'current']], 'the front knows them, the new one first')
    assert.ok(signed > 100, `${signed} signed meanwhile`)
    assert.ok((await verifyAuditChain(files.auditFile)).ok)
  })

  test('another key under the same id is refused, and the old one goes on', async () => {
    configure({ current: next })
    await hangUp('"the issuers stay as they are"')
    assert.match(daemon.output(), /current: it has another key now; give the new issuer an id of its own/)
    await sign('current', current)
  })

  test('a configuration that is wrong is logged and changes nothing', async () => {
    writeFileSync(files.config, 'socket: nowhere\n')
    await hangUp('"the issuers stay as they are"')
    await sign('current', current)
  })

  test('a new policy counts from then on', async () => {
    const tight = readFileSync(files.config, 'utf8').replace('policy: {}', 'policy: { max_validity_days: 1 }')
    writeFileSync(files.config, tight)
    await hangUp('"issuers read again"')
    await assert.rejects(sign('current', current), /valid|days/)
  })

  test('what only a restart can change is named', async () => {
    configure({ current }, 'limits: { connections: 3 }\n')
    await hangUp('"changed keys that need a restart"')
    assert.match(daemon.output(), /"keys":\["limits"\]/)
  })
})
