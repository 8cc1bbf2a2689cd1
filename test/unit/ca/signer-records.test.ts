/** What a service makes of a signer of an earlier release; `test/signer/records.test.ts` has one of this release. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SignerProtocolError, SignerUnavailable } from '../../../signer/protocol/signer-errors.ts'
import { signerRecords } from '../../../src/ca/signer-records.ts'

const PLACE = { seq: 0, part: 0 }

const failing = (error: Error) =>
  signerRecords({
    call: () => Promise.reject(error),
  })

test('a signer of an earlier release records no decisions, and that is an answer', async () => {
  const records = failing(new SignerProtocolError('unknown method 13'))
  assert.equal(await records.noteDecisions(Buffer.from('[{}]'), 'decisions', 1_000), false)
  assert.equal(await records.decisions(PLACE), undefined)
  assert.equal(await records.damage(), undefined)
})

test('a signer that is away or fails is an error', async () => {
  for (const error of [new SignerUnavailable('audit chain stopped'), new SignerProtocolError('meta part')]) {
    await assert.rejects(failing(error).noteDecisions(Buffer.from('[{}]'), 'decisions', 1_000), error)
    await assert.rejects(failing(error).decisions(PLACE), error)
  }
})
