/** Records of the signer that are damaged: one alarm says which, and the service goes on. */

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { closeConnections, type Responder, registeredClient, startResponder } from '../support/acme-client.ts'
import { startTestService, type TestService } from '../support/service.ts'

const config = { crl: { enabled: true } }
let first: TestService
let second: TestService | undefined
let responder: Responder
before(async () => {
  first = await startTestService({ fronts: 1, config })
  responder = await startResponder(first.http01Port)
})
after(async () => {
  closeConnections()
  await responder.close()
  await second?.dispose()
  await first.dispose()
})

test('a flipped byte in a record is one alarm that names stream, line and command', async () => {
  const client = await registeredClient(first.directoryUrl)
  for (const name of ['a.test', 'b.test']) await client.obtain([name], responder)
  await first.stop()
  const file = path.join(first.folder, 'signer-audit.jsonl.certificates')
  const bytes = readFileSync(file)
  const { seq } = JSON.parse(bytes.toString().split('\n')[0]!)
  const at = bytes.indexOf('"certificate":"') + 100
  bytes[at] = bytes[at] === 0x41 ? 0x42 : 0x41
  writeFileSync(file, bytes)

  second = await startTestService({ fronts: 1, config, continueFrom: first })
  const alarm = await second.waitForLog('records of the signer are damaged')
  assert.equal(
    alarm.reason,
    `1 line of certificates, the first ${seq}; say which with: chancery-signer audit verify FILE (docs/operations/signer.md#damaged-records)`,
  )
  const again = await registeredClient(second.directoryUrl)
  await again.obtain(['c.test'], responder)
  assert.equal(second.log.filter(({ event }) => event === 'alarm').length, 1)
})
