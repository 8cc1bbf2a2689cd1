/** A first certificate by ACME, through the public URL: ordered, proven or approved, downloaded, revoked. */

import { generateKeyPairSync, type KeyObject, sign, X509Certificate } from 'node:crypto'
import { createServer } from 'node:http'
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
import type { HttpClient } from '../ca/http-client.ts'
import { encodeBase64url } from '../shared/lib/encoding.ts'
import { buildCsr } from '../shared/pki/csr.ts'

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
const PAUSE_MS = 500

interface Issued {
  leaf: X509Certificate
  /** The certificate with its chain and its key, PEM. */
  pem: string
}

/** @returns the certificate, which is revoked already unless it is kept. @throws Error that says at which step it ended */
export async function getTestCertificate({ url, name, http, binding, publish, isKept }: TestOrder): Promise<Issued> {
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
  for (const until = Date.now() + PATIENCE_MS; ; await sleep(PAUSE_MS)) {
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
export async function listenForHttp01(): Promise<Listener | undefined> {
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
