import assert from 'node:assert/strict'
import { readFileSync, rmSync } from 'node:fs'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Link } from '../../bench/faults/link.ts'
import { verifyAuditChain } from '../../signer/audit/audit-commands.ts'
import { SignerAnswerLost } from '../../signer/protocol/signer-errors.ts'
import { CaError } from '../../src/ca/backend.ts'
import { SignerBackend } from '../../src/ca/signer-backend.ts'
import { SignerClient } from '../../src/ca/signer-client.ts'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { serialNumberHex } from '../../src/shared/pki/tbs-certificate.ts'
import { leafTbs, makeAuthority, type SignerFiles, writeSignerFiles } from './authority.ts'
import { startDaemon } from './daemon.ts'

/** A daemon that is started anew on a busy machine takes seconds. */
const DEADLINE_MS = 60_000

const authority = makeAuthority()

async function withFiles(work: (files: SignerFiles) => Promise<void>): Promise<void> {
  const files = writeSignerFiles({ default: authority })
  try {
    await work(files)
  } finally {
    rmSync(files.folder, { recursive: true })
  }
}

describe('a signer that is killed', () => {
  test('five times under load: clients recover, and every certificate they hold is in an audit chain that verifies', (context) =>
    withFiles(async (files) => {
      let daemon = await startDaemon(files.config)
      const events: string[] = []
      const backend = new SignerBackend({
        socketPath: files.socket,
        secret: files.secret,
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
            const certificate = await backend.signCertificate('default', leafTbs(authority), {
              timeoutMs: DEADLINE_MS,
              requester: 'load',
            })
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
      while (serials.length === 0) await sleep(5)
      for (let round = 0; round < 5; round++) {
        await sleep(150)
        await daemon.stop('SIGKILL')
        const signedBefore = serials.length
        daemon = await startDaemon(files.config)
        // All that was under way has been answered by then: none meets two kills.
        while (serials.length < signedBefore + 50) await sleep(5)
      }
      running = false
      await Promise.all(loads)
      await backend.close()
      assert.equal(await daemon.stop(), 0)

      const verdict = await verifyAuditChain(files.auditFile)
      assert.ok(verdict.ok, JSON.stringify(verdict))
      assert.deepEqual([verdict.records.found, verdict.records.missing], [verdict.signatures, 0])
      const recorded = new Set(
        readFileSync(files.auditFile, 'utf8')
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
    withFiles(async (files) => {
      const backend = new SignerBackend({ socketPath: files.socket, secret: files.secret })
      assert.deepEqual(backend.issuers(), [])
      const signed = backend.signCertificate('default', leafTbs(authority), {
        timeoutMs: DEADLINE_MS,
        requester: 'early',
      })
      const daemon = await startDaemon(files.config)
      assert.ok(parseCertificate(await signed))
      assert.equal(backend.issuers().length, 1)
      await backend.close()
      await daemon.stop()
    }))

  test('sends what was under way once more when the daemon dies and comes back within the deadline', () =>
    withFiles(async (files) => {
      const daemon = await startDaemon(files.config)
      const backend = new SignerBackend({ socketPath: files.socket, secret: files.secret })
      await backend.testSign({ timeoutMs: DEADLINE_MS })
      // Stopped, it takes the request off nobody's hands and cannot answer before it is killed.
      daemon.process.kill('SIGSTOP')
      const signed = backend.signCertificate('default', leafTbs(authority), {
        timeoutMs: DEADLINE_MS,
        requester: 'twice',
      })
      await sleep(50)
      await daemon.stop('SIGKILL')
      const successor = await startDaemon(files.config)
      assert.ok(parseCertificate(await signed))
      await backend.close()
      await successor.stop()
    }))

  test('gives up at the deadline when there is no daemon, and the request may be repeated', () =>
    withFiles(async (files) => {
      const backend = new SignerBackend({ socketPath: files.socket, secret: files.secret })
      await assert.rejects(
        backend.signCertificate('default', leafTbs(authority), { timeoutMs: 100, requester: 'x' }),
        (error) => error instanceof CaError && error.retryable,
      )
      await backend.close()
    }))

  test('leaves a connection on which nothing comes any more, as behind a tunnel that has died', () =>
    withFiles(async (files) => {
      const daemon = await startDaemon(files.config)
      const socketPath = `${files.socket}.tunnel`
      const tunnel = await Link.between({ path: socketPath }, { path: files.socket })
      const backend = new SignerBackend({ socketPath, secret: files.secret })
      const sign = (requester: string) =>
        backend.signCertificate('default', leafTbs(authority), { timeoutMs: DEADLINE_MS, requester })
      try {
        await sign('before')
        tunnel.set('silent')
        tunnel.set('whole')
        assert.ok(parseCertificate(await sign('after')))
      } finally {
        await backend.close()
        await tunnel.close()
        await daemon.stop()
      }
    }))

  test('takes an answer that came while its thread was held up, however late that is', () =>
    withFiles(async (files) => {
      const daemon = await startDaemon(files.config)
      const client = new SignerClient({ socketPath: files.socket, secret: files.secret })
      try {
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
      } finally {
        await client.close()
        await daemon.stop()
      }
    }))

  test('bounds what waits', () =>
    withFiles(async (files) => {
      const client = new SignerClient({ socketPath: files.socket, secret: files.secret, maxInFlight: 3 })
      const waiting = Array.from({ length: 3 }, () => client.call('health', {}, { timeoutMs: 5000 }))
      await assert.rejects(client.call('health', {}, { timeoutMs: 5000 }), /too many/)
      const outcomes = Promise.allSettled(waiting)
      await client.close()
      for (const { status } of await outcomes) assert.equal(status, 'rejected')
    }))

  test('with another secret says so and never gets through', () =>
    withFiles(async (files) => {
      const daemon = await startDaemon(files.config)
      const reasons: string[] = []
      const client = new SignerClient({
        socketPath: files.socket,
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
      await daemon.stop()
    }))
})
