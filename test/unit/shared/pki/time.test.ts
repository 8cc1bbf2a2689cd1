import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { DerError, DerReader, TAG } from '../../../../src/shared/pki/der.ts'
import { encodeDer } from '../../../../src/shared/pki/der-writer.ts'
import { readTime, timeFormOf, writeTime } from '../../../../src/shared/pki/time.ts'
import { forAll } from '../../../support/property-runs.ts'

const encoded = (tag: number, text: string) => encodeDer((writer) => writer.ascii(tag, text))
const read = (tag: number, text: string) => readTime(new DerReader(encoded(tag, text)))

describe('validity times (RFC 5280 §4.1.2.5)', () => {
  const forms: [string, number, string][] = [
    ['1950-01-01T00:00:00.000Z', TAG.utcTime, '500101000000Z'],
    ['1999-12-31T23:59:59.000Z', TAG.utcTime, '991231235959Z'],
    ['2000-02-29T00:00:00.000Z', TAG.utcTime, '000229000000Z'],
    ['2049-12-31T23:59:59.000Z', TAG.utcTime, '491231235959Z'],
    ['2050-01-01T00:00:00.000Z', TAG.generalizedTime, '20500101000000Z'],
    ['9999-12-31T23:59:59.000Z', TAG.generalizedTime, '99991231235959Z'],
  ]
  for (const [iso, tag, text] of forms)
    test(`${iso} is ${text}, both ways`, () => {
      const at = new Date(iso)
      assert.deepEqual(
        encodeDer((writer) => writeTime(writer, at)),
        encoded(tag, text),
      )
      assert.equal(read(tag, text).at.toISOString(), iso)
      assert.equal(read(tag, text).form, timeFormOf(at))
    })

  test('fractions of a second are cut off, never rounded up', () => {
    const der = encodeDer((writer) => writeTime(writer, new Date('2026-01-01T00:00:59.999Z')))
    assert.equal(readTime(new DerReader(der)).at.toISOString(), '2026-01-01T00:00:59.000Z')
  })

  test('years below 100 are read as they stand: Go writes the year 1 where nobody gave a date', () => {
    assert.equal(read(TAG.generalizedTime, '00010101000000Z').at.toISOString(), '0001-01-01T00:00:00.000Z')
    assert.equal(read(TAG.generalizedTime, '00991231235959Z').at.toISOString(), '0099-12-31T23:59:59.000Z')
    assert.equal(read(TAG.generalizedTime, '00000229000000Z').at.toISOString(), '0000-02-29T00:00:00.000Z')
  })

  const refused: [number, string][] = [
    [TAG.utcTime, '2601010000Z'],
    [TAG.utcTime, '260101000000'],
    [TAG.utcTime, '260101000000+0000'],
    [TAG.utcTime, '260101000000+'],
    [TAG.utcTime, '260230000000Z'],
    [TAG.utcTime, '250229000000Z'],
    [TAG.utcTime, '261301000000Z'],
    [TAG.utcTime, '260001000000Z'],
    [TAG.utcTime, '260100000000Z'],
    [TAG.utcTime, '260101240000Z'],
    [TAG.utcTime, '260101006000Z'],
    [TAG.utcTime, '260101000060Z'],
    [TAG.utcTime, '2601010000 0Z'],
    [TAG.generalizedTime, '20260101000000.5Z'],
    [TAG.generalizedTime, '20260101000000z'],
    [TAG.generalizedTime, '260101000000Z'],
    [TAG.generalizedTime, '00010229000000Z'],
  ]
  for (const [tag, text] of refused) test(`refuses ${text}`, () => assert.throws(() => read(tag, text), DerError))

  for (const at of [new Date('1949-12-31T23:59:59Z'), new Date(8.64e15), new Date(Number.NaN)])
    test(`cannot write ${String(at)}`, () =>
      assert.throws(() => encodeDer((writer) => writeTime(writer, at)), RangeError))

  test('every whole second between 1950 and 9999 survives', () => {
    const seconds = fc.integer({ min: Date.UTC(1950, 0) / 1000, max: Date.UTC(9999, 11, 31, 23, 59, 59) / 1000 })
    forAll(seconds, (second) => {
      const time = readTime(new DerReader(encodeDer((writer) => writeTime(writer, new Date(second * 1000)))))
      assert.deepEqual(time, { at: new Date(second * 1000), form: timeFormOf(time.at) })
    })
  })
})
