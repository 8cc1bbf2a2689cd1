/**
 * A CA behind HTTP, as `ca.external` asks one: OpenSSL signs, and each request may be answered in a way of its own, the
 * right one unless a test says otherwise.
 */

import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { TestCertificate } from '../certificates.ts'
import { words } from '../words.ts'

export type Behaviour =
  | 'issue'
  | 'wrong key'
  | 'extra name'
  | 'short serial'
  | 'serial with a sign octet'
  | 'other issuer'
  | 'truncated PEM'
  | '10 MB body'
  | 'slow drip'
  | 'redirect'
  | '200 with an error'
  | 'the one before'
  | 'refuse'
  | 'unavailable'
  | 'unavailable for an hour'
  | 'broken'
  | 'lost answer'
  | 'pending'
  | 'pending by 200'

export interface CaRequest {
  path: string
  headers: IncomingMessage['headers']
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into whatever came
  body: any
}

export interface ExternalCa {
  url: string
  /** PEM file of the root. */
  rootFile: string
  requests: CaRequest[]
  /** How the next requests to sign are answered, one after the other; then the last one of them for ever. */
  behave(...behaviours: Behaviour[]): void
  /** Where a request to sign stands still: before it is carried out, or with an answer that never leaves. */
  holdAt: ((request: CaRequest) => 'request' | 'answer' | undefined) | undefined
  /** Carries out the requests that were held, answers nobody, and holds no more. */
  release(): void
  /** From now on a repeated idempotency key gets the same certificate. */
  rememberKeys(): void
  /** Whether promised certificates are ready. */
  deliver(isReady: boolean): void
  /** How many revocations are answered with 503. */
  failRevocations(count: number): void
  /** Refuses connections until `start`. */
  stop(): Promise<void>
  start(): Promise<void>
  /** PEM of the leaves that it has issued. */
  issued: string[]
  /** Hexadecimal serial numbers. */
  revoked: string[]
  close(): Promise<void>
}

const EXTENSIONS =
  'basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n'
const CA_EXTENSIONS =
  'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n'

export interface ExternalCaOptions {
  /** Speaks TLS with this certificate. */
  tls?: TestCertificate
}

export async function startExternalCa({ tls }: ExternalCaOptions = {}): Promise<ExternalCa> {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-external-ca-'))
  const file = (name: string) => path.join(folder, name)
  const openssl = (...args: string[]) =>
    execFileSync('openssl', args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
  for (const name of ['root', 'other', 'issuer', 'someone'])
    openssl('genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256', '-out', `${name}.key`)
  for (const name of ['root', 'other'])
    openssl('req', '-x509', '-key', `${name}.key`, '-out', `${name}.pem`, '-subj', `/CN=${name}`, '-days', '30')
  writeFileSync(file('ca.ext'), CA_EXTENSIONS)
  openssl('req', '-new', '-key', 'issuer.key', '-subj', '/CN=Issuing', '-out', 'issuer.csr')
  openssl(...words`x509 -req -in issuer.csr -CA root.pem -CAkey root.key -days 20 -extfile ca.ext -out issuer.pem`)

  const requests: CaRequest[] = []
  const issued: string[] = []
  const revoked: string[] = []
  const held: (() => void)[] = []
  const promised = new Map<string, CaRequest['body']>()
  let behaviours: Behaviour[] = ['issue']
  let isReady = true
  let failingRevocations = 0
  let known: Map<string, string> | undefined

  function sign(body: CaRequest['body'], behaviour: Behaviour): string {
    const chain = known?.get(body.idempotency_key) ?? signAnew(body, behaviour)
    known?.set(body.idempotency_key, chain)
    return chain
  }

  function signAnew(body: CaRequest['body'], behaviour: Behaviour): string {
    const names = body.identifiers.map(
      ({ type, value }: { type: string; value: string }) => `${type === 'dns' ? 'DNS' : 'IP'}:${value}`,
    )
    if (behaviour === 'extra name') names.push('DNS:extra.test')
    const ext = `${EXTENSIONS}subjectAltName=critical,${names.join(',')}\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n`
    const id = randomBytes(8).toString('hex')
    writeFileSync(file(`${id}.csr`), body.csr)
    writeFileSync(file(`${id}.ext`), ext)
    if (behaviour === 'wrong key') openssl('req', '-new', '-key', 'someone.key', '-subj', '/', '-out', `${id}.csr`)
    const issuer = behaviour === 'other issuer' ? 'other' : 'issuer'
    const first = behaviour === 'serial with a sign octet' ? '0xff' : '0x7f'
    const serial = first + randomBytes(behaviour === 'short serial' ? 3 : 15).toString('hex')
    const by = ['-CA', `${issuer}.pem`, '-CAkey', `${issuer}.key`, '-set_serial', serial, '-days', '10']
    openssl('x509', '-req', '-in', `${id}.csr`, ...by, '-subj', '/', '-extfile', `${id}.ext`, '-out', `${id}.pem`)
    const pem = readFileSync(file(`${id}.pem`), 'utf8')
    issued.push(pem)
    return `${pem}${readFileSync(file(issuer === 'other' ? 'other.pem' : 'issuer.pem'), 'utf8')}`
  }

  const json = (response: ServerResponse, status: number, body: object, headers: Record<string, string> = {}) =>
    response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(body))

  function answerToSign(response: ServerResponse, request: CaRequest): void {
    const { body } = request
    if (body.request_id !== undefined) {
      if (!isReady) json(response, 202, { request_id: body.request_id }, { 'Retry-After': '0' })
      else json(response, 200, { certificate_chain: sign(promised.get(body.request_id), 'issue') })
      return
    }
    const behaviour = (behaviours.length > 1 ? behaviours.shift() : behaviours[0]) as Behaviour
    const error = { error: 'SECRET-OF-THE-CA' }
    const issue = (chain: string) => json(response, 200, { certificate_chain: chain })
    const promise = (status: number) => {
      const requestId = randomBytes(8).toString('hex')
      promised.set(requestId, body)
      json(response, status, { status: 'pending', request_id: requestId }, { 'Retry-After': '0' })
    }
    const wrong: Partial<Record<Behaviour, () => unknown>> = {
      'truncated PEM': () => issue(sign(body, behaviour).slice(0, 300)),
      '10 MB body': () => issue('A'.repeat(10_000_000)),
      'slow drip'() {
        response.writeHead(200, { 'Content-Type': 'application/json' })
        const drip = setInterval(() => response.write(' '), 100)
        response.on('close', () => clearInterval(drip))
      },
      redirect: () => response.writeHead(307, { Location: 'http://169.254.169.254/latest/meta-data/' }).end(),
      '200 with an error': () => json(response, 200, error),
      'the one before': () => issue(`${issued.at(-1)}${readFileSync(file('issuer.pem'), 'utf8')}`),
      refuse: () => json(response, 422, error),
      unavailable: () => json(response, 503, error, { 'Retry-After': '0' }),
      'unavailable for an hour': () => json(response, 503, {}, { 'Retry-After': '3600' }),
      broken: () => json(response, 500, error),
      'lost answer'() {
        sign(body, 'issue')
        response.destroy()
      },
      pending: () => promise(202),
      'pending by 200': () => promise(200),
    }
    const answer = wrong[behaviour] ?? (() => issue(sign(body, behaviour)))
    answer()
  }

  const listener: RequestListener = (incoming, response) => {
    const chunks: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('end', () => {
      const text = Buffer.concat(chunks).toString('utf8')
      const request = { path: incoming.url ?? '', headers: incoming.headers, body: text ? JSON.parse(text) : {} }
      if (incoming.method === 'HEAD') {
        response.writeHead(405).end()
        return
      }
      requests.push(request)
      const heldAt = self.holdAt?.(request)
      if (heldAt !== undefined) response.end = () => response
      if (heldAt === 'request') held.push(() => answerToSign(response, request))
      else if (request.path !== '/revoke') answerToSign(response, request)
      else if (failingRevocations-- > 0) json(response, 503, {}, { 'Retry-After': '0' })
      else {
        revoked.push(request.body.serial_number)
        response.writeHead(204).end()
      }
    })
  }
  const server = tls ? createTlsServer(tls, listener) : createServer(listener)
  const listen = (port: number) => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', () => resolve()))
  await listen(0)
  const { port } = server.address() as AddressInfo
  const stop = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  const self: ExternalCa = {
    holdAt: undefined,
    release() {
      self.holdAt = undefined
      for (const carryOut of held.splice(0)) carryOut()
    },
    rememberKeys() {
      known = new Map()
    },
    requests,
    issued,
    revoked,
    rootFile: file('root.pem'),
    url: `${tls ? 'https' : 'http'}://127.0.0.1:${port}`,
    stop,
    start: () => listen(port),
    behave(...next) {
      behaviours = next
    },
    deliver(ready) {
      isReady = ready
    },
    failRevocations(count) {
      failingRevocations = count
    },
    async close() {
      await stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
  return self
}
