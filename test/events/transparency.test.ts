/** Submission to transparency logs (RFC 6962). */

import assert from 'node:assert/strict'
import { createHash, X509Certificate } from 'node:crypto'
import { after, afterEach, before, beforeEach, describe, test } from 'node:test'
import { transparencyConsumer } from '../../src/events/transparency.ts'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { loopbackCertificate } from '../support/certificates.ts'
import { until } from '../support/until.ts'
import { type EventFixture, eventFixture } from './support.ts'
import { TestLog } from './transparency-log.ts'

describe('certificate transparency', () => {
  let fixture: EventFixture
  let log: TestLog
  let url: string
  before(async () => {
    fixture = await eventFixture()
    await fixture.run(`INSERT INTO event_consumers (name, kinds) VALUES ('observer', '{ct.submission}')`)
  })
  after(() => fixture.close())
  beforeEach(async () => {
    log = new TestLog()
    url = await log.listen()
  })
  afterEach(() => log.close())

  async function anIssuedCertificate(): Promise<string> {
    const der = new X509Certificate((await loopbackCertificate()).cert).raw
    const fingerprint = createHash('sha256').update(der).digest()
    const id = uuidv7(Date.now())
    await fixture.run('INSERT INTO issuers (fingerprint, certificate, chain) VALUES ($1, $2, $3)', [
      fingerprint,
      der,
      [der],
    ])
    await fixture.run(
      `INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
       VALUES ($1, gen_random_uuid(), gen_random_uuid(), $2, $3, '{localhost}', now(), now() + interval '1 day', $4)`,
      [id, fingerprint.subarray(0, 16), fingerprint, der],
    )
    return id
  }

  async function submitting(key: 'its key' | 'no key' | 'another key' = 'its key', timeoutMs = 60_000) {
    const keys = { 'its key': log.keys.publicKey, 'no key': undefined, 'another key': new TestLog().keys.publicKey }
    return fixture.delivering(transparencyConsumer({ url, key: keys[key], timeoutMs }, fixture.db))
  }

  const timestampsOf = (id: string) =>
    fixture.run(`SELECT log_url, signed_at, verified FROM signed_certificate_timestamps WHERE certificate_id = $1`, [
      id,
    ])
  const submissions = (id: string) =>
    fixture.run(`SELECT data FROM event_deliveries WHERE consumer = 'observer' AND subject = $1`, [id])
  const deadLetter = () =>
    fixture.run('SELECT error, attempts FROM event_dead_letters WHERE consumer LIKE $1', [`%${url}`])

  /** Submits one certificate to the end. */
  async function submit(...[key, timeoutMs]: Parameters<typeof submitting>): Promise<string> {
    const running = await submitting(key, timeoutMs)
    const id = await anIssuedCertificate()
    await until('the submission has ended', async () => (await fixture.waiting(running.consumer)) === 0, 60_000)
    await running.end()
    return id
  }

  test('an issued certificate is submitted with its chain, and its timestamp is checked, stored and announced', async () => {
    const id = await submit()
    assert.deepEqual(await timestampsOf(id), [{ log_url: url, signed_at: new Date(1_800_000_000_123), verified: true }])
    const [event, ...others] = (await submissions(id)) as { data: { ct_log_url: string; sct: { timestamp: number } } }[]
    assert.equal(event?.data.ct_log_url, url)
    assert.equal(event?.data.sct.timestamp, 1_800_000_000_123)
    assert.equal(others.length, 0)
  })

  test('without the key of the log its answer is stored unchecked', async () => {
    const id = await submit('no key')
    assert.equal((await timestampsOf(id))[0]?.verified, false)
  })

  test('a log that is unavailable is asked again', async () => {
    log.answers = ['unavailable']
    const id = await submit()
    assert.equal(log.submissions, 2)
    assert.equal((await timestampsOf(id)).length, 1)
  })

  test('a log that does not answer in time is asked again', async () => {
    log.answers = ['hang']
    const id = await submit('its key', 2_000)
    assert.ok(log.submissions > 1)
    assert.equal((await timestampsOf(id)).length, 1)
  })

  for (const [what, error, key, ...answers] of [
    ['a timestamp that another key has signed', 'the log’s signature is wrong', 'another key'],
    ['a timestamp for other bytes', 'the log’s signature is wrong', 'its key', 'sign another'],
    ['a refusal of the chain', 'the log answered 400: unknown root', 'its key', 'refuse'],
    ['an answer that is no timestamp', 'the log’s answer is no signed timestamp', 'its key', 'talk'],
  ] as const)
    test(`${what} is a dead letter with its reason, and the log is not asked again`, async () => {
      log.answers = [...answers]
      const id = await submit(key)
      assert.deepEqual([await timestampsOf(id), await submissions(id)], [[], []])
      assert.deepEqual(await deadLetter(), [{ error, attempts: 1 }])
    })
})
