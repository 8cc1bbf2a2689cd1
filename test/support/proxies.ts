/** nginx and HAProxy with the examples below deploy/proxy, as their packages start them. */

import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { connect } from 'node:net'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { answerOf, type Transport } from './acme-client.ts'
import { freePort } from './free-port.ts'
import { requireAll, requireCommand } from './requirements.ts'
import { until } from './until.ts'
import { words } from './words.ts'

const DEPLOY = path.resolve(import.meta.dirname, '../../../deploy/proxy')
/** The examples let this network ask for metrics and health. */
export const OPERATORS = '192.0.2.0/24'

export interface ProxyPorts {
  http: number
  https: number
  service: number
  /** The port of a second instance. */
  second?: number | undefined
}

export interface ProxyExample {
  command: string
  required: { skip: string | false }
  /** The example with ports and files of the test, and with what the package has around it. */
  configuration(folder: string, ports: ProxyPorts, operators: string): string
  check(file: string, folder: string): readonly string[]
  run(file: string, folder: string): readonly string[]
  /** Whether it sends requests to every instance. */
  usesAll(folder: string, ports: ProxyPorts): Promise<boolean>
}

export const nginx: ProxyExample = {
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
        ...(ports.second && { '#server 127.0.0.1:8446': `server 127.0.0.1:${ports.second}` }),
        'listen 80;': `listen 127.0.0.1:${ports.http};`,
        'listen 443 ssl;': `listen 127.0.0.1:${ports.https} ssl;`,
        '/etc/nginx/chancery.pem': `${folder}/both.pem`,
        '/etc/nginx/chancery.key': `${folder}/both.pem`,
        [OPERATORS]: operators,
      })}
    }`,
  check: (file, folder) => ['-t', '-q', '-p', folder, '-e', `${folder}/error.log`, '-c', file],
  run: (file, folder) => ['-p', folder, '-e', `${folder}/error.log`, '-c', file],
  // With `max_fails=0` none is ever left out.
  usesAll: async () => true,
}

export const haproxy: ProxyExample = {
  command: 'haproxy',
  required: requireAll(requireCommand('haproxy'), requireCommand('openssl')),
  configuration: (folder, ports, operators) => `global
    maxconn 100
    stats socket ${folder}/${ports.https}.sock
${replaced('haproxy.cfg', {
  '127.0.0.1:8443': `127.0.0.1:${ports.service}`,
  ...(ports.second && { '#server two 127.0.0.1:8446': `server two 127.0.0.1:${ports.second}` }),
  'bind :80': `bind 127.0.0.1:${ports.http}`,
  'bind :443': `bind 127.0.0.1:${ports.https}`,
  '/etc/haproxy/chancery.pem': `${folder}/both.pem`,
  [OPERATORS]: operators,
})}`,
  check: (file) => ['-c', '-q', '-f', file],
  run: (file) => ['-db', '-q', '-f', file],
  async usesAll(folder, { https }) {
    const socket = connect(`${folder}/${https}.sock`)
    socket.write('show stat\n')
    const servers = (await text(socket)).split('\n').filter((line) => /^[\w-]+,(?:one|two),/.test(line))
    return servers.length > 0 && servers.every((line) => line.split(',').includes('UP'))
  },
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

/** Starts the program in the folder, where `makeCertificate` has been, and waits until it answers. */
export async function startProxy(
  proxy: ProxyExample,
  folder: string,
  ports: ProxyPorts,
  operators: string,
): Promise<ChildProcess> {
  const file = path.join(folder, `${ports.https}.conf`)
  writeFileSync(file, proxy.configuration(folder, ports, operators))
  const child = spawn(proxy.command, proxy.run(file, folder), { stdio: 'ignore' })
  await until(`${proxy.command} to answer`, async () => {
    assert.equal(child.exitCode, null, `${proxy.command} has ended`)
    return fetch(`http://127.0.0.1:${ports.http}/`).then(Boolean, () => false)
  })
  return child
}

/** Free ports for it in front of one instance or two. */
export async function proxyPorts(service: number, second?: number): Promise<ProxyPorts> {
  return { http: await freePort(), https: await freePort(), service, second }
}

/** Sends to the proxy, whatever the host of the URL, on a few connections that stay open. */
export function throughProxy(
  { https: port }: Pick<ProxyPorts, 'https'>,
  isChunked = false,
): { send: Transport; close(): void } {
  // It leaves an idle connection before the proxy does: a request that crosses with that end would be lost.
  const agent = new Agent({ keepAlive: true, rejectUnauthorized: false, timeout: 5_000 })
  return {
    close: () => agent.destroy(),
    send: ({ method = 'POST', url, headers = {}, body = '' }) =>
      new Promise((resolve, reject) => {
        const { host, pathname } = new URL(url)
        const framing = isChunked ? { 'Transfer-Encoding': 'chunked' } : { 'Content-Length': Buffer.byteLength(body) }
        const options = { port, host: '127.0.0.1', path: pathname, method, agent }
        const sent = request({ ...options, headers: { Host: host, ...(body && framing), ...headers } }, (reply) => {
          const chunks: Buffer[] = []
          reply.on('data', (chunk: Buffer) => chunks.push(chunk)).once('error', reject)
          reply.once('end', () => resolve(answerOf(reply.statusCode ?? 0, reply.headers, Buffer.concat(chunks))))
        })
        sent.once('error', reject).end(body)
      }),
  }
}

/** Key and certificate in one file, as HAProxy wants them. */
export function makeCertificate(folder: string): void {
  const key = words`-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem`
  const asked = words`req -x509 ${key} -subj /CN=acme.corp.example -days 2 -out cert.pem`
  const made = spawnSync('openssl', asked, { cwd: folder })
  assert.equal(made.status, 0, String(made.stderr))
  const both = ['key.pem', 'cert.pem'].map((name) => readFileSync(path.join(folder, name), 'utf8')).join('')
  writeFileSync(path.join(folder, 'both.pem'), both, { mode: 0o600 })
}

export async function stopProxy(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGTERM')
  await ended
}
