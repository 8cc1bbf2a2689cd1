/** A provider that says whatever a test wants, signed as it wants: what a real one sends, and what it would never send. */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose'
import { CLIENT } from './oidc-client.ts'

export type Authentication = 'client_secret_basic' | 'client_secret_post' | 'none'

export interface Saying {
  /** Claims of the ID token, laid over the right ones. */
  claims?: JWTPayload
  /** In place of what else the ID token says of the person. */
  person?: JWTPayload
  /** How the client has to authenticate; any way when absent. */
  clientBy?: Authentication
  /** `none`: unsigned; `foreign`: by another key; `hmac`: by the client's secret. */
  signedBy?: 'none' | 'foreign' | 'hmac'
  /** In place of the reply to the code. */
  token?: { status: number; body: string }
  /** Over the right members of the metadata. */
  metadata?: { authorization_response_iss_parameter_supported?: boolean; [member: string]: unknown }
  /** The reply of the UserInfo endpoint. */
  userInfo?: object
  /** Codes wait for it. */
  held?: Promise<void>
}

export interface HostileProvider {
  issuer: string
  says: Saying
  /** Codes that were sent in, each with the verifier of PKCE. */
  codes: {
    code: string
    verifier: string | null
    by: Authentication
    secret: string | undefined
    /** The header is kept as it came. */
    authorization: string | undefined
  }[]
  /** The query with which the browser would come back from this address; `padding` ends its code. */
  reply(authorizationUrl: string, padding?: string): string
  close(): Promise<void>
}

const MALLORY = {
  sub: 'mallory',
  preferred_username: 'mallory',
  email: 'mallory@corp.example',
  groups: ['ca-readers'],
}

/** RFC 6749 §2.3.1: id and secret are form-encoded before they are put together. */
function authenticationOf(authorization: string | undefined, form: URLSearchParams) {
  const [, basic] = /^Basic (.+)$/.exec(authorization ?? '') ?? []
  if (basic === undefined) {
    const secret = form.get('client_secret') ?? undefined
    return { by: secret === undefined ? ('none' as const) : ('client_secret_post' as const), secret }
  }
  const [, secret = ''] = Buffer.from(basic, 'base64').toString().split(':')
  return { by: 'client_secret_basic' as const, secret: decodeURIComponent(secret.replaceAll('+', ' ')) }
}

/**
 * @param at the address that the service has for it; a free one without
 * @param path of the issuer
 */
export async function startHostileProvider(at?: string, path = ''): Promise<HostileProvider> {
  const [own, foreign] = await Promise.all([generateKeyPair('RS256'), generateKeyPair('RS256')])
  const jwk = { ...(await exportJWK(own.publicKey)), kid: 'k', use: 'sig', alg: 'RS256' }
  const nonces = new Map<string, string>()
  let drawn = 0

  const idToken = (claims: JWTPayload, signedBy: Saying['signedBy']): Promise<string> | string => {
    if (signedBy === 'none') return new UnsecuredJWT(claims).encode()
    const alg = signedBy === 'hmac' ? 'HS256' : 'RS256'
    const key =
      signedBy === 'hmac' ? new TextEncoder().encode(CLIENT.secret) : signedBy ? foreign.privateKey : own.privateKey
    return new SignJWT(claims).setProtectedHeader({ alg, kid: 'k' }).sign(key)
  }

  const provider: HostileProvider = {
    issuer: '',
    says: {},
    codes: [],
    reply(authorizationUrl, padding = '') {
      const { searchParams } = new URL(authorizationUrl)
      const code = `code-${++drawn}${padding}`
      nonces.set(code, searchParams.get('nonce') ?? '')
      const back = new URLSearchParams({ code, state: searchParams.get('state') ?? '' })
      // RFC 9207, which not all providers do.
      if (provider.says.metadata?.authorization_response_iss_parameter_supported ?? true)
        back.set('iss', provider.issuer)
      return back.toString()
    },
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }

  const replyToCode = async (form: URLSearchParams): Promise<object> => {
    const code = form.get('code') ?? ''
    const now = Math.floor(Date.now() / 1000)
    const claims = {
      iss: provider.issuer,
      aud: CLIENT.id,
      iat: now,
      exp: now + 60,
      nonce: nonces.get(code),
      ...(provider.says.person ?? MALLORY),
      ...provider.says.claims,
    }
    const id_token = await idToken(claims as JWTPayload, provider.says.signedBy)
    return { access_token: 'a', token_type: 'Bearer', expires_in: 60, id_token }
  }

  const server = createServer(async (request, response) => {
    const send = (status: number, body: string) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(body)
    let sent = ''
    for await (const chunk of request) sent += chunk
    if (request.url === '/jwks') return send(200, JSON.stringify({ keys: [jwk] }))
    if (request.url === '/userinfo') return send(200, JSON.stringify(provider.says.userInfo))
    if (request.url === '/token') {
      const { token, held, clientBy } = provider.says
      const form = new URLSearchParams(sent)
      const { authorization } = request.headers
      const { by, secret } = authenticationOf(authorization, form)
      const [code, verifier] = [form.get('code') ?? '', form.get('code_verifier')]
      provider.codes.push({ code, verifier, by, secret, authorization })
      await held
      if (clientBy !== undefined && by !== clientBy) {
        response.setHeader('www-authenticate', 'Basic realm="token"')
        return send(401, JSON.stringify({ error: 'invalid_client', error_description: `use ${clientBy}, not ${by}` }))
      }
      if (token) return send(token.status, token.body)
      return send(200, JSON.stringify(await replyToCode(form)))
    }
    if (request.url !== `${path.replace(/\/$/, '')}/.well-known/openid-configuration`) return send(404, '{}')
    const origin = new URL(provider.issuer).origin
    const metadata = {
      issuer: provider.issuer,
      authorization_endpoint: `${origin}/auth`,
      token_endpoint: `${origin}/token`,
      userinfo_endpoint: `${origin}/userinfo`,
      jwks_uri: `${origin}/jwks`,
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['RS256'],
      authorization_response_iss_parameter_supported: true,
      ...provider.says.metadata,
    }
    return send(200, JSON.stringify(metadata))
  })
  await new Promise<void>((resolve) =>
    server.listen(Number(at === undefined ? 0 : new URL(at).port), '127.0.0.1', resolve),
  )
  provider.issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`
  return provider
}
