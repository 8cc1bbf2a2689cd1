/**
 * One abusive address beside others: signatures that fail, bodies that are too large, connections that are held open, and
 * heads and bodies that never end, on hundreds of connections.
 *
 * Asserted is that the others get good answers only and the abuser is slowed down; what it costs the others is printed.
 */

import assert from 'node:assert/strict'
import { Agent, type IncomingHttpHeaders, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { after, describe, test } from 'node:test'
import { type Answer, createAcmeClient, JOSE, type RawRequest, registeredClient } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { WAIT_MS } from '../support/patience.ts'

const CONNECTIONS = 50
const ATTACK_MS = 1_000
const ABUSER = '127.0.0.2'

interface Reply {
  status: number
  headers: IncomingHttpHeaders
}

describe('an abusive address', () => {
  // No delay is too long here: refusals are to be those of the address and not of a machine that is busy with others.
  const overload = { enabled: true, target_delay_ms: 30_000 }
  const { service, client } = acmeScene({ config: { server: { workers: 1, overload } } })

  const agentFrom = (localAddress: string, maxSockets: number) =>
    new Agent({ keepAlive: true, maxSockets, localAddress } as ConstructorParameters<typeof Agent>[0])

  function sendBy(agent: Agent, { method = 'POST', url, headers, body }: RawRequest): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const outgoing = request(url, { method, agent, headers: headers ?? {} }, (incoming) => {
        let text = ''
        incoming.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk
        })
        incoming.on('end', () => {
          const json = text.startsWith('{') ? JSON.parse(text) : {}
          const { headers: received, statusCode: status = 0 } = incoming
          resolve({ status, headers: received, links: {}, body: Buffer.from(text), text, json })
        })
      })
      outgoing.on('error', reject).end(body)
    })
  }

  /**
   * Each connection sends the next as soon as it has its answer.
   * @param until is waited for beyond the end: on a slow machine all answers of the first round may be late ones.
   */
  async function attack(make: () => RawRequest, until: (replies: readonly Reply[]) => boolean) {
    const agent = agentFrom(ABUSER, CONNECTIONS)
    const replies: Reply[] = []
    const beganAt = performance.now()
    const end = beganAt + ATTACK_MS
    await Promise.all(
      Array.from({ length: CONNECTIONS }, async () => {
        while (performance.now() < end || (!until(replies) && performance.now() < end + WAIT_MS))
          await sendBy(agent, make()).then(
            (reply) => replies.push(reply),
            // A connection that was ended under a body it had not finished.
            () => undefined,
          )
      }),
    )
    agent.destroy()
    // What comes before the bound, and then one request a second on each connection.
    return { replies, most: CONNECTIONS * ((performance.now() - beganAt) / 1000 + 4) }
  }

  async function goodRequests(forMs: number): Promise<number> {
    let done = 0
    for (const end = performance.now() + forMs; performance.now() < end; done++) {
      const { status, text } = await client.post(client.kid)
      assert.equal(status, 200, text)
    }
    return (done * 1000) / forMs
  }

  test('whose signatures fail is not verified any more, and answered late; others notice little', async (t) => {
    const neighbour = await registeredClient(service.directoryUrl, undefined, (one) => sendBy(shared, one))
    assert.equal((await neighbour.post(neighbour.kid)).status, 200)
    const before = await goodRequests(1000)
    const newOrder = client.directory['newOrder'] as string
    const payload = { identifiers: [{ type: 'dns', value: 'abuse.test' }] }
    const jws = await client.jws(newOrder, { payload, signature: (good) => Buffer.alloc(good.length, 7) })
    const forged = { url: newOrder, headers: JOSE, body: JSON.stringify(jws) }

    const isHeld = ({ status }: Reply) => status === 429
    const attacking = attack(
      () => forged,
      (replies) => replies.some(isHeld),
    )
    const during = await goodRequests(ATTACK_MS)
    const answer = await neighbour.post(neighbour.kid)
    const { replies, most } = await attacking

    const held = replies.filter(isHeld)
    t.diagnostic(JSON.stringify({ before, during, attacks: replies.length, held: held.length }))
    assert.equal(answer.status, 200, 'an account that has signed well from the same address was refused')
    assert.deepEqual([...new Set(replies.map(({ status }) => status))].sort(), [403, 429])
    for (const { headers } of held) assert.match(String(headers['retry-after']), /^\d+$/)
    assert.ok(replies.length < most, `${replies.length} requests were answered`)
    await service.untilLogged(
      'the address',
      ({ event, address }) => event === 'address_held_back' && address === ABUSER,
    )
  })

  // The nonce is looked at last (RFC 8555 §6.5), after the signature.
  test('that sends one good request again and again is not verified any more either', async () => {
    const agent = agentFrom('127.0.0.3', 20)
    const abuser = await registeredClient(service.directoryUrl, undefined, (one) => sendBy(agent, one))
    const again = { url: abuser.kid, headers: JOSE, body: JSON.stringify(await abuser.jws(abuser.kid)) }
    assert.equal((await sendBy(agent, again)).status, 200)
    const replies: Answer[] = []
    const startedAt = performance.now()
    while (replies.length < 600 && replies.every(({ status }) => status === 400))
      replies.push(...(await Promise.all(Array.from({ length: 20 }, () => sendBy(agent, again)))))
    agent.destroy()
    const kinds = replies.map(({ status, json }) => `${status} ${json.type.split(':').at(-1)}`)
    assert.deepEqual([...new Set(kinds)], ['400 badNonce', '429 rateLimited'])
    // A hundred at once; of those that come more slowly seven a second are forgotten.
    const most = 120 + (7 * (performance.now() - startedAt)) / 1000
    assert.ok(kinds.indexOf('429 rateLimited') <= most, kinds.join(', '))
  })

  test('that sends bodies over the limit is cut off late', async (t) => {
    const huge = { url: service.directoryUrl, headers: JOSE, body: 'x'.repeat(80_000) }
    const attacking = attack(
      () => huge,
      (replies) => replies.length > 0,
    )
    const during = await goodRequests(ATTACK_MS)
    const { replies, most } = await attacking
    t.diagnostic(JSON.stringify({ during, answered: replies.length }))
    assert.deepEqual([...new Set(replies.map(({ status }) => status))], [413])
    assert.ok(replies.length < most, `${replies.length} requests were answered`)
  })

  const shared = agentFrom(ABUSER, 4)
  after(() => shared.destroy())

  test('registers no accounts while it is held back, and others do', async () => {
    const stranger = await createAcmeClient(service.directoryUrl, undefined, (one) => sendBy(shared, one))
    const answer = await stranger.newAccount({ termsOfServiceAgreed: true })
    assert.equal(answer.status, 429, answer.text)
    assert.equal(answer.json.type, 'urn:ietf:params:acme:error:rateLimited')
    assert.equal(
      (await (await createAcmeClient(service.directoryUrl)).newAccount({ termsOfServiceAgreed: true })).status,
      201,
    )
  })

  /** Each connection sends its beginning, and then a piece ten times a second until the server ends it. */
  for (const [name, beginning, piece] of [
    ['holds connections open and says nothing', '', ''],
    ['never ends a head', 'POST / HTTP/1.1\r\nHost: x\r\n', 'X-Slow: 1\r\n'],
    ['never ends a body', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n', 'a'],
  ] as const)
    test(`that ${name} costs others no answer`, async (t) => {
      const { hostname, port } = new URL(service.directoryUrl)
      let open = CONNECTIONS
      const sockets = Array.from({ length: CONNECTIONS }, (): Socket => {
        const socket = connect({ host: hostname, port: Number(port), localAddress: '127.0.0.4', family: 4 })
        const timer = setInterval(() => socket.write(piece), 100)
        socket.on('error', () => undefined)
        socket.on('close', () => {
          clearInterval(timer)
          open--
        })
        socket.write(beginning)
        return socket
      })
      const during = await goodRequests(ATTACK_MS)
      t.diagnostic(JSON.stringify({ during, open }))
      assert.ok(during > 0)
      for (const socket of sockets) socket.destroy()
    })
})
