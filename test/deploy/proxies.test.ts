/** The proxies below deploy/proxy: their own programs accept the files, and a service behind them shows the world what it should. */

import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { freePort } from '../support/free-port.ts'
import { requireAll, requireCommand } from '../support/requirements.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const DEPLOY = path.resolve(import.meta.dirname, '../../../deploy/proxy')
/** Of the examples: who may ask for metrics and health. */
const OPERATORS = '192.0.2.0/24'

interface Ports {
  http: number
  https: number
  service: number
}

interface Proxy {
  command: string
  required: { skip: string | false }
  /** The example with ports and files of the test, and with what the package has around it. */
  configuration(folder: string, ports: Ports, operators: string): string
  check(file: string, folder: string): readonly string[]
  run(file: string, folder: string): readonly string[]
}

const nginx: Proxy = {
  command: 'nginx',
  required: requireAll(requireCommand('nginx'), requireCommand('openssl')),
  configuration: (folder, ports, operators) => `
    daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log;
    events {}
    http {
      access_log off;
      client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/fastcgi;
      uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
      ${replaced('nginx.conf', {
        '127.0.0.1:8443': `127.0.0.1:${ports.service}`,
        'listen 80;': `listen 127.0.0.1:${ports.http};`,
        'listen 443 ssl;': `listen 127.0.0.1:${ports.https} ssl;`,
        '/etc/nginx/chancery.pem': `${folder}/both.pem`,
        '/etc/nginx/chancery.key': `${folder}/both.pem`,
        [OPERATORS]: operators,
      })}
    }`,
  check: (file, folder) => ['-t', '-q', '-p', folder, '-e', `${folder}/error.log`, '-c', file],
  run: (file, folder) => ['-p', folder, '-e', `${folder}/error.log`, '-c', file],
}

const haproxy: Proxy = {
  command: 'haproxy',
  required: requireAll(requireCommand('haproxy'), requireCommand('openssl')),
  configuration: (folder, ports, operators) => `global
    maxconn 100
${replaced('haproxy.cfg', {
  '127.0.0.1:8443': `127.0.0.1:${ports.service}`,
  'bind :80': `bind 127.0.0.1:${ports.http}`,
  'bind :443': `bind 127.0.0.1:${ports.https}`,
  '/etc/haproxy/chancery.pem': `${folder}/both.pem`,
  [OPERATORS]: operators,
})}`,
  check: (file) => ['-c', '-q', '-f', file],
  run: (file) => ['-db', '-q', '-f', file],
}

function replaced(name: string, replacements: Record<string, string>): string {
  return Object.entries(replacements).reduce(
    (text, [from, to]) => {
      assert.ok(text.includes(from), `${name} has ${from}`)
      return text.replaceAll(from, to)
    },
    readFileSync(path.join(DEPLOY, name), 'utf8'),
  )
}

for (const proxy of [nginx, haproxy]) {
  describe(`${proxy.command} as deploy has it`, proxy.required, () => {
    let folder: string
    let service: TestService
    let ports: Ports
    const running: ChildProcess[] = []
    before(async () => {
      folder = mkdtempSync(path.join(tmpdir(), 'chancery-proxy-'))
      makeCertificate(folder)
      service = await startTestService({
        config: {
          server: { external_url: 'https://acme.corp.example' },
          proxy: { enabled: true, trusted_proxies: ['127.0.0.1'] },
          crl: { enabled: true },
          ca: { crl_url: 'http://crl.corp.example/crl/{crl}' },
        },
      })
      ports = await start(OPERATORS)
    })
    after(async () => {
      for (const child of running) await stop(child)
      await service.dispose()
      rmSync(folder, { recursive: true })
    })

    async function start(operators: string): Promise<Ports> {
      const chosen = { http: await freePort(), https: await freePort(), service: service.port }
      const file = path.join(folder, `${chosen.https}.conf`)
      writeFileSync(file, proxy.configuration(folder, chosen, operators))
      const child = spawn(proxy.command, proxy.run(file, folder), { stdio: 'ignore' })
      running.push(child)
      await until(`${proxy.command} to answer`, async () => {
        assert.equal(child.exitCode, null, `${proxy.command} has ended`)
        return get(`http://127.0.0.1:${chosen.http}/`).then(Boolean, () => false)
      })
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

    test('shows lists and nothing else over plain HTTP', async () => {
      const expected = {
        '/crl': 200,
        '/crl/default': 200,
        '/directory': 404,
        '/metrics': 404,
        '/healthz': 404,
        '/crls': 404,
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

/** Key and certificate in one file, as HAProxy wants them. */
function makeCertificate(folder: string): void {
  const subject = ['-subj', '/CN=acme.corp.example', '-days', '2']
  const made = spawnSync('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', ...subject],
    ...['-keyout', `${folder}/key.pem`, '-out', `${folder}/cert.pem`],
  ])
  assert.equal(made.status, 0, String(made.stderr))
  const both = ['key.pem', 'cert.pem'].map((name) => readFileSync(path.join(folder, name), 'utf8')).join('')
  writeFileSync(path.join(folder, 'both.pem'), both, { mode: 0o600 })
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGTERM')
  await ended
}
