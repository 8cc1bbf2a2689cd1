import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { DerError, DerReader, TAG } from '../../../../src/shared/pki/der.ts'
import { type DerWriter, encodeDer, encodeOid } from '../../../../src/shared/pki/der-writer.ts'
import { forAll, forAnyInput } from '../../../support/property-runs.ts'
import { refusalBy, unlessRefused } from '../../../support/refusals.ts'
import { aCertificate, hex, mutated, randomOctets } from './support.ts'

const reading = (text: string) => new DerReader(hex(text))

function refuses(read: () => unknown, message: RegExp) {
  assert.throws(read, (error) => error instanceof DerError && message.test(error.message))
}

/** Whether the Buffer is exactly one DER value; anything but a DerError is let through. */
function isDer(bytes: Buffer): boolean {
  const reader = new DerReader(bytes)
  return unlessRefused(DerError, () => reader.any()) !== undefined && reader.done
}

/** Writes again whatever a reader walks over. */
function rewrite(reader: DerReader, writer: DerWriter): void {
  while (!reader.done) {
    const tag = reader.peek()
    if ((tag & 0x20) === 0) writer.primitive(tag, reader.content(tag))
    else {
      const inner = reader.enter(tag)
      writer.constructed(tag, () => rewrite(inner, writer))
    }
  }
}

describe('DER reader', () => {
  const refused: [string, string, (reader: DerReader) => unknown, RegExp][] = [
    // X.690 §10.1, §8.1.3
    ['an indefinite length', '30 80 00 00', (r) => r.sequence(), /indefinite length/],
    ['a long form for a short length', '04 81 01 00', (r) => r.octetString(), /length is not minimal/],
    [
      'a length with a leading zero',
      `04 82 00 80 ${'00'.repeat(128)}`,
      (r) => r.octetString(),
      /length is not minimal/,
    ],
    ['a length of five octets', '04 85 01 00 00 00 00', (r) => r.octetString(), /length is too large/],
    ['a reserved length octet', '04 ff', (r) => r.octetString(), /length is too large/],
    ['a length that is cut off', '04 82 01', (r) => r.octetString(), /length is cut off/],
    ['a missing length', '04', (r) => r.octetString(), /length is missing/],
    ['a value longer than its container', '30 03 04 02 00', (r) => r.sequence().octetString(), /runs past the end/],
    ['a value longer than the input', '04 02 00', (r) => r.octetString(), /runs past the end/],
    ['another tag', '05 00', (r) => r.sequence(), /expected tag 30, found 05/],
    ['nothing where a value should be', '', (r) => r.sequence(), /tag 30 is missing/],
    // X.690 §11.1
    ['TRUE as 01', '01 01 01', (r) => r.boolean(), /BOOLEAN/],
    ['a BOOLEAN of two octets', '01 02 ff ff', (r) => r.boolean(), /BOOLEAN/],
    // X.690 §8.3.2
    ['an empty INTEGER', '02 00', (r) => r.integer(), /empty/],
    ['a padded positive INTEGER', '02 02 00 7f', (r) => r.integer(), /not minimal/],
    ['a padded negative INTEGER', '02 02 ff 80', (r) => r.integer(), /not minimal/],
    ['a negative INTEGER as unsigned', '02 01 80', (r) => r.unsignedInteger(), /negative/],
    ['a small INTEGER of 2^31', '02 05 00 80 00 00 00', (r) => r.smallInteger(), /too large/],
    ['a NULL with content', '05 01 00', (r) => r.null(), /NULL/],
    // X.690 §8.6.2, §11.2.1
    ['a BIT STRING without its first octet', '03 00', (r) => r.bitString(), /unused bits/],
    ['eight unused bits', '03 02 08 00', (r) => r.bitString(), /unused bits/],
    ['unused bits of an empty BIT STRING', '03 01 01', (r) => r.bitString(), /unused bits/],
    ['padding bits that are set', '03 02 01 01', (r) => r.bitString(), /padding bits/],
    ['a broken octet where whole ones are due', '03 02 01 02', (r) => r.bitStringOctets(), /whole octets/],
    // X.690 §8.19.2
    ['an empty OID', '06 00', (r) => r.oid(), /empty/],
    ['an OID that is cut off', '06 02 2a 86', (r) => r.oid(), /cut off/],
    ['an OID with a padded arc', '06 03 2a 80 01', (r) => r.oid(), /not minimal/],
    ['an OID of 65 octets', `06 41 ${'01'.repeat(65)}`, (r) => r.oid(), /too long/],
    ['a primitive SEQUENCE', '10 00', (r) => r.any(), /not DER/],
    ['a constructed OCTET STRING', '24 00', (r) => r.any(), /not DER/],
    ['an end-of-contents octet', '00 00', (r) => r.any(), /not DER/],
    ['a tag number above 30', '1f 1f 00', (r) => r.any(), /above 30/],
    ['a bad value inside a good one', '30 03 02 01', (r) => r.any(), /runs past|missing/],
  ]
  for (const [what, bytes, read, message] of refused)
    test(`refuses ${what}`, () => refuses(() => read(reading(bytes)), message))

  test('refuses bytes after the last value', () => {
    const reader = reading('05 00 00')
    reader.null()
    refuses(() => reader.finish('Thing'), /Thing has unexpected content at its end \(at byte 2\)/)
  })

  test('reports offsets from the start of the Buffer, however deep the value lies', () => {
    const { offset } = refusalBy(DerError, () => reading('30 04 30 02 01 00').sequence().sequence().boolean())
    assert.equal(offset, 4)
  })

  test('refuses values nested deeper than any certificate', () => {
    let bytes: Buffer = Buffer.alloc(0)
    for (let depth = 0; depth < 40; depth++) {
      const inner = bytes
      bytes = encodeDer((writer) => writer.sequence(() => writer.raw(inner)))
    }
    refuses(() => new DerReader(bytes).any(), /nested too deep/)
  })

  test('reads each small value back', () => {
    assert.equal(reading('01 01 ff').boolean(), true)
    assert.equal(reading('01 01 00').boolean(), false)
    assert.equal(reading('02 04 7f ff ff ff').smallInteger(), 0x7fffffff)
    assert.deepEqual(reading('02 02 00 80').unsignedInteger(), hex('80'))
    assert.deepEqual(reading('02 01 00').unsignedInteger(), hex('00'))
    assert.deepEqual(reading('03 02 04 f0').bitString(), { unusedBits: 4, bytes: hex('f0') })
  })

  test('values are views of the input, not copies', () => {
    const bytes = hex('04 02 01 02')
    assert.equal(new DerReader(bytes).octetString().buffer, bytes.buffer)
  })

  test('is total over random bytes', () => forAnyInput(randomOctets(80), (bytes) => typeof isDer(bytes) === 'boolean'))

  test('what it accepts is written again as the same bytes', () =>
    forAnyInput(fc.oneof(mutated([aCertificate()]), randomOctets(12)), (bytes) => {
      if (!isDer(bytes)) return
      assert.deepEqual(
        encodeDer((writer) => rewrite(new DerReader(bytes), writer)),
        bytes,
      )
    }))
})

describe('DER values keep one spelling', () => {
  const content = randomOctets(10)
  const wrap = (tag: number, octets: Buffer) => encodeDer((writer) => writer.primitive(tag, octets))
  const onlyIfRead = (read: () => void) => {
    unlessRefused(DerError, () => read())
  }

  test('an OID that is read is encoded as it stood', () =>
    forAll(content, (octets) =>
      onlyIfRead(() => assert.deepEqual(encodeOid(new DerReader(wrap(TAG.oid, octets)).oid()), octets)),
    ))

  test('an unsigned INTEGER that is read is encoded as it stood', () =>
    forAll(content, (octets) => {
      const der = wrap(TAG.integer, octets)
      onlyIfRead(() => {
        const magnitude = new DerReader(der).unsignedInteger()
        assert.deepEqual(
          encodeDer((writer) => writer.unsignedInteger(magnitude)),
          der,
        )
      })
    }))
})

describe('DER writer', () => {
  for (const length of [0, 1, 127, 128, 255, 256, 65535, 65536, 70000])
    test(`writes minimal lengths around ${length} octets of content, primitive and constructed`, () => {
      const inner = Buffer.alloc(length, 1)
      const primitive = encodeDer((writer) => writer.octetString(inner))
      const reader = new DerReader(primitive)
      assert.deepEqual(reader.octetString(), inner)
      assert.ok(reader.done)
      const constructed = encodeDer((writer) => writer.sequence(() => writer.raw(primitive)))
      assert.deepEqual(new DerReader(constructed).sequence().octetString(), inner)
    })

  const oids: [string, string][] = [
    ['1.2.840.113549.1.1.11', '2a864886f70d01010b'],
    ['0.39', '27'],
    ['2.999.3', '883703'], // X.690 §8.19.5
    ['2.25.329800735698586629295641978511506172918', '6983f09da7ebcfdee0c7a1a7b2c0948cc8f9d776'],
    ['1.39.128.16384.4294967296.9007199254740992', '4f8100818000908080800090808080808080 00'.replaceAll(' ', '')],
  ]
  for (const [text, octets] of oids)
    test(`writes and reads the OID ${text}`, () => {
      assert.equal(encodeOid(text).toString('hex'), octets)
      assert.equal(new DerReader(encodeDer((writer) => writer.oid(text))).oid(), text)
    })

  for (const text of ['', '1', '3.1', '1.40', '0.40', '1.2.', '1.02', '1.2.x', '1.-2', '1.2.840 '])
    test(`refuses ${JSON.stringify(text)} as an OID`, () => assert.throws(() => encodeOid(text), RangeError))

  const named: [number[], string][] = [
    [[], '030100'],
    [[0], '03020780'],
    [[0, 2], '030205a0'],
    [[8], '0303070080'],
    [[7, 0], '03020081'],
  ]
  for (const [bits, der] of named) {
    // X.690 §11.2.2
    test(`writes the named bits ${JSON.stringify(bits)} without trailing zeros`, () =>
      assert.equal(encodeDer((writer) => writer.namedBits(bits)).toString('hex'), der))
  }

  test('gives unsigned INTEGERs a sign octet only where needed', () => {
    for (const [magnitude, der] of [
      ['00', '020100'],
      ['', '020100'],
      ['0000', '020100'],
      ['7f', '02017f'],
      ['80', '02020080'],
      ['000080', '02020080'],
    ] as const)
      assert.equal(encodeDer((writer) => writer.unsignedInteger(hex(magnitude))).toString('hex'), der)
  })

  test('refuses text outside ASCII and numbers outside a small INTEGER', () => {
    assert.throws(() => encodeDer((writer) => writer.ascii(TAG.ia5String, 'bücher')), RangeError)
    for (const value of [-1, 128, 1.5])
      assert.throws(() => encodeDer((writer) => writer.smallInteger(value)), RangeError)
  })
})
