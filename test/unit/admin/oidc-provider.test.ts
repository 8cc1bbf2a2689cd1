/** The metadata of an OpenID Connect provider: what is asked of it, and what it may not say. */

import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:net'
import { after, before, describe, test } from 'node:test'
import type { OidcSettings } from '../../../src/admin/users/oidc-provider.ts'
import { OidcProvider } from '../../../src/admin/users/oidc-provider.ts'
import { type HostileProvider, startHostileProvider } from '../../support/hostile-provider.ts'

/** Each character of which has another form in a header or a body. */
const SECRET = 's :+%&=/ä~'
const SECRETS = { nonce: 'n'.repeat(43), verifier: 'v'.repeat(43) }

const providerAt = (issuer: string, settings: Partial<OidcSettings> = {}) =>
  new OidcProvider({
    issuer,
    clientId: 'chancery',
    clientSecret: SECRET,
    tokenEndpointAuthMethod: undefined,
    name: 'Test',
    scopes: ['openid'],
    usernameClaim: 'preferred_username',
    groupsClaim: 'groups',
    roles: [],
    redirectUri: 'https://ca.example/api/console/',
    caFile: undefined,
    ...settings,
  })

describe('metadata of a provider', () => {
  let hostile: HostileProvider
  before(async () => {
    hostile = await startHostileProvider()
  })
  after(() => hostile?.close())

  const begin = (isFresh = false) => providerAt(hostile.issuer).authorizationUrl('state', SECRETS, isFresh)

  const wrong: [string, NonNullable<HostileProvider['says']['metadata']>][] = [
    ['of another issuer', { issuer: 'https://elsewhere.example' }],
    ['with a script in place of an address', { authorization_endpoint: 'javascript:alert(1)' }],
    ['with a file in place of an address', { authorization_endpoint: 'file:///tmp/x' }],
    ['without an address for the browser', { authorization_endpoint: undefined }],
    ['of a megabyte', { padding: 'x'.repeat(1024 * 1024) }],
  ]
  for (const [what, metadata] of wrong)
    test(`${what} is refused`, async () => {
      hostile.says = { metadata }
      await assert.rejects(begin())
    })

  test('sends nobody to a script when the session ends', async () => {
    hostile.says = { metadata: { end_session_endpoint: 'javascript:alert(1)' } }
    assert.equal(await providerAt(hostile.issuer).endSessionUrl(), undefined)
  })

  test('that is right after a failure is taken', async () => {
    const provider = providerAt(hostile.issuer)
    hostile.says = { metadata: { issuer: 'https://elsewhere.example' } }
    await assert.rejects(provider.authorizationUrl('state', SECRETS, false))
    hostile.says = {}
    assert.ok((await provider.authorizationUrl('state', SECRETS, false)).startsWith(`${hostile.issuer}/auth?`))
  })

  test('a new proof is asked for where it is wanted', async () => {
    hostile.says = {}
    const [plain, fresh] = await Promise.all([begin(), begin(true)])
    assert.equal(new URL(plain).searchParams.get('prompt'), null)
    assert.equal(new URL(fresh).searchParams.get('prompt'), 'login')
    assert.equal(new URL(fresh).searchParams.get('max_age'), '0')
  })

  test('that never comes is not waited for without end', async () => {
    const silent: Server = createServer()
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    const address = silent.address()
    assert.ok(address !== null && typeof address === 'object')
    await assert.rejects(providerAt(`http://127.0.0.1:${address.port}`).authorizationUrl('state', SECRETS, false))
    silent.close()
  })
})

describe('the token endpoint knows the client', () => {
  let hostile: HostileProvider
  before(async () => {
    hostile = await startHostileProvider()
  })
  after(() => hostile?.close())

  /** How the client has authenticated. */
  async function authentication(supported: string[] | null | undefined, settings: Partial<OidcSettings> = {}) {
    hostile.says = { metadata: { token_endpoint_auth_methods_supported: supported, userinfo_endpoint: undefined } }
    const provider = providerAt(hostile.issuer, settings)
    const query = hostile.reply(await provider.authorizationUrl('state', SECRETS, false))
    await provider.claims(query, 'state', SECRETS)
    const { by, secret } = hostile.codes.at(-1) ?? {}
    return [by, secret]
  }

  test('by HTTP Basic where the metadata name no method (OpenID Connect Discovery §3), or that among others', async () => {
    const both = ['client_secret_post', 'private_key_jwt', 'client_secret_basic']
    for (const supported of [undefined, null, [], ['client_secret_basic'], both])
      assert.deepEqual(await authentication(supported), ['client_secret_basic', SECRET])
  })

  test('by HTTP Basic with most characters as they are, for providers that decode nothing', async () => {
    const clientSecret = 'GOCSPX-a_b.c~D8'
    await authentication(undefined, { clientSecret })
    const { authorization = '' } = hostile.codes.at(-1) ?? {}
    assert.equal(authorization, `Basic ${Buffer.from(`chancery:${clientSecret}`).toString('base64')}`)
  })

  test('by the body where the metadata name that and not HTTP Basic', async () => {
    const supported = ['private_key_jwt', 'client_secret_post']
    assert.deepEqual(await authentication(supported), ['client_secret_post', SECRET])
  })

  test('by what is configured, whatever the metadata say', async () => {
    for (const tokenEndpointAuthMethod of ['client_secret_basic', 'client_secret_post'] as const)
      for (const supported of [undefined, ['client_secret_post'], ['client_secret_basic'], ['private_key_jwt']])
        assert.deepEqual(await authentication(supported, { tokenEndpointAuthMethod }), [
          tokenEndpointAuthMethod,
          SECRET,
        ])
  })

  test('by its name alone where it has no secret', async () => {
    const settings = { clientSecret: undefined }
    assert.deepEqual(await authentication(['client_secret_basic'], settings), ['none', undefined])
  })

  test('or nobody is sent there: the metadata name no method that this service knows', async () => {
    await assert.rejects(
      authentication(['private_key_jwt', 'tls_client_auth']),
      /token endpoint takes private_key_jwt, tls_client_auth.*client_secret_basic or client_secret_post.*admin_api\.oidc\.token_endpoint_auth_method/,
    )
  })
})

test('no provider is no reason to fail before somebody signs in', async () => {
  const provider = providerAt('http://127.0.0.1:1')
  await assert.rejects(provider.authorizationUrl('state', SECRETS, false))
  assert.equal(await provider.endSessionUrl(), undefined)
})
