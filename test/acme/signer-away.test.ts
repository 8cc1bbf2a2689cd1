/** A service whose signer is away, hangs, or holds another secret: what its operator is told, and how soon. */

import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parse, stringify } from 'yaml'
import { makeAuthority } from '../signer/authority.ts'
import { useSigner } from '../signer/daemon.ts'
import { csrFor, locationOf, send } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { freePort } from '../support/free-port.ts'
import { operate } from '../support/operator.ts'
import { runCommand } from '../support/run-command.ts'
import { startTestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const CLI = path.resolve(import.meta.dirname, '../../../dist/src/cli/main.js')
/** The second order comes within this of the failure of the first. */
const RECOVERY_SECONDS = 8
const AWAY = 'signer not reachable'
const ADVICE = 'the signer is not reachable: there is no such socket; is chancery-signer running?'
/** Probes that know the answer wait for nothing, which the quickest of several shows; the rest is the machine's. */
const PROMPT_MS = 1_000
/** Far above two bounded questions to a signer that is silent and the start of a program; what has no bound never ends. */
const SILENT_MS = 120_000

describe('a service whose signer is away', () => {
  const signer = useSigner({ default: makeAuthority('P-256') }, { policyYaml: '{ max_crl_validity_days: 2 }' })
  const commands: ChildProcess[] = []
  const { service, responder, client } = acmeScene(() =>
    startTestService({
      // Each thread has a breaker of its own.
      fronts: 1,
      config: {
        ca: {
          signer: { ...signer.section, timeout_seconds: 3 },
          circuit_breaker_failure_threshold: 1,
          circuit_breaker_recovery_timeout: RECOVERY_SECONDS,
        },
        order: { finalize_wait_ms: 500 },
        crl: { enabled: true },
        nonce: { store: 'database' },
      },
    }),
  )
  after(() => {
    for (const command of commands) command.kill('SIGKILL')
  })

  const get = (name: string) => send({ method: 'GET', url: `${service.baseUrl}/${name}` })

  async function gauge(name: string): Promise<number> {
    const { text } = await get('metrics')
    return Number(new RegExp(`^service_${name} (\\d+)$`, 'm').exec(text)?.[1])
  }

  /** The signer has a second to answer a scrape; on a machine that stands still it is asked again. */
  async function untilGauges(expected: { ca_up: number; ready: number }): Promise<void> {
    await until(JSON.stringify(expected), async () => {
      return (await gauge('ca_up')) === expected.ca_up && (await gauge('ready')) === expected.ready
    })
  }

  async function timed<T>(work: Promise<T>): Promise<{ ms: number; result: T }> {
    const startedAt = performance.now()
    const result = await work
    return { ms: performance.now() - startedAt, result }
  }

  /** `chancery crl rebuild`, with what it has said so far. */
  function beginRebuild() {
    const child = spawn(process.execPath, [CLI, '-c', path.join(service.folder, 'config.yaml'), 'crl', 'rebuild'])
    commands.push(child)
    const said = { out: '', complaint: '' }
    child.stdout.on('data', (chunk) => {
      said.out += chunk
    })
    child.stderr.on('data', (chunk) => {
      said.complaint += chunk
    })
    const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
    return { child, said, ended }
  }

  test('is ready while the signer is there, and its gauges say so', async () => {
    await until('ready', async () => (await get('readyz')).status === 200)
    assert.deepEqual((await get('readyz')).json, { ready: true })
    const { checks } = (await get('healthz')).json
    assert.deepEqual(checks.ca_backend, { status: 'ok' })
    assert.ok(checks.database.pool.max > 0, 'what the pool may grow to')
    await untilGauges({ ca_up: 1, ready: 1 })
  })

  test('says so at once and for as long as it is away, without an order', async () => {
    await signer.daemon.stop()
    await until('the loss is noticed', async () => (await get('readyz')).json.reason === AWAY)
    const times: number[] = []
    for (let i = 0; i < 3; i++) {
      const { ms, result } = await timed(get('readyz'))
      assert.deepEqual([result.status, result.json], [503, { ready: false, reason: AWAY }])
      times.push(ms)
    }
    for (let i = 0; i < 3; i++) {
      const { ms, result } = await timed(get('healthz'))
      assert.deepEqual([result.status, result.json.checks.ca_backend], [503, { status: 'error', reason: AWAY }])
      times.push(ms)
    }
    assert.ok(Math.min(...times) < PROMPT_MS, `${times.join(', ')} ms`)
    assert.deepEqual([await gauge('ca_up'), await gauge('ready'), await gauge('ca_signing_errors_total')], [0, 0, 0])
  })

  test('tells crl rebuild why there is no list yet, and builds it when the signer is back', async () => {
    const { said, ended } = beginRebuild()
    await until('the reason is told', () => said.complaint.includes('waiting'))
    assert.match(
      said.complaint,
      /^no CRL yet: .*; the service tries again\nwaiting up to 5 minutes for the new CRL; .*\n$/,
    )
    assert.ok(said.complaint.includes(ADVICE), said.complaint)
    assert.deepEqual(
      service.log.filter(({ event }) => event === 'crl_failed'),
      [],
      'no build was begun for nothing',
    )
    await signer.launch()
    assert.equal(await ended, 0, said.complaint)
    assert.match(said.out, /^CRL default: number \d+, 0 entries/)
  })

  test('is ready again by itself', async () => {
    await until('ready', async () => (await get('readyz')).status === 200)
    assert.deepEqual((await get('healthz')).json.checks.ca_backend, { status: 'ok' })
    await untilGauges({ ca_up: 1, ready: 1 })
  })

  test('answers in a bounded time about a signer that hangs', async () => {
    signer.daemon.process.kill('SIGSTOP')
    try {
      await until('the silence is noticed', async () => (await get('readyz')).status === 503)
      const { ms, result } = await timed(get('readyz'))
      // The connection is left after a silence; from then on the signer counts as away.
      assert.ok(['CA backend unavailable', AWAY].includes(result.json.reason), result.json.reason)
      assert.equal(result.status, 503)
      assert.ok(ms < SILENT_MS, `${ms} ms`)
      assert.deepEqual([await gauge('ca_up'), await gauge('ready')], [0, 0])
    } finally {
      signer.daemon.process.kill('SIGCONT')
    }
    await until('ready', async () => (await get('readyz')).status === 200)
    await untilGauges({ ca_up: 1, ready: 1 })
  })

  test('tells crl rebuild that signing is stopped; the signer counts as up all the same', async () => {
    await operate(service, 'signing', 'stop')
    await until('stopped', async () => (await get('healthz')).json.checks.ca_backend.status === 'stopped')
    await untilGauges({ ca_up: 1, ready: 1 })
    const { said, ended } = beginRebuild()
    await until('the reason is told', () => said.complaint.includes('stopped by the operator'))
    await operate(service, 'signing', 'resume')
    assert.equal(await ended, 0, said.complaint)
  })

  test('has a circuit breaker that is open after a failure: the next order stays ready, with Retry-After, and both get their certificates', async () => {
    const [first, second] = [await client.newOrder(['first.test']), await client.newOrder(['second.test'])]
    await client.authorize(first, responder)
    await client.authorize(second, responder)

    const csr = await csrFor(['second.test'])
    signer.daemon.process.kill('SIGSTOP')
    try {
      const hanging = await client.post(first.json.finalize, { csr: await csrFor(['first.test']) })
      assert.equal(hanging.json.status, 'processing')
      await service.waitForLog('the CA backend failed again and again; it is left alone for a while')
      const refused = await client.post(second.json.finalize, { csr })
      assert.equal(refused.status, 503)
      const retryAfter = Number(refused.headers['retry-after'])
      assert.ok(retryAfter >= 1 && retryAfter <= RECOVERY_SECONDS, String(retryAfter))
      assert.equal((await client.post(locationOf(second))).json.status, 'ready')
    } finally {
      signer.daemon.process.kill('SIGCONT')
    }
    const isFinalized = async () => (await client.post(second.json.finalize, { csr })).status === 200
    await until('the second goes on', isFinalized)
    const isValid = async () => (await client.post(locationOf(first))).json.status === 'valid'
    await until('the first is valid', isValid)
  })

  describe('because the secrets differ', () => {
    const SENTENCE =
      'the signer does not hold the same secret as this service; compare the files that secret_file names on either side'
    let configFile: string
    before(async () => {
      const config = parse(readFileSync(path.join(service.folder, 'config.yaml'), 'utf8'))
      const secret = path.join(service.folder, 'other-secret')
      writeFileSync(secret, 'ab'.repeat(32), { mode: 0o600 })
      config.ca.signer.secret_file = secret
      config.server.port = await freePort()
      config.logging = { level: 'WARNING' }
      configFile = path.join(service.folder, 'other-secret.yaml')
      writeFileSync(configFile, stringify(config))
    })
    const chancery = (...words: string[]) => runCommand(process.execPath, [CLI, '-c', configFile, ...words])

    test('ca test-sign says that in one sentence, at once', async () => {
      const { ms, result } = await timed(chancery('ca', 'test-sign'))
      const output = `chancery: no test signature from the signer at ${signer.files.socket}: ${SENTENCE}\n`
      assert.deepEqual(result, { code: 1, output })
      assert.ok(ms < SILENT_MS, `${ms} ms`)
    })

    test('serve does not start, and says it once', async () => {
      const { ms, result } = await timed(chancery('serve'))
      assert.equal(result.code, 1)
      assert.ok(result.output.endsWith(`from the signer at ${signer.files.socket}: ${SENTENCE}\n`), result.output)
      const warnings = result.output.split('\n').filter((line) => line.includes('"signer not reachable"'))
      assert.equal(warnings.length, 1, result.output)
      assert.ok(ms < SILENT_MS, `${ms} ms`)
    })
  })
})
