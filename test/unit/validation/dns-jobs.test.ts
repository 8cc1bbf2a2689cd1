import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseConfigText } from '../../../src/config/load.ts'
import type { Config } from '../../../src/config/schema.ts'
import type { ValidationRequest } from '../../../src/services/challenge-triggers.ts'
import { jobSettings } from '../../../src/settings/validation-settings.ts'
import { accountLabel, type ChallengeType } from '../../../src/shared/protocol/challenge.ts'
import { createJobFactory } from '../../../src/validation/jobs.ts'
import type { DnsMethodJob, ValidationJob } from '../../../workers/job.ts'

function configOf(text: string): Config {
  const parsed = parseConfigText(
    `
server: {external_url: "https://acme.example.com"}
database: {database: chancery, user: chancery}
ca: {internal: {root_cert_path: /ca.pem, root_key_path: /ca.key}}
${text}`,
    { format: 'yaml', env: {} },
  )
  assert.ok(parsed.ok, JSON.stringify(parsed))
  return parsed.config
}

const ACCOUNT = '01938c4e-0000-7000-8000-000000000001'

function jobOf(text: string, type: ChallengeType, changes: Partial<ValidationRequest> = {}): ValidationJob {
  return createJobFactory(
    jobSettings(configOf(text), '1.0'),
    { enabled: [], extensions: { modules: [], settings: {} } },
    undefined,
  )({
    authorizationId: '01938c4e-0000-7000-8000-000000000010',
    accountId: ACCOUNT,
    type,
    identifier: { type: 'dns', value: 'demo.example' },
    wildcard: false,
    token: 'token',
    thumbprint: 'thumbprint',
    formerThumbprints: [],
    tries: 0,
    requestId: 'request',
    ...changes,
  })
}

const dnsOf = (text: string, type: ChallengeType) => (jobOf(text, type) as DnsMethodJob).dns
const RESOLVERS =
  'dns: {resolvers: [192.0.2.1], retries: 5, timeout_seconds: 7, zones: [{zone: corp, resolvers: [192.0.2.3]}]}'

describe('jobs of the DNS methods', () => {
  test('dns-account-01 is off by default', () => assert.deepEqual(configOf('').challenges.enabled, ['http-01']))
  test('dns.resolvers, its zones, time and retries serve a method that has no resolvers of its own', () =>
    assert.deepEqual(dnsOf(RESOLVERS, 'dns-01'), {
      resolvers: ['192.0.2.1'],
      zones: [{ zone: 'corp', resolvers: ['192.0.2.3'] }],
      timeoutMs: 7000,
      retries: 5,
    }))
  for (const [type, section] of [
    ['dns-01', 'dns01'],
    ['dns-account-01', 'dnsaccount01'],
  ] as const) {
    test(`the resolvers of ${type} take the place of dns.resolvers for it alone; zones stay`, () => {
      const text = `${RESOLVERS}\nchallenges: {${section}: {resolvers: ["192.0.2.2:5353"]}}`
      assert.deepEqual(dnsOf(text, type).resolvers, ['192.0.2.2:5353'])
      assert.deepEqual(dnsOf(text, type).zones, [{ zone: 'corp', resolvers: ['192.0.2.3'] }])
      assert.deepEqual(dnsOf(text, 'http-01').resolvers, ['192.0.2.1'])
    })
    test(`the settings of ${type} arrive in its job`, () => {
      const text = `challenges: {${section}: {timeout_seconds: 20, propagation_wait_seconds: 4, require_dnssec: true, require_authoritative: true}}`
      const job = jobOf(text, type) as DnsMethodJob
      assert.deepEqual(
        [job.timeoutMs, job.propagationWaitMs, job.requireDnssec, job.requireAuthoritative],
        [20_000, 4000, true, true],
      )
    })
  }
  test('the propagation wait belongs to the first attempt', () =>
    assert.equal((jobOf('', 'dns-01', { tries: 1 }) as DnsMethodJob).propagationWaitMs, 0))
  test('dns-account-01 gets the label of the account URL as the client knows it', () => {
    const job = jobOf('api: {base_path: /acme}', 'dns-account-01')
    const label = accountLabel(`https://acme.example.com/acme/acct/${ACCOUNT}`)
    assert.equal(job.type === 'dns-account-01' && job.accountLabel, label)
  })
  test('an account of a former server is judged by the URL that its client knows, not by the one that it has here', () => {
    const url = 'https://acme.example.com/old/acct/7'
    for (const type of ['dns-account-01', 'dns-persist-01'] as const) {
      const job = jobOf('api: {base_path: /acme}', type, { accountPath: '/old/acct/7' })
      assert.equal('accountUrl' in job && job.accountUrl, url)
      if (job.type === 'dns-account-01') assert.equal(job.accountLabel, accountLabel(url))
    }
  })
  for (const [list, name, least] of [
    ['builtin', 'a.shop.example.co.uk', 3],
    ['builtin', 'a.shop.example.com', 2],
    ['builtin', 'a.b.c.kawasaki.jp', 4],
    ['builtin', 'co.uk', 3],
    ['none', 'a.shop.example.co.uk', undefined],
  ] as const) {
    test(`with the public suffix list ${list}, names above ${name} have ${least ?? 'any number of'} labels or more`, () => {
      const text = `
challenges: {dnspersist01: {allow_subdomain_policy: true}}
security: {identifier_policy: {public_suffix_list: ${list}}}`
      const job = jobOf(text, 'dns-persist-01', { identifier: { type: 'dns', value: name } })
      assert.equal(job.type === 'dns-persist-01' && job.leastLabelsAbove, least)
    })
  }
})
