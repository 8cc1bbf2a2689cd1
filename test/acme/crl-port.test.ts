/** The CRL at a port without TLS (RFC 5280 §8), and a list that nobody renews. The embedded mode's is in `interop/embedded-mode.test.ts`. */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import { parse, stringify } from 'yaml'
import { send } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { readCrl } from '../support/crl.ts'
import { freePort } from '../support/free-port.ts'
import { configOf } from '../support/reload.ts'
import { runCommand } from '../support/run-command.ts'
import { until } from '../support/until.ts'

const CLI = path.resolve(import.meta.dirname, '../../../dist/src/cli/main.js')
const CRL_LOCK = 712948

describe('crl.http_port', () => {
  let port: number
  const { service, database: db } = acmeScene('few connections')
  before(async () => {
    port = (parse(configOf(service).text()) as { crl: { http_port: number } }).crl.http_port
  })

  const fetchCrl = async () => {
    const answer = await send({ method: 'GET', url: `${service.baseUrl}/crl` })
    return { ...answer, crl: answer.status === 200 ? readCrl(answer.body) : undefined }
  }
  const at = (place: string, method = 'GET') => send({ method, url: `http://127.0.0.1:${port}${place}` })

  test('serves what the other port serves', async () => {
    const here = await until('both have the same list', async () => {
      const [here, there] = await Promise.all([at('/crl/default'), fetchCrl()])
      return here.headers.etag === there.headers.etag && here.body.equals(there.body) && here
    })
    assert.equal(here.status, 200)
    assert.equal(here.headers['content-type'], 'application/pkix-crl')
    assert.equal(here.headers['strict-transport-security'], undefined)
    assert.equal((await at('/crl', 'HEAD')).status, 200)
  })

  test('serves nothing else', async () => {
    for (const place of ['/directory', '/new-nonce', '/metrics', '/livez', '/'])
      assert.equal((await at(place)).status, 404, place)
    assert.equal((await at('/new-account', 'POST')).status, 404)
    assert.equal((await at('/crl', 'POST')).status, 405)
  })

  /** What a start with another configuration beside that of the service says. */
  async function refusedWith(sections: object): Promise<string> {
    const config = parse(configOf(service).text()) as Record<string, object>
    const file = path.join(service.folder, 'other.yaml')
    writeFileSync(file, stringify({ ...config, server: { ...config['server'], port: await freePort() }, ...sections }))
    const { code, output } = await runCommand(process.execPath, [CLI, '-c', file, 'serve'])
    assert.equal(code, 1, output)
    return output
  }

  test('is refused at start where somebody listens, also as the port of the Admin API', async () => {
    const inUse = `cannot listen on 127.0.0.1:${port}: it is in use`
    assert.ok((await refusedWith({})).includes(inUse))
    const admin_api = {
      enabled: true,
      initial_admin_email: 'admin@example.test',
      token_secret: 'a secret of sixteen bytes and more',
      listen: { bind: '127.0.0.1', port },
    }
    assert.match(
      await refusedWith({ admin_api, crl: { enabled: true } }),
      new RegExp(`${inUse} .admin_api.listen.port.`),
    )
  })

  test('has its connections bounded together with those of the other port, and those refused are counted', async () => {
    const sockets: Socket[] = []
    let closed = 0
    for (const to of [service.port, port])
      for (let i = 0; i < 30; i++) {
        const socket = connect({ host: '127.0.0.1', port: to }).on('error', () => undefined)
        socket.resume().on('close', () => closed++)
        sockets.push(socket)
        await once(socket, 'connect')
      }
    await until('20 of 60 are closed', () => closed >= 20)
    for (const socket of sockets) socket.destroy()
    await until('they are reported', async () => {
      const { text } = await send({ method: 'GET', url: `${service.baseUrl}/metrics` })
      const [, refused] = /requests_shed_total\{reason="connections"\} (\d+)/.exec(text) ?? []
      return Number(refused) >= 20
    })
  })

  const health = (name: string) => send({ method: 'GET', url: `${service.baseUrl}/${name}` })

  test('a list comes by the cron expression when nothing happens (crl.schedule)', async () => {
    const { crl } = await fetchCrl()
    await until('a new list', async () => (await fetchCrl()).crl!.number > crl!.number)
  })

  test('a list that is not renewed degrades health, and is served all the same until there is a new one', async () => {
    // Nobody can lead the building of lists while we do.
    await db.query('SELECT pg_advisory_lock($1)', [CRL_LOCK])
    await db.query(`UPDATE crls SET next_update = now() - interval '1 second'`)
    const degraded = await until('health is degraded', async () => {
      const answer = await health('healthz')
      return answer.status === 503 && answer
    })
    assert.deepEqual(degraded.json.checks.crl, { status: 'error', stale: true })
    const ready = await health('readyz')
    assert.deepEqual([ready.status, ready.json.reason], [503, 'CRL is stale'])
    assert.equal((await fetchCrl()).status, 200)

    await db.query('SELECT pg_advisory_unlock($1)', [CRL_LOCK])
    await until('health is well again', async () => (await health('healthz')).status === 200)
  })
})
