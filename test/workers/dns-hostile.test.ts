/** Name servers that mean harm: what their bytes can cost in time and memory, and what they cannot make anybody believe. */

import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { checkCaa } from '../../workers/caa-check.ts'
import { startDeadline } from '../../workers/deadline.ts'
import { createDnsClient } from '../../workers/dns/dns-client.ts'
import { exchangeTcp } from '../../workers/dns/dns-exchange.ts'
import { buildQuery, parseResponse } from '../../workers/dns/dns-message.ts'
import { readFrame } from '../../workers/dns/wire.ts'
import { WAIT_MS } from '../support/patience.ts'
import { caa } from './scripted-caa.ts'
import { cname, type Script, serve, viaTcp } from './scripted-dns.ts'
import { keptRaw } from './verdicts.ts'

const QUERY = buildQuery('host.example', 'CAA', { edns: true, dnssec: false, recursion: true })
const MAX_MESSAGE = 65_535
const HEADER_BYTES = 12
const TYPE = { CNAME: 5, TXT: 16, UNKNOWN: 65_280, CAA: 257 }

/** A response to QUERY with `answers` records, made of these bytes. */
function message(answers: number, ...parts: (Buffer | readonly number[])[]): Buffer {
  const head = Buffer.alloc(HEADER_BYTES)
  head.writeUInt16BE(QUERY.bytes.readUInt16BE(0), 0)
  head.writeUInt16BE(0x8180, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(answers, 6)
  return Buffer.concat([head, QUERY.question, ...parts.map((part) => Buffer.from(part))])
}
const u16 = (value: number) => [(value >> 8) & 0xff, value & 0xff]
const pointer = (to: number) => u16(0xc000 | to)
const record = (owner: readonly number[], type: number, data: readonly number[] | Buffer) =>
  Buffer.from([...owner, ...u16(type), ...u16(1), 0, 0, 0, 60, ...u16(data.length), ...data])
const OWNER = pointer(HEADER_BYTES)

/** The least of ten times: what this process does beside the work counts, too. */
function cpuMs(work: () => unknown): number {
  const times = Array.from({ length: 10 }, () => {
    const before = process.cpuUsage()
    work()
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1000
  })
  return Math.min(...times)
}

/** As many copies as fit a message. */
const filled = (part: Buffer, rest = 0) =>
  Array.from({ length: Math.floor((MAX_MESSAGE - 100 - rest) / part.length) }, () => part)

describe('compression', () => {
  test('an honest pointer is followed', () => {
    const data = [0, 5, ...Buffer.from('issueca.example')]
    const response = parseResponse(message(1, record(OWNER, TYPE.CAA, data)), QUERY)
    assert.equal(response?.answers.length, 1)
    assert.equal(response?.answers[0]?.owner, 'host.example')
  })
  const start = HEADER_BYTES + QUERY.question.length
  const bad: Record<string, Buffer> = {
    'a pointer to itself': message(1, record(pointer(start), TYPE.TXT, [])),
    'a pointer forward': message(1, record(pointer(start + 2), TYPE.TXT, []), [0, 0]),
    'two pointers at each other': message(
      1,
      [...pointer(start + 2), ...pointer(start)],
      record(pointer(start), TYPE.TXT, []),
    ),
    'labels that run into each other for ever': message(1, [1, 0x61, ...pointer(start)], record([], TYPE.TXT, [])),
    'a name of more than 255 octets': message(
      1,
      [...Array.from({ length: 5 }, () => [63, ...Buffer.alloc(63, 'a')]).flat(), 0],
      record([], TYPE.TXT, []),
    ),
    'a reserved label type': message(1, [0x40, 0], record([], TYPE.TXT, [])),
  }
  for (const [what, bytes] of Object.entries(bad)) {
    test(`${what} is malformed`, () => assert.equal(parseResponse(bytes, QUERY), undefined))
  }
  // Each of these points at the one before; an owner at the end would take as many steps.
  const steps = 7_000
  const pointers = Array.from({ length: steps }, (_, i) => Buffer.from(pointer(start + 12 + 2 * i)))
  const chain = record(OWNER, TYPE.UNKNOWN, Buffer.concat([Buffer.from(OWNER), ...pointers]))
  const end = start + 12 + 2 * steps
  test('a chain of thousands of pointers, asked for by thousands of records, costs next to nothing', () => {
    const one = record(pointer(end), TYPE.TXT, [])
    const many = filled(one, chain.length)
    const bytes = message(many.length + 1, chain, ...many)
    assert.ok(bytes.length <= MAX_MESSAGE && many.length > 3_000)
    assert.ok(cpuMs(() => assert.equal(parseResponse(bytes, QUERY), undefined)) < 50)
  })
  test('the same chain in the data of a thousand aliases costs no more', () => {
    const one = record(OWNER, TYPE.CNAME, pointer(end))
    const bytes = message(1001, chain, ...Array.from({ length: 1000 }, () => one))
    assert.ok(cpuMs(() => assert.equal(parseResponse(bytes, QUERY), undefined)) < 50)
  })
})

test('a dot inside a label makes no name of two labels', () => {
  const owner = [12, ...Buffer.from('host.example'), 0]
  const data = [0, 5, ...Buffer.from('issueca.example')]
  const response = parseResponse(message(1, record(owner, TYPE.CAA, data)), QUERY)
  assert.notEqual(response?.answers[0]?.owner, 'host.example')
  assert.equal(parseResponse(message(1, record(OWNER, TYPE.CNAME, owner)), QUERY), undefined)
})

describe('records', () => {
  test('more than a thousand are malformed, at no cost', () => {
    const many = filled(record(OWNER, TYPE.CAA, [0, 1, 0x61]))
    assert.ok(cpuMs(() => assert.equal(parseResponse(message(many.length, ...many), QUERY), undefined)) < 50)
  })
  test('counts that promise more than there is are malformed', () => {
    assert.equal(parseResponse(message(2, record(OWNER, TYPE.CAA, [0, 1, 0x61])), QUERY), undefined)
    assert.equal(parseResponse(message(MAX_MESSAGE), QUERY), undefined)
  })
  test('data of another length than its parts say is malformed', () => {
    for (const [type, number, data] of [
      ['A', 1, [127, 0, 0]],
      ['A', 1, [127, 0, 0, 1, 9]],
      ['AAAA', 28, [0, 1]],
      ['TXT', 16, [5, 0x61]],
      ['NS', 2, [1, 0x61]],
      ['NS', 2, [1, 0x61, 0, 0]],
      ['A', TYPE.CNAME, [1, 0x61, 0, 0]],
      ['DS', 43, [0, 1]],
      ['CAA', TYPE.CAA, [0]],
      ['CAA', TYPE.CAA, [0, 0, 0x61]],
      ['CAA', TYPE.CAA, [0, 9, 0x61]],
    ] as const) {
      const asked = { ...QUERY, type }
      assert.equal(parseResponse(message(1, record(OWNER, number, data)), asked), undefined, `${type}: ${data}`)
    }
  })
  test('a tag that reaches past its record does not borrow from the next one', () => {
    const bytes = message(
      2,
      record(OWNER, TYPE.CAA, [0, 5]),
      record(OWNER, TYPE.CAA, [0, 5, ...Buffer.from('issueca.example')]),
    )
    assert.equal(parseResponse(bytes, QUERY), undefined)
  })
  test('a value keeps every octet apart', () => {
    const data = Buffer.concat([
      Buffer.from([0x80, 5]),
      Buffer.from('IssUE'),
      Buffer.from([0x63, 0xc3, 0xa4, 0x00, 0xff]),
    ])
    const [answer] = parseResponse(message(1, record(OWNER, TYPE.CAA, data)), QUERY)?.answers ?? []
    assert.deepEqual(answer && 'record' in answer && answer.record.data, {
      critical: true,
      tag: 'issue',
      value: 'c\u00c3\u00a4\u0000\u00ff',
    })
  })
  test('of another class do not count', () => {
    const bytes = message(1, record(OWNER, TYPE.CAA, [0, 1, 0x61]))
    bytes.writeUInt16BE(3, HEADER_BYTES + QUERY.question.length + 4)
    assert.deepEqual(parseResponse(bytes, QUERY)?.answers, [])
  })
  test('any bytes have one frame or none, and its records lie inside the message one after the other', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        const whole = Buffer.concat([message(3), bytes])
        const frame = readFrame(whole)
        if (!frame) return
        assert.equal(frame.answers.length, 3)
        for (const [i, { start, end }] of frame.answers.entries()) {
          assert.ok(start >= (frame.answers[i - 1]?.end ?? 12) && end >= start && end <= whole.length)
        }
      }),
      { numRuns: 3000 },
    )
  })
})

describe('answers that are beside the point', () => {
  const aboutOthers: Record<string, Script> = {
    'records of another name': () => ({ answers: [caa('other.example', '0 issue "ca.example"')] }),
    'an alias of another name': () => ({
      answers: [cname('other.example', 'b.example'), caa('b.example', '0 issue "ca.example"')],
    }),
  }
  for (const [what, script] of Object.entries(aboutOthers)) {
    test(`${what} are not read as "no CAA records"`, async (t) => {
      const server = await serve(t, script)
      const dns = { resolvers: [server.resolver], zones: [], timeoutMs: WAIT_MS, retries: 0 }
      const subjects = [{ name: 'host.example', wildcard: false, method: 'http-01' }]
      const job = {
        subjects,
        identities: ['ca.example'],
        accountUri: 'x:y',
        unreachableOk: [],
        timeoutMs: WAIT_MS,
        dns,
      }
      const [finding] = await checkCaa(job)
      assert.equal(finding?.result, 'failed')
    })
  }
  test('a hundred records of other names beside the right ones change nothing', async (t) => {
    const decoys = Array.from({ length: 100 }, (_, i) => caa(`d${i}.example`, '0 issue "ca.example"'))
    const script = viaTcp(({ name }) => ({ answers: [...decoys, caa(name, '0 issue ";"')] }))
    const server = await serve(t, script)
    const dns = createDnsClient({ resolvers: [server.resolver], zones: [], timeoutMs: WAIT_MS, retries: 0 })
    const found = await dns.query('host.example', 'CAA', startDeadline(WAIT_MS))
    assert.deepEqual(found.kind === 'answer' && found.records.map(({ data }) => data.value), [';'])
  })
})

describe('over TCP', () => {
  async function tcp(t: TestContext, talk: (socket: Socket) => unknown, timeoutMs = WAIT_MS) {
    const { port } = await keptRaw(t, (socket) => void talk(socket.setNoDelay(true)))
    return exchangeTcp({ address: '127.0.0.1', port }, QUERY, timeoutMs, new AbortController().signal)
  }
  const reply = (bytes: Buffer) => Buffer.concat([Buffer.from(u16(bytes.length)), bytes])

  test('an answer that comes octet by octet is read', async (t) => {
    const bytes = reply(message(1, record(OWNER, TYPE.CAA, [0, 5, ...Buffer.from('issue;')])))
    const exchange = await tcp(t, async (socket) => {
      for (const octet of bytes) {
        if (socket.destroyed) return
        socket.write(Buffer.of(octet))
        await sleep(0)
      }
    })
    assert.equal(exchange.kind === 'response' && exchange.response.answers.length, 1)
  })
  test('the prefix alone, and then nothing, is silence at the deadline', async (t) => {
    const exchange = await tcp(t, (socket) => socket.write(Buffer.of(0xff, 0xff)), 500)
    assert.equal(exchange.kind, 'silence')
  })
  test('a message of no length is no answer, at once', async (t) => {
    const exchange = await tcp(t, (socket) => socket.write(Buffer.of(0, 0)))
    assert.deepEqual(exchange, { kind: 'failed', reason: 'the name server answered another question' })
  })
  test('what follows the message is not read', async (t) => {
    const bytes = reply(message(0))
    const exchange = await tcp(t, (socket) => socket.write(Buffer.concat([bytes, Buffer.alloc(100_000)])))
    assert.equal(exchange.kind, 'response')
  })
})

test('look-ups of parents that are not needed end with the verdict', async (t) => {
  const server = await serve(t, ({ name }) =>
    name === 'a.host.example' ? { answers: [caa(name, '0 issue "ca.example"')] } : 'drop',
  )
  const dns = { resolvers: [server.resolver], zones: [], timeoutMs: 600, retries: 2 }
  const subjects = [{ name: 'a.host.example', wildcard: false, method: 'http-01' }]
  await checkCaa({ subjects, identities: ['ca.example'], accountUri: 'x:y', unreachableOk: [], timeoutMs: 1200, dns })
  const asked = server.asked.length
  await sleep(400)
  assert.equal(server.asked.length, asked)
})
