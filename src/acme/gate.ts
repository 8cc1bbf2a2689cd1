/**
 * The gate in front of every ACME resource (RFC 8555 §6).
 *
 * Cheap checks run first. Order: media type, JWS form, algorithm, url, nonce form, rate limit of the address, key,
 * signature, nonce. A request that is refused after its signature has verified still spends its nonce (RFC 8555 §6.5).
 * Account status, payload, maintenance and terms of service follow.
 */

import type { ZodError } from 'zod/v4'
import type { HttpRequest } from '../http/http-message.ts'
import { type KnownAccount, StaleAccountError } from '../services/account-cache.ts'
import { sentenceOf } from '../shared/lib/bounded.ts'
import { isUuid, isVersion7 } from '../shared/lib/uuid.ts'
import { type AccountKey, CERTIFICATE_KEYS, parseAccountKey } from '../shared/protocol/jwk.ts'
import {
  EVERY_ALGORITHM,
  type FlattenedJws,
  type InnerJws,
  type JwsAlgorithm,
  parseJws,
  parsePayload,
  verifySignature,
  wrongLength,
} from '../shared/protocol/jws.ts'
import { Problem } from '../shared/protocol/problem.ts'
import type { ResourceMatch, Urls } from '../shared/protocol/urls.ts'
import type {
  AcmeContext,
  AcmeEndpoint,
  AcmeExchange,
  AcmeReply,
  AcmeRequest,
  PayloadKind,
  SignedBy,
  Signer,
} from './endpoint.ts'

/** Seconds (docs/decisions/maintenance.md). */
const MAINTENANCE_RETRY_SECONDS = 60

interface GatedRequest {
  exchange: AcmeExchange
  http: HttpRequest
  match: ResourceMatch
}

/** @throws Problem; any other error is a server fault */
export async function runEndpoint(
  endpoint: AcmeEndpoint,
  gated: GatedRequest,
  context: AcmeContext,
): Promise<AcmeReply> {
  const { match, exchange } = gated
  const { address, now } = exchange
  const jws = readRequest(endpoint, gated, context)
  const open = () => context.nonces.open(jws.header.nonce, now.getTime())
  const nonce = open() ?? (await context.nonces.ensureCurrent?.().then(open))
  if (!nonce) throw badNonce()
  const isCounted = !endpoint.limitsOnlyJwk || 'jwk' in jws.header.key
  const visit = endpoint.limit && isCounted ? context.limits.visit(endpoint.limit, address) : undefined
  visit?.require(jws.payload !== undefined && endpoint.mayBeExempt?.(jws.payload))

  // Await only real promises: an extra await delays every request by a tick.
  const authentic = authenticate(jws, endpoint.signedBy, address, context)
  const signer = authentic instanceof Promise ? await authentic : authentic
  if (isAccount(signer)) exchange.accountId = signer.account.id
  if (match.resource === 'order' || match.resource === 'finalize') exchange.orderId = match.id
  const redeemed = nonce.redeem()
  if (!(redeemed instanceof Promise ? await redeemed : redeemed)) {
    // A replayed request costs a signature verification too.
    chargeSignature(signer, address, context)
    await context.nonces.ensureCurrent?.()
    throw badNonce()
  }
  requireValid(signer, context)
  const payload = readPayload(jws.payload, endpoint.payload)
  if (endpoint.pausedInMaintenance && context.flags.isOn('maintenance')) throw inMaintenance()
  if (endpoint.needsCurrentTerms && isAccount(signer)) {
    const looking = context.registration.requireCurrentTerms(signer)
    if (looking) await looking
  }
  return handle(endpoint, requestOf(gated, { signer, payload, jws, visit }, context), context)
}

/** Runs the checks that need neither state nor a key. */
function readRequest(endpoint: AcmeEndpoint, { http, match }: GatedRequest, context: AcmeContext): FlattenedJws {
  requireMediaType(http)
  if (match.id !== '' && !isUuid(match.id)) throw noSuchResource()
  const jws = readJws(http.body, endpoint.signedBy, context)
  requireUrl(jws, http.query === '' ? match.url : `${match.url}?${http.query}`)
  return jws
}

type AnyRequest = AcmeRequest<unknown, SignedBy>

function requestOf(
  { http, match, exchange }: GatedRequest,
  { signer, payload, jws, visit }: Pick<AnyRequest, 'signer' | 'payload' | 'jws' | 'visit'>,
  { urls }: Pick<AcmeContext, 'urls'>,
): AnyRequest {
  const accountPath = isAccount(signer) ? formerPathOf(jws, signer, urls) : undefined
  // The URL of the account in the words of its client.
  const isOwnUrl = accountPath !== undefined && OF_ACCOUNT[match.resource]?.(urls.at(accountPath)) === match.url
  return {
    signer,
    id: isOwnUrl && isAccount(signer) ? signer.account.id : match.id,
    accountPath,
    chain: match.chain ?? 0,
    query: http.query,
    payload,
    jws,
    visit,
    requestId: exchange.requestId,
    address: exchange.address,
    now: exchange.now,
    isGone: () => http.isOver,
  }
}

const OF_ACCOUNT: { readonly [resource: string]: (accountUrl: string) => string } = {
  account: (url) => url,
  accountOrders: (url) => `${url}/orders`,
}

function formerPathOf({ header: { key } }: FlattenedJws, { account }: KnownAccount, urls: Urls): string | undefined {
  return 'jwk' in key || key.kid === urls.account(account.id) ? undefined : urls.pathOf(key.kid)
}

/** Whether a request to an unknown path names it as the URL of its account. */
export function namesItsAccount({ body }: HttpRequest, url: string, { settings }: AcmeContext): boolean {
  try {
    const { key } = parseJws(body, settings.algorithms).header
    return 'kid' in key && key.kid === url
  } catch (error) {
    if (error instanceof Problem) return false
    throw error
  }
}

async function handle(endpoint: AcmeEndpoint, request: AnyRequest, context: AcmeContext): Promise<AcmeReply> {
  const { signer, jws, address } = request
  try {
    return await endpoint.handle(request, context)
  } catch (error) {
    if (!(error instanceof StaleAccountError) || !isAccount(signer)) throw error
    // The cached account was stale and its key may have changed, so verify the signature again.
    context.accounts.forget(signer.account.id)
    const current = await authenticate(jws, endpoint.signedBy, address, context)
    requireValid(current, context)
    return await endpoint.handle({ ...request, signer: current }, context)
  }
}

const JOSE_JSON = 'application/jose+json'

function requireMediaType(http: HttpRequest): void {
  const sent = http.header('content-type')
  if (sent !== JOSE_JSON && sent?.split(';', 1)[0]?.trim().toLowerCase() !== JOSE_JSON)
    throw new Problem(
      'malformed',
      'the Content-Type of an ACME request must be application/jose+json (RFC 8555 §6.2)',
      { status: 415 },
    )
}

/**
 * A certificate's key must be able to revoke it, even where accounts cannot use that algorithm (RFC
 * 8555 §7.6). Requests signed by an account may use only the account algorithms.
 */
function readJws(body: Buffer, signedBy: SignedBy, { settings }: AcmeContext): FlattenedJws {
  if (signedBy !== 'either') return parseJws(body, settings.algorithms)
  const jws = parseJws(body, EVERY_ALGORITHM)
  return 'jwk' in jws.header.key ? jws : parseJws(body, settings.algorithms)
}

function requireUrl(jws: FlattenedJws, url: string): void {
  if (jws.header.url !== url)
    throw new Problem('unauthorized', `the url of the protected header is not the URL of this resource, ${url}`)
}

function authenticate(
  jws: FlattenedJws,
  signedBy: SignedBy,
  address: string,
  context: AcmeContext,
): Signer<SignedBy> | Promise<Signer<SignedBy>> {
  const { key } = jws.header
  if ('jwk' in key) {
    if (signedBy === 'kid')
      throw new Problem('malformed', 'this resource needs kid, the account URL, and not jwk (RFC 8555 §6.2)')
    const ofCertificate = signedBy === 'either'
    const { accountKeys, algorithms } = context.settings
    context.budget.require(address)
    const proven = parseAccountKey(key.jwk, ofCertificate ? CERTIFICATE_KEYS : accountKeys)
    try {
      requireSignature(jws, proven, ofCertificate ? EVERY_ALGORITHM : algorithms)
    } catch (error) {
      context.budget.charge(address, 1)
      throw error
    }
    return proven
  }
  if (signedBy === 'jwk')
    throw new Problem('malformed', 'this resource needs jwk, the public key itself, and not kid (RFC 8555 §6.2)')
  const known = findAccount(key.kid, context)
  return known instanceof Promise
    ? known.then((found) => requireSigner(jws, found, address, context))
    : requireSigner(jws, known, address, context)
}

/** Our account ids are UUIDs of version 7. Every other kid may be the account URL of a former server. */
function findAccount(kid: string, { urls, accounts }: Pick<AcmeContext, 'urls' | 'accounts'>) {
  const id = urls.accountIdOf(kid)
  if (id !== undefined && isUuid(id) && isVersion7(id)) return accounts.find(id)
  const path = urls.pathOf(kid)
  return path === undefined ? undefined : accounts.findByPath(path)
}

/** Returns the account in any status. Its key is the one that verified: the cached key or a newer one. */
function requireSigner(
  jws: FlattenedJws,
  known: KnownAccount | undefined,
  address: string,
  context: AcmeContext,
): KnownAccount | Promise<KnownAccount> {
  const { budget, settings } = context
  budget.require(address, known?.provenFrom)
  if (!known) {
    budget.charge(address, 1)
    throw new Problem('accountDoesNotExist', 'the kid is not the URL of an account of this server')
  }
  const refusal = checkSignature(jws, known.key, settings.algorithms)
  if (!refusal) return proved(known, address, context)
  chargeSignature(known, address, context)
  return requireNewKey(jws, known, refusal, address, context)
}

export function chargeSignature(
  signer: Signer<SignedBy>,
  address: string,
  { budget }: Pick<AcmeContext, 'budget'>,
): void {
  budget.charge(address, 1)
  // Clear it only for this address: failures from elsewhere must not cost the account anything.
  if (isAccount(signer) && signer.provenFrom === address) signer.provenFrom = undefined
}

async function requireNewKey(
  jws: FlattenedJws,
  known: KnownAccount,
  refusal: Problem,
  address: string,
  context: AcmeContext,
): Promise<KnownAccount> {
  const current = await context.accounts.findNewKey(known)
  if (!current) throw refusal
  requireSignature(jws, current.key, context.settings.algorithms)
  return proved(current, address, context)
}

function proved(known: KnownAccount, address: string, { accounts }: AcmeContext): KnownAccount {
  known.provenFrom = address
  accounts.keep(known)
  return known
}

function requireValid(signer: Signer<SignedBy>, { accounts }: AcmeContext): void {
  if (!isAccount(signer) || signer.account.status === 'valid') return
  accounts.forget(signer.account.id)
  throw new Problem('unauthorized', `the account is ${signer.account.status}`, { status: 401 })
}

type SignedJws = Pick<InnerJws, 'signingInput' | 'signature'> & { header: { alg: JwsAlgorithm } }

/** @throws Problem badSignatureAlgorithm, unauthorized */
export function requireSignature(jws: SignedJws, key: AccountKey, allowed: readonly JwsAlgorithm[]): void {
  const refusal = checkSignature(jws, key, allowed)
  if (refusal) throw refusal
}

function checkSignature(jws: SignedJws, key: AccountKey, allowed: readonly JwsAlgorithm[]): Problem | undefined {
  const { alg } = jws.header
  if (!key.algorithms.includes(alg)) {
    const fitting = key.algorithms.filter((algorithm) => allowed.includes(algorithm))
    const advice = fitting.length > 0 ? `use ${fitting.join(' or ')}` : 'no algorithm accepted here does'
    return new Problem('badSignatureAlgorithm', `${alg} does not fit the key; ${advice}`, { algorithms: fitting })
  }
  if (verifySignature(alg, key.publicKey, jws.signingInput, jws.signature)) return undefined
  const detail = wrongLength(alg, jws.signature) ?? 'the signature does not verify with the key it names'
  return new Problem('unauthorized', detail)
}

function readPayload(payload: Buffer | undefined, kind: PayloadKind<unknown>): unknown {
  if (kind === 'none') {
    if (payload !== undefined)
      throw new Problem('malformed', 'this resource is fetched with an empty payload (POST-as-GET, RFC 8555 §6.3)')
    return undefined
  }
  if (payload === undefined && kind.orFetch) return undefined
  const { success, data, error } = kind.schema.safeParse(parsePayload(payload), { reportInput: true })
  if (!success) throw new Problem('malformed', describeIssues(error))
  return data
}

/** Lists the first three errors, such as "payload.identifiers[0].value must be a string". */
function describeIssues(error: ZodError): string {
  const shown = error.issues.slice(0, 3).map((issue) => {
    const place = issue.path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`)).join('')
    return `payload${place} ${sentenceOf(issue)}`
  })
  return shown.join('; ')
}

export function isAccount(signer: KnownAccount | AccountKey): signer is KnownAccount {
  return 'account' in signer
}

export function noSuchResource(): Problem {
  return new Problem('malformed', 'there is no such resource', { status: 404 })
}

function inMaintenance(): Problem {
  return new Problem(
    'serverInternal',
    'the server is in maintenance and takes no new orders for the moment; what was begun can be finished',
    { status: 503, retryAfterSeconds: MAINTENANCE_RETRY_SECONDS },
  )
}

function badNonce(): Problem {
  // acme.sh tries again by these words alone (docs/decisions/words-clients-act-on.md).
  const detail = 'JWS has an invalid anti-replay nonce: unknown, used or expired; take the one of this response'
  return new Problem('badNonce', detail)
}
