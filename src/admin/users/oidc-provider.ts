/**
 * An OpenID Connect provider, by openid-client: authorization code flow with PKCE (RFC 7636), state, nonce, and ID tokens
 * whose signature is checked.
 *
 * It is asked when somebody signs in, not at the start: the service runs without it.
 */

import { readFileSync } from 'node:fs'
import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { createSecureContext } from 'node:tls'
import {
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  buildEndSessionUrl,
  type ClientAuth,
  ClientSecretPost,
  type Configuration,
  calculatePKCECodeChallenge,
  customFetch,
  discovery,
  enableNonRepudiationChecks,
  fetchUserInfo,
  None,
  type ServerMetadata,
} from 'openid-client'
import { type ClaimRules, hasAllClaims, isSameIssuer, shown, withUserInfo } from '../../domain/oidc-claims.ts'

const TIMEOUT_SECONDS = 10
/** Keys are asked for again when an unknown one has signed; other metadata is read anew after this time. */
const METADATA_MS = 10 * 60_000

export interface OidcSettings extends ClaimRules {
  clientId: string
  clientSecret: string | undefined
  /** Undefined leaves it to the metadata of the provider. */
  tokenEndpointAuthMethod: 'client_secret_basic' | 'client_secret_post' | undefined
  /** Stands on the button. */
  name: string
  scopes: readonly string[]
  /** The console, to which the provider sends the browser back. */
  redirectUri: string
  /** PEM of the authorities that the provider's certificate is checked with; the system's when undefined. */
  caFile: string | undefined
}

/** What the browser brings back is checked against these. */
export interface FlowSecrets {
  nonce: string
  verifier: string
}

/** Claims of the ID token. The UserInfo endpoint adds name, groups and mail address where the token lacks them. */
export type Claims = Readonly<Record<string, unknown>>

export class OidcProvider {
  readonly #settings: OidcSettings
  #found: Promise<Configuration> | undefined
  #foundAt = 0

  constructor(settings: OidcSettings) {
    this.#settings = settings
  }

  /**
   * Where the browser goes.
   * @param isFresh the user has to prove there anew who it is
   * @throws Error when the provider cannot be asked
   */
  async authorizationUrl(state: string, { nonce, verifier }: FlowSecrets, isFresh: boolean): Promise<string> {
    const { redirectUri, scopes } = this.#settings
    const url = buildAuthorizationUrl(await this.#configuration(), {
      redirect_uri: redirectUri,
      scope: scopes.join(' '),
      state,
      nonce,
      code_challenge: await calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      ...(isFresh && { prompt: 'login', max_age: '0' }),
    })
    return url.href
  }

  /**
   * @param query of the address to which the provider sent the browser
   * @throws Error when provider or query are not as they must be
   */
  async claims(query: string, state: string, { nonce, verifier }: FlowSecrets): Promise<Claims> {
    const configuration = await this.#configuration()
    const tokens = await authorizationCodeGrant(configuration, new URL(`${this.#settings.redirectUri}?${query}`), {
      expectedState: state,
      expectedNonce: nonce,
      pkceCodeVerifier: verifier,
      idTokenExpected: true,
    })
    const claims = tokens.claims()
    if (!claims) throw new Error('the provider sent no ID token')
    const hasUserInfo = configuration.serverMetadata().userinfo_endpoint !== undefined
    if (!hasUserInfo || hasAllClaims(claims, this.#settings)) return claims
    // Many providers have groups or names there alone. An answer about another subject is refused (OpenID Connect Core §5.3.2).
    const userInfo = await fetchUserInfo(configuration, tokens.access_token, claims.sub)
    return withUserInfo(claims, userInfo, this.#settings)
  }

  /** Where the session at the provider ends; undefined when it offers no such place, or none that a browser may visit. */
  async endSessionUrl(): Promise<string | undefined> {
    try {
      const configuration = await this.#configuration()
      return buildEndSessionUrl(configuration, { post_logout_redirect_uri: this.#settings.redirectUri }).href
    } catch {
      return undefined
    }
  }

  /** Shared by all who ask at one time; a failure is not kept. */
  #configuration(): Promise<Configuration> {
    if (this.#found && performance.now() - this.#foundAt < METADATA_MS) return this.#found
    const found = this.#discover()
    this.#found = found
    this.#foundAt = performance.now()
    found.catch(() => {
      if (this.#found === found) this.#found = undefined
    })
    return found
  }

  async #discover(): Promise<Configuration> {
    const { issuer, clientId, caFile } = this.#settings
    const fetchHere = providerFetch(caFile)
    const url = new URL(issuer)
    const isPlain = url.protocol === 'http:'
    const authenticate: ClientAuth = (metadata, ...request) => this.#authentication(metadata)(metadata, ...request)
    const found = await discovery(url, clientId, undefined, authenticate, {
      execute: [enableNonRepudiationChecks, ...(isPlain ? [allowInsecureRequests] : [])],
      [customFetch]: (target, options) => fetchHere(target, options),
      timeout: TIMEOUT_SECONDS,
    })
    this.#authentication(found.serverMetadata())
    // openid-client takes what Microsoft's metadata say for any tenant.
    const said = found.serverMetadata().issuer
    if (isSameIssuer(said, issuer)) return found
    throw new Error(`the issuer ${issuer} calls itself ${said}: set admin_api.oidc.issuer to that of your own tenant`)
  }

  /** @throws Error when the provider takes no method of this service */
  #authentication(metadata: ServerMetadata): ClientAuth {
    const { clientSecret, tokenEndpointAuthMethod } = this.#settings
    if (clientSecret === undefined) return None()
    return METHODS[tokenEndpointAuthMethod ?? methodOf(metadata)](clientSecret)
  }
}

/** RFC 6749 §2.3.1. openid-client also encodes `-`, `_`, `.` and `~`: providers that do not decode would refuse most secrets. */
const clientSecretBasic =
  (secret: string): ClientAuth =>
  (_metadata, { client_id }, _body, headers) =>
    headers.set('authorization', `Basic ${btoa(`${encodeURIComponent(client_id)}:${encodeURIComponent(secret)}`)}`)

const METHODS = { client_secret_basic: clientSecretBasic, client_secret_post: ClientSecretPost }

/** OpenID Connect Discovery §3: HTTP Basic where the metadata name no method. */
function methodOf(metadata: ServerMetadata) {
  const supported = metadata.token_endpoint_auth_methods_supported ?? []
  if (supported.length === 0 || supported.includes('client_secret_basic')) return 'client_secret_basic'
  if (supported.includes('client_secret_post')) return 'client_secret_post'
  throw new Error(
    `the token endpoint takes ${supported.join(', ')}, and this service knows client_secret_basic or client_secret_post: if the provider takes one of them, name it in admin_api.oidc.token_endpoint_auth_method`,
  )
}

/** Metadata and a set of keys have some ten kilobytes. */
const MOST_BYTES = 512 * 1024

interface FetchOptions {
  method: string
  headers: Record<string, string>
  body?: unknown
  signal?: AbortSignal
}

/** @param caFile undefined for the authorities of the system. @throws Error when it cannot be read */
function providerFetch(caFile: string | undefined) {
  const tls = caFile === undefined ? {} : { secureContext: createSecureContext({ ca: readFileSync(caFile) }) }
  return (url: string, { method, headers, body, signal }: FetchOptions): Promise<Response> =>
    new Promise((resolve, reject) => {
      const options = { method, headers, ...(signal && { signal }), ...tls }
      const request = url.startsWith('https:') ? requestHttps(url, options) : requestHttp(url, options)
      request.on('error', reject)
      request.on('response', (answer) => {
        const chunks: Buffer[] = []
        let size = 0
        answer.on('error', reject)
        answer.on('data', (chunk: Buffer) => {
          size += chunk.length
          if (size > MOST_BYTES) request.destroy(new Error(`the answer has more than ${MOST_BYTES} bytes`))
          else chunks.push(chunk)
        })
        answer.on('end', () => {
          const fields = Object.entries(answer.headers).map(
            ([name, value]) => [name, String(value)] as [string, string],
          )
          const status = answer.statusCode ?? 502
          const content = status === 204 || status === 304 ? null : Buffer.concat(chunks)
          // The reason of a failure names the address.
          resolve(Object.defineProperty(new Response(content, { status, headers: fields }), 'url', { value: url }))
        })
      })
      request.end(body === undefined || body === null ? undefined : String(body))
    })
}

/** Errors of openid-client, or their causes, have these in addition to a message. */
type Detail = Readonly<Record<string, unknown>>

/** @param secrets that a provider may send back in its own words, and that stay out of the reason */
export function describeFailure(error: unknown, secrets: readonly string[]): string {
  let innermost = error
  // The message of a SyntaxError has a part of the text, which can be of a token.
  while (innermost instanceof Error && innermost.cause instanceof Error && !(innermost.cause instanceof SyntaxError))
    innermost = innermost.cause
  if (!(innermost instanceof Error)) return String(innermost)
  const { message, code, cause } = innermost as Error & Detail
  const details = detailsOf(innermost as unknown as Detail)
  if (details.length === 0 && typeof cause === 'object' && cause !== null) details.push(...detailsOf(cause as Detail))
  const reason = [message || code, ...details].join('; ')
  return secrets.reduce((text, secret) => (secret === '' ? text : text.replaceAll(secret, '(secret)')), reason)
}

function detailsOf({ error, error_description, status, response, url, ...detail }: Detail): string[] {
  const { claim, claims, attribute = claim, body = claims, header = detail, parameters, now, tolerance } = detail
  const expected = detail['expected'] === undefined ? '' : `, expected ${shown(detail['expected'])}`
  const value = (body as Detail | undefined)?.[String(attribute)]
  const { alg, kid } = header as Detail
  const said = [error, error_description].filter((text) => typeof text === 'string').map(shown)
  if (attribute !== undefined) said.push(`${attribute} is ${shown(value)}${expected}`)
  if (now !== undefined)
    said.push(
      `it is ${now} here, ${Math.abs(Number(now) - Number(value))} seconds apart, and ${tolerance} are tolerated`,
    )
  if (alg !== undefined) said.push(`alg is ${shown(alg)}, kid is ${shown(kid)}${expected}`)
  if (parameters instanceof URLSearchParams && expected) said.push(`iss is ${shown(parameters.get('iss'))}${expected}`)
  if (status !== undefined) said.push(`HTTP status ${status} of ${(response as Response | undefined)?.url ?? url}`)
  if (error === 'invalid_client' || status === 401)
    said.push(
      'where the token endpoint refused it, compare admin_api.oidc.client_secret and token_endpoint_auth_method',
    )
  return said
}
