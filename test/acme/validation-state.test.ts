/** What happens to a challenge while it is being validated (RFC 8555 §7.3.5, §7.3.6, §7.5.1, §8.2). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type AcmeClient, changeKey, newAccountKey, registeredClient } from '../support/acme-client.ts'
import { acmeScene, made } from '../support/acme-scene.ts'
import { startHeldResponder } from '../support/clients/held-responder.ts'
import { BACKOFF_SECONDS } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

describe('a challenge in processing', () => {
  const { service, database: db } = acmeScene('profiles')
  const responder = made(
    () => startHeldResponder(service.http01Port),
    (held) => held.close(),
  )

  async function triggered(client: AcmeClient, name: string, answers = true) {
    const order = await client.newOrder([name])
    const authorization = order.json.authorizations[0] as string
    const { challenges } = (await client.post(authorization)).json
    const { url, token } = challenges.find(({ type }: { type: string }) => type === 'http-01')
    if (answers) responder.answer(token, `${token}.${client.key.thumbprint}`)
    const response = await client.post(url, {})
    return { authorization, url, token, response }
  }

  const held = (count: number) => until(`${count} requests are held`, () => responder.held() === count)

  const scrape = async () => (await fetch(`${service.baseUrl}/metrics`)).text()
  /** What is held is answered, and what came of it is dealt with. */
  async function letEnd(): Promise<void> {
    responder.hold(false)
    await held(0)
    await until('no validation is known any more', async () => /^service_validations 0$/m.test(await scrape()))
  }

  const row = async (token: string) =>
    (await db.query('SELECT status, validating_by, evidence FROM authorizations WHERE token = $1', [token])).rows[0]

  test('that ends within a moment is answered to the trigger with its outcome (§7.5.1)', async () => {
    responder.hold(false)
    const client = await registeredClient(service.directoryUrl)
    // A machine that stands still for a tenth of a second has the challenge claimed, and that is all the difference.
    const { url, token, response } = await triggered(client, 'prompt.test')
    assert.ok(['valid', 'processing'].includes(response.json.status), response.json.status)
    assert.equal((await client.settled(url)).json.status, 'valid')
    assert.equal((await row(token)).status, 'valid')
  })

  test('is in the database as such when the client is told so (§7.5.1)', async () => {
    responder.hold(true)
    const client = await registeredClient(service.directoryUrl)
    const { token, response } = await triggered(client, 'claimed.test')
    assert.deepEqual([response.json.status, response.headers['retry-after']], ['processing', '1'])
    const { rows } = await db.query(
      "SELECT attempts #>> '{http-01,status}' AS status, validating_by IS NOT NULL AS claimed FROM authorizations WHERE token = $1",
      [token],
    )
    assert.deepEqual(rows, [{ status: 'processing', claimed: true }])
    await letEnd()
    assert.equal((await row(token)).status, 'valid')
  })

  test('is answered although the client cannot answer it before that (§7.5.1)', async () => {
    responder.hold(true)
    const client = await registeredClient(service.directoryUrl)
    const { token, url } = await triggered(client, 'single-threaded.test', false)
    // Only now the client turns to its web server.
    responder.answer(token, `${token}.${client.key.thumbprint}`)
    await letEnd()
    assert.equal((await client.settled(url)).json.status, 'valid')
    assert.equal(responder.seen.get(token)?.requests, 1)
  })

  test('of an account that is deactivated meanwhile makes nothing valid (§7.3.6)', async () => {
    responder.hold(true)
    const client = await registeredClient(service.directoryUrl)
    const { token } = await triggered(client, 'deactivated.test')
    await held(1)
    assert.equal((await client.post(client.kid, { status: 'deactivated' })).status, 200)
    await letEnd()
    assert.deepEqual(await row(token), { status: 'deactivated', validating_by: null, evidence: null })
  })

  test('of an authorization that is deactivated meanwhile stays deactivated (§7.5.2)', async () => {
    responder.hold(true)
    const client = await registeredClient(service.directoryUrl)
    const { token, authorization } = await triggered(client, 'relinquished.test')
    await held(1)
    assert.equal((await client.post(authorization, { status: 'deactivated' })).json.status, 'deactivated')
    await letEnd()
    assert.equal((await client.post(authorization)).json.status, 'deactivated')
    assert.equal((await row(token)).validating_by, null)
  })

  test('keeps to the key that triggered it when the account changes its key meanwhile (§7.3.5)', async () => {
    responder.hold(true)
    const client = await registeredClient(service.directoryUrl)
    const { url, token } = await triggered(client, 'rollover.test', false)
    await held(1)
    const next = newAccountKey()
    assert.equal((await changeKey(client, next)).status, 200)
    // The attempt under way finds nothing; the retry does, long after the change.
    responder.hold(false)
    responder.answer(token, `${token}.${client.key.thumbprint}`)
    const status = await until('a verdict', async () => {
      const { json } = await client.post(url, undefined, { key: next })
      return json.status !== 'processing' && json.status
    })
    assert.equal(status, 'valid')
  })

  /** @returns how long the third attempt kept the client waiting */
  async function askedAgain(name: string): Promise<number> {
    responder.hold(false)
    const client = await registeredClient(service.directoryUrl)
    const { url, token } = await triggered(client, name, false)
    const requests = () => responder.seen.get(token)?.requests ?? 0
    const attempts = () => service.log.filter(({ identifier, event }) => identifier === name && event === 'validation')
    await until('two attempts have failed', () => attempts().length === 2)
    responder.answer(token, `${token}.${client.key.thumbprint}`)
    const askedAt = performance.now()
    await client.post(url, {})
    assert.equal((await client.settled(url)).json.status, 'valid')
    const waited = performance.now() - askedAt
    assert.equal(requests(), 3)
    const { evidence } = await row(token)
    assert.equal(evidence.result, 'success')
    assert.equal(evidence.attempt, 3)
    assert.ok(evidence.steps.some(({ step }: { step: string }) => step === 'connected'))
    return waited
  }

  test('is validated again soon after the client asks, and its order goes on (§8.2)', async () => {
    // The third attempt is due in twice the first pause, and comes after one when the client asks.
    const waits: number[] = []
    const isSooner = () => waits.some((ms) => ms < (2 * BACKOFF_SECONDS - 0.3) * 1000)
    while (!isSooner() && waits.length < 3) waits.push(await askedAgain(`again-${waits.length}.test`))
    assert.ok(isSooner(), `${waits} ms`)
  })

  test('keeps a poll on the same connection waiting until the attempt has ended (§7.5.1)', async () => {
    let names = 0
    // It waits for a second; where the machine stood still for as long, another challenge is polled.
    for (const polled of ['authorization', 'url'] as const)
      await until(`the end of an attempt at a poll of ${polled}`, async () => {
        responder.hold(true)
        const client = await registeredClient(service.directoryUrl)
        const challenge = await triggered(client, `waits-${++names}.test`)
        await held(1)
        const poll = client.post(challenge[polled])
        setTimeout(() => responder.hold(false), 100)
        const { status } = (await poll).json
        await letEnd()
        return status === 'valid'
      })
  })

  test('is told as pending a second later when the attempt takes longer, and when to come back', async () => {
    responder.hold(true)
    const client = await registeredClient(service.directoryUrl)
    const { authorization } = await triggered(client, 'slow.test')
    await held(1)
    const began = performance.now()
    const poll = await client.post(authorization)
    const ms = performance.now() - began
    assert.equal(poll.json.status, 'pending')
    assert.ok(Number(poll.headers['retry-after']) >= 1)
    assert.ok(ms > 950, `${ms} ms`)
    responder.hold(false)
    assert.equal((await client.settled(authorization)).json.status, 'valid')
  })

  test('shows in the metrics while it waits and while it runs', async () => {
    responder.hold(true)
    const client = await registeredClient(service.directoryUrl)
    await triggered(client, 'measured.test')
    await held(1)
    const running = await scrape()
    assert.match(running, /^service_validations 1$/m)
    assert.match(running, /^service_validations_running 1$/m)
    assert.match(running, /^service_validations_waiting\{for="target"\} 0$/m)
    await letEnd()
    const over = await scrape()
    assert.match(over, /^service_validations 0$/m)
    assert.match(over, /^service_validation_duration_seconds_count\{type="http-01"\} [1-9]/m)
    assert.match(over, /^service_challenges_validated_total\{result="success"\} [1-9]/m)
    assert.match(over, /^service_challenge_worker_polls_total [1-9]/m)
  })
})
