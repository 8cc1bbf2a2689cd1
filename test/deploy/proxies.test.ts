/** The proxies below deploy/proxy: their own programs accept the files, and a service behind them shows the world what it should. */

import assert from 'node:assert/strict'
import { type ChildProcess, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, describe, test } from 'node:test'
import { connect } from 'node:tls'
import { createAcmeClient } from '../support/acme-client.ts'
import { freePort } from '../support/free-port.ts'
import {
  haproxy,
  makeCertificate,
  nginx,
  OPERATORS,
  type ProxyPorts,
  proxyPorts,
  startProxy,
  stopProxy,
  throughProxy,
} from '../support/proxies.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const folder = temporaryFolder()
let service: TestService
before(async () => {
  makeCertificate(folder)
  service = await startTestService({
    fronts: 1,
    config: {
      server: { external_url: 'https://acme.corp.example' },
      proxy: { enabled: true, trusted_proxies: ['127.0.0.1'] },
      api: { roots_path: '/roots.pem' },
      crl: { enabled: true },
      ca: { crl_url: 'http://crl.corp.example/crl/{crl}' },
    },
  })
})
after(async () => {
  await service.dispose()
})

for (const proxy of [nginx, haproxy]) {
  describe(`${proxy.command} as deploy has it`, proxy.required, () => {
    let ports: ProxyPorts
    const running: ChildProcess[] = []
    before(async () => {
      ports = await start(OPERATORS)
    })
    after(async () => {
      for (const child of running) await stopProxy(child)
    })

    async function start(operators: string): Promise<ProxyPorts> {
      const chosen = await proxyPorts(service.port)
      running.push(await startProxy(proxy, folder, chosen, operators))
      return chosen
    }

    const statuses = async (base: string, names: readonly string[]) =>
      Object.fromEntries(await Promise.all(names.map(async (name) => [name, (await get(`${base}${name}`)).status])))

    test('is accepted by the program that reads it', () => {
      const file = path.join(folder, 'check.conf')
      writeFileSync(file, proxy.configuration(folder, { http: 80, https: 443, service: 8443 }, OPERATORS))
      const { status, stdout, stderr } = spawnSync(proxy.command, proxy.check(file, folder), { encoding: 'utf8' })
      assert.deepEqual({ status, said: `${stdout}${stderr}` }, { status: 0, said: '' })
    })

    test('shows ACME and lists over TLS, and keeps metrics and health for the operators', async () => {
      const base = `https://127.0.0.1:${ports.https}`
      const open = { '/directory': 200, '/new-nonce': 204, '/crl': 200, '/crl/default': 200 }
      assert.deepEqual(await statuses(base, Object.keys(open)), open)
      const closed = ['/metrics', '/metrics?x', '/healthz', '/readyz', '/livez']
      for (const [name, status] of Object.entries(await statuses(base, closed))) assert.equal(status, 403, name)
      for (const [name, status] of Object.entries(await statuses(base, ['/%6detrics', '//metrics', '/x/../metrics'])))
        assert.ok(status === 403 || status === 404, `${name}: ${status}`)
    })

    test('shows them to the operators', async () => {
      const own = await start('127.0.0.0/8')
      const base = `https://127.0.0.1:${own.https}`
      assert.deepEqual(await statuses(base, ['/metrics', '/healthz']), { '/metrics': 200, '/healthz': 200 })
    })

    test('shows lists, roots and nothing else over plain HTTP', async () => {
      const expected = {
        '/crl': 200,
        '/crl/default': 200,
        '/roots.pem': 200,
        '/directory': 404,
        '/metrics': 404,
        '/healthz': 404,
        '/crls': 404,
        '/roots': 404,
      }
      assert.deepEqual(await statuses(`http://127.0.0.1:${ports.http}`, Object.keys(expected)), expected)
    })

    test('names the client itself, whatever that claims, and the scheme it came by', async () => {
      const claims = {
        'X-Forwarded-For': '203.0.113.9',
        'X-Forwarded-Proto': 'http',
        'X-Request-ID': `of-${proxy.command}`,
      }
      const { headers } = await get(`https://127.0.0.1:${ports.https}/directory`, claims)
      assert.match(String(headers['strict-transport-security']), /^max-age=/)
      const line = await service.untilLogged('the request', (one) => one['requestId'] === claims['X-Request-ID'])
      assert.equal(line['address'], '127.0.0.1')
    })

    test('brings a chunked request its answer', async () => {
      const { send, close } = throughProxy(ports, true)
      const client = await createAcmeClient('https://acme.corp.example/directory', undefined, send)
      const { status, text } = await client.newAccount({ termsOfServiceAgreed: true })
      close()
      assert.equal(status, 201, text)
    })

    test('answers with a problem document and Retry-After while no instance is ready (RFC 8555 §6.7)', async () => {
      const alone = await proxyPorts(await freePort())
      running.push(await startProxy(proxy, folder, alone, OPERATORS))
      const { status, headers } = await get(`https://127.0.0.1:${alone.https}/directory`)
      assert.deepEqual(
        [status, headers['content-type'], headers['retry-after']],
        [503, 'application/problem+json', '10'],
      )
    })

    test('makes no second request of a trailer', async () => {
      const host = 'Host: acme.corp.example'
      const begun = `POST /new-nonce HTTP/1.1\r\n${host}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n`
      const trailer = `XXGET /metrics HTTP/1.1\r\n${host}\r\n\r\n`
      const next = `GET /directory HTTP/1.1\r\n${host}\r\nConnection: close\r\n\r\n`
      const socket = connect({ host: '127.0.0.1', port: ports.https, rejectUnauthorized: false })
      socket.write(begun + trailer + next)
      const answered = await text(socket)
      const statuses = [...answered.matchAll(/^HTTP\/1\.1 (\d+)|(?<=})HTTP\/1\.1 (\d+)/gm)].map(
        ([, first, later]) => first ?? later,
      )
      // One of them refuses such a trailer, the other drops it. Neither repeats it behind the body.
      assert.deepEqual(statuses, proxy === haproxy ? ['400'] : ['415', '200'])
      assert.doesNotMatch(answered, /service_/)
    })
  })
}

interface Answer {
  status: number | undefined
  headers: Record<string, unknown>
}

/** The path as it stands, which fetch() would tidy up. */
function get(url: string, headers: Record<string, string> = {}): Promise<Answer> {
  const [, scheme = '', host = '', port, path] = /^(https?):\/\/([^:/]+):(\d+)(.*)$/.exec(url) ?? []
  const send = scheme === 'https' ? httpsRequest : httpRequest
  return new Promise((resolve, reject) => {
    const sent = send({ host, port, path, headers, agent: false, rejectUnauthorized: false }, (reply) => {
      reply.resume().once('end', () => resolve({ status: reply.statusCode, headers: reply.headers }))
    })
    sent.once('error', reject).end()
  })
}
