/** What people are told of acts that a fail-over has lost. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Outcome } from '../../../src/domain/decision.ts'
import { type LostAct, reportByOutcome, storyOf } from '../../../src/domain/lost-decisions.ts'

const FROM = new Date('2026-03-01T21:04:12.345Z')
const TO = new Date('2026-03-01T21:07:00Z')
const act = (outcome: Outcome, name: string, subject: string, second = 15): LostAct => ({
  at: new Date(Date.UTC(2026, 2, 1, 21, 4, second)),
  by: 'alice',
  act: name,
  subject,
  outcome,
})
const story = (decisions: readonly LostAct[], others: Partial<Parameters<typeof storyOf>[0]> = {}) =>
  storyOf({ from: FROM, to: TO, decisions, back: undefined, ...others })

describe('the story of a fail-over', () => {
  test('without a decision is that of certificates and revocations', () => {
    assert.deepEqual(story([], { back: '70 certificates and 1 revocation are back from the signer' }), {
      message: 'the database was behind its signer',
      reason: '70 certificates and 1 revocation are back from the signer',
      lines: [],
    })
  })

  test('says when, what is lost, what came back, and where to look', () => {
    const { message, reason, lines } = story(
      [
        act('restored', 'signing.stop', 'signing', 20),
        act('lost', 'user.create', 'bob', 16),
        act('partly', 'eab.update', 'web-1', 17),
        act('lost', 'eab.create', 'web-2', 15),
        act('overtaken', 'key.block', 'key ab', 18),
        act('entry', 'auth.login', '', 19),
      ],
      { back: '2 certificates and 0 revocations are back from the signer' },
    )
    assert.equal(message, 'the database was behind its signer, and 3 acts are lost')
    assert.equal(
      reason,
      '2 certificates and 0 revocations are back from the signer; 6 acts since 2026-03-01 21:04:12 UTC were missing: 3 are lost, wholly or in part; repeat what you still want (chancery reconcile --lost)',
    )
    assert.deepEqual(lines, [
      'From 2026-03-01 21:04:12 UTC to 2026-03-01 21:07:00 UTC the database lost 6 acts.',
      '2 certificates and 0 revocations are back from the signer.',
      '',
      'These acts are lost. Repeat what you still want.',
      '2026-03-01 21:04:15 UTC, EAB credential: create, web-2, by alice',
      '2026-03-01 21:04:16 UTC, User: create, bob, by alice',
      '',
      'Of these acts what restricts is back, and what permits is lost. Repeat what you still want.',
      '2026-03-01 21:04:17 UTC, EAB credential: update, web-1, by alice',
      '',
      'These acts are back. Nothing is to be done.',
      '2026-03-01 21:04:20 UTC, Signing: stop, signing, by alice',
      '',
      'After these acts came others that count, or what they were about is gone. Nothing is to be done.',
      '2026-03-01 21:04:18 UTC, Key: block, key ab, by alice',
      '',
      'Of 1 act nothing but its entry in the audit log was lost.',
      '',
      'All of them: "Lost decisions" in the console, or chancery reconcile --lost',
    ])
  })

  test('says so when nobody knows since when', () => {
    const { reason, lines } = story([act('lost', 'user.create', 'bob')], { from: undefined })
    assert.match(reason, /^1 act was missing: 1 is lost, wholly or in part; repeat/)
    assert.equal(lines[0], 'Until 2026-03-01 21:07:00 UTC the database lost 1 act; since when is not known.')
  })

  test('does not call anybody to repeat what came back', () => {
    const { message, reason } = story([act('restored', 'key.block', 'key ab')])
    assert.equal(message, 'the database was behind its signer')
    assert.match(reason, /^1 act since 2026-03-01 21:04:12 UTC was missing: none is lost$/)
  })

  test('puts lost accounts on one line, with the first ten', () => {
    const accounts = Array.from({ length: 12 }, (_, at) => act('lost', 'acme.new_account', `account-${at}`, at))
    const { lines } = story([...accounts, act('lost', 'user.create', 'bob', 30)])
    assert.deepEqual(lines.slice(3, 5), [
      '2026-03-01 21:04:00 UTC and later, ACME client: new account, 12 times: account-0, account-1, account-2, account-3, account-4, account-5, account-6, account-7, account-8, account-9 and 2 more',
      '2026-03-01 21:04:30 UTC, User: create, bob, by alice',
    ])
  })

  test('has a hundred acts at most, the lost ones first', () => {
    const many = (outcome: Outcome) => Array.from({ length: 80 }, (_, at) => act(outcome, 'eab.create', `web-${at}`))
    const { lines } = story([...many('restored'), ...many('lost')])
    assert.equal(lines.filter((line) => line.includes('by alice')).length, 100)
    assert.equal(lines.filter((line, at) => line.includes('by alice') && at < 85).length, 80)
    assert.deepEqual(lines.slice(-3), ['and 60 more: chancery reconcile --lost', '', lines.at(-1)])
  })

  test('keeps a text of strangers on its line, and short', () => {
    const hostile = act('lost', 'acme.update_contacts', `mailto:a@b.test\r\n\u2028Bcc: x${'y'.repeat(9_000)}`)
    const [line = ''] = story([hostile]).lines.slice(3, 4)
    assert.match(line, /mailto:a@b\.test Bcc: xyyy.*…, by alice$/)
    assert.ok(line.length < 500)
  })
})

test('a command is told all acts, those that ask for something first', () => {
  const lines = reportByOutcome([act('restored', 'key.block', 'key ab'), act('lost', 'user.create', 'bob')])
  assert.deepEqual(lines, [
    'These acts are lost. Repeat what you still want.',
    '2026-03-01 21:04:15 UTC, User: create, bob, by alice',
    '',
    'These acts are back. Nothing is to be done.',
    '2026-03-01 21:04:15 UTC, Key: block, key ab, by alice',
  ])
  assert.deepEqual(reportByOutcome([]), [])
})
