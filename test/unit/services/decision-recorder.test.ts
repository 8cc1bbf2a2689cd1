/** Where decisions go before they are answered: the signer, else the file beside the instance. */

import assert from 'node:assert/strict'
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { MAX_DECISION_BYTES, MAX_DECISIONS } from '../../../src/ca/signer-records.ts'
import { type Decision, readDecision, recorded } from '../../../src/domain/decision.ts'
import { DecisionFile } from '../../../src/services/decisions/decision-file.ts'
import { DecisionRecorder, NotRecorded } from '../../../src/services/decisions/decision-recorder.ts'
import { uuidv7 } from '../../../src/shared/lib/uuid.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const IDENTITY = { id: '01938c4e-0000-7000-8000-000000000001', key: Buffer.alloc(32, 1) }

const aDecision = (details: Record<string, unknown> = {}): Decision => ({
  id: uuidv7(Date.now()),
  at: new Date().toISOString(),
  act: 'signing.stop',
  by: 'alice',
  details,
})

function aRecorder(take: ((payload: Buffer) => Promise<boolean>) | undefined, file?: DecisionFile) {
  const payloads: Buffer[] = []
  const reasons: string[] = []
  const noteDecisions = async (payload: Buffer) => {
    payloads.push(payload)
    return take ? take(payload) : true
  }
  const recorder = new DecisionRecorder({
    identity: IDENTITY,
    incarnation: () => undefined,
    records: take === undefined ? undefined : { noteDecisions },
    file,
    requester: 'tests',
    onFile: (reason) => reasons.push(reason),
    onDropped: () => undefined,
  })
  return { recorder, payloads, reasons, listed: () => payloads.flatMap((payload) => JSON.parse(String(payload))) }
}

describe('the recorder of decisions', () => {
  const folder = temporaryFolder()
  let made = 0
  const aFile = () => path.join(folder, `${made++}.jsonl`)
  const read = async (file: string) => (await new DecisionFile(file).read()).flatMap(({ lines }) => lines)

  test('tells the signer, and joins what waits within the bounds of a request', async () => {
    const { recorder, payloads, listed } = aRecorder(async () => true)
    const many = Array.from({ length: 3 * MAX_DECISIONS }, (_, n) => aDecision({ n, text: 'x'.repeat(900) }))
    await recorder.note(many)
    assert.ok(payloads.every((payload) => payload.length <= MAX_DECISION_BYTES))
    assert.deepEqual(
      listed().map((value) => (readDecision(IDENTITY, value) as Decision).details['n']),
      many.map((_, n) => n),
    )
  })

  test('tells acts that arrive together in one request', async () => {
    const { recorder, payloads } = aRecorder(async () => true)
    await recorder.note([aDecision(), aDecision(), aDecision()])
    assert.equal(payloads.length, 1)
  })

  test('leaves the details of one that is too long out', async () => {
    const { recorder, listed } = aRecorder(async () => true)
    await recorder.note([aDecision({ text: 'x'.repeat(MAX_DECISION_BYTES) })])
    assert.deepEqual((readDecision(IDENTITY, listed()[0]) as Decision).details, { cut: true })
  })

  const failures: [what: string, take: (() => Promise<boolean>) | undefined, reason: RegExp][] = [
    ['is away', () => Promise.reject(new Error('the signer does not answer')), /does not answer/],
    ['is of an earlier release', async () => false, /earlier release/],
    ['is none', undefined, /no certificate is signed here/],
  ]
  for (const [what, take, reason] of failures)
    test(`writes a file where the signer ${what}, and says that nothing is recorded where there is no file either`, async () => {
      const file = aFile()
      const { recorder, reasons } = aRecorder(take, new DecisionFile(file))
      const decision = aDecision({ name: 'ü' })
      await recorder.note([decision])
      assert.deepEqual(
        (await read(file)).map(({ value }) => readDecision(IDENTITY, value ?? {})),
        [decision],
      )
      if (take) assert.match(reasons[0] ?? '', reason)
      await assert.rejects(aRecorder(take).recorder.note([decision]), (error: Error) => {
        assert.ok(error instanceof NotRecorded)
        assert.match(error.message, reason)
        return true
      })
    })

  test('a file that cannot be written is said', async () => {
    const { recorder } = aRecorder(undefined, new DecisionFile(path.join('/proc', 'decisions.jsonl')))
    await assert.rejects(recorder.note([aDecision()]), /^NotRecorded: done, but not in a second place yet.*\/proc/)
  })

  test('a line that a crash left torn was never answered; a damaged one cannot be read', async () => {
    const file = aFile()
    const { recorder } = aRecorder(undefined, new DecisionFile(file))
    await recorder.note([aDecision()])
    appendFileSync(file, '\n{"database":"')
    await recorder.note([aDecision(), aDecision({ name: 'second' })])
    writeFileSync(file, readFileSync(file, 'utf8').replace(/\{(?=[^{]*"name)/, ''))
    appendFileSync(file, '\n{"torn')
    assert.deepEqual(
      (await read(file)).map(({ value }) => value !== undefined),
      [true, true, false],
    )
  })

  test('two processes that begin a file at the same moment leave one identity', async () => {
    const file = aFile()
    const [first, second] = ['a', 'b'].map((letter) => JSON.stringify({ decisions: letter.repeat(32) }))
    writeFileSync(file, `${first}\n${JSON.stringify(recorded(IDENTITY, aDecision()))}\n${second}\n`)
    const [found] = await new DecisionFile(file).read()
    assert.deepEqual([found?.id, found?.lines.length], ['a'.repeat(32), 1])
  })

  test('a long file becomes the former one, which is read, too', async () => {
    const file = aFile()
    const { recorder } = aRecorder(undefined, new DecisionFile(file))
    const first = aDecision()
    await recorder.note([first])
    appendFileSync(file, `\n${'x'.repeat(5 * 2 ** 20)}`)
    await recorder.note([aDecision()])
    assert.match(readFileSync(`${file}.1`, 'utf8'), new RegExp(first.id))
    assert.equal((await new DecisionFile(file).read()).length, 2)
  })
})

describe('a recorded decision', () => {
  test('is damaged when a letter of it changes, and foreign when it is of another database', () => {
    const value = recorded(IDENTITY, aDecision({ name: 'bob' }))
    assert.equal(readDecision(IDENTITY, { ...value, by: 'mallory' }), 'damaged')
    assert.equal(readDecision(IDENTITY, { ...value, details: { name: 'bab' } }), 'damaged')
    assert.equal(readDecision({ ...IDENTITY, id: '01938c4e-0000-7000-8000-000000000002' }, value), 'foreign')
    assert.equal(readDecision(IDENTITY, {}), 'damaged')
  })
})
