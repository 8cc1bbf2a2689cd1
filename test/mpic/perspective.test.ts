import assert from 'node:assert/strict'
import { request as httpsRequest } from 'node:https'
import { after, before, describe, type TestContext, test } from 'node:test'
import pino from 'pino'
import { stringify } from 'yaml'
import { parseConfigText } from '../../src/config/load.ts'
import type { Config } from '../../src/config/schema.ts'
import { PERSPECTIVE_SECTIONS, type RunningPerspective, startPerspective } from '../../src/mpic/perspective-service.ts'
import { perspectiveSettings } from '../../src/settings/validation-settings.ts'
import { accountLabel } from '../../src/shared/protocol/challenge.ts'
import { loopbackCertificate, type TestCertificate, writeCertificate } from '../support/certificates.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { acmeCertificate, acmeIdentifier, DIGEST, ip, subjectAltName } from '../workers/acme-certificate.ts'
import { caa } from '../workers/scripted-caa.ts'
import { serve, txt } from '../workers/scripted-dns.ts'
import { keptTls } from '../workers/scripted-tls.ts'
import { answering, KEY_AUTHORIZATION, TOKEN } from '../workers/scripted-web.ts'
import { keptWeb } from '../workers/verdicts.ts'

const BEARER = 'a-token-of-this-test'
const DIGEST_TEXT = DIGEST.toString('base64url')

const folder = temporaryFolder()
let certificate: TestCertificate
let files: { cert: string; key: string }
before(async () => {
  certificate = await loopbackCertificate()
  files = writeCertificate(folder, 'server', certificate)
})

function configOf(sections: Record<string, unknown>): Config {
  const perspective = { code: 'here', bind: '127.0.0.1', cert_path: files.cert, key_path: files.key, tokens: [BEARER] }
  const text = stringify({ perspective, ...sections })
  const parsed = parseConfigText(text, { format: 'yaml', env: {}, sections: PERSPECTIVE_SECTIONS })
  assert.ok(parsed.ok, JSON.stringify(parsed))
  // Port 0 is for tests alone: whatever is free.
  return { ...parsed.config, perspective: { ...parsed.config.perspective, port: 0 } }
}

async function started(t: TestContext, sections: Record<string, unknown> = {}): Promise<RunningPerspective> {
  const running = await startPerspective(perspectiveSettings(configOf(sections), '1.0'), pino({ level: 'silent' }))
  t.after(() => running.stop(0))
  return running
}

interface Reply {
  status: number
  headers: Record<string, string | string[] | undefined>
  json: Record<string, unknown>
}

interface Asked {
  token?: string | undefined
  method?: string
  path?: string
  type?: string
  body?: string
}

function ask({ port }: RunningPerspective, what: object, changes: Asked = {}): Promise<Reply> {
  const { token = BEARER, method = 'POST', path: where = '/mpic', type = 'application/json' } = changes
  const headers = { 'content-type': type, ...(token !== '' && { authorization: `Bearer ${token}` }) }
  return new Promise((resolve, reject) => {
    const request = httpsRequest(
      { host: '127.0.0.1', port, method, path: where, headers, ca: certificate.cert },
      (response) => {
        let text = ''
        response.on('data', (chunk: Buffer) => (text += chunk.toString()))
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            json: JSON.parse(text) as Reply['json'],
          }),
        )
      },
    )
    request.on('error', reject)
    request.end(changes.body ?? JSON.stringify(what))
  })
}

/** `is_valid`, `mpic_completed`, and the first error of the one perspective. */
function outcome({ status, json }: Reply): { valid: unknown; completed: unknown; error: string } {
  assert.equal(status, 200, JSON.stringify(json))
  const [one, ...more] = json['perspectives'] as {
    perspective_code: string
    check_response: { check_passed: boolean; check_completed: boolean; errors: { error_message: string }[] }
  }[]
  assert.ok(one && more.length === 0 && one.perspective_code === 'here')
  const { check_passed, check_completed, errors } = one.check_response
  assert.deepEqual([check_passed, check_completed], [json['is_valid'], json['mpic_completed']])
  return { valid: check_passed, completed: check_completed, error: errors[0]?.error_message ?? '' }
}

/** Whether the check passes. */
const passes = async (running: RunningPerspective, what: object) => outcome(await ask(running, what)).valid === true
/** A check that was made and failed. @returns its error */
async function failure(running: RunningPerspective, what: object): Promise<string> {
  const { valid, completed, error } = outcome(await ask(running, what))
  assert.deepEqual([valid, completed], [false, true])
  return error
}

const dcv = (target: string, parameters: object) => ({
  check_type: 'dcv',
  domain_or_ip_target: target,
  dcv_check_parameters: parameters,
})
const http01 = { validation_method: 'acme-http-01', token: TOKEN, key_authorization: KEY_AUTHORIZATION }
const LOOPBACK = { zones: [{ zone: 'test', addresses: ['127.0.0.1'] }] }
const here = (method: string, port: number) => ({
  challenges: { [method]: { port, blocked_networks: [] } },
  dns: LOOPBACK,
})

describe('a perspective', () => {
  test('sees an http-01 answer, and that it is another', async (t) => {
    const web = await keptWeb(t, answering)
    const running = await started(t, here('http01', web.port))
    const reply = await ask(running, { ...dcv('demo.test', http01), trace_identifier: 'trace-7' })
    assert.deepEqual(outcome(reply), { valid: true, completed: true, error: '' })
    const { json } = reply
    assert.deepEqual(
      [json['check_type'], json['domain_or_ip_target'], json['trace_identifier']],
      ['dcv', 'demo.test', 'trace-7'],
    )
    const counts = { perspective_count: 1, quorum_count: 1, attempt_count: 1 }
    assert.deepEqual(json['actual_orchestration_parameters'], counts)
    const other = { ...http01, key_authorization: `${TOKEN}.other` }
    assert.match(await failure(running, dcv('demo.test', other)), /the body is not the key authorization/)
  })
  test('says what it met behind a redirect, as evidence for whoever asks', async (t) => {
    const web = await keptWeb(t, (request, response) => {
      if (request.url === '/x') response.writeHead(404).end()
      else response.writeHead(302, { location: '/x' }).end()
    })
    const running = await started(t, here('http01', web.port))
    assert.match(await failure(running, dcv('demo.test', http01)), /it redirects, .*: status 404 instead of 200$/)
  })
  test('sees a wildcard’s name where the name itself is', async (t) => {
    const web = await keptWeb(t, answering)
    const running = await started(t, here('http01', web.port))
    assert.equal(await passes(running, dcv('*.demo.test', http01)), true)
  })
  test('sees a tls-alpn-01 answer for a name and for an address', async (t) => {
    const parameters = { validation_method: 'acme-tls-alpn-01', key_authorization_hash: DIGEST.toString('hex') }
    const named = await keptTls(t)
    const first = await started(t, here('tlsalpn01', named.port))
    assert.equal(await passes(first, dcv('demo.test', parameters)), true)
    const certificate = acmeCertificate({ extensions: [subjectAltName(ip('127.0.0.1')), acmeIdentifier()] })
    const addressed = await keptTls(t, { certificate })
    const second = await started(t, here('tlsalpn01', addressed.port))
    assert.equal(await passes(second, dcv('127.0.0.1', parameters)), true)
    assert.equal(await passes(second, dcv('demo.test', parameters)), false)
  })
  test('sees records of dns-01 and dns-account-01', async (t) => {
    const label = accountLabel('https://ca.test/acct/1')
    const names = ['_acme-challenge.demo.test', `_${label}._acme-challenge.demo.test`]
    const { resolver } = await serve(t, ({ name, type }) =>
      type === 'TXT' && names.includes(name) ? { answers: [txt(name, DIGEST_TEXT)] } : {},
    )
    const running = await started(t, { dns: { resolvers: [resolver] } })
    const dns01 = { validation_method: 'acme-dns-01', key_authorization_hash: DIGEST_TEXT }
    assert.equal(await passes(running, dcv('demo.test', dns01)), true)
    assert.equal(await passes(running, dcv('other.test', dns01)), false)
    const account = {
      validation_method: 'dns-change',
      dns_record_type: 'TXT',
      require_exact_match: true,
      dns_name_prefix: `_${label}._acme-challenge`,
      challenge_value: DIGEST_TEXT,
    }
    assert.equal(await passes(running, dcv('demo.test', account)), true)
    const anyName = outcome(await ask(running, dcv('demo.test', { ...account, dns_name_prefix: '_dmarc' })))
    assert.deepEqual([anyName.valid, anyName.completed], [false, false])
  })
  test('does not connect where its own policy forbids it', async (t) => {
    const web = await keptWeb(t, answering)
    const running = await started(t, { challenges: { http01: { port: web.port } }, dns: LOOPBACK })
    for (const target of ['demo.test', '127.0.0.1'])
      assert.match(await failure(running, dcv(target, http01)), /no address that this server may connect to/)
    assert.equal(web.requests.length, 0)
  })
})

describe('a perspective looks at CAA records', () => {
  const bound = 'ca.test; accounturi=https://ca.test/acct/1; validationmethods=http-01'
  async function withRecords(t: TestContext, records: Record<string, string>, sections: object = {}) {
    const { resolver } = await serve(t, ({ name, type }) => {
      const value = type === 'CAA' ? records[name] : undefined
      return value === undefined ? {} : { answers: [caa(name, `0 issue "${value}"`)] }
    })
    return started(t, { dns: { resolvers: [resolver] }, ...sections })
  }
  const check = (target: string, parameters?: object) => ({
    check_type: 'caa',
    domain_or_ip_target: target,
    ...(parameters && { caa_check_parameters: parameters }),
  })

  test('for the issuers that it is asked about', async (t) => {
    const running = await withRecords(t, { 'demo.test': 'ca.test' })
    const ours = { certificate_type: 'tls-server', caa_domains: ['other.test', 'CA.test'] }
    assert.equal(await passes(running, check('www.demo.test', ours)), true)
    assert.match(await failure(running, check('www.demo.test', { caa_domains: ['other.test'] })), /do not permit/)
    assert.equal(await passes(running, check('*.free.test', { caa_domains: ['other.test'] })), true)
  })
  test('for its own where it is asked about none', async (t) => {
    const running = await withRecords(t, { 'demo.test': 'ca.test' }, { acme: { caa_identities: ['ca.test'] } })
    assert.equal(await passes(running, check('demo.test')), true)
    const alone = await withRecords(t, {})
    assert.equal(outcome(await ask(alone, check('demo.test'))).completed, false)
  })
  test('with account and method where it is told them, and without where not (RFC 8657)', async (t) => {
    const running = await withRecords(t, { 'demo.test': bound })
    const asked = (more: object) => ask(running, check('demo.test', { caa_domains: ['ca.test'], ...more }))
    assert.equal(outcome(await asked({})).valid, true)
    const right = { x_account_uri: 'https://ca.test/acct/1', x_validation_method: 'http-01' }
    assert.equal(outcome(await asked(right)).valid, true)
    assert.equal(outcome(await asked({ ...right, x_account_uri: 'https://ca.test/acct/2' })).valid, false)
    assert.equal(outcome(await asked({ ...right, x_validation_method: 'dns-01' })).valid, false)
  })
  test('and completes no check for addresses or for mail', async (t) => {
    const running = await withRecords(t, {})
    assert.equal(outcome(await ask(running, check('127.0.0.1', { caa_domains: ['ca.test'] }))).completed, false)
    const mail = { caa_domains: ['ca.test'], certificate_type: 's-mime' }
    assert.equal(outcome(await ask(running, check('demo.test', mail))).completed, false)
  })
})

describe('a perspective refuses', () => {
  let running: RunningPerspective
  before(async () => {
    running = await startPerspective(perspectiveSettings(configOf({}), '1.0'), pino({ level: 'silent' }))
  })
  after(() => running.stop(0))
  const good = dcv('demo.test', http01)

  for (const token of ['', 'wrong', `${BEARER}x`, BEARER.slice(1), BEARER.toUpperCase()]) {
    test(`the token ${JSON.stringify(token)}, before it reads anything`, async () => {
      const { status, headers, json } = await ask(running, good, { token, body: 'not JSON' })
      assert.deepEqual([status, headers['www-authenticate']], [401, 'Bearer'])
      assert.ok(!JSON.stringify(json).includes(BEARER))
    })
  }
  test('a stranger without a line in the log, unless it shows everything', async (t) => {
    const lines: string[] = []
    const log = pino({ level: 'info' }, { write: (line) => void lines.push(line) })
    const logged = await startPerspective(perspectiveSettings(configOf({}), '1.0'), log)
    t.after(() => logged.stop(0))
    await ask(logged, good, { token: 'wrong' })
    await ask(logged, good, { path: '/' })
    assert.deepEqual(
      lines.map((line) => (JSON.parse(line) as { status: number }).status),
      [404],
    )
  })
  const website = { validation_method: 'website-change', challenge_value: 'x' }
  const loose = {
    validation_method: 'dns-change',
    dns_record_type: 'TXT',
    dns_name_prefix: '_x',
    challenge_value: 'x',
    require_exact_match: false,
  }
  const rows: [string, Asked, number][] = [
    ['another path', { path: '/' }, 404],
    ['another method', { method: 'PUT' }, 405],
    ['another media type', { type: 'text/plain' }, 415],
    ['what is not JSON', { body: '{' }, 400],
    ['a list', { body: '[]' }, 400],
    ['a long body', { body: JSON.stringify({ ...good, pad: 'x'.repeat(20_000) }) }, 413],
    ['a check without type', { body: JSON.stringify({ ...good, check_type: undefined }) }, 400],
    ['a check without target', { body: JSON.stringify({ ...good, domain_or_ip_target: '' }) }, 400],
    ['a method that is not of ACME', { body: JSON.stringify(dcv('demo.test', website)) }, 400],
    ['a record that would only have to contain the value', { body: JSON.stringify(dcv('demo.test', loose)) }, 400],
  ]
  for (const [what, changes, status] of rows) {
    test(`${what} with ${status}`, async () => assert.equal((await ask(running, good, changes)).status, status))
  }
  for (const target of [
    'demo..test',
    'a b',
    'http://demo.test/',
    'demo.test:80',
    '127.1',
    '0x7f000001',
    '[::1]',
    '../x',
  ])
    test(`to look at ${target}`, async () => assert.equal(await passes(running, dcv(target, http01)), false))
  test('a token that would lead out of the well-known path', async () => {
    const parameters = { ...http01, token: '../../admin' }
    assert.equal(outcome(await ask(running, dcv('demo.test', parameters))).completed, false)
  })
})

describe('a perspective does not start', () => {
  const start = (perspective: object) =>
    startPerspective(perspectiveSettings(configOf({ perspective }), '1.0'), pino({ level: 'silent' })).then((running) =>
      running.stop(0),
    )
  test('without a certificate', async () => {
    await assert.rejects(start({ tokens: [BEARER] }), /cert_path and perspective.key_path are missing/)
  })
  test('open to everybody', async () => {
    await assert.rejects(start({ cert_path: files.cert, key_path: files.key }), /anybody could ask/)
  })
  test('with a file that is not there', async () => {
    await assert.rejects(
      start({ cert_path: '/nowhere', key_path: files.key, tokens: [BEARER] }),
      /\/nowhere cannot be read \(ENOENT\)/,
    )
  })
})
