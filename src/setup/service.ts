/**
 * Works with the service: its first administrator and credential, whether it is ready, and a first certificate by ACME
 * through the public URL: ordered, proven or approved, downloaded, revoked.
 */

import { generateKeyPairSync, type KeyObject, sign, X509Certificate } from 'node:crypto'
import { lookup, resolve } from 'node:dns/promises'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { networkInterfaces } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  createAcmeClient,
  type ExternalCredential,
  externalBinding,
  sessionOf,
  type UpstreamSession,
  upstreamKey,
} from '../ca/acme-proxy/upstream-client.ts'
import {
  answerChallenges,
  failureOf,
  readAuthorizations,
  readOrder,
  responsesTo,
} from '../ca/acme-proxy/upstream-order.ts'
import { createHttpClient, type HttpClient, Unreachable } from '../ca/http-client.ts'
import { PATHS, PLACES } from '../installation/places.ts'
import { decodeBase64url, encodeBase64url } from '../shared/lib/encoding.ts'
import { hostOf } from '../shared/lib/host.ts'
import { buildCsr } from '../shared/pki/csr.ts'
import type { Facts } from './facts.ts'
import { mustRun, run, writeFile } from './host.ts'
import { serviceCommand } from './plan/step.ts'
import { type Answers, covers } from './questions.ts'

/** The service gives up after 15 s without a signer, and systemd starts it again. */
const READY_MS = 120_000
const ASK_MS = 5_000
const READY_PAUSE_MS = 1_000
const CREDENTIAL_MS = 600_000
const MAX_BYTES = 65_536

/** @returns the password; undefined where there is a user already */
export async function makeAdministrator(facts: Facts, email: string): Promise<string | undefined> {
  const users = JSON.parse(await mustRun(serviceCommand(facts, 'users', 'list', '--json'))) as unknown[]
  if (users.length > 0) return undefined
  const words = ['users', 'create', 'admin', '--email', email, '--role', 'admin', '--json']
  return (JSON.parse(await mustRun(serviceCommand(facts, ...words))) as { password: string }).password
}

export interface Credential {
  kid: string
  hmacKey: Buffer
}

export const hasCredential = async (facts: Facts, kid: string): Promise<boolean> =>
  (await run(serviceCommand(facts, 'eab', 'show', kid))).code === 0

export async function makeCredential(facts: Facts, kid: string, options: readonly string[]): Promise<Credential> {
  const text = await mustRun(serviceCommand(facts, 'eab', 'create', '--kid', kid, ...options, '--json'))
  const { hmac_key } = JSON.parse(text) as { hmac_key: string }
  return { kid, hmacKey: decodeBase64url(hmac_key) ?? Buffer.alloc(0) }
}

/** @throws Error with what the service says of itself */
export async function waitUntilReady({ tls, port }: Answers, show: (progress: string) => void): Promise<void> {
  const http = createHttpClient({ verify: false, maxConnections: 1 })
  const url = `${tls === 'proxy' ? 'http' : 'https'}://127.0.0.1:${port}/readyz`
  const began = Date.now()
  let last = ''
  try {
    for (let tries = 1; Date.now() - began < READY_MS; tries++) {
      try {
        const { status, body } = await http.send({ method: 'GET', url, maxBytes: MAX_BYTES, timeoutMs: ASK_MS })
        if (status === 200) return
        last = `${status} ${body.toString().slice(0, 500)}`
      } catch (error) {
        last = (error as Error).message
      }
      if (tries % 30 === 0) show(`${Math.round((Date.now() - began) / 1000)} s … `)
      await sleep(READY_PAUSE_MS)
    }
  } finally {
    http.close()
  }
  throw new Error(`the service was not ready after ${READY_MS / 1000} s: ${last}`)
}

/** @throws Error where the service differs from the answers, as one does whose configuration was kept */
export async function requireAnswered({ url, tls, port, accounts }: Answers): Promise<void> {
  const http = tls === 'proxy' ? asProxy(url, port) : createHttpClient({ verify: false, maxConnections: 1 })
  const at = tls === 'proxy' ? url : `https://127.0.0.1:${port}`
  const headers = { Host: new URL(url).host }
  const asked = { method: 'GET', url: `${at}/directory`, headers, maxBytes: MAX_BYTES, timeoutMs: ASK_MS } as const
  const { body } = await http.send(asked).finally(() => http.close())
  const { newAccount, meta } = JSON.parse(body.toString()) as { newAccount: string; meta?: Record<string, unknown> }
  const isBound = meta?.['externalAccountRequired'] === true
  if (newAccount.startsWith(`${url}/`) && isBound === (accounts === 'eab')) return
  throw new Error(
    `the service runs, and not as answered: its directory has newAccount ${newAccount} and externalAccountRequired ${isBound}; the answers have url: ${url} and accounts: ${accounts}. ${PATHS.config} was kept as it is: change it or the answers (--replace)`,
  )
}

/** @returns sentences for the operator: what was done, and how the name was proven */
export async function tryCertificate(answers: Answers, facts: Facts): Promise<string[]> {
  const { url } = answers
  const route = await findRoute(answers)
  if ('reason' in route) return [route.reason, `Then run chancery setup again: it only does what is left.`]
  const host = hostOf(answers.url)
  const ownName = covers(answers.domains, host) && route.isOwnAddress
  const name = covers(answers.domains, host) ? host : `chancery-setup-test.${answers.domains[0]}`
  const listener = ownName ? await listenForHttp01() : undefined
  const isKept = answers.proxy_certificate && route.isStandIn && name === host && !existsSync(PATHS.proxyCertificate)
  const kid = `setup-test-${Date.now()}`
  const approved = listener ? [] : route.addresses.flatMap((one) => ['--preapprove', one])
  // The credential expires by itself where this run does not come to its end.
  const expiry = ['--expires', new Date(Date.now() + CREDENTIAL_MS).toISOString()]
  const binding = await makeCredential(facts, kid, ['--allow', name, '--max-uses', '1', ...expiry, ...approved])
  try {
    const { http } = route
    const { leaf, pem } = await getTestCertificate({ url, name, http, binding, publish: listener?.publish, isKept })
    if (isKept) writeFile(PLACES.proxyCertificate, pem)
    return [
      `Certificate ${leaf.serialNumber.toLowerCase()} for ${name} was issued${isKept ? ` for your proxy, into ${PATHS.proxyCertificate}; it ends on ${new Date(leaf.validTo).toISOString().slice(0, 10)}` : ' and revoked'}.`,
      listener
        ? 'The name was validated by http-01.'
        : 'The name was approved by a credential that is revoked now, and not validated.',
      ...(route.isStandIn
        ? [
            `The proxy was not asked: ${url} does not lead through it from here yet. Set it up, and run chancery setup again.`,
          ]
        : []),
    ]
  } finally {
    listener?.close()
    route.http.close()
    await mustRun(serviceCommand(facts, 'eab', 'revoke', kid))
  }
}

interface Route {
  http: HttpClient
  /** Addresses that the service sees this host at. */
  addresses: readonly string[]
  /** The public name leads to this host, so http-01 asks it. */
  isOwnAddress: boolean
  /** Setup stands in for a proxy that is not there yet. */
  isStandIn: boolean
}

/** The address that the stand-in for a proxy names as the client's; it belongs to nobody (RFC 5737). */
const CLIENT = '192.0.2.1'

/** Finds a way through the public URL. Where a proxy is not there yet, setup stands in for it. */
async function findRoute({ url, tls, port }: Answers): Promise<Route | { reason: string }> {
  const http = createHttpClient({ extraRoots: readFileSync(PATHS.root, 'utf8'), verify: true, maxConnections: 1 })
  const host = hostOf(url)
  const own = Object.values(networkInterfaces()).flatMap((all) => all ?? [])
  try {
    const { address } = await lookup(host)
    await http.send({ method: 'GET', url: `${url}/directory`, maxBytes: MAX_BYTES, timeoutMs: ASK_MS })
    // The service asks DNS and not /etc/hosts, and never this host's loopback.
    const inDns = await resolve(host).catch((): string[] => [])
    const isOwnAddress = own.some((one) => inDns.includes(one.address) && !one.internal)
    // Behind a proxy, loopback is the proxy's own address, which approves nothing.
    if (tls !== 'proxy' || !/^(?:127\.|::1$)/.test(address))
      return { http, isOwnAddress, isStandIn: false, addresses: own.map((one) => one.address) }
  } catch (error) {
    if (tls !== 'proxy') {
      http.close()
      return { reason: `${url} cannot be reached from here (${reasonOf(error)}): add ${host} to your DNS.` }
    }
  }
  http.close()
  return { http: asProxy(url, port), isOwnAddress: false, addresses: [CLIENT], isStandIn: true }
}

const reasonOf = (error: unknown) =>
  error instanceof Unreachable ? error.message : ((error as NodeJS.ErrnoException).code ?? 'no answer')

/** Sends what a proxy on this host would send. */
function asProxy(publicUrl: string, port: number): HttpClient {
  const http = createHttpClient({ verify: true, maxConnections: 1 })
  const headers = { Host: new URL(publicUrl).host, 'X-Forwarded-For': CLIENT, 'X-Forwarded-Proto': 'https' }
  return {
    send: (request) =>
      http.send({
        ...request,
        url: request.url.replace(publicUrl, `http://127.0.0.1:${port}`),
        headers: { ...request.headers, ...headers },
      }),
    close: () => http.close(),
  }
}

type PublishTokens = (token: string, keyAuthorization: string) => void

interface Listener {
  publish: PublishTokens
  close(): void
}

interface TestOrder {
  url: string
  name: string
  http: HttpClient
  binding: ExternalCredential
  /** The certificate is for use, and is not revoked. */
  isKept: boolean
  /** Publishes the answer for http-01; undefined where the name was approved beforehand. */
  publish: PublishTokens | undefined
}

const REQUEST_MS = 15_000
/** A validation and a signature in a slow token fit into it. */
const PATIENCE_MS = 90_000
const ORDER_PAUSE_MS = 500

interface Issued {
  leaf: X509Certificate
  /** The certificate with its chain and its key, PEM. */
  pem: string
}

/** @returns the certificate, which is revoked already unless it is kept. @throws Error that says at which step it ended */
async function getTestCertificate({ url, name, http, binding, publish, isKept }: TestOrder): Promise<Issued> {
  const client = createAcmeClient({
    directoryUrl: `${url}/directory`,
    http,
    requestTimeoutMs: REQUEST_MS,
    nonceRetries: 3,
  })
  const key = upstreamKey(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey)
  const { newAccount, newOrder, revokeCert } = await client.directory()
  const account = await client.post(
    newAccount,
    { key },
    {
      termsOfServiceAgreed: true,
      externalAccountBinding: externalBinding(binding, key, newAccount),
    },
  )
  const session = sessionOf(client, { key, kid: account.location })
  const placed = await session.post(newOrder, { identifiers: [{ type: 'dns', value: name }] })
  const order = placed.location ?? ''
  if (publish) await prove(session, order, name, publish)
  const { finalize } = await reached(session, order, 'ready')
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  await session.post(finalize, { csr: encodeBase64url(requestFor(name, pair)) })
  const { certificate } = await reached(session, order, 'valid')
  const { body } = await session.post(certificate ?? '')
  const leaf = new X509Certificate(body)
  if (leaf.checkHost(name) === undefined) throw new Error(`the certificate is not for ${name}`)
  if (!isKept) await session.post(revokeCert, { certificate: encodeBase64url(leaf.raw) })
  return { leaf, pem: `${body}${pair.privateKey.export({ format: 'pem', type: 'pkcs8' })}` }
}

async function prove(session: UpstreamSession, url: string, name: string, publish: PublishTokens) {
  const order = readOrder(await session.post(url), url, 1)
  const authorizations = await readAuthorizations(session, order, 'http-01')
  const responses = responsesTo(authorizations, 'http-01', [{ type: 'dns', value: name }])
  if (typeof responses === 'string') throw new Error(responses)
  for (const { token } of responses) publish(token, `${token}.${session.key.thumbprint}`)
  await answerChallenges(session, responses, false)
}

/** @throws Error with the service's reason when the order fails, or does not get there in time */
async function reached(session: UpstreamSession, url: string, wanted: 'ready' | 'valid') {
  for (const until = Date.now() + PATIENCE_MS; ; await sleep(ORDER_PAUSE_MS)) {
    const order = readOrder(await session.post(url), url, 1)
    if (order.status === wanted) return order
    const isOver = Date.now() > until
    if (order.status !== 'invalid' && !isOver) continue
    const { text } = failureOf(order, await readAuthorizations(session, order, 'http-01'))
    throw new Error(
      isOver ? `the order was still ${order.status} after ${PATIENCE_MS / 1000} s` : `the order failed: ${text}`,
    )
  }
}

function requestFor(name: string, { publicKey, privateKey }: { publicKey: KeyObject; privateKey: KeyObject }): Buffer {
  return buildCsr({
    spki: publicKey.export({ type: 'spki', format: 'der' }),
    dnsNames: [name],
    ipAddresses: [],
    signatureAlgorithm: 'SHA256withECDSA',
    sign: (info) => sign('sha256', info, privateKey),
  })
}

/** Answers http-01 on port 80 for one test. @returns undefined where another program has the port */
async function listenForHttp01(): Promise<Listener | undefined> {
  const answers = new Map<string, string>()
  const server = createServer((request, response) => {
    const answer = answers.get(request.url ?? '')
    response.writeHead(answer === undefined ? 404 : 200, { 'Content-Type': 'application/octet-stream' })
    response.end(answer)
  })
  const isOpen = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(80, () => resolve(true))
  })
  if (!isOpen) return undefined
  return {
    publish: (token, keyAuthorization) => void answers.set(`/.well-known/acme-challenge/${token}`, keyAuthorization),
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}
