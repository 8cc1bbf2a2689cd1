import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { RequestListener } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { before, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Corroboration, type CorroborationOptions } from '../../src/mpic/corroboration.ts'
import type { CheckOutcome, MpicRequest } from '../../src/mpic/perspective-api.ts'
import { type PerspectiveServerOptions, startPerspectiveServer } from '../../src/mpic/perspective-server.ts'
import {
  createRemotePerspective,
  type PerspectiveSettings,
  type RemotePerspective,
} from '../../src/mpic/remote-perspective.ts'
import type { CaaJob, ValidationJob, ValidationVerdict } from '../../workers/job.ts'
import { loopbackCertificate, type TestCertificate } from '../support/certificates.ts'
import { each } from '../support/each.ts'
import { WAIT_MS } from '../support/patience.ts'
import { aJob } from '../workers/scripted-web.ts'
import { FOR_EVER_MS, stepsOf } from '../workers/verdicts.ts'

const TOKEN = 'a token of this test'.replaceAll(' ', '-')
let certificate: TestCertificate
before(async () => {
  certificate = await loopbackCertificate()
})

const YES: CheckOutcome = { passed: true, completed: true, details: {} }
const no = (message = 'saw something else'): CheckOutcome => ({
  passed: false,
  completed: true,
  details: {},
  error: { type: 'incorrectResponse:http-01', message },
})
const UNSURE: CheckOutcome = {
  passed: false,
  completed: false,
  details: {},
  error: { type: 'serverInternal:http-01', message: 'out of order' },
}
type Check = (request: MpicRequest) => CheckOutcome | Promise<CheckOutcome>

/** A server whose checks are scripted. */
async function serving(t: TestContext, check: Check, changes: Partial<PerspectiveServerOptions> = {}) {
  const asked: MpicRequest[] = []
  const server = await startPerspectiveServer({
    bind: '127.0.0.1',
    port: 0,
    ...certificate,
    clientCa: undefined,
    tokens: [TOKEN],
    code: 'scripted',
    async check(request) {
      asked.push(request)
      return check(request)
    },
    onAnswered() {},
    onFault() {},
    ...changes,
  })
  t.after(() => server.close(0))
  return { url: `https://127.0.0.1:${server.port}`, asked }
}

function remote(t: TestContext, url: string, changes: Partial<PerspectiveSettings> = {}): RemotePerspective {
  const settings = {
    name: url,
    region: undefined,
    url,
    token: TOKEN,
    ca: certificate.cert,
    clientCertificate: undefined,
  }
  const perspective = createRemotePerspective({ ...settings, ...changes })
  t.after(() => perspective.close())
  return perspective
}

/** Perspectives by name, each with its script. */
async function perspectives(t: TestContext, checks: Record<string, Check>): Promise<RemotePerspective[]> {
  return Promise.all(
    Object.entries(checks).map(async ([name, check]) => remote(t, (await serving(t, check)).url, { name })),
  )
}

function corroboration(list: readonly RemotePerspective[], changes: Partial<CorroborationOptions> = {}) {
  return new Corroboration({
    perspectives: list,
    policy: { maxNonCorroborations: undefined, minRegions: 1 },
    timeoutMs: WAIT_MS,
    newTraceId: () => 'trace-1',
    ...changes,
  })
}

const good = (): ValidationVerdict => ({
  ok: true,
  evidence: [{ step: 'primary' }],
  validForSeconds: 60,
  caa: 'permitted',
})
const CAA: CaaJob = {
  subjects: [{ name: 'demo.test', wildcard: false, method: 'http-01' }],
  identities: ['ca.test'],
  accountUri: 'https://ca.test/acct/1',
  unreachableOk: [],
  timeoutMs: 1000,
  dns: { resolvers: [], zones: [], timeoutMs: 1000, retries: 0 },
}
const job: ValidationJob = aJob(80)
const withCaa = { ...job, caa: CAA } as ValidationJob
const never = () => new Promise<CheckOutcome>(() => {})

function assertNot(verdict: ValidationVerdict, problem: string, detail: RegExp): void {
  assert.ok(!verdict.ok, 'the verdict is good')
  assert.deepEqual([verdict.problem, verdict.retryable], [problem, true])
  assert.match(verdict.detail, detail)
}
const results = (verdict: ValidationVerdict) =>
  Object.fromEntries(stepsOf(verdict, 'perspective').map(({ name, result }) => [name, result]))

describe('a verdict of the primary perspective', () => {
  test('that is good stands when two corroborate it, with the evidence of all', async (t) => {
    const list = await perspectives(t, { a: () => YES, b: () => YES })
    const verdict = await corroboration(list).verdict(job, good())
    assert.ok(verdict.ok)
    assert.equal(verdict.validForSeconds, 60)
    assert.deepEqual(results(verdict), { a: 'corroborated', b: 'corroborated' })
    assert.deepEqual(verdict.evidence[0], { step: 'primary' })
    assert.deepEqual(stepsOf(verdict, 'corroboration'), [
      { step: 'corroboration', check: 'dcv', of: 2, corroborated: 2, needed: 1, result: 'corroborated' },
    ])
  })
  test('that twelve corroborate raises no warning about listeners', async (t) => {
    const warnings: Error[] = []
    const onWarning = (warning: Error) => void warnings.push(warning)
    process.on('warning', onWarning)
    t.after(() => process.removeListener('warning', onWarning))
    const { url } = await serving(t, () => YES)
    const list = Array.from({ length: 12 }, (_, index) => remote(t, url, { name: `p${index}` }))
    assert.ok((await corroboration(list).verdict(job, good())).ok)
    await sleep(10)
    assert.deepEqual(warnings, [])
  })
  test('that is bad asks nobody', async (t) => {
    const server = await serving(t, () => YES)
    const bad: ValidationVerdict = { ok: false, problem: 'dns', detail: 'x', retryable: true, evidence: [] }
    assert.equal(await corroboration([remote(t, server.url)]).verdict(job, bad), bad)
    assert.equal(server.asked.length, 0)
  })
  test('that nobody corroborates is unauthorized, and quotes nobody', async (t) => {
    const list = await perspectives(t, { a: () => no('SECRET'), b: () => no('SECRET') })
    const verdict = await corroboration(list).verdict(job, good())
    assertNot(
      verdict,
      'unauthorized',
      /^control was shown here, but 0 of 2 remote perspectives corroborate it, and 1 must$/,
    )
    assert.deepEqual(results(verdict), { a: 'refused', b: 'refused' })
    assert.match(String(stepsOf(verdict, 'perspective')[0]?.['reason']), /SECRET/)
  })
  test('stands with one of two against it, and falls with two of three (BR 3.2.2.9)', async (t) => {
    const list = await perspectives(t, { a: () => YES, b: () => no(), c: () => no() })
    assert.ok((await corroboration(list.slice(0, 2)).verdict(job, good())).ok)
    assertNot(await corroboration(list).verdict(job, good()), 'unauthorized', /1 of 3 .* and 2 must$/)
  })
  test('needs the regions it is told to need', async (t) => {
    const { url } = await serving(t, () => YES)
    const ripe = [1, 2, 3].map((n) => remote(t, url, { name: `r${n}`, region: 'ripe' }))
    const policy = { maxNonCorroborations: undefined, minRegions: 2 }
    assertNot(
      await corroboration(ripe, { policy }).verdict(job, good()),
      'serverInternal',
      /3 of 3 .* in 2 regions must$/,
    )
    const both = [...ripe, remote(t, url, { name: 'arin', region: 'arin' })]
    assert.ok((await corroboration(both, { policy }).verdict(job, good())).ok)
  })
  test('of a method that cannot be asked about is not good', async () => {
    const challenge = { type: 'x', identifier: { type: 'dns', value: 'a.test' } } as const
    const strange = { type: 'extension', challenge, timeoutMs: 1 } as unknown as ValidationJob
    const verdict = await corroboration([]).verdict(strange, good())
    assert.ok(!verdict.ok && verdict.problem === 'serverInternal' && !verdict.retryable)
  })
})

describe('a perspective does not corroborate when it', () => {
  async function single(perspective: RemotePerspective, changes: Partial<CorroborationOptions> = {}) {
    const verdict = await corroboration([perspective], changes).verdict(job, good())
    assertNot(verdict, 'serverInternal', /0 of 1 remote perspectives corroborate it, and 1 must$/)
    const [step] = stepsOf(verdict, 'perspective')
    assert.equal(step?.['result'], 'failed')
    return String(step?.['reason'])
  }

  test('cannot say', async (t) =>
    assert.match(
      await single(...((await perspectives(t, { a: () => UNSURE })) as [RemotePerspective])),
      /out of order/,
    ))
  test('hangs', async (t) => {
    const { url } = await serving(t, never)
    assert.equal(await single(remote(t, url), { timeoutMs: 300 }), 'no answer in time')
  })
  test('is not there', async (t) => {
    assert.equal(await single(remote(t, 'https://127.0.0.1:1')), 'ECONNREFUSED')
  })
  test('does not know the token', async (t) => {
    const { url, asked } = await serving(t, () => YES)
    assert.equal(await single(remote(t, url, { token: 'another-token-altogether' })), 'status 401')
    assert.equal(await single(remote(t, url, { token: undefined })), 'status 401')
    assert.equal(asked.length, 0)
  })
  test('is vouched for by nobody', async (t) => {
    const { url } = await serving(t, () => YES)
    assert.match(await single(remote(t, url, { ca: undefined })), /SELF_SIGNED/)
    assert.match(await single(remote(t, url, { ca: (await loopbackCertificate()).cert })), /SIGNATURE|SELF_SIGNED/)
  })
  test('has a certificate for another name', async (t) => {
    const { url } = await serving(t, () => YES)
    assert.equal(await single(remote(t, url.replace('127.0.0.1', '127.0.0.2'))), 'ECONNREFUSED')
    const other = await serving(t, () => YES, { bind: '127.0.0.2' })
    const there = other.url.replace('127.0.0.1', '127.0.0.2')
    assert.match(await single(remote(t, there)), /ALTNAME/)
  })
  test('throws', async (t) => {
    const { url } = await serving(t, () => Promise.reject(new Error('SECRET')))
    assert.equal(await single(remote(t, url)), 'status 500')
  })
  test('wants a client certificate and gets none, or a stranger’s', async (t) => {
    const own = await loopbackCertificate()
    const { url, asked } = await serving(t, () => YES, { clientCa: own.cert })
    assert.match(await single(remote(t, url)), /ECONNRESET|EPIPE|CERTIFICATE_REQUIRED|socket hang up/i)
    const stranger = await loopbackCertificate()
    assert.notEqual(await single(remote(t, url, { clientCertificate: stranger })), '')
    assert.equal(asked.length, 0)
    const known = remote(t, url, { clientCertificate: own })
    assert.ok((await corroboration([known]).verdict(job, good())).ok)
  })

  /** Any HTTPS server at all. */
  async function anyServer(t: TestContext, listener: RequestListener): Promise<RemotePerspective> {
    const server = createServer(certificate, listener).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.after(() => {
      server.closeAllConnections()
      server.close()
    })
    return remote(t, `https://127.0.0.1:${(server.address() as AddressInfo).port}/sub/`)
  }
  const answer = (changes: object) => ({
    check_type: 'dcv',
    domain_or_ip_target: 'demo.test',
    is_valid: true,
    mpic_completed: true,
    actual_orchestration_parameters: { perspective_count: 1, quorum_count: 1, attempt_count: 1 },
    perspectives: [{ perspective_code: 'x', check_response: { check_passed: true, check_completed: true } }],
    ...changes,
  })
  const bodies: Record<string, [string, RegExp]> = {
    'sends no JSON': ['<html>', /not an answer/],
    'sends nothing': ['', /not an answer/],
    'sends another object': ['{"is_valid":true}', /not an answer/],
    'says yes as a text': [JSON.stringify(answer({ is_valid: 'true' })), /not an answer/],
    'answers about another name': [JSON.stringify(answer({ domain_or_ip_target: 'other.test' })), /another question/],
    'answers about CAA': [JSON.stringify(answer({ check_type: 'caa' })), /another question/],
    'is in monitoring mode': [
      JSON.stringify(answer({ actual_orchestration_parameters: { quorum_count: 0 } })),
      /without perspectives/,
    ],
    'names no perspective': [JSON.stringify(answer({ perspectives: [] })), /without perspectives/],
    'says yes for perspectives that say no': [
      JSON.stringify(
        answer({
          perspectives: [{ perspective_code: 'x', check_response: { check_passed: false, check_completed: true } }],
        }),
      ),
      /without perspectives/,
    ],
    'did not complete': [JSON.stringify(answer({ mpic_completed: false })), /not completed/],
    'sends a megabyte': [`${JSON.stringify(answer({}))}${' '.repeat(1_000_000)}`, /too long/],
  }
  for (const [what, [body, reason]] of Object.entries(bodies)) {
    test(what, async (t) => {
      const perspective = await anyServer(t, (_request, response) => void response.end(body))
      assert.match(await single(perspective), reason)
    })
  }
  test('redirects', async (t) => {
    const perspective = await anyServer(
      t,
      (_request, response) => void response.writeHead(302, { location: '/' }).end(),
    )
    assert.equal(await single(perspective), 'status 302')
  })
  test('drips', async (t) => {
    const perspective = await anyServer(t, (_request, response) => {
      const timer = setInterval(() => response.write(' '), 20)
      response.on('close', () => clearInterval(timer))
    })
    assert.equal(await single(perspective, { timeoutMs: 300 }), 'no answer in time')
  })
  test('sends informational responses without end', async (t) => {
    const piece = 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(2048)
    const most = 64 * 1024 * 1024
    let sent = 0
    const perspective = await anyServer(t, ({ socket }) => {
      const more = () => {
        while (!socket.destroyed && sent < most) {
          sent += piece.length
          if (!socket.write(piece)) return
        }
        socket.destroy()
      }
      socket.on('drain', more)
      more()
    })
    assert.match(await single(perspective), /too long/)
    assert.ok(sent < most / 2, `${sent} bytes were sent`)
  })
  test('is asked below the path of its URL', async (t) => {
    let asked: string | undefined
    const perspective = await anyServer(t, (request, response) => {
      asked = `${request.method} ${request.url}`
      response.end(JSON.stringify(answer({})))
    })
    assert.ok((await corroboration([perspective]).verdict(job, good())).ok)
    assert.equal(asked, 'POST /sub/mpic')
  })
})

describe('time', () => {
  test('perspectives that hang when the quorum is met cost a moment and are reported', async (t) => {
    const list = await perspectives(t, { a: () => YES, b: () => YES, c: never })
    const verdict = await corroboration(list, { graceMs: 200, timeoutMs: FOR_EVER_MS }).verdict(job, good())
    assert.ok(verdict.ok)
    assert.deepEqual(results(verdict), { a: 'corroborated', b: 'corroborated', c: 'failed' })
  })
  test('perspectives that answer within that moment are counted', async (t) => {
    const slow = async () => {
      await sleep(150)
      return no()
    }
    const list = await perspectives(t, { a: () => YES, b: () => YES, c: slow })
    const verdict = await corroboration(list, { graceMs: 60_000, timeoutMs: FOR_EVER_MS }).verdict(job, good())
    assert.deepEqual(results(verdict), { a: 'corroborated', b: 'corroborated', c: 'refused' })
  })
  test('an outcome that cannot be good any more waits for nobody longer than that', async (t) => {
    const list = await perspectives(t, { a: () => no(), b: () => no(), c: never })
    const verdict = await corroboration(list, { graceMs: 200, timeoutMs: FOR_EVER_MS }).verdict(job, good())
    assertNot(verdict, 'unauthorized', /0 of 3/)
  })
})

describe('CAA', () => {
  const byCheck =
    (dcv: CheckOutcome, caa: CheckOutcome): Check =>
    ({ check_type }) =>
      check_type === 'dcv' ? dcv : caa

  test('is asked beside control, with account and method', async (t) => {
    const server = await serving(t, () => YES)
    const verdict = await corroboration([remote(t, server.url)]).verdict(withCaa, good())
    assert.ok(verdict.ok && verdict.caa === 'permitted')
    assert.deepEqual(server.asked.map(({ check_type }) => check_type).sort(), ['caa', 'dcv'])
    const asked = server.asked.find(({ check_type }) => check_type === 'caa')
    assert.ok(asked?.check_type === 'caa')
    assert.equal(asked.trace_identifier, 'trace-1')
    assert.deepEqual(asked.caa_check_parameters, {
      certificate_type: 'tls-server',
      caa_domains: ['ca.test'],
      x_account_uri: 'https://ca.test/acct/1',
      x_validation_method: 'http-01',
    })
  })
  test('has a quorum of its own', async (t) => {
    // Each question has one that says no; together no perspective agrees with everything.
    const list = await perspectives(t, { a: byCheck(YES, no()), b: byCheck(no(), YES) })
    assert.ok((await corroboration(list).verdict(withCaa, good())).ok)
  })
  test('that others see differently is a caa problem', async (t) => {
    const list = await perspectives(t, { a: byCheck(YES, no()), b: byCheck(YES, no()) })
    const verdict = await corroboration(list).verdict(withCaa, good())
    assertNot(verdict, 'caa', /^the CAA records seen here permit this certificate, but 0 of 2/)
    assert.equal(verdict.caa, 'forbidden')
  })
  test('that others cannot look up does not count', async (t) => {
    const list = await perspectives(t, { a: byCheck(YES, UNSURE), b: byCheck(YES, UNSURE) })
    const verdict = await corroboration(list).verdict(withCaa, good())
    assertNot(verdict, 'serverInternal', /0 of 2/)
    assert.equal(verdict.caa, 'failed')
  })
  test('at finalize is corroborated for each name that is permitted here, and for no other', async (t) => {
    const server = await serving(t, ({ domain_or_ip_target }) => (domain_or_ip_target === '*.c.test' ? no() : YES))
    const subjects = ['a.test', 'b.test', 'c.test'].map((name) => ({ name, wildcard: name === 'c.test' }))
    const findings = await corroboration([remote(t, server.url)]).findings({ ...CAA, subjects }, [
      { result: 'permitted', evidence: [] },
      { result: 'forbidden', detail: 'here', evidence: [] },
      { result: 'excepted', evidence: [] },
    ])
    assert.deepEqual(each(findings, 'result'), ['permitted', 'forbidden', 'forbidden'])
    assert.deepEqual(server.asked.map((request) => request.domain_or_ip_target).sort(), ['*.c.test', 'a.test'])
  })
})
