/** Who keeps whom out of the Admin API when many ask at once. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import pino from 'pino'
import { z } from 'zod/v4'
import { AdminApplication } from '../../../src/admin/admin-application.ts'
import { type AnyEndpoint, endpoint, endpointGroup } from '../../../src/admin/admin-endpoint.ts'
import type { AdminRequest } from '../../../src/admin/admin-message.ts'
import type { AdminContext } from '../../../src/admin/context.ts'
import { ReplyStreams } from '../../../src/admin/streams.ts'
import { gate } from '../../support/gate.ts'

const reply = { status: 200, schema: z.strictObject({ ok: z.boolean() }) } as const

/** Two endpoints that answer when they are told to, and one that answers at once. */
function anApplication() {
  const { opened: told, open: answer } = gate()
  const later = async () => {
    await told
    return { body: { ok: true } }
  }
  const endpoints = endpointGroup('Tests', {
    open: endpoint({ route: 'GET /open', permission: 'none', reply, handle: later }),
    slow: endpoint({ route: 'GET /slow', permission: 'read', reply, handle: later }),
    quick: endpoint({
      route: 'GET /quick',
      permission: 'read',
      reply,
      handle: async () => ({ body: { ok: true } }),
    }),
  })
  const authenticate = async (token: string) => ({ userId: token, username: token, role: 'auditor', ipAddress: '::1' })
  const context = { signIn: { authenticate } } as unknown as AdminContext
  const log = pino({ level: 'silent' })
  const application = new AdminApplication({
    endpoints: Object.values(endpoints) as unknown as AnyEndpoint[],
    context,
    streams: new ReplyStreams(),
    baseUrl: '',
    log,
  })
  const ask = (path: string, user?: string, address = '::1') =>
    application.handle({
      requestId: '1',
      method: 'GET',
      path,
      query: '',
      contentType: undefined,
      body: Buffer.alloc(0),
      address,
      authorization: user === undefined ? undefined : `Bearer ${user}`,
    } satisfies AdminRequest)
  return { ask, answer, application }
}

describe('many requests at once', () => {
  test('strangers who wait for their logins keep no administrator out', async () => {
    const { ask, answer } = anApplication()
    const logins = Array.from({ length: 200 }, () => ask('/open'))
    assert.equal((await ask('/quick', 'ann')).status, 200)
    answer()
    const statuses = (await Promise.all(logins)).map(({ status }) => status)
    assert.deepEqual([...new Set(statuses)].sort(), [200, 429])
    assert.equal(statuses.filter((status) => status === 200).length, 64)
    assert.equal((await ask('/open')).status, 200)
  })

  test('an address whose callers all wait keeps no login of another address out', async () => {
    const { ask, answer } = anApplication()
    const flood = Array.from({ length: 200 }, () => ask('/open'))
    const other = ask('/open', undefined, '192.0.2.1')
    answer()
    assert.equal((await other).status, 200)
    await Promise.all(flood)
  })

  test('one user with many requests keeps no other user out', async () => {
    const { ask, answer, application } = anApplication()
    const own: Promise<{ status: number }>[] = []
    for (let n = 0; n < 100; n++) {
      own.push(ask('/slow', 'eve'))
      if (n % 10 === 9) await new Promise(setImmediate)
    }
    assert.equal((await ask('/quick', 'ann')).status, 200)
    const refused = await ask('/quick', 'eve')
    assert.deepEqual([refused.status, refused.headers.some(([name]) => name === 'Retry-After')], [503, true])
    answer()
    await Promise.all(own)
    assert.equal((await ask('/quick', 'eve')).status, 200)
    assert.equal(application.running, 0)
  })
})
