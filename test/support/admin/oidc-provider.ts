/** A real OpenID Connect provider of a test (npm oidc-provider), with its own sign-in page. */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair } from 'jose'
import Provider from 'oidc-provider'
import { CLIENT } from './oidc-client.ts'

export { CLIENT }

export interface TestProvider {
  issuer: string
  /** Groups of a person, by the name that is typed at the provider; they may change. */
  groups: Map<string, unknown>
  close(): Promise<void>
}

/** @param redirectUris addresses of the console; the service is started after the provider */
export async function startProvider(redirectUris: () => string[]): Promise<TestProvider> {
  const groups = new Map<string, unknown>()
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  let provider: Provider | undefined
  // The client is fixed when the provider is made, and the port of the service is known only later.
  server.on('request', (request, response) => {
    provider ??= new Provider(issuer, {
      clients: [
        {
          client_id: CLIENT.id,
          client_secret: CLIENT.secret,
          redirect_uris: redirectUris(),
          post_logout_redirect_uris: redirectUris(),
        },
      ],
      jwks: { keys: [{ ...jwk, use: 'sig', alg: 'RS256' }] },
      claims: { openid: ['sub'], profile: ['preferred_username', 'groups'], email: ['email', 'email_verified'] },
      pkce: { required: () => true },
      cookies: { keys: ['a key of the tests'] },
      findAccount: (_context, id) => ({
        accountId: id,
        claims: () => ({
          sub: id,
          preferred_username: id,
          email: `${id}@corp.example`,
          email_verified: true,
          groups: groups.get(id) as never,
        }),
      }),
    })
    provider.callback()(request, response)
  })
  const jwk = await exportJWK(privateKey)
  return {
    issuer,
    groups,
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}
