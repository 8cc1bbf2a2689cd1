/** What an administrator should look at. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { InstanceState } from '../../../src/domain/alarms.ts'
import { type AlarmFacts, alarmsOf } from '../../../src/domain/alarms.ts'

const NOW = new Date('2026-03-01T12:00:00Z')
const later = (days: number) => new Date(NOW.getTime() + days * 86_400_000)
const INSTANCE: InstanceState = {
  database: 'ok',
  pool: { max: 4, size: 1, available: 4, waiting: 0 },
  caBackend: { status: 'ok', reason: undefined, tokens: [] },
  dnsResolver: undefined,
  issuers: [{ id: 'default', certificate: Buffer.alloc(0), notAfter: later(400) }],
}
const QUIET: AlarmFacts = {
  now: NOW,
  instance: INSTANCE,
  databaseBehindSince: undefined,
  lostDecisions: 0,
  crl: { isPublished: true, isStale: false, obstacle: undefined },
  isSigningStopped: false,
  isInMaintenance: false,
  workers: { tasks: [], consumers: [] },
  deadLetters: 0,
  failedNotifications: 0,
  oldestValidationSeconds: 0,
  failingMail: null,
  raised: [],
  emergencies: 0,
}
const of = (facts: Partial<AlarmFacts>) =>
  alarmsOf({ ...QUIET, ...facts }).map(({ severity, code, message }) => `${severity} ${code}: ${message}`)
const issuerThatEnds = (days: number) => ({
  ...INSTANCE,
  issuers: [{ ...INSTANCE.issuers[0]!, notAfter: later(days) }],
})
const task = (failedAt: Date, lastRunAt: Date) => ({
  name: 'cleanup',
  leader: 1,
  leaderIsAlive: true,
  nextRunAt: NOW,
  errors: 1,
  lastError: 'no room',
  failedAt,
  lastRunAt,
})

const cases: readonly (readonly [what: string, facts: Partial<AlarmFacts>, expected: readonly string[]])[] = [
  ['a quiet service has none', {}, []],
  ['no CRL is no stale CRL', { crl: { isPublished: false, isStale: true, obstacle: undefined } }, []],
  [
    'a stale CRL says why',
    { crl: { isPublished: true, isStale: true, obstacle: 'signer away' } },
    ['error crl: a CRL is stale: signer away'],
  ],
  [
    'a database behind its signer',
    { databaseBehindSince: NOW },
    [`error database_behind: since ${NOW.toISOString()} the database lacks what the signer has recorded`],
  ],
  [
    'acts that a fail-over has lost',
    { lostDecisions: 2 },
    ['error lost_decisions: a fail-over has lost 2 acts: repeat what you still want'],
  ],
  ['a silent instance', { instance: undefined }, ['error instance: the instance that answers does not say how it is']],
  [
    'an issuer that ends',
    { instance: issuerThatEnds(13) },
    ['error issuer: the certificate of the issuer default ends in 13 days'],
  ],
  [
    'an issuer that ends later',
    { instance: issuerThatEnds(60) },
    ['warning issuer: the certificate of the issuer default ends in 60 days'],
  ],
  [
    'an issuer that has ended',
    { instance: issuerThatEnds(-1) },
    ['error issuer: the certificate of the issuer default has expired'],
  ],
  [
    'a token that is away',
    {
      instance: {
        ...INSTANCE,
        caBackend: {
          status: 'error',
          reason: 'CA backend unavailable',
          tokens: [{ issuer: 'default', status: 'away', since: '2026-03-01T11:00:00Z' }],
        },
      },
    },
    ['error signer: CA backend unavailable', 'error token: the token with the key of default is away'],
  ],
  [
    'errors come first',
    { isInMaintenance: true, isSigningStopped: true, deadLetters: 1 },
    [
      'error signing_stopped: signing is stopped: no certificate and no CRL is signed',
      'warning maintenance: maintenance mode is on: new orders are refused',
      'warning dead_letters: 1 event could not be delivered',
    ],
  ],
  [
    'a task that failed at its last run',
    { workers: { tasks: [task(NOW, NOW)], consumers: [] } },
    ['warning task: the task cleanup has failed: no room'],
  ],
  [
    'mail that fails says since when, and why',
    { failingMail: { since: NOW, error: 'connect ECONNREFUSED' }, failedNotifications: 1 },
    [
      `error mail: no mail has gone out since ${NOW.toISOString()}: connect ECONNREFUSED`,
      'warning notifications: 1 notification could not be sent',
    ],
  ],
  [
    'an alarm that was raised says what and when, and is a warning once its hour is over',
    {
      raised: [
        { message: 'a CRL cannot be published', reason: 'signer away', times: 2, lastAt: later(-0.01) },
        { message: 'an old one', reason: null, times: 1, lastAt: later(-0.5) },
      ],
    },
    [
      `error alarm_event: a CRL cannot be published: signer away (2 times, last at ${later(-0.01).toISOString()})`,
      `warning alarm_event: an old one (at ${later(-0.5).toISOString()})`,
    ],
  ],
  ['a task that ran since', { workers: { tasks: [task(later(-0.01), NOW)], consumers: [] } }, []],
]

for (const [what, facts, expected] of cases) test(what, () => assert.deepEqual(of(facts), expected))
