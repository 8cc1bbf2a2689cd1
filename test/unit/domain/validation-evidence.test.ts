/** Records of validation attempts: bounded, whatever the target put in. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { boundRecord, MAX_RECORD_LENGTH, type ValidationRecord } from '../../../src/domain/validation-attempt.ts'
import { anyCharacter } from '../../support/any-character.ts'
import { forAll } from '../../support/property-runs.ts'

const aRecord = (over: Partial<ValidationRecord> = {}): ValidationRecord => ({
  type: 'http-01',
  attempt: 1,
  at: '2026-01-01T00:00:00Z',
  ms: 12,
  result: 'success',
  requestId: 'request',
  steps: [{ step: 'connected', address: '192.0.2.1', port: 80 }],
  ...over,
})

describe('validation record', () => {
  test('an ordinary one stays as it is', () => {
    const record = aRecord()
    assert.equal(boundRecord(record), record)
  })

  test('of two hundred long records keeps the first and the last and says how many it left out', () => {
    const steps = Array.from({ length: 200 }, (_, i) => ({ step: `step ${i}`, value: 'x'.repeat(300) }))
    const bounded = boundRecord(aRecord({ steps }))
    assert.equal(bounded.steps[0]?.step, 'step 0')
    assert.equal(bounded.steps.at(-1)?.step, 'step 199')
    assert.equal(bounded.steps.length + (bounded.omitted ?? 0), 200)
  })

  test('long lists and texts are cut', () => {
    const cutTo = (length: number, text: number) => {
      const steps = [{ step: 'txt', values: Array(length).fill('y'.repeat(text)) }]
      return boundRecord(aRecord({ steps })).steps[0]?.['values'] as string[]
    }
    assert.deepEqual(cutTo(500, 30), [...Array(32).fill('y'.repeat(30)), '… 468 more'])
    assert.deepEqual(cutTo(500, 600), [...Array(8).fill(`${'y'.repeat(127)}…`), '… 492 more'])
  })

  test('what PostgreSQL refuses in jsonb, and what moves an operator’s cursor, is replaced', () => {
    const steps = [{ step: 'redirect', to: 'a\u0000b\u001b[2Jc\ud800d\u009b', '\u0000': 1 }]
    const [step] = boundRecord(aRecord({ steps })).steps
    assert.deepEqual(step, { step: 'redirect', to: 'a\ufffdb\ufffd[2Jc\ufffdd\ufffd', '\ufffd': 1 })
  })

  test('any one is at most as long as the bound, and what it holds can be kept', () =>
    forAll(
      fc.array(fc.object({ maxDepth: 4 }), { maxLength: 60 }),
      fc.string({ unit: anyCharacter, maxLength: 3000 }),
      (facts, detail) => {
        const steps = facts.map((fact) => ({ ...fact, step: 'any' }))
        const json = JSON.stringify(boundRecord(aRecord({ steps, detail, requestId: detail })))
        assert.ok(json.length <= MAX_RECORD_LENGTH, `${json.length}`)
        assert.doesNotMatch(json, /\\u0000|\\ud[89a-f]/)
      },
    ))
})
