/** SIGHUP to a signer whose sessions with the token are all in use: what is under way gets its signature all the same. */

import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CaBackend } from '../../src/ca/backend.ts'
import { createSignerBackend } from '../../src/ca/signer-backend.ts'
import { leafTbs, makeAuthority, type SignerFiles, writeSignerFiles } from '../signer/authority.ts'
import { type Daemon, startDaemon } from '../signer/daemon.ts'
import { requireAll, requireCommand, requirePackage } from '../support/requirements.ts'
import { buildFaultyLibrary, type FaultyLibrary, makeToken, type TestToken } from '../support/softhsm.ts'
import { until } from '../support/until.ts'

const NEEDS = requireAll(requireCommand('softhsm2-util'), requireCommand('g++'), requirePackage('graphene-pk11'))

const timeoutMs = 60_000
const SESSIONS = 2
const SIGNATURES = 300
/** Long enough for a reload that waits for nothing. */
const RELOAD_MS = 1_000

describe('SIGHUP to a signer with a token', NEEDS, () => {
  // Slow enough for some of the signatures to be waiting still when the new issuers are there.
  const authority = makeAuthority('RSA')
  let token: TestToken
  let faults: FaultyLibrary
  let files: SignerFiles
  let daemon: Daemon
  let backend: CaBackend
  beforeEach(async () => {
    token = makeToken()
    token.importKey(authority.privateKey, 'issuing', '01')
    faults = buildFaultyLibrary(token)
    const key = { library: faults.file, token: 'ca', pin_file: token.pinFile, label: 'issuing', sessions: SESSIONS }
    files = writeSignerFiles({ default: authority }, '', '{}', { default: key })
    daemon = await startDaemon(files.config, [], { ...token.env, ...faults.env })
    backend = createSignerBackend({ socketPath: files.socket, secret: files.secret })
  })
  afterEach(async () => {
    await backend.close()
    await daemon.stop('SIGKILL')
    rmSync(files.folder, { recursive: true })
    token.remove()
  })

  const sign = () => backend.signCertificate('default', leafTbs(authority), { timeoutMs, requester: 'order' })

  /** While every session is at work, and far more signatures wait for one. */
  async function reconfigure(from: string, to: string): Promise<void> {
    faults.set('hang')
    const all = Promise.allSettled(Array.from({ length: SIGNATURES }, sign))
    await until('signatures in every session', () => faults.mostParallel() >= SESSIONS)
    writeFileSync(files.config, readFileSync(files.config, 'utf8').replace(from, to))
    daemon.process.kill('SIGHUP')
    await sleep(RELOAD_MS)
    faults.clear('hang')
    const failed = (await all).flatMap((one) => (one.status === 'rejected' ? [String(one.reason)] : []))
    assert.deepEqual([...new Set(failed)], [])
    await daemon.wrote(/"issuers read again"|"the issuers stay as they are"/)
    assert.doesNotMatch(daemon.output(), /"the issuers stay as they are"/)
    await sign()
  }

  test('has a new policy wait for a session like any signature', () =>
    reconfigure('policy: {}', 'policy: { max_validity_days: 91 }'))

  test('closes a key that is replaced when nothing waits for it any more', () =>
    reconfigure(`"sessions":${SESSIONS}`, `"sessions":${2 * SESSIONS}`))
})
