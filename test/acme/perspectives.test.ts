/** Multi-perspective validation end to end: a service and two `chancery perspective` processes (BR 3.2.2.9, Open MPIC). */

import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, describe, test } from 'node:test'
import { stringify } from 'yaml'
import { csrFor, send } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { loopbackCertificate, writeCertificate } from '../support/certificates.ts'
import { freePort } from '../support/free-port.ts'
import { type LogLine, startTestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { caaScript } from '../workers/scripted-caa.ts'
import { type ScriptedDns, startDns } from '../workers/scripted-dns.ts'

const CLI = path.resolve(import.meta.dirname, '../../../dist/src/cli/main.js')
const TOKENS = { near: 'token-of-the-near-one', far: 'token-of-the-far-one' }

interface Running {
  process: ChildProcess
  log: LogLine[]
  stop(): Promise<number | null>
}

async function startProcess(file: string): Promise<Running> {
  const child = spawn(process.execPath, [CLI, '-c', file, 'perspective'], { stdio: ['ignore', 'pipe', 'pipe'] })
  // What it said last has been read then.
  const exited = once(child, 'close') as Promise<[number | null]>
  const log: LogLine[] = []
  let complaints = ''
  child.stderr.on('data', (chunk: Buffer) => (complaints += chunk.toString()))
  await new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (text) => {
      const line = JSON.parse(text) as LogLine
      log.push(line)
      if (line.message === 'perspective ready') resolve()
    })
    void exited.then(([code]) => reject(new Error(`ended with ${code}: ${complaints}`)))
  })
  return {
    process: child,
    log,
    async stop() {
      child.kill('SIGTERM')
      return (await exited)[0]
    },
  }
}

describe('two perspectives beside a service', () => {
  const folder = temporaryFolder()
  const elsewhere: Record<string, string[]> = { 'bound.test': ['0 issue "secret-other.example"'] }
  const names = Object.keys(TOKENS) as (keyof typeof TOKENS)[]
  const at = (resolver: string, extra: object[] = []) => ({
    resolvers: [resolver],
    zones: [{ zone: 'test', addresses: ['127.0.0.1'], resolvers: [resolver] }, ...extra],
  })
  let free: ScriptedDns
  let other: ScriptedDns
  let files: ReturnType<typeof writeCertificate>
  let ports: Record<keyof typeof TOKENS, number>
  const running: Partial<Record<keyof typeof TOKENS, Running>> = {}
  const { service, client, responder, database } = acmeScene(async () => {
    free = await startDns(caaScript({}))
    other = await startDns(caaScript(elsewhere))
    files = writeCertificate(folder, 'server', await loopbackCertificate())
    ports = { near: await freePort(), far: await freePort() }
    return startTestService({
      fronts: 1,
      config: {
        // Nothing is remembered then: rows are changed here behind the service's back.
        nonce: { store: 'database' },
        acme: { caa_identities: ['ca.example'] },
        challenges: {
          http01: { max_retries: 0 },
          corroboration: { timeout_seconds: 20 },
          perspectives: names.map((name) => ({
            name,
            url: `https://127.0.0.1:${ports[name]}`,
            token: TOKENS[name],
            ca_path: files.cert,
          })),
        },
        dns: at(free.resolver),
      },
    })
  })
  before(async () => {
    const config = (name: keyof typeof TOKENS, moved: string[]) => ({
      perspective: {
        code: name,
        bind: '127.0.0.1',
        port: ports[name],
        tokens: [TOKENS[name]],
        cert_path: files.cert,
        key_path: files.key,
      },
      challenges: { http01: { port: service.http01Port, blocked_networks: [] } },
      // Nobody listens at 127.0.0.9.
      dns: at(
        other.resolver,
        moved.map((zone) => ({ zone, addresses: ['127.0.0.9'], resolvers: [other.resolver] })),
      ),
    })
    const moved = { near: ['gone.test'], far: ['gone.test', 'moved.test'] }
    for (const name of names) {
      const file = path.join(folder, `${name}.yaml`)
      // What else a service's file says does not matter.
      writeFileSync(
        file,
        stringify({ ...config(name, moved[name]), server: { port: 8443 }, metrics: { enabled: true } }),
      )
      running[name] = await startProcess(file)
    }
    await obtainedWith('warm.test', { 'near dcv': 'corroborated', 'far dcv': 'corroborated' })
    responder.seen.clear()
  })
  after(async () => {
    for (const one of Object.values(running)) if (one.process.exitCode === null) await one.stop()
    await Promise.all([free?.close(), other?.close()])
  })

  async function evidenceOf(name: string): Promise<{ step: string; [fact: string]: unknown }[]> {
    const { rows } = await database.query('SELECT evidence FROM authorizations WHERE identifier_value = $1', [name])
    return rows[0].evidence.steps
  }
  async function resultsFor(name: string): Promise<Record<string, unknown>> {
    const steps = (await evidenceOf(name)).filter(({ step }) => step === 'perspective')
    return Object.fromEntries(steps.map((step) => [`${step['name']} ${step['check']}`, step['result']]))
  }
  /**
   * What cannot change the outcome any more gets a second, and a perspective may take longer: then names below that
   * one are looked at. @returns the first of which all is told
   */
  async function thatShows(
    below: string,
    expected: Record<string, string>,
    settle: (name: string) => Promise<unknown>,
  ) {
    let names = 0
    return until(`the results for ${below}`, async () => {
      const name = `n${++names}.${below}`
      await settle(name)
      const results = await resultsFor(name)
      return Object.entries(expected).every(([check, result]) => results[check] === result) && name
    })
  }
  const obtainedWith = (below: string, expected: Record<string, string>) =>
    thatShows(below, expected, (name) => client.obtain([name], responder))
  async function farCorroborated(): Promise<number> {
    const { text } = await send({ method: 'GET', url: `${service.baseUrl}/metrics` })
    const line = /^service_perspective_checks_total\{perspective="far",check="dcv",result="corroborated"\} (\d+)$/m
    return Number(line.exec(text)?.[1])
  }
  async function errorOf(name: string): Promise<{ type: string; detail: string }> {
    const order = await client.newOrder([name])
    await client.authorize(order, responder)
    const { json } = await client.post(order.json.authorizations[0])
    assert.equal(json.status, 'invalid')
    return json.challenges[0].error
  }

  test('what all see is issued for, and the authorization keeps what each said', async () => {
    let before = 0
    const all = {
      'near dcv': 'corroborated',
      'far dcv': 'corroborated',
      'near caa': 'corroborated',
      'far caa': 'corroborated',
    }
    const name = await thatShows('seen.test', all, async (one) => {
      responder.seen.clear()
      before = await farCorroborated()
      await client.obtain([one], responder)
    })
    assert.deepEqual(await resultsFor(name), all)
    // The primary's request and one of each perspective.
    assert.deepEqual([...responder.seen.values()], [3])
    await until('the check is in the log of the perspective', () =>
      running.near?.log.some((line) => line['event'] === 'perspective_check' && line['target'] === name),
    )
    await until('it counts', async () => (await farCorroborated()) === before + 1)
  })
  test('what one of two sees elsewhere is issued for, and that is in the evidence', async () => {
    await obtainedWith('moved.test', { 'near dcv': 'corroborated', 'far dcv': 'refused' })
  })
  test('what both see elsewhere is unauthorized, and the client learns nothing of them', async () => {
    const { type, detail } = await errorOf('gone.test')
    assert.equal(type, 'urn:ietf:params:acme:error:unauthorized')
    assert.equal(detail, 'control was shown here, but 0 of 2 remote perspectives corroborate it, and 1 must')
    const reasons = (await evidenceOf('gone.test')).map((step) => String(step['reason'])).join()
    assert.match(reasons, /near: connection:http-01 .*connection refused/)
  })
  test('CAA records that both see and the service does not stand against it', async () => {
    const expected = { 'near dcv': 'corroborated', 'near caa': 'refused', 'far caa': 'refused' }
    await thatShows('bound.test', expected, async (name) => {
      const { type, detail } = await errorOf(name)
      assert.equal(type, 'urn:ietf:params:acme:error:caa')
      assert.ok(!detail.includes('secret'))
    })
  })
  test('CAA records are corroborated again at finalize when the check is old', async () => {
    const order = await client.newOrder(['aged.test'])
    await client.authorize(order, responder)
    await database.query(
      `UPDATE authorizations SET attempts = attempts #- '{http-01,caaChecked}' WHERE identifier_value = 'aged.test'`,
    )
    elsewhere['aged.test'] = ['0 issue ";"']
    const refused = await client.post(order.json.finalize, { csr: await csrFor(['aged.test']) })
    assert.deepEqual([refused.status, refused.json.type], [403, 'urn:ietf:params:acme:error:caa'])
    delete elsewhere['aged.test']
    assert.equal((await client.post(order.json.finalize, { csr: await csrFor(['aged.test']) })).status, 200)
  })
  test('one that has stopped does not keep the other from being enough', async () => {
    assert.equal(await running.far?.stop(), 0)
    await client.obtain(['half.test'], responder)
    const results = await resultsFor('half.test')
    assert.deepEqual([results['near dcv'], results['far dcv']], ['corroborated', 'failed'])
  })
  test('without any nothing is valid (fail closed)', async () => {
    assert.equal(await running.near?.stop(), 0)
    const { type } = await errorOf('alone.test')
    assert.equal(type, 'urn:ietf:params:acme:error:serverInternal')
  })
})

test('a perspective that anybody could ask does not start, and says why', async () => {
  const folder = temporaryFolder()
  const files = writeCertificate(folder, 'server', await loopbackCertificate())
  const file = path.join(folder, 'open.yaml')
  writeFileSync(file, stringify({ perspective: { cert_path: files.cert, key_path: files.key } }))
  await assert.rejects(startProcess(file), /ended with 1: chancery: anybody could ask: give perspective\.tokens/)
})
