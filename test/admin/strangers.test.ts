/** What strangers at one address may use up of the Admin API, on the public port and on one of its own. */

import assert from 'node:assert/strict'
import { Agent, request as overHttp } from 'node:http'
import { after, before, describe, test } from 'node:test'
import { head, openRaw } from '../http/raw-client.ts'
import { type AdminInstance, adminInstance } from '../support/admin/admin-instance.ts'
import { type AdminClient, administrator, adminRequest } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { LARGEST_BODY, sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

/** The status of `GET /me` from an address of this machine. */
function statusOfMe(port: number, localAddress: string, token: string, agent: Agent): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}` }
    const outgoing = overHttp({ host: '127.0.0.1', port, path: '/api/me', localAddress, headers, agent }, (reply) => {
      reply.resume().on('end', () => resolve(reply.statusCode))
    })
    outgoing.on('error', reject).end()
  })
}

const STRANGERS = 100
const ADMINISTRATORS_REQUESTS = 34

/** Until its end is asked for, a hundred connections ask with made-up tokens. */
function flood(port: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: STRANGERS })
  const statuses: (number | undefined)[] = []
  let goesOn = true
  let longestMs = 0
  const stranger = async (number: number) => {
    const token = `chancery_${String(number).padStart(43, 'A')}`
    while (goesOn) {
      const askedAt = performance.now()
      statuses.push(await statusOfMe(port, '127.0.0.1', token, agent))
      longestMs = Math.max(longestMs, performance.now() - askedAt)
    }
  }
  const strangers = Promise.all(Array.from({ length: STRANGERS }, (_, number) => stranger(number)))
  return {
    longestMs: () => longestMs,
    async end() {
      goesOn = false
      await strangers
      agent.destroy()
      return statuses
    },
  }
}

for (const where of ['a port of its own', 'the public port'] as const) {
  describe(`strangers on ${where}`, () => {
    const { service } = administered(() => sharedService('crowded'))
    let instance: AdminInstance | undefined
    let port: number
    let admin: AdminClient
    before(async () => {
      instance = where === 'the public port' ? undefined : await adminInstance(service)
      port = instance?.port ?? service.port
      admin = await administrator({ baseUrl: `http://127.0.0.1:${port}`, database: service.database }, 'alice')
    })
    after(() => instance?.close())

    /** @returns the status of a login whose body has so many bytes */
    const login = async (bytes: number) => {
      const body = JSON.stringify({ username: 'u', password: 'p'.repeat(bytes) })
      return (await adminRequest(`http://127.0.0.1:${port}`, 'POST', '/auth/login', { body })).status
    }

    test('a body of the largest size is read', async () => assert.equal(await login(LARGEST_BODY - 100), 413))

    test('bodies of one address that arrive slowly have a bound together', async () => {
      const slow = await openRaw(port)
      slow.send(head('POST /api/auth/login', 'Content-Type: application/json', `Content-Length: ${LARGEST_BODY}`))
      slow.send(Buffer.alloc(LARGEST_BODY - 1, 0x20))
      // Which of the two is refused depends on which is complete first.
      const isRefused = async () => (await login(200_000)) === 503 || slow.text.startsWith('HTTP/1.1 503')
      await until('there is no memory left', isRefused)
      slow.socket.destroy()
      await until('it is given back', async () => (await login(200_000)) === 413)
    })

    test('a hundred of one address that make up tokens keep out no administrator at another', async (context) => {
      const strangers = flood(port)
      const agent = new Agent({ keepAlive: true, maxSockets: 2 })
      context.after(() => agent.destroy())
      const ask = () => statusOfMe(port, '127.0.0.2', admin.token, agent)
      const answers: (number | undefined)[] = []
      for (let pair = 0; pair < ADMINISTRATORS_REQUESTS / 2; pair++)
        answers.push(...(await Promise.all([ask(), ask()])))
      // A thousand failures later, each waits five seconds for its answer.
      await until('they are held back', () => strangers.longestMs() > 4_500)
      if (!instance) await service.waitForLog('too many requests from an address fail; it is held back')
      const toStrangers = await strangers.end()
      const refused = answers.filter((status) => status !== 200)
      assert.deepEqual(refused, [], `${refused.length} of ${answers.length} are refused`)
      assert.ok(toStrangers.includes(401))
    })
  })
}
