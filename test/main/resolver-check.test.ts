/** The health member `dns_resolver`: any answer of a name server counts, silence does not. */

import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { startResolverCheck } from '../../src/main/watches.ts'
import { until } from '../support/until.ts'

const REFUSED = 5

describe('the check of name servers', () => {
  test('one that answers, though it refuses, is there', async (context) => {
    const server = createSocket('udp4')
    let asked = 0
    server.on('message', (query, from) => {
      asked++
      const reply = Buffer.from(query)
      reply[2] = 0x80 | (query[2] ?? 0)
      reply[3] = REFUSED
      server.send(reply, from.port, from.address)
    })
    server.bind(0, '127.0.0.1')
    await once(server, 'listening')
    context.after(() => server.close())
    const check = startResolverCheck([`127.0.0.1:${server.address().port}`])
    context.after(() => check.stop())
    await until('it is asked', () => asked > 0)
    assert.equal(check.status(), 'ok')
  })

  test('one that is silent is not', async (context) => {
    const silent = createSocket('udp4')
    silent.bind(0, '127.0.0.1')
    await once(silent, 'listening')
    context.after(() => silent.close())
    const check = startResolverCheck([`127.0.0.1:${silent.address().port}`])
    context.after(() => check.stop())
    await until('the time is over', async () => check.status() === 'error')
  })
})
