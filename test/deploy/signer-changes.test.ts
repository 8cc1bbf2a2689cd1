/**
 * A signer that is restarted, a signer with a new issuer, and a service that reads its configuration again: no client sees one.
 * A balancer does not, either: an instance that is not ready because of its signer would leave nobody to answer.
 */

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { verifyAuditChain } from '../../signer/audit/audit-commands.ts'
import { makeAuthority, type SignerFiles, writeSignerFiles } from '../signer/authority.ts'
import { type Daemon, startDaemon } from '../signer/daemon.ts'
import { closeConnections, type Responder, send, startResponder } from '../support/acme-client.ts'
import { requireAll, requireCommand, requirePackage } from '../support/requirements.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { makeToken, SOFTHSM_LIBRARY, type TestToken } from '../support/softhsm.ts'
import { FLOWS, startFlows, summary } from '../support/steady-flows.ts'
import { until } from '../support/until.ts'

const NEEDS = requireAll(requireCommand('softhsm2-util'), requirePackage('graphene-pk11'))
const LEAST_CHANGES = 2
const LOOK_MS = 200
/** From one change to the next. */
const PAUSE_MS = 1_000
/** A token may take as long to log in. The example for HAProxy takes an instance out sooner, after two checks. */
const RESTART_MS = 4_500
/** A machine that is busy takes long to start a signer. */
const SIGN_TIMEOUT_SECONDS = 60
/** An issuer goes when so many are in front of it. */
const KEPT_ISSUERS = 4

describe('no request fails', { ...NEEDS }, () => {
  let token: TestToken
  let files: SignerFiles
  let daemon: Daemon
  let service: TestService
  let responder: Responder
  before(async () => {
    token = makeToken()
    files = writeSignerFiles({ first: makeAuthority('P-256') })
    daemon = await startDaemon(files.config, [], token.env)
    const signer = {
      socket: files.socket,
      secret_file: path.join(files.folder, 'secret'),
      timeout_seconds: SIGN_TIMEOUT_SECONDS,
    }
    service = await startTestService({ config: { ca: { signer }, crl: { enabled: true } } })
    responder = await startResponder(service.http01Port)
  })
  after(async () => {
    closeConnections()
    await responder?.close()
    await service?.dispose()
    await daemon.stop()
    assert.ok((await verifyAuditChain(files.auditFile)).ok)
    token.remove()
  })

  async function underLoad(change: (round: number) => Promise<void>, say: (text: string) => void): Promise<void> {
    const { directoryUrl, baseUrl } = service
    const flows = await startFlows({ directoryUrl, responder, connect: () => ({ send, close: () => undefined }) })
    const { tally } = flows
    const askReadiness = () => send({ method: 'GET', url: `${baseUrl}/readyz` })
    await until('the service is ready', async () => (await askReadiness()).status === 200)
    let wasUnready = false
    const watching = setInterval(async () => {
      const { status, json } = await askReadiness()
      // Whatever else there is comes from a machine on which a signature takes seconds.
      wasUnready ||= status !== 200 && json.reason === 'signer not reachable'
    }, LOOK_MS)
    let changes = 0
    const isEnough = () => (changes >= LEAST_CHANGES && tally.flows >= FLOWS) || tally.failedRequests.length > 0
    for (; !isEnough(); changes++) {
      await change(changes)
      await sleep(PAUSE_MS)
    }
    clearInterval(watching)
    say(`${changes} changes, ${summary(tally)}`)
    await flows.stop()
    assert.ok(!wasUnready, 'it was not ready because of its signer')
  }

  test(`while the signer is restarted, in ${FLOWS} flows`, (t) =>
    underLoad(
      async () => {
        assert.equal(await daemon.stop(), 0)
        await sleep(RESTART_MS)
        daemon = await startDaemon(files.config, [], token.env)
      },
      (text) => t.diagnostic(text),
    ))

  test(`while the signer gets a new issuer, its key in a file or in a token, in ${FLOWS} flows`, async (t) => {
    const issuers = [{ id: 'first', key: 'file: first.key' }]
    const configure = () => {
      const list = issuers
        .slice(0, KEPT_ISSUERS)
        .map(({ id, key }) => `  - id: ${id}\n    certificate: ${id}.pem\n    key: { ${key} }\n    policy: {}\n`)
      const [head] = readFileSync(files.config, 'utf8').split('issuers:')
      writeFileSync(files.config, `${head}issuers:\n${list.join('')}`)
    }
    await underLoad(
      async (round) => {
        const id = `issuer-${round}`
        const authority = makeAuthority('P-256', { name: `Test CA ${id}` })
        writeFileSync(path.join(files.folder, `${id}.pem`), authority.certificatePem)
        let key = `file: ${id}.key`
        if (round % 2 === 1) {
          token.importKey(authority.privateKey, id, (round + 16).toString(16))
          key = `pkcs11: { library: ${SOFTHSM_LIBRARY}, token: ca, pin_file: ${token.pinFile}, label: ${id} }`
        } else {
          const pem = authority.privateKey.export({ format: 'pem', type: 'pkcs8' })
          writeFileSync(path.join(files.folder, `${id}.key`), pem, { mode: 0o600 })
        }
        issuers.unshift({ id, key })
        configure()
        daemon.process.kill('SIGHUP')
        // Every front thread and the supervisor.
        const isKnown = ({ message, issuers }: Record<string, unknown>) =>
          message === 'the signer has other issuers now' && (issuers as string[])[0] === id
        await until(`issuer ${id} to be known`, () => service.log.filter(isKnown).length >= 3)
      },
      (text) => t.diagnostic(text),
    )
    assert.ok(service.log.every(({ event }) => event !== 'crl_failed'))
  })

  test(`while the service reads its configuration again, in ${FLOWS} flows`, (t) =>
    underLoad(
      async (round) => {
        const before = service.log.length
        const file = path.join(service.folder, 'config.yaml')
        const level = round % 2 === 0 ? 'DEBUG' : 'INFO'
        const [rest] = readFileSync(file, 'utf8').split('logging:')
        writeFileSync(file, `${rest}logging:\n  level: ${level}\n`)
        service.process.kill('SIGHUP')
        await until('the configuration to be read', () =>
          service.log.slice(before).some(({ message }) => message === 'configuration read again'),
        )
      },
      (text) => t.diagnostic(text),
    ))
})
