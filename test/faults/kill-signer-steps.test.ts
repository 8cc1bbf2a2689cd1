/**
 * kill -9 of the signer between any two steps of a signature: nobody gets a certificate that is not recorded, the audit
 * chain verifies after the next start, and the order ends valid, with one certificate, without the client's help.
 */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { symlinkSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import {
  createPersistentClient,
  type HeldCertificate,
  type PersistentClient,
} from '../../bench/client/persistent-client.ts'
import { verifyAuditChain } from '../../signer/audit/audit-commands.ts'
import { makeAuthority, type SignerFiles, writeSignerFiles } from '../signer/authority.ts'
import { startDaemon } from '../signer/daemon.ts'
import { checkBooks } from '../support/books.ts'
import { rowsIn } from '../support/database.ts'
import { type Http01Responder, startHttp01Responder } from '../support/http01-responder.ts'
import { WAIT_MS } from '../support/patience.ts'
import { startTestService, type TestService } from '../support/service.ts'

const PRELOADED = fileURLToPath(new URL('./die-at.js', import.meta.url))

const STEPS: readonly string[] = [
  'request read',
  'before the signature',
  'signature made',
  'audit line torn',
  'audit line written',
  'reply torn',
  'reply sent',
]

describe('kill -9 of the signer between two steps of a signature', () => {
  let files: SignerFiles
  let service: TestService
  let responder: Http01Responder
  let client: PersistentClient
  const held: HeldCertificate[] = []

  before(async () => {
    files = writeSignerFiles({ default: makeAuthority() })
    // The name under which the books look for it.
    symlinkSync(files.auditFile, path.join(files.folder, 'signer-audit.jsonl'))
    const daemon = await startDaemon(files.config)
    // Longer than a start takes on a machine that stands still for seconds: what runs into the time-out is signed once more, and counted.
    const signer = { socket: files.socket, secret_file: path.join(files.folder, 'secret'), timeout_seconds: 30 }
    service = await startTestService({ fronts: 1, config: { ca: { signer } } })
    responder = await startHttp01Responder(service.http01Port)
    client = createPersistentClient({ directoryUrl: service.directoryUrl, timeoutMs: 4 * WAIT_MS })
    await client.register()
    await daemon.stop()
  })
  after(async () => {
    await responder?.close()
    await service?.dispose()
  })

  const certificates = async () => (await rowsIn(service.database, 'SELECT FROM certificates')).length

  for (const step of STEPS) {
    test(`${step}: recorded or not delivered, and the order ends valid`, async () => {
      const signedBefore = await signatures(files)
      const doomed = await startDaemon(files.config, ['--import', PRELOADED], { CHANCERY_TEST_DIE_AT: step })
      const ended = once(doomed.process, 'exit')
      const name = `${step.replaceAll(' ', '-')}.test`
      responder.serve(name, client.thumbprint)
      const obtained = client.obtain(name)
      assert.deepEqual(await ended, [null, 'SIGKILL'])
      // A reply that has left whole may have been recorded by now; after any other end there is nothing to record.
      if (step !== 'reply sent') assert.equal(await certificates(), held.length)

      const daemon = await startDaemon(files.config)
      held.push(await obtained)
      assert.equal(await daemon.stop(), 0)
      assert.equal(await certificates(), held.length)
      // What is in the audit chain is not signed again: the answer comes from the record beside it.
      assert.equal(await signatures(files), signedBefore + 1)
    })
  }

  test('orders, certificates and audit chain agree', async () => {
    const { connection } = service.database
    const books = await checkBooks({ connection, folder: files.folder, held })
    assert.deepEqual(books.orders, { valid: STEPS.length })
    assert.equal(books.certificates, STEPS.length)
    assert.deepEqual(client.complaints, [])
  })
})

async function signatures({ auditFile }: SignerFiles): Promise<number> {
  const verdict = await verifyAuditChain(auditFile)
  assert.ok(verdict.ok, JSON.stringify(verdict))
  return verdict.signatures
}
