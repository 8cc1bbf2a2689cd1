/**
 * Debian's nginx in front: effective address and scheme, HSTS, rate-limit keys, and the `url` of a
 * request, with the prefix passed on and with the prefix cut off.
 */

import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type AcmeClient, closeConnections, createAcmeClient, registeredClient, send } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { freePort } from '../support/free-port.ts'
import { WAIT_MS } from '../support/patience.ts'
import { requireCommand } from '../support/requirements.ts'
import { startTestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const PREFIX = '/pki/acme'

interface Nginx {
  stop(): Promise<void>
}

/** @param location of the server block; what stands there beside the address of the service is the same in all tests. */
async function startNginx(ports: { port: number; tlsPort: number }, location: string): Promise<Nginx> {
  const folder = temporaryFolder()
  selfSignedCertificate(folder)
  const file = path.join(folder, 'nginx.conf')
  const common = `
      proxy_http_version 1.1;
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme;
      ${location}`
  writeFileSync(
    file,
    `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log;
     events {}
     http {
       access_log off;
       client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/fastcgi;
       uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
       server { listen 127.0.0.1:${ports.port}; ${common} }
       server {
         listen 127.0.0.1:${ports.tlsPort} ssl;
         ssl_certificate ${folder}/cert.pem; ssl_certificate_key ${folder}/key.pem;
         ${common}
       }
     }`,
  )
  const child = spawn('nginx', ['-p', folder, '-e', `${folder}/error.log`, '-c', file], { stdio: 'ignore' })
  await untilAnswering(child, ports.port)
  return {
    async stop() {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGTERM')
      await ended
    },
  }
}

function selfSignedCertificate(folder: string): void {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', `${folder}/key.pem`]
  const rest = ['-days', '2', '-subj', '/CN=localhost', '-out', `${folder}/cert.pem`]
  const made = spawnSync('openssl', ['req', '-x509', ...key, ...rest])
  assert.equal(made.status, 0, String(made.stderr))
}

async function untilAnswering(child: ChildProcess, port: number): Promise<void> {
  await until('an answer of nginx', async () => {
    assert.equal(child.exitCode, null, 'nginx has ended')
    return send({ method: 'GET', url: `http://127.0.0.1:${port}/` }).catch(() => undefined)
  })
}

/** Two requests in an hour, so that a third one shows whose they were. */
const LIMITS = {
  enabled: true,
  ...Object.fromEntries(
    ['new_account', 'new_order', 'new_order_per_identifier', 'challenge', 'challenge_validation'].map((name) => [
      name,
      { requests: 10_000, window_seconds: 1 },
    ]),
  ),
  new_nonce: { requests: 30, window_seconds: 3600 },
}

const freePorts = async () => ({ port: await freePort(), tlsPort: await freePort() })

describe('behind nginx', { ...requireCommand('nginx') }, () => {
  let ports: { port: number; tlsPort: number }
  const { service, responder } = acmeScene(async () => {
    ports = await freePorts()
    return startTestService({
      fronts: 1,
      config: {
        server: { external_url: `http://127.0.0.1:${ports.port}/pki` },
        api: { base_path: '/acme' },
        proxy: { enabled: true, trusted_proxies: ['127.0.0.1'] },
        security: { rate_limits: LIMITS, hsts_max_age_seconds: 86_400 },
      },
    })
  })
  const directoryUrl = () => `http://127.0.0.1:${ports.port}${PREFIX}/directory`

  /** During the tests of a group. */
  function inFront(passedTo: string): void {
    let nginx: Nginx
    before(async () => {
      nginx = await startNginx(ports, `location /pki/ { proxy_pass http://127.0.0.1:${service.port}${passedTo}; }`)
    })
    after(async () => {
      closeConnections()
      await nginx.stop()
    })
  }

  const FORMS: [title: string, passedTo: string, inside: string][] = [
    ['the path of external_url is passed on', '', PREFIX],
    ['the path of external_url is cut off', '/', '/acme'],
  ]
  for (const [title, passedTo, inside] of FORMS)
    describe(title, () => {
      inFront(passedTo)

      test('a certificate is obtained, every URL below the public one', async () => {
        const client: AcmeClient = await registeredClient(directoryUrl())
        const used: string[] = []
        const fresh = client.nonce
        let next: string | undefined
        // Nonces from replies: new-nonce is what the tests below count.
        client.nonce = async () => next ?? fresh()
        const post = client.post
        client.post = async (url, payload, parts) => {
          used.push(url)
          const answer = await post(url, payload, parts)
          next = String(answer.headers['replay-nonce'])
          return answer
        }
        const { chain } = await client.obtain(['proxied.test'], responder)
        assert.match(chain, /BEGIN CERTIFICATE/)
        for (const url of used) assert.ok(url.startsWith(`http://127.0.0.1:${ports.port}${PREFIX}/`), url)
      })

      test('the url of a request is compared with the public URL, not with what nginx asks for (RFC 8555 §6.4)', async () => {
        const client = await createAcmeClient(directoryUrl())
        const url = client.directory['newAccount'] as string
        const inner = `${service.baseUrl}${inside}/new-account`
        const refused = await client.post(url, {}, { withJwk: true, header: { url: inner } })
        assert.equal(refused.status, 403)
        assert.equal(refused.json.type, 'urn:ietf:params:acme:error:unauthorized')
        assert.equal((await client.post(url, {}, { withJwk: true })).status, 201)
      })
    })

  describe('either way', () => {
    inFront('')

    /** As a client on another machine: nginx adds its peer, which is this machine, behind. */
    const nonce = (forwardedFor: string) =>
      send({
        method: 'HEAD',
        url: `http://127.0.0.1:${ports.port}${PREFIX}/new-nonce`,
        headers: { 'X-Forwarded-For': forwardedFor },
      })

    test('limits are counted for the client that nginx names, whatever is claimed before it', async () => {
      for (let i = 0; i < 30; i++) await nonce(`203.0.113.${i}`)
      // The last hop that is no trusted proxy is the claim itself, for nginx's peer is this machine, a trusted one.
      assert.equal((await nonce('203.0.113.200')).status, 200)
      let status = 200
      for (let i = 0; i < 31; i++) status = (await nonce('192.0.2.1, 203.0.113.77')).status
      assert.equal(status, 429)
      assert.equal((await nonce('192.0.2.9, 203.0.113.77')).status, 429, 'what the client wrote before does not help')
      assert.equal((await nonce('203.0.113.77, 192.0.2.9')).status, 200)
    })

    test('the log names the client', async () => {
      await nonce('198.51.100.23')
      await service.untilLogged('one with the address', ({ address }) => address === '198.51.100.23')
    })

    // It asks from an address of its own, which is no trusted proxy.
    test('the headers of an nginx that is not trusted count for nothing: every client is nginx itself', async (context) => {
      const others = await freePorts()
      const location = `location / { proxy_bind 127.0.0.2; proxy_pass http://127.0.0.1:${service.port}; }`
      const stranger = await startNginx(others, location)
      context.after(() => stranger.stop())
      const statuses: number[] = []
      for (let i = 0; i < 31; i++) {
        const answer = await send({
          method: 'HEAD',
          url: `http://127.0.0.1:${others.port}${PREFIX}/new-nonce`,
          headers: { 'X-Forwarded-For': `203.0.113.${i}`, 'X-Forwarded-Proto': 'https' },
        })
        statuses.push(answer.status)
        assert.equal(answer.headers['strict-transport-security'], undefined)
      }
      assert.equal(statuses.at(-1), 429)
    })

    test('HSTS goes by the scheme that nginx was asked with', async () => {
      const plain = await fetch(`http://127.0.0.1:${ports.port}${PREFIX}/directory`)
      assert.equal(plain.headers.get('strict-transport-security'), null)
      const tls = spawnSync('openssl', ['s_client', '-quiet', '-connect', `127.0.0.1:${ports.tlsPort}`], {
        input: `GET ${PREFIX}/directory HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`,
        encoding: 'utf8',
        timeout: WAIT_MS,
      })
      assert.match(tls.stdout, /^HTTP\/1\.1 200/m)
      assert.match(tls.stdout, /^strict-transport-security: max-age=86400/im)
    })
  })
})
