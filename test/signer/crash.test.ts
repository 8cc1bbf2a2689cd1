import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Link } from '../../bench/faults/link.ts'
import { verifyAuditChain } from '../../signer/audit/audit-commands.ts'
import { SignerAnswerLost } from '../../signer/protocol/signer-errors.ts'
import { type CaBackend, CaError } from '../../src/ca/backend.ts'
import { SignerBackend } from '../../src/ca/signer-backend.ts'
import { SignerClient } from '../../src/ca/signer-client.ts'
import { parseCertificate, serialNumberHex } from '../../src/shared/pki/certificate.ts'
import { until } from '../support/until.ts'
import { leafTbs, makeAuthority } from './authority.ts'
import { type TestSigner, withSigner } from './daemon.ts'

/** A daemon that is started anew on a busy machine takes seconds. */
const DEADLINE_MS = 60_000

const authority = makeAuthority()

const withFiles = (work: (signer: TestSigner) => Promise<void>) => withSigner(work, { default: authority })
const signBy = (backend: CaBackend, requester: string, timeoutMs = DEADLINE_MS) =>
  backend.signCertificate('default', leafTbs(authority), { timeoutMs, requester })

describe('a signer that is killed', () => {
  test('five times under load: clients recover, and every certificate they hold is in an audit chain that verifies', (context) =>
    withFiles(async (signer) => {
      await signer.launch()
      const events: string[] = []
      const backend = new SignerBackend({
        ...signer.place,
        backoffMs: { first: 10, longest: 100 },
        onConnect: ({ version }) => events.push(`connect ${version}`),
        onDisconnect: (reason) => events.push(`disconnect ${reason.message}`),
      })
      const serials: string[] = []
      let retries = 0
      let running = true
      const load = async () => {
        while (running) {
          try {
            const certificate = await signBy(backend, 'load')
            serials.push(serialNumberHex(parseCertificate(certificate).tbs.serialNumber))
          } catch (error) {
            assert.ok(error instanceof CaError && error.retryable, String(error))
            retries += 1
          }
        }
      }
      const loads = Array.from({ length: 16 }, load)
      context.after(() => {
        running = false
      })
      // On a busy machine the first connection takes its time, and a kill before it would not count.
      await until('a first signature', () => serials.length > 0)
      for (let round = 0; round < 5; round++) {
        await sleep(150)
        await signer.daemon.stop('SIGKILL')
        const signedBefore = serials.length
        await signer.launch()
        // All that was under way has been answered by then: none meets two kills.
        await until('fifty more signatures', () => serials.length >= signedBefore + 50)
      }
      running = false
      await Promise.all(loads)
      await backend.close()
      assert.equal(await signer.daemon.stop(), 0)

      const verdict = await verifyAuditChain(signer.files.auditFile)
      assert.ok(verdict.ok, JSON.stringify(verdict))
      assert.deepEqual([verdict.records.found, verdict.records.missing], [verdict.signatures, 0])
      const recorded = new Set(
        readFileSync(signer.files.auditFile, 'utf8')
          .trimEnd()
          .split('\n')
          .map((line) => (JSON.parse(line) as { serial: string }).serial),
      )
      assert.deepEqual(
        serials.filter((serial) => !recorded.has(serial)),
        [],
      )
      // What was under way was sent again by the client itself; only a request that met two kills came back.
      assert.ok(serials.length > 100 && retries < 5, `${serials.length} certificates, ${retries} retries`)
      assert.equal(events.filter((event) => event.startsWith('connect')).length, 6)
    }))
})

describe('the client', () => {
  test('waits for a daemon that starts later, within the deadline of the request', () =>
    withFiles(async (signer) => {
      const { backend } = signer
      assert.deepEqual(backend.issuers(), [])
      const signed = signBy(backend, 'early')
      await signer.launch()
      assert.ok(parseCertificate(await signed))
      assert.equal(backend.issuers().length, 1)
    }))

  test('sends what was under way once more when the daemon dies and comes back within the deadline', () =>
    withFiles(async (signer) => {
      await signer.launch()
      const { backend } = signer
      await backend.testSign({ timeoutMs: DEADLINE_MS })
      // Stopped, it takes the request off nobody's hands and cannot answer before it is killed.
      signer.daemon.process.kill('SIGSTOP')
      const signed = signBy(backend, 'twice')
      await sleep(50)
      await signer.restart('SIGKILL')
      assert.ok(parseCertificate(await signed))
    }))

  test('gives up at the deadline when there is no daemon, and the request may be repeated', () =>
    withFiles(async (signer) => {
      const { backend } = signer
      await assert.rejects(signBy(backend, 'x', 100), (error) => error instanceof CaError && error.retryable)
    }))

  test('leaves a connection on which nothing comes any more, as behind a tunnel that has died', () =>
    withFiles(async (signer) => {
      await signer.launch()
      const socketPath = `${signer.files.socket}.tunnel`
      const tunnel = await Link.between({ path: socketPath }, { path: signer.files.socket })
      const backend = new SignerBackend({ ...signer.place, socketPath })
      try {
        await signBy(backend, 'before')
        tunnel.set('silent')
        tunnel.set('whole')
        assert.ok(parseCertificate(await signBy(backend, 'after')))
      } finally {
        await backend.close()
        await tunnel.close()
      }
    }))

  test('takes an answer that came while its thread was held up, however late that is', () =>
    withFiles(async (signer) => {
      await signer.launch()
      const { client } = signer
      await client.call('health', {}, { timeoutMs: DEADLINE_MS })
      // Held up for long enough that the answer has come, also from a daemon that stands still.
      for (const heldMs of [2_000, 10_000, 40_000]) {
        const late = client.call('health', {}, { timeoutMs: 300 })
        // It is sent at the end of this turn.
        await Promise.resolve()
        for (const end = performance.now() + heldMs; performance.now() < end; );
        const answer = await late.catch((error: Error) => error)
        if (answer instanceof Error) continue
        assert.equal(answer.meta.signing, true)
        return
      }
      assert.fail('no answer was taken')
    }))

  test('bounds what waits', () =>
    withFiles(async (signer) => {
      const client = new SignerClient({ ...signer.place, maxInFlight: 3 })
      const waiting = Array.from({ length: 3 }, () => client.call('health', {}, { timeoutMs: 5000 }))
      await assert.rejects(client.call('health', {}, { timeoutMs: 5000 }), /too many/)
      const outcomes = Promise.allSettled(waiting)
      await client.close()
      for (const { status } of await outcomes) assert.equal(status, 'rejected')
    }))

  test('with another secret says so and never gets through', () =>
    withFiles(async (signer) => {
      await signer.launch()
      const reasons: string[] = []
      const client = new SignerClient({
        ...signer.place,
        secret: Buffer.alloc(32, 9),
        onDisconnect: ({ message }) => reasons.push(message),
      })
      // The deadline is beyond that of the whole file: it does not wait for what waiting will not mend.
      await assert.rejects(client.call('health', {}, { timeoutMs: 3_600_000 }), (error: Error) => {
        assert.match(error.message, /^the signer does not hold the same secret as this service; compare [^:]+$/)
        assert.ok(!(error instanceof SignerAnswerLost), 'it was never sent')
        return error.name === 'SignerUnavailable'
      })
      assert.match(reasons[0]!, /same secret/)
      assert.equal(client.failure?.message, reasons.at(-1))
      await client.close()
    }))
})
