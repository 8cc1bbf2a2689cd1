/**
 * Challenges of several instances on one database (ARCHITECTURE.md, life of a challenge): each is validated by one at a
 * time, whichever dies, stops or is taken for dead, and none is left behind.
 */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type AcmeClient, closeConnections, registeredClient } from '../support/acme-client.ts'
import { type HeldResponder, startHeldResponder } from '../support/clients/held-responder.ts'
import { rowsIn } from '../support/database.ts'
import { each } from '../support/each.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const CHALLENGES = 15
/** At once, of the instance that is killed; the others wait there. */
const OF_DOOMED = 8
/** Longer than an answer is ever held here: an attempt whose time is over is made again. */
const PATIENT = { timeout_seconds: 240 }

describe('several instances', () => {
  let first: TestService
  let doomed: TestService
  let responder: HeldResponder
  const others: TestService[] = []
  before(async () => {
    first = await startTestService({ config: config({ challenges: { http01: PATIENT } }) })
    responder = await startHeldResponder(first.http01Port)
    doomed = await another({ challenges: { max_concurrent: OF_DOOMED } })
  })
  after(async () => {
    closeConnections()
    for (const service of others) await service.dispose()
    await first?.dispose()
    await responder?.close()
  })

  function config(over: { challenges?: object; server?: object }) {
    return { nonce: { store: 'database' }, server: { workers: 1, graceful_timeout: 2, ...over.server }, ...over }
  }

  async function another(over: { challenges?: object; server?: object } = {}): Promise<TestService> {
    const challenges = { http01: { port: first.http01Port, ...PATIENT }, ...over.challenges }
    const service = await startTestService({ beside: first, config: config({ ...over, challenges }) })
    others.push(service)
    return service
  }

  interface Triggered {
    client: AcmeClient
    url: string
    token: string
  }

  let names = 0
  async function trigger({ directoryUrl }: TestService, count: number): Promise<Triggered[]> {
    const client = await registeredClient(directoryUrl)
    return Promise.all(
      Array.from({ length: count }, async () => {
        const order = await client.newOrder([`instances-${++names}.test`])
        const { challenges } = (await client.post(order.json.authorizations[0])).json
        const { url, token } = challenges.find(({ type }: { type: string }) => type === 'http-01')
        responder.answer(token, `${token}.${client.key.thumbprint}`)
        assert.equal((await client.post(url, {})).json.status, 'processing')
        return { client, url, token }
      }),
    )
  }

  /** Through another instance: the same account, where that one answers. */
  async function statusThrough({ baseUrl }: TestService, { client, url }: Triggered): Promise<string> {
    const elsewhere = baseUrl + new URL(url).pathname
    const kid = baseUrl + new URL(client.kid).pathname
    const nonce = String((await fetch(`${baseUrl}/new-nonce`, { method: 'HEAD' })).headers.get('replay-nonce'))
    return (await client.post(elsewhere, undefined, { header: { kid, nonce } })).json.status
  }

  async function allValid(service: TestService, challenges: readonly Triggered[]): Promise<void> {
    for (const challenge of challenges)
      await until('the challenge is valid', async () => (await statusThrough(service, challenge)) === 'valid')
  }

  function assertOneAtATime(challenges: readonly Triggered[]): void {
    const most = challenges.map(({ token }) => responder.seen.get(token)?.atOnce)
    assert.deepEqual(new Set(most), new Set([1]))
  }

  const sql = (text: string, values: unknown[] = []) => rowsIn(first.database, text, values)

  /** The connections that show instances alive, and when each began, in seconds. */
  const seenAlive = () =>
    rowsIn<{ pid: number; began: number }>(
      first.database,
      `SELECT pid, extract(epoch FROM backend_start)::float8 AS began FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE classid = 712100 AND locktype = 'advisory' AND granted
          AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
    )

  /** @returns seconds between the new connections of both */
  async function endPresence(): Promise<number> {
    const former = each(await seenAlive(), 'pid')
    assert.equal(former.length, 2)
    await sql('SELECT pg_terminate_backend(pid) FROM unnest($1::integer[]) AS pid', [former])
    let began: number[] = []
    await until('both are seen again', async () => {
      began = each(
        (await seenAlive()).filter(({ pid }) => !former.includes(pid)),
        'began',
      )
      return began.length === 2
    })
    return Math.max(...began) - Math.min(...began)
  }

  test('two that lose the database connection that shows them alive do not take each other for dead', async () => {
    let challenges: Triggered[]
    let apart: number
    // Whoever is back first waits 2 s for the other one. A busy machine may take longer, and then it is tried again.
    do {
      responder.hold(true)
      challenges = [...(await trigger(first, CHALLENGES)), ...(await trigger(doomed, CHALLENGES))]
      await until('all that may run are held', () => responder.held() === OF_DOOMED + CHALLENGES)
      apart = await endPresence()
      await sleep(5_000)
      responder.hold(false)
      await allValid(first, challenges)
    } while (apart > 1)
    assertOneAtATime(challenges)
    assert.deepEqual(new Set(challenges.map(({ token }) => responder.seen.get(token)?.requests)), new Set([1]))
  })

  test('what a killed one was validating, and what it had waiting, another one takes up; its own it validates once', async () => {
    responder.hold(true)
    const left = await trigger(doomed, CHALLENGES)
    const own = await trigger(first, CHALLENGES)
    await until('all that may run is held', () => responder.held() === OF_DOOMED + CHALLENGES)
    await doomed.kill()
    await until('the others have been taken up', () => responder.held() === 2 * CHALLENGES)
    responder.hold(false)
    await allValid(first, [...left, ...own])
    assertOneAtATime([...left, ...own])
    assert.deepEqual(new Set(own.map(({ token }) => responder.seen.get(token)?.requests)), new Set([1]))
  })

  test('what one that stops could not finish is taken up only once it has let go of it', async () => {
    responder.hold(true)
    const leaving = await another()
    const left = await trigger(leaving, CHALLENGES)
    await until('all are held', () => responder.held() === CHALLENGES)
    assert.equal(await leaving.stop(), 0)
    await until('they have been taken up', () => responder.held() === CHALLENGES)
    responder.hold(false)
    await allValid(first, left)
    assertOneAtATime(left)
  })

  test('a challenge whose trigger was committed and never handed over is validated within seconds', async () => {
    responder.hold(false)
    const client = await registeredClient(first.directoryUrl)
    const order = await client.newOrder(['unheard.test'])
    const { challenges } = (await client.post(order.json.authorizations[0])).json
    const { url, token } = challenges[0]
    responder.answer(token, `${token}.${client.key.thumbprint}`)
    await sql(
      `UPDATE authorizations SET validating_since = now(), validating_by = (SELECT min(id) FROM live_instances() AS id),
              attempts = '{"http-01": {"status": "processing", "tries": 0}}' WHERE token = $1`,
      [token],
    )
    assert.equal((await client.post(url)).json.status, 'processing')
    await allValid(first, [{ client, url, token }])
    assert.equal(responder.seen.get(token)?.requests, 1)
  })

  test('a challenge that is not validated where it was triggered is left to an instance that does (auto_validate)', async () => {
    responder.hold(false)
    const edge = await another({ challenges: { http01: { port: first.http01Port, auto_validate: false } } })
    const [challenge] = (await trigger(edge, 1)) as [Triggered]
    await allValid(edge, [challenge])
    const attempts = ({ log }: TestService) => log.filter(({ message }) => message === 'validation attempt').length
    assert.equal(attempts(edge), 0)
    assert.equal(responder.seen.get(challenge.token)?.requests, 1)
  })
})
