/** The backend `acme_proxy` and an upstream that misbehaves, loses answers, or is behind a proxy. */

import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import path from 'node:path'
import { after, afterEach, before, beforeEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { AcmeProxySettings } from '../../src/ca/acme-proxy/acme-proxy-backend.ts'
import type { ChallengeHandler } from '../../src/ca/acme-proxy/challenge-handler.ts'
import { readReferenceKey } from '../../src/ca/acme-proxy/upstream-account.ts'
import { CaError } from '../../src/ca/backend.ts'
import type { BackendState, CsrBackend, IssuanceRequest } from '../../src/ca/csr-backend.ts'
import { createCircuitBreaker, guardCsrBackend } from '../../src/ca/guarded-backend.ts'
import { acmeProxySettings } from '../../src/settings/acme-proxy-settings.ts'
import { type TestProxyOptions, testProxy } from '../support/cas/acme-proxy.ts'
import { aRequest, issueThrough } from '../support/cas/csr-backend.ts'
import { problem, type ScriptedUpstream, startScriptedUpstream } from '../support/cas/scripted-upstream.ts'
import { loopbackCertificate } from '../support/certificates.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { aConfig } from '../unit/config/support.ts'

const NAME = 'a.test'
const soon = () => AbortSignal.timeout(120_000)
const FIRST_STEP = { isRepeated: false, isAbandoned: false }

describe('an upstream that is not as it should be', () => {
  let upstream: ScriptedUpstream
  let request: IssuanceRequest
  let placed: string[]
  const backends: CsrBackend[] = []

  beforeEach(async () => {
    upstream = await startScriptedUpstream(NAME)
    request = await aRequest([NAME])
    placed = []
  })
  afterEach(async () => {
    await Promise.all(backends.splice(0).map((backend) => backend.close()))
    await upstream.close()
  })

  const handler: ChallengeHandler = {
    propagationMs: 0,
    timeoutMs: 1_000,
    concurrency: 1,
    place: async ({ domain }) => void placed.push(`place ${domain}`),
    remove: async ({ domain }) => void placed.push(`remove ${domain}`),
    close: async () => undefined,
  }
  function proxy(settings: Partial<AcmeProxySettings> = {}, more: Partial<TestProxyOptions> = {}) {
    const made = testProxy({ directoryUrl: upstream.directoryUrl, handler, settings, ...more })
    backends.push(made.backend)
    return made
  }
  const rejectedWith =
    (pattern: RegExp, retryable = true) =>
    (error: unknown) => {
      assert.ok(error instanceof CaError, String(error))
      assert.match(error.message, pattern)
      assert.equal(error.retryable, retryable)
      return true
    }
  const firstStep = (backend: CsrBackend) => backend.advance(request, undefined, { signal: soon(), ...FIRST_STEP })

  test('one that does all right issues, and each step asks only what it needs', async () => {
    const ended = await issueThrough(proxy().backend, request)
    assert.equal(ended.status, 'issued')
    assert.deepEqual(placed, [`place ${NAME}`, `remove ${NAME}`])
    assert.deepEqual([upstream.count('/newOrder'), upstream.count('/finalize'), upstream.count('/cert')], [1, 1, 1])
  })

  test('a rate limit of new orders says for how long it wants none', async () => {
    const { backend } = proxy()
    upstream.script = ({ path: to }) =>
      to === '/newOrder' ? problem(429, 'rateLimited', { 'retry-after': '120' }) : undefined
    await assert.rejects(
      firstStep(backend),
      (error: CaError) => error.retryable && error.retryAfterMs === 120_000 && error.pauseMs === 120_000,
    )
  })

  test('a redirect is not followed', async () => {
    const elsewhere = await startScriptedUpstream(NAME)
    upstream.script = ({ path: to }) =>
      to === '/newOrder' ? { status: 307, headers: { location: `${elsewhere.url}/newOrder` } } : undefined
    await assert.rejects(firstStep(proxy().backend), rejectedWith(/307: redirects are not followed/))
    assert.equal(elsewhere.requests.length, 0)
    await elsewhere.close()
  })

  test('a body without end, and one that drips, end the request', async () => {
    upstream.script = ({ path: to }) => (to === '/dir' ? { body: Buffer.alloc(300_000, 32) } : undefined)
    await assert.rejects(firstStep(proxy().backend), rejectedWith(/more than 262144 bytes/))
    upstream.script = ({ path: to }) => (to === '/dir' ? { drip: 10 } : undefined)
    await assert.rejects(
      firstStep(proxy({ orderTimeoutMs: 1_500 }).backend),
      rejectedWith(/no answer within 1.5 seconds/),
    )
  })

  test('a directory that names what is no URL of its own kind is not used', async () => {
    for (const newNonce of ['file:///etc/passwd', 'http://user:password@127.0.0.1/', 'http://[']) {
      upstream.script = ({ path: to }, { body }) =>
        to === '/dir' ? { headers: { 'replay-nonce': '' }, body: { ...(body as object), newNonce } } : undefined
      await assert.rejects(firstStep(proxy().backend), rejectedWith(/what RFC 8555 does not know/))
    }
  })

  test('a rejected nonce is replaced by that of the answer', async () => {
    let rejected = 0
    upstream.script = ({ path: to }) => (to === '/newOrder' && rejected++ < 3 ? problem(400, 'badNonce') : undefined)
    assert.equal((await issueThrough(proxy().backend, request)).status, 'issued')
    assert.equal(upstream.count('/newOrder'), 4)
  })

  /** Takes all steps at once, whatever pauses are asked for. @returns the answer or error that ends it, and the pauses */
  async function hurried(backend: CsrBackend, { steps = 100 } = {}) {
    const pauses: number[] = []
    let state: BackendState | undefined
    for (let taken = 0; taken < steps; taken++) {
      const step = { signal: soon(), ...FIRST_STEP }
      const answer = await backend.advance(request, state, step).catch((error: CaError) => error)
      if (answer instanceof CaError || answer.status !== 'pending') return { answer, pauses, state }
      pauses.push(answer.retryAfterMs)
      state = JSON.parse(JSON.stringify(answer.state)) as BackendState
    }
    return { answer: undefined, pauses, state }
  }

  for (const maxRetries of [0, 1, 3])
    test(`max_retries ${maxRetries}: a step is tried ${1 + maxRetries} times, then the order may go elsewhere`, async () => {
      upstream.script = ({ path: to }) => (to === '/authz' ? { status: 500 } : undefined)
      const { maxRetries: configured } = acmeProxySettings(
        aConfig({ ca: { backend: 'acme_proxy', acme_proxy: { max_retries: maxRetries } } }).ca,
      )
      const { backend } = proxy({ maxRetries: configured })
      const { answer, pauses, state } = await hurried(backend)
      assert.ok(answer instanceof CaError && answer.retryable && !answer.mayHaveIssued)
      assert.deepEqual([upstream.count('/newOrder'), upstream.count('/authz')], [1, 1 + maxRetries])
      assert.deepEqual(
        pauses.filter((ms) => ms >= 1_000),
        [1_000, 2_000, 4_000].slice(0, maxRetries),
        'growing pauses',
      )
      // Where no other backend takes over, it begins anew, with as many tries.
      await backend.advance(request, state, { signal: soon(), ...FIRST_STEP })
      assert.deepEqual([upstream.count('/newOrder'), upstream.count('/authz')], [2, 1 + maxRetries])
    })

  // RFC 8555 §8.2
  test('a challenge that failed so far is answered again while the order waits', async () => {
    let answers = 0
    const waiting = { status: 'processing', error: { type: 'urn:ietf:params:acme:error:dns', detail: 'SERVFAIL' } }
    upstream.script = ({ path: to, payload }, { body }) => {
      if (to === '/chall' && payload) answers++
      if (answers >= 2) return undefined
      if (to === '/chall') return { body: { ...(body as object), ...waiting } }
      return to === '/order' ? { body: { ...(body as object), status: 'pending' } } : undefined
    }
    const { answer } = await hurried(proxy().backend)
    assert.ok(answer && !(answer instanceof CaError) && answer.status === 'issued')
    assert.equal(answers, 2)
  })

  test('an order that is not ready in time ends with the reason that the upstream has said', async () => {
    const error = { type: 'urn:ietf:params:acme:error:dns', detail: 'SERVFAIL looking up the name' }
    upstream.script = ({ path: to }, { body }) => {
      if (to === '/chall') return { body: { ...(body as object), status: 'processing', error } }
      return to === '/order' ? { body: { ...(body as object), status: 'pending' } } : undefined
    }
    const ended = await issueThrough(proxy({ readyTimeoutMs: 1_000 }).backend, request)
    assert.ok(ended.status === 'refused')
    assert.match(ended.reason, /was not ready within 1 seconds .*; http-01 of \S+: dns: SERVFAIL looking up the name$/)
  })

  test('max_retries ends nothing once a certificate may exist', async () => {
    upstream.script = ({ path: to }) => (to === '/cert' ? { status: 500 } : undefined)
    const { answer, state } = await hurried(proxy({ maxRetries: 1 }).backend, { steps: 20 })
    assert.equal(answer, undefined, 'it is asked on')
    assert.equal((state as { step?: string }).step, 'collect')
    assert.ok(upstream.count('/cert') > 5)
    assert.equal(upstream.count('/finalize'), 1)
  })

  test('an order that stays ready is finalized again, with pauses', async () => {
    upstream.script = ({ path: to }, { body }) => {
      const ready = { status: 'ready', authorizations: [], finalize: '/finalize' }
      const isOrder = to === '/finalize' || (to === '/order' && upstream.count('/finalize') > 0)
      return isOrder ? { status: 200, body: { ...(body as object), ...ready } } : undefined
    }
    const { answer, pauses } = await hurried(proxy().backend, { steps: 60 })
    assert.equal(answer, undefined)
    const [finalized, rested] = [upstream.count('/finalize'), pauses.filter((ms) => ms >= 1_000).length]
    assert.ok(finalized > 2)
    assert.ok(rested >= finalized - 1, `${finalized} times with ${rested} pauses`)
  })

  describe('behind a circuit breaker', () => {
    function guarded(backend: CsrBackend) {
      const breaker = createCircuitBreaker({ failures: 100, recoveryMs: 0 }, { opened() {}, closed() {} })
      const told: string[] = []
      const telling = {
        ...breaker,
        succeeded: () => void told.push('succeeded'),
        failed: () => void told.push('failed'),
        unknown: () => void told.push('unknown'),
      }
      return { told, backend: guardCsrBackend(backend, telling, new AbortController().signal, () => {}) }
    }

    test('tries of one order that fail count as one failure, and what asks nobody as none', async () => {
      const { told, backend } = guarded(proxy({ maxRetries: 2 }).backend)
      upstream.script = ({ path: to }) => (to === '/chall' ? { lost: true } : undefined)
      let state: BackendState | undefined
      for (let steps = 0; steps < 6; steps++) {
        const answer = await backend.advance(request, state, FIRST_STEP)
        assert.ok(answer.status === 'pending')
        state = answer.state
      }
      // order, inspect; place; three tries to answer; clean
      const clean = await backend.advance(request, state, FIRST_STEP)
      assert.equal(clean.status, 'pending')
      assert.deepEqual(told, ['succeeded', 'succeeded', 'unknown', 'failed', 'unknown', 'unknown', 'unknown'])
    })

    test('a rate limit in the middle of an order is an answer', async () => {
      const { told, backend } = guarded(proxy().backend)
      const first = await backend.advance(request, undefined, FIRST_STEP)
      assert.ok(first.status === 'pending')
      upstream.script = ({ path: to }) => (to === '/order' ? problem(503, 'rateLimited') : undefined)
      assert.equal((await backend.advance(request, first.state, FIRST_STEP)).status, 'pending')
      assert.deepEqual(told, ['succeeded', 'succeeded'])
    })

    test('an order that waits for its turn says nothing of the upstream', async () => {
      const { told, backend } = guarded(proxy({ maxOrders: 1 }).backend)
      await backend.advance(request, undefined, FIRST_STEP)
      await backend.advance(await aRequest([NAME]), undefined, FIRST_STEP)
      assert.deepEqual(told, ['succeeded', 'unknown'])
    })
  })

  test('an upstream that has forgotten the account gets its key again', async () => {
    const { backend, accounts } = proxy()
    assert.equal((await issueThrough(backend, request)).status, 'issued')
    let forgotten = 0
    upstream.script = ({ path: to }) =>
      to === '/newOrder' && forgotten++ === 0 ? problem(400, 'accountDoesNotExist') : undefined
    await assert.rejects(firstStep(backend), rejectedWith(/accountDoesNotExist/))
    const registrations = upstream.count('/newAccount')
    assert.equal((await firstStep(backend)).status, 'pending')
    assert.equal(upstream.count('/newAccount'), registrations + 1)
    assert.equal(accounts.size, 1)
  })

  test('nothing is published for a name that was not ordered', async () => {
    upstream.script = ({ path: to }, { body }) =>
      to === '/authz' ? { body: { ...(body as object), identifier: { type: 'dns', value: 'other.test' } } } : undefined
    const ended = await issueThrough(proxy({ maxRetries: 0 }).backend, request).catch((error: unknown) => error)
    assert.ok(ended instanceof CaError)
    assert.match(ended.message, /a name that is not in the order/)
    assert.deepEqual(placed, [])
  })

  test('a token that is no base64url is no name of a file', async () => {
    upstream.script = ({ path: to }, { body }) => {
      const { challenges = [] } = body as { challenges?: object[] }
      return to === '/authz'
        ? { body: { ...(body as object), challenges: [{ ...challenges[0], token: '../../etc/cron' }] } }
        : undefined
    }
    await assert.rejects(
      issueThrough(proxy({ maxRetries: 0 }).backend, request),
      rejectedWith(/a challenge has no token/),
    )
    assert.deepEqual(placed, [])
  })

  test('an order that never gets ready ends in its time, and its response is withdrawn', async () => {
    upstream.script = ({ path: to }, { body }) =>
      to === '/order' ? { body: { ...(body as object), status: 'pending' } } : undefined
    const ended = await issueThrough(proxy({ readyTimeoutMs: 600 }).backend, request)
    assert.ok(ended.status === 'refused')
    assert.match(ended.reason, /order_ready_timeout/)
    assert.deepEqual(placed, [`place ${NAME}`, `remove ${NAME}`])
  })

  test('an order that got ready while this service stood still goes on', async () => {
    const { backend } = proxy({ readyTimeoutMs: 1 })
    const ended = await issueThrough(
      {
        ...backend,
        advance: async (wanted, state, step) => {
          await sleep(5)
          return backend.advance(wanted, state, step)
        },
      },
      request,
    )
    assert.equal(ended.status, 'issued')
  })

  test('a lost answer to finalize is not followed by a second finalize', async () => {
    upstream.script = ({ path: to }) => (to === '/finalize' ? { lost: true } : undefined)
    assert.equal((await issueThrough(proxy().backend, request)).status, 'issued')
    assert.equal(upstream.count('/finalize'), 1)
  })

  test('after a try of finalize that failed, a refusal to show the order does not end it', async () => {
    let finalized = 0
    let refusals = 1
    upstream.script = ({ path: to }) => {
      if (to === '/finalize' && finalized++ === 0) return { status: 500, body: {} }
      return to === '/order' && finalized > 0 && refusals-- > 0 ? problem(403, 'unauthorized') : undefined
    }
    assert.equal((await issueThrough(proxy().backend, request)).status, 'issued')
    assert.deepEqual(placed, [`place ${NAME}`, `remove ${NAME}`])
    finalized = 0
    refusals = Number.POSITIVE_INFINITY
    const ended = issueThrough(proxy().backend, await aRequest([NAME]))
    await assert.rejects(ended, (error: CaError) => !error.retryable && error.mayHaveIssued)
  })

  test('what an upstream says of the request reaches the client as a type, and the log in its words', async () => {
    upstream.script = ({ path: to }) => (to === '/newOrder' ? problem(400, 'rejectedIdentifier') : undefined)
    const ended = await firstStep(proxy().backend)
    assert.ok(ended.status === 'refused')
    assert.match(ended.problem.type, /:rejectedIdentifier$/)
    assert.doesNotMatch(ended.problem.detail, /words of the upstream/)
    assert.match(ended.reason, /words of the upstream/)
  })

  test('an order that was given up is cleaned up, and never finalized', async () => {
    const { backend } = proxy()
    const steps: string[] = []
    const ended = await issueThrough(
      {
        ...backend,
        advance: (wanted, state, step) => {
          const { step: name = 'order' } = (state ?? {}) as { step?: string }
          steps.push(name)
          return backend.advance(wanted, state, { ...step, isAbandoned: steps.includes('answer') })
        },
      },
      request,
    )
    assert.equal(ended.status, 'refused')
    assert.deepEqual(steps, ['order', 'inspect', 'place', 'answer', 'clean'])
    assert.deepEqual(placed, [`place ${NAME}`, `remove ${NAME}`])
    assert.equal(upstream.count('/finalize'), 0)
  })

  test('an upstream that goes away in the middle leaves the order to another backend, cleaned up', async () => {
    const { backend } = proxy({ maxRetries: 0 })
    upstream.script = ({ path: to }) => (to === '/chall' ? { lost: true } : undefined)
    await assert.rejects(issueThrough(backend, request), rejectedWith(/ECONNRESET|socket hang up/))
    assert.deepEqual(placed, [`place ${NAME}`, `remove ${NAME}`])
  })

  test('an order that another backend takes over leaves no response behind, also after a crash', async () => {
    const { backend } = proxy({ maxOrders: 1 })
    let state: BackendState | undefined
    for (const expected of ['inspect', 'place', 'answer']) {
      const answer = await backend.advance(request, state, { signal: soon(), ...FIRST_STEP })
      assert.ok(answer.status === 'pending')
      state = answer.state
      assert.equal((state as { step?: string }).step, expected)
    }
    const asked = upstream.requests.length
    const leave = async () => {
      const answer = await backend.leave?.(request, state as BackendState, soon())
      assert.ok(answer?.status === 'pending' && !answer.mayHaveIssued)
      state = answer.state
    }
    await leave()
    assert.deepEqual(placed, [`place ${NAME}`, `remove ${NAME}`])
    const afterCrash = await backend
      .advance(request, state, { signal: soon(), isRepeated: true, isAbandoned: false })
      .catch((error: unknown) => error)
    assert.ok(afterCrash instanceof CaError && afterCrash.retryable && !afterCrash.mayHaveIssued)
    await leave()
    assert.equal(state, null)
    assert.equal(upstream.requests.length, asked, 'the upstream was not asked')
    assert.equal((await issueThrough(backend, await aRequest([NAME]))).status, 'issued', 'its place is free')
  })

  test('a period that the client has requested is asked for (RFC 8555 §7.4)', async () => {
    const { backend } = proxy()
    const periods: [IssuanceRequest['requested'], object][] = [
      [{}, {}],
      [{ notAfter: new Date('2030-01-02T03:04:05Z') }, { notAfter: '2030-01-02T03:04:05Z' }],
      [{ notBefore: new Date('2030-01-02T00:00:00Z') }, { notBefore: '2030-01-02T00:00:00Z' }],
    ]
    for (const [requested, members] of periods) {
      await backend.advance(await aRequest([NAME], { requested }), undefined, { signal: soon(), ...FIRST_STEP })
      const { identifiers: _, ...rest } =
        upstream.requests.findLast(({ path: to }) => to === '/newOrder')?.payload ?? {}
      assert.deepEqual(rest, members)
    }
    // "The server MUST return an error if it cannot fulfill the request as specified."
    upstream.script = ({ path: to, payload }) =>
      to === '/newOrder' && payload?.['notAfter'] ? problem(400, 'malformed') : undefined
    const wanted = await aRequest([NAME], { requested: { notAfter: new Date('2030-01-02T03:04:05Z') } })
    assert.equal((await issueThrough(backend, wanted)).status, 'refused')
    assert.equal(upstream.count('/newOrder'), 4, 'it is not ordered with another period')
  })

  test('a revoked certificate is a success, any other refusal is final', async () => {
    const { backend } = proxy()
    const revocation = { certificate: Buffer.from('3000', 'hex'), reason: 1 }
    upstream.script = ({ path: to }) => (to === '/revokeCert' ? problem(400, 'alreadyRevoked') : undefined)
    await backend.revoke(revocation, soon())
    assert.deepEqual(upstream.requests.at(-1)?.payload, { certificate: 'MAA', reason: 1 })
    upstream.script = ({ path: to }) => (to === '/revokeCert' ? problem(403, 'unauthorized') : undefined)
    await assert.rejects(backend.revoke(revocation, soon()), rejectedWith(/unauthorized/, false))
  })

  test('a request over http goes to the proxy whole, with the proxy’s password and no other', async () => {
    const seen: string[] = []
    const forward = createServer((incoming, outgoing) => {
      seen.push(`${incoming.url} ${incoming.headers['proxy-authorization']}`)
      outgoing.end('{}')
    })
    const port = await listening(forward)
    const { backend } = proxy({ http: { verify: true, proxyUrl: `http://user:pass%40word@127.0.0.1:${port}` } })
    await assert.rejects(backend.checkHealth(soon()), rejectedWith(/the directory has no newNonce/))
    assert.equal(seen[0], `${upstream.directoryUrl} Basic ${Buffer.from('user:pass@word').toString('base64')}`)
    forward.close()
  })
})

describe('an upstream over TLS behind a forward proxy', () => {
  test('is reached through a tunnel, and its certificate is checked at the end of it', async () => {
    const certificate = await loopbackCertificate()
    const upstream = await startScriptedUpstream(NAME, certificate)
    const tunnels: string[] = []
    const forward = createServer()
    forward.on('connect', (incoming: IncomingMessage, client: Socket) => {
      tunnels.push(String(incoming.url))
      const [host, port] = String(incoming.url).split(':')
      const target = connect(Number(port), host, () => {
        client.write('HTTP/1.1 200 OK\r\n\r\n')
        target.pipe(client).pipe(target)
      })
      for (const socket of [client, target]) socket.on('error', () => undefined)
    })
    const proxyUrl = `http://127.0.0.1:${await listening(forward)}`
    const handler = { propagationMs: 0, timeoutMs: 1, concurrency: 1 } as ChallengeHandler
    const through = (extraRoots: string | undefined) =>
      testProxy({
        directoryUrl: upstream.directoryUrl,
        handler: { ...handler, close: async () => undefined },
        settings: { http: { verify: true, proxyUrl, extraRoots } },
      }).backend
    const trusting = through(certificate.cert)
    await trusting.checkHealth(soon())
    assert.equal(tunnels[0], new URL(upstream.url).host)
    const strict = through(undefined)
    await assert.rejects(strict.checkHealth(soon()), /SELF_SIGNED|self-signed/i)
    await Promise.all([trusting.close(), strict.close()])
    forward.closeAllConnections()
    forward.close()
    await upstream.close()
  })
})

describe('the account of the reference', () => {
  const folder = temporaryFolder()
  let upstream: ScriptedUpstream
  before(async () => {
    upstream = await startScriptedUpstream(NAME)
  })
  after(async () => {
    await upstream.close()
  })
  const email = 'pki@upstream.test'
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })

  test('its key is taken over, and the upstream recognises it', async () => {
    const keys = path.join(folder, 'accounts', new URL(upstream.url).host, email, 'keys')
    mkdirSync(keys, { recursive: true })
    writeFileSync(path.join(keys, `${email}.key`), privateKey.export({ type: 'pkcs8', format: 'pem' }))
    const { backend, accounts } = testProxy({
      directoryUrl: upstream.directoryUrl,
      handler: { propagationMs: 0, timeoutMs: 1, concurrency: 1, close: async () => undefined } as ChallengeHandler,
      options: { readFormerKey: () => readReferenceKey(folder, upstream.directoryUrl, email) },
    })
    await backend.checkHealth(soon())
    const [account] = accounts.values()
    assert.match(account?.url ?? '', /\/account\/0$/)
    assert.deepEqual(upstream.requests.find(({ path: to }) => to === '/newAccount')?.payload, {
      onlyReturnExisting: true,
    })
    await backend.close()
  })

  test('without one there is none, and a broken one is told without its content', () => {
    assert.equal(readReferenceKey(path.join(folder, 'nowhere'), upstream.directoryUrl, email), undefined)
    const broken = path.join(folder, 'broken')
    mkdirSync(path.join(broken, 'keys'), { recursive: true })
    writeFileSync(path.join(broken, 'keys', `${email}.key`), 'secret text')
    assert.throws(
      () => readReferenceKey(broken, upstream.directoryUrl, email),
      (error: Error) => /is no private key/.test(error.message) && !/secret text/.test(error.message),
    )
  })
})

async function listening(server: ReturnType<typeof createServer>): Promise<number> {
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  return (server.address() as AddressInfo).port
}
