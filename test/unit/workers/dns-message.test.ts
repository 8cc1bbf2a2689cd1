import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import dnsPacket from 'dns-packet'
import fc from 'fast-check'
import {
  buildQuery,
  type DnsRecord,
  type DnsType,
  isQueryableName,
  matchQuestion,
  parseResponse,
} from '../../../workers/dns/dns-message.ts'
import { forAll, forAllIn, forAnyInput, propertyRuns } from '../../support/property-runs.ts'

const EDNS = { edns: true, dnssec: false, recursion: true }

function reply(query: Buffer, changes: Partial<dnsPacket.Packet> = {}): Buffer {
  return dnsPacket.encode({ ...dnsPacket.decode(query), type: 'response', additionals: [], ...changes })
}

const questionOf = (query: Buffer) => dnsPacket.decode(query).questions![0]!

const optRecord = (dnssec: boolean, extendedRcode = 0): dnsPacket.OptAnswer => ({
  ...{ type: 'OPT', name: '.', udpPayloadSize: 1232, extendedRcode, ednsVersion: 0, options: [] },
  flags: dnssec ? dnsPacket.DNSSEC_OK : 0,
  flag_do: dnssec,
})
/** An answer of `example.org`. */
const answer = (type: string, data: unknown, name = 'example.org') => ({ type, name, ttl: 5, data }) as dnsPacket.Answer

describe('DNS queries', () => {
  test('a query carries EDNS with 1232 octets and asks for recursion', () => {
    const packet = dnsPacket.decode(buildQuery('www.example.org', 'A', EDNS).bytes)
    const opt = packet.additionals![0]!
    assert.equal(opt.type === 'OPT' && opt.udpPayloadSize, 1232)
    assert.equal(packet.flag_rd, true)
    assert.equal(packet.questions![0]!.name.toLowerCase(), 'www.example.org')
  })
  test('with dnssec the DO and AD bits are set', () => {
    const packet = dnsPacket.decode(buildQuery('example.org', 'TXT', { ...EDNS, dnssec: true }).bytes)
    const opt = packet.additionals![0]!
    assert.equal(opt.type === 'OPT' && opt.flag_do, true)
    assert.equal(packet.flag_ad, true)
  })
  test('id and case of the letters differ from query to query', () => {
    const name = 'a-rather-long-name-with-many-letters.in.a.zone.example'
    const queries = Array.from({ length: 50 }, () => buildQuery(name, 'A', EDNS))
    assert.ok(new Set(queries.map(({ bytes }) => bytes.readUInt16BE(0))).size > 40)
    assert.ok(new Set(queries.map(({ question }) => question.toString('latin1'))).size > 45)
    for (const { question } of queries) assert.equal(question.length, name.length + 6)
  })
  test('a query is, octet for octet, what dns-packet writes', () => {
    const label = fc.stringMatching(/^[!-\-/-~]{1,63}$/)
    const name = fc
      .array(label, { minLength: 1, maxLength: 8 })
      .map((labels) => labels.join('.'))
      .filter(isQueryableName)
    const type = fc.constantFrom('A', 'AAAA', 'TXT', 'CAA', 'NS', 'MX', 'DS')
    const options = fc.record({ edns: fc.boolean(), dnssec: fc.boolean(), recursion: fc.boolean() })
    forAll(name, type, options, (asked, kind, { edns, dnssec, recursion }) => {
      const { bytes, question } = buildQuery(asked, kind as DnsType, { edns, dnssec, recursion, lowerCase: true })
      const expected = dnsPacket.encode({
        type: 'query',
        id: bytes.readUInt16BE(0),
        flags: (recursion ? dnsPacket.RECURSION_DESIRED : 0) | (dnssec ? dnsPacket.AUTHENTIC_DATA : 0),
        questions: [{ type: kind as DnsType, name: asked, class: 'IN' }],
        additionals: edns ? [optRecord(dnssec)] : [],
      })
      assert.deepEqual(bytes, expected)
      assert.deepEqual(question, expected.subarray(12, 12 + asked.length + 6))
    })
  })
})

describe('matching a message to a query', () => {
  const query = buildQuery('www.example.org', 'A', EDNS)
  const swapCase = (name: string) => name.replace(/[a-z]/i, (c) => (c < 'a' ? c.toLowerCase() : c.toUpperCase()))

  test('the same id and question match', () => assert.equal(matchQuestion(reply(query.bytes), query), 'exact'))
  test('another case of the name is told apart', () => {
    const message = reply(query.bytes, {
      questions: [{ ...questionOf(query.bytes), name: swapCase(questionOf(query.bytes).name) }],
    })
    assert.equal(matchQuestion(message, query), 'recased')
  })
  const withoutQuestion = (message: Buffer) => {
    const head = Buffer.from(message.subarray(0, 12))
    head.writeUInt16BE(0, 4)
    return head
  }
  // RFC 7766 §7 leaves the question out of a response over TCP.
  test('no question is told apart', () =>
    assert.equal(matchQuestion(reply(query.bytes, { questions: [] }), query), 'unasked'))
  const foreign: Record<string, Buffer> = {
    'another id': reply(query.bytes, { id: query.bytes.readUInt16BE(0) ^ 1 }),
    'another name': reply(query.bytes, { questions: [{ ...questionOf(query.bytes), name: 'www.example.com' }] }),
    'another type': reply(query.bytes, { questions: [{ ...questionOf(query.bytes), type: 'AAAA' }] }),
    'no question under another id': reply(query.bytes, { id: query.bytes.readUInt16BE(0) ^ 1, questions: [] }),
    'a query without a question': withoutQuestion(query.bytes),
    'two questions': reply(query.bytes, { questions: [questionOf(query.bytes), questionOf(query.bytes)] }),
    'a query': query.bytes,
    nothing: Buffer.alloc(0),
    'a short message': query.bytes.subarray(0, 20),
  }
  for (const [what, message] of Object.entries(foreign))
    test(`${what} does not match`, () => assert.equal(matchQuestion(message, query), 'foreign'))
})

describe('reading responses', () => {
  const query = buildQuery('example.org', 'TXT', EDNS)
  const read = (asking: typeof query, ...answers: dnsPacket.Answer[]) =>
    parseResponse(reply(asking.bytes, { answers }), asking)?.answers

  test('mail servers come with their preference; the root has no name (RFC 7505 §3)', () => {
    const asking = buildQuery('example.org', 'MX', EDNS)
    const [first, root] = [
      answer('MX', { preference: 10, exchange: 'MX.Example.org' }),
      answer('MX', { exchange: '.' }),
    ]
    const shown = read(asking, first, root)?.map((found) => 'record' in found && found.record.data)
    assert.deepEqual(shown, [
      { preference: 10, exchange: 'mx.example.org' },
      { preference: 0, exchange: '' },
    ])
  })
  test('a mail server without a name, or with octets behind it, is malformed', () => {
    const asking = buildQuery('example.org', 'MX', EDNS)
    for (const data of [[0, 10], [0, 10, 1], [0, 10, 0, 0], [0, 10, 1, 0x20, 0], []])
      assert.equal(read(asking, answer('UNKNOWN_15', Buffer.from(data))), undefined, String(data))
  })

  test('TXT strings keep their bytes and their borders', () => {
    assert.deepEqual(read(query, answer('TXT', ['one', Buffer.from([0, 255])])), [
      { owner: 'example.org', record: { ttlSeconds: 5, data: [Buffer.from('one'), Buffer.from([0, 255])] } },
    ])
  })
  test('CAA flags, tag and value are read', () => {
    const caa = buildQuery('example.org', 'CAA', EDNS)
    assert.deepEqual(read(caa, answer('CAA', { flags: 128, tag: 'issue', value: 'ca.example' })), [
      { owner: 'example.org', record: { ttlSeconds: 5, data: { critical: true, tag: 'issue', value: 'ca.example' } } },
    ])
  })
  test('records of other types are left out', () => assert.deepEqual(read(query, answer('A', '192.0.2.1')), []))
  test('an extended response code is put together from both halves (RFC 6891 §6.1.3)', () => {
    const message = reply(query.bytes, { additionals: [optRecord(false, 1)] })
    assert.equal(parseResponse(message, query)?.rcode, 'RCODE16')
  })
  test('a record that reaches past the end of the message is malformed', () => {
    const whole = reply(query.bytes, { answers: [answer('TXT', ['a long enough text'])] })
    for (let length = whole.length - 1; length > 12; length--)
      assert.equal(parseResponse(whole.subarray(0, length), query), undefined, `${length} of ${whole.length} bytes`)
  })
  test('an alias to something that is no name is malformed', () =>
    assert.equal(read(query, answer('CNAME', 'with blank.example')), undefined))

  test('no bytes make the reader throw or return something out of its type', () => {
    const types = ['A', 'AAAA', 'TXT', 'CAA', 'NS'] as const
    forAnyInput(fc.constantFrom(...types), fc.uint8Array({ maxLength: 300 }), (type, bytes) => {
      const asked = buildQuery('example.org', type, EDNS)
      matchQuestion(Buffer.from(bytes), asked)
      parseResponse(Buffer.from(bytes), asked)
    })
  })
  test('no damage to a good response makes the reader throw, and addresses stay addresses', () => {
    const asked = buildQuery('example.org', 'A', EDNS)
    const good = reply(asked.bytes, {
      answers: [
        answer('CNAME', 'www.example.org'),
        answer('A', '192.0.2.1', 'www.example.org'),
        answer('RRSIG', {
          ...{ typeCovered: 'A', algorithm: 13, labels: 2, originalTTL: 5, expiration: 9, inception: 8, keyTag: 7 },
          ...{ signersName: 'example.org', signature: Buffer.alloc(64) },
        }),
        answer('NSEC', { nextDomain: 'x.example.org', rrtypes: ['A', 'TXT'] }),
      ],
    })
    const damage = fc.array(fc.tuple(fc.nat({ max: good.length - 1 }), fc.nat({ max: 255 })), {
      minLength: 1,
      maxLength: 8,
    })
    forAnyInput(damage, fc.nat({ max: good.length }), (changes, cut) => {
      const message = Buffer.from(good)
      for (const [at, byte] of changes) message[at] = byte
      const response = parseResponse(message.subarray(0, cut < 20 ? undefined : cut), asked)
      for (const answer of response?.answers ?? []) {
        if ('record' in answer) assert.match(String(answer.record.data), /^\d+\.\d+\.\d+\.\d+$/)
        else assert.ok(isQueryableName(answer.cname))
      }
    })
  })

  test('answers of any content are read as the codec library wrote them', () => {
    const label = fc.string({ unit: fc.constantFrom(...'abcxyz019-_'), minLength: 1, maxLength: 20 })
    const name = fc.array(label, { minLength: 1, maxLength: 5 }).map((labels) => labels.join('.'))
    const bytes = fc.uint8Array({ minLength: 1, maxLength: 60 }).map((data) => Buffer.from(data))
    const ttl = fc.nat({ max: 2 ** 31 - 1 })
    const content = {
      A: fc.ipV4(),
      AAAA: fc
        .tuple(...Array.from({ length: 8 }, () => fc.nat({ max: 0xffff })))
        .map((groups) => groups.map((group) => group.toString(16)).join(':')),
      NS: name,
      TXT: fc.array(bytes, { minLength: 1, maxLength: 5 }),
      CAA: fc.record({
        flags: fc.nat({ max: 255 }),
        tag: label,
        value: fc.string({ maxLength: 60 }).map((text) => text.replace(/[^ -~]/g, '')),
      }),
    }
    for (const type of ['A', 'AAAA', 'NS', 'TXT', 'CAA'] as const)
      forAllIn(
        propertyRuns(80),
        fc.array(fc.tuple(name, ttl, content[type] as fc.Arbitrary<unknown>), { maxLength: 8 }),
        (records) => {
          const asked = buildQuery('example.org', type, EDNS)
          const answers = records.map(
            ([owner, seconds, data]) => ({ type, name: owner, ttl: seconds, data }) as dnsPacket.Answer,
          )
          const message = reply(asked.bytes, { answers })
          const decoded = dnsPacket.decode(message).answers ?? []
          const read: readonly { owner: string; record?: DnsRecord }[] = parseResponse(message, asked)?.answers ?? []
          assert.equal(read.length, decoded.length)
          for (const [i, answer] of decoded.entries()) {
            const ours = read[i]
            assert.ok(ours?.record)
            assert.equal(ours.owner, answer.name)
            assert.equal(ours.record.ttlSeconds, 'ttl' in answer && answer.ttl)
            assert.deepEqual(comparable(ours.record.data), comparable('data' in answer && answer.data))
          }
        },
      )
  })
})

/** The library's form and ours of one content: addresses in one spelling, CAA by its parts, octets as text. */
function comparable(data: unknown): unknown {
  if (typeof data === 'string') return data.includes(':') ? new URL(`http://[${data}]`).hostname : data
  if (Array.isArray(data)) return data.map((part) => Buffer.from(part as Buffer).toString('hex'))
  const { tag, value, critical, flags } = data as { tag: string; value: string; critical?: boolean; flags?: number }
  return { tag: tag.toLowerCase(), value, critical: critical ?? ((flags ?? 0) & 128) !== 0 }
}
