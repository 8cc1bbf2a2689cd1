/** What a running daemon makes of a token that is lost, comes back, hangs or is short of sessions. */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { renameSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { CaError } from '../../src/ca/backend.ts'
import { leafTbs, makeAuthority, type TokenKeyYaml } from '../signer/authority.ts'
import { TestSigner } from '../signer/daemon.ts'
import { buildFaultyLibrary, makeToken, SOFTHSM_LIBRARY } from '../support/hosts/softhsm.ts'
import { requireAll, requireCommand, requirePackage } from '../support/requirements.ts'
import { until } from '../support/until.ts'

const NEEDS = requireAll(requireCommand('softhsm2-util'), requireCommand('g++'), requirePackage('graphene-pk11'))

const authority = makeAuthority('P-256')

/** A daemon with one key in a token, behind a library that fails on demand. */
class Signer {
  readonly token = makeToken()
  readonly faults = buildFaultyLibrary(this.token)
  readonly #signer: TestSigner

  constructor(key: TokenKeyYaml = {}, issuer = authority) {
    this.token.importKey(issuer.privateKey, 'issuing', '01')
    const place = { library: this.faults.file, token: 'ca', pin_file: this.token.pinFile, label: 'issuing' }
    const env = { ...this.token.env, ...this.faults.env }
    this.#signer = new TestSigner({ default: issuer }, { tokenKeys: { default: { ...place, ...key } }, env })
  }

  get daemon() {
    return this.#signer.daemon
  }
  get backend() {
    return this.#signer.backend
  }
  start = () => this.#signer.start()

  sign(timeoutMs = 120_000): Promise<Buffer> {
    return this.backend.signCertificate('default', leafTbs(authority), { timeoutMs, requester: 'order' })
  }

  state = async () => (await this.backend.health({ timeoutMs: 120_000 })).tokens[0]!

  untilSigning = () => until('a signature', () => this.sign().then(Boolean, () => false))

  async stop(): Promise<void> {
    await this.#signer.end('SIGKILL')
    this.token.remove()
  }
}

const isRetryable = (text: RegExp) => (error: unknown) =>
  error instanceof CaError && error.retryable && text.test(error.message)

describe('a token of four sessions', NEEDS, () => {
  const signer = new Signer({ sessions: 4, session_wait: 3 })
  before(() => signer.start())
  after(() => signer.stop())

  test('that is removed refuses at once and says why; it is used again when it is back, without a restart', async () => {
    await signer.sign()
    const { pid } = signer.daemon.process
    signer.faults.set('removed')
    await assert.rejects(signer.sign(), isRetryable(/CKR_DEVICE_REMOVED/))
    await assert.rejects(signer.sign(), isRetryable(/the token is away: .*(CKR_DEVICE_REMOVED|no token)/))
    const { status, reason } = await signer.state()
    assert.equal(status, 'away')
    assert.match(reason ?? '', /CKR_DEVICE_REMOVED|no token/)
    await assert.rejects(signer.backend.testSign({ timeoutMs: 1000 }))
    signer.faults.clear('removed')
    await signer.untilSigning()
    assert.equal((await signer.state()).status, 'ready')
    assert.equal(signer.daemon.process.pid, pid)
    assert.equal(signer.daemon.process.exitCode, null)
    await signer.daemon.wrote(/"the token is away"[\s\S]*"the token is back"/)
  })

  test('whose library could not be started again for a while is used when it could', async () => {
    signer.faults.set('removed')
    signer.faults.set('no-init')
    await assert.rejects(signer.sign())
    await until('the library cannot be started', async () => {
      const said = await signer.sign().then(String, (error: Error) => error.message)
      return /starting the library: CKR_FUNCTION_FAILED/.test(said)
    })
    // Long enough for another attempt, which finds the library ended already.
    await sleep(1500)
    signer.faults.clear('removed')
    signer.faults.clear('no-init')
    await signer.untilSigning()
  })

  test('that has dropped its sessions and its login gets new ones, and no request fails', async () => {
    for (let round = 0; round < 3; round++) {
      const logins = signer.faults.logins()
      signer.faults.set('lost')
      await Promise.all(Array.from({ length: 40 }, () => signer.sign()))
      assert.ok(signer.faults.logins() > logins, 'the login was lost, too')
    }
    assert.equal((await signer.state()).status, 'ready')
  })

  test('that hangs holds as many requests as it has sessions; the others fail when their wait is over', async () => {
    signer.faults.set('hang')
    let ended = 0
    const outcomes = Array.from({ length: 10 }, () =>
      signer
        .sign()
        .then(
          () => 'signed',
          (error: Error) => error.message,
        )
        .finally(() => ended++),
    )
    await until('six have ended', () => ended >= 6)
    signer.faults.clear('hang')
    const results = await Promise.all(outcomes)
    assert.equal(results.filter((result) => result === 'signed').length, 4)
    assert.equal(results.filter((result) => /waiting for the key/.test(result)).length, 6)
    assert.equal(signer.faults.mostParallel(), 4)
  })

  test('that asks for care with its PIN while it is lost is not logged in to again', async () => {
    signer.faults.set('last-try')
    signer.faults.set('removed')
    await assert.rejects(signer.sign())
    const logins = signer.faults.logins()
    signer.faults.clear('removed')
    await until('the token is found', async () => (await signer.state()).status !== 'away')
    assert.equal((await signer.state()).status, 'refused')
    await assert.rejects(signer.sign(), isRetryable(/one attempt left.*started again with the right PIN/))
    assert.equal(signer.faults.logins(), logins)
  })
})

describe('a token of 32 sessions', NEEDS, () => {
  const signer = new Signer({ sessions: 32, session_wait: 60 })
  before(() => signer.start())
  after(() => signer.stop())

  test('makes 32 signatures at the same time, and the rest of 100 after them', async () => {
    signer.faults.set('hang')
    const all = Array.from({ length: 100 }, () => signer.sign(120_000))
    await until('32 at once', () => signer.faults.mostParallel() >= 32)
    signer.faults.clear('hang')
    assert.equal((await Promise.all(all)).length, 100)
    assert.equal(signer.faults.mostParallel(), 32)
  })

  test('whose library crashes takes the daemon with it', async () => {
    signer.faults.set('crash')
    const ended = once(signer.daemon.process, 'exit')
    await assert.rejects(signer.sign(1000))
    await ended
    assert.equal(await signer.daemon.stop(), 'SIGSEGV')
  })
})

describe('a token that cannot hash', NEEDS, () => {
  const rsa = makeAuthority('RSA')
  const signer = new Signer({}, rsa)
  after(() => signer.stop())

  test('signs digests with RSA', async () => {
    signer.faults.set('no-hash')
    await signer.start()
    await signer.backend.signCertificate('default', leafTbs(rsa), { timeoutMs: 120_000, requester: 'order' })
  })
})

describe("SoftHSM's own files", NEEDS, () => {
  const signer = new Signer({ library: SOFTHSM_LIBRARY })
  before(() => signer.start())
  after(() => signer.stop())

  test('moved away are missed before a signature asks, and moved back bring the signatures back', async () => {
    await signer.sign()
    const elsewhere = path.join(signer.token.folder, 'elsewhere')
    renameSync(signer.token.tokenFolder, elsewhere)
    assert.equal((await signer.state()).status, 'away')
    await assert.rejects(signer.sign(), isRetryable(/the token is away/))
    const { tokenFolder } = signer.token
    await signer.daemon.wrote(new RegExp(`starting the library: CKR_GENERAL_ERROR; the folder ${tokenFolder} `))
    renameSync(elsewhere, signer.token.tokenFolder)
    await signer.untilSigning()
  })
})
