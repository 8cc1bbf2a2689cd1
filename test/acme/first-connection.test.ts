/** A front thread whose connection to the signer comes later than the supervisor's. */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeAuthority } from '../signer/authority.ts'
import { useSigner } from '../signer/daemon.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { startTestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** Longer than a start takes from there to the first request. */
const LATER_MS = 2_500

describe('a front thread whose signer answers later', () => {
  const signer = useSigner({ default: makeAuthority('P-256') })
  const socket = path.join(temporaryFolder(), 'later.sock')
  const sockets = new Set<Socket>()
  let between: Server
  before(async () => {
    let connections = 0
    between = createServer(async (inward) => {
      sockets.add(inward.on('error', () => inward.destroy()))
      // The first one is the supervisor's.
      if (++connections > 1) await sleep(LATER_MS)
      const outward = connect(signer.files.socket)
      sockets.add(outward.on('error', () => inward.destroy()))
      inward.pipe(outward).pipe(inward)
    }).listen(socket)
    await once(between, 'listening')
  })
  const { client, responder } = acmeScene(() =>
    startTestService({ fronts: 1, config: { ca: { signer: { ...signer.section, socket } } } }),
  )
  after(() => {
    between.close()
    for (const one of sockets) one.destroy()
  })

  test('takes no request before it knows the issuers, so the first finalize is not 503', async () => {
    assert.match((await client.obtain(['first.test'], responder)).chain, /BEGIN CERTIFICATE/)
  })
})
