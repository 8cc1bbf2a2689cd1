/** SIGHUP to a signer with a token: what is under way gets its signature all the same, and what failed can be mended. */

import assert from 'node:assert/strict'
import { copyFileSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { leafTbs, makeAuthority } from '../signer/authority.ts'
import { TestSigner } from '../signer/daemon.ts'
import { buildFaultyLibrary, type FaultyLibrary, makeToken, PIN, type TestToken } from '../support/hosts/softhsm.ts'
import { requireAll, requireCommand, requirePackage } from '../support/requirements.ts'
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
  let signer: TestSigner
  beforeEach(async () => {
    token = makeToken()
    token.importKey(authority.privateKey, 'issuing', '01')
    faults = buildFaultyLibrary(token)
    const key = { library: faults.file, token: 'ca', pin_file: token.pinFile, label: 'issuing', sessions: SESSIONS }
    signer = new TestSigner(
      { default: authority },
      { tokenKeys: { default: key }, env: { ...token.env, ...faults.env } },
    )
    await signer.start()
  })
  afterEach(async () => {
    await signer.end('SIGKILL')
    token.remove()
  })

  const sign = () => signer.backend.signCertificate('default', leafTbs(authority), { timeoutMs, requester: 'order' })

  const written = (line: RegExp) => until(`the line ${line}`, () => line.test(signer.daemon.output()))

  function hangUp(from: string, to: string): void {
    writeFileSync(signer.files.config, readFileSync(signer.files.config, 'utf8').replace(from, to))
    signer.daemon.process.kill('SIGHUP')
  }

  /** While every session is at work, and far more signatures wait for one. */
  async function reconfigure(from: string, to: string): Promise<void> {
    faults.set('hang')
    const all = Promise.allSettled(Array.from({ length: SIGNATURES }, sign))
    await until('signatures in every session', () => faults.mostParallel() >= SESSIONS)
    hangUp(from, to)
    await sleep(RELOAD_MS)
    faults.clear('hang')
    const failed = (await all).flatMap((one) => (one.status === 'rejected' ? [String(one.reason)] : []))
    assert.deepEqual([...new Set(failed)], [])
    await written(/"issuers read again"|"the issuers stay as they are"/)
    assert.doesNotMatch(signer.daemon.output(), /"the issuers stay as they are"/)
    await sign()
  }

  test('has a new policy wait for a session like any signature', () =>
    reconfigure('policy: {}', 'policy: { max_validity_days: 91 }'))

  test('closes a key that is replaced when nothing waits for it any more', () =>
    reconfigure(`"sessions":${SESSIONS}`, `"sessions":${2 * SESSIONS}`))

  // PKCS #11 v2.40 base §5.6: a process that is logged in gets CKR_USER_ALREADY_LOGGED_IN, whatever the PIN.
  for (const [what, change] of [
    ['another PIN file', (file: string) => hangUp(token.pinFile, file)],
    [
      'another PIN in its file',
      (file: string) => {
        copyFileSync(file, token.pinFile)
        hangUp('', '')
      },
    ],
  ] as const) {
    test(`refuses ${what}, at which the token cannot look, and goes on with the PIN in use`, async () => {
      const other = path.join(token.folder, 'other-pin')
      writeFileSync(other, 'wrong-pin', { mode: 0o600 })
      const right = readFileSync(token.pinFile)
      const logins = faults.logins()
      change(other)
      await written(/"reason":"issuer default: .*another PIN.*validate-only.*"the issuers stay as they are"/)
      assert.equal(faults.logins(), logins, 'no attempt')
      faults.set('lost')
      await sign()
      writeFileSync(token.pinFile, right)
      hangUp(other, token.pinFile)
      await written(/"issuers read again"/)
      assert.doesNotMatch(signer.daemon.output(), new RegExp(`${PIN}|wrong-pin`))
    })
  }

  test('loads a library that could not be loaded before, and ends in order though one never could', async () => {
    const later = path.join(token.folder, 'later.so')
    hangUp(faults.file, later)
    await written(/"the issuers stay as they are"/)
    symlinkSync(faults.file, later)
    hangUp('', '')
    await written(/"issuers read again"/)
    await sign()
    hangUp(later, '/nowhere/lib.so')
    await written(/nowhere\/lib\.so cannot be loaded/)
    assert.equal(await signer.daemon.stop('SIGTERM'), 0, signer.daemon.output())
  })
})
