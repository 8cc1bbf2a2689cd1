/** CA profiles that a binding credential restricts its accounts to (docs/decisions/ca-profiles.md; draft-ietf-acme-profiles §4; `eab create --profile`). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type AcmeClient, type Answer, createAcmeClient, registeredClient } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { bindingFor, createCredential, operate } from '../support/operator.ts'

describe('profiles of a credential', () => {
  const { service, responder } = acmeScene('profiles')
  let kids = 0

  async function aClient(...profiles: string[]): Promise<AcmeClient> {
    const words = profiles.flatMap((profile) => ['--profile', profile])
    const credential = await createCredential(service, `restricted-${++kids}`, ...words)
    const client = await createAcmeClient(service.directoryUrl)
    await client.newAccount({ externalAccountBinding: bindingFor(client, credential) })
    return client
  }

  function assertRefused(answer: Answer, profile: string): void {
    assert.deepEqual([answer.status, answer.json.type], [400, 'urn:ietf:params:acme:error:invalidProfile'])
    assert.match(answer.json.detail, new RegExp(`^this account may not order ${profile}; it may order `))
  }

  test('a profile outside is invalidProfile, one inside is not (§4)', async () => {
    const client = await aClient('short', 'default')
    assert.equal((await client.newOrder(['in.test'], { profile: 'short' })).json.profile, 'short')
    assert.equal((await client.newOrder(['in.test'], { profile: 'default' })).json.profile, 'default')
    assertRefused(await client.newOrder(['out.test'], { profile: 'long' }), 'long')
    const unknown = await client.newOrder(['out.test'], { profile: 'none' })
    assert.match(unknown.json.detail, /^there is no such profile/)
  })

  test('an order without a choice gets the default profile where the credential has it, else its first (§4)', async () => {
    const withDefault = await aClient('short', 'default')
    assert.equal((await withDefault.newOrder(['choice.test'])).json.profile, 'default')
    const without = await aClient('long', 'short')
    assert.equal((await without.newOrder(['choice.test'])).json.profile, 'long')
    assertRefused(await without.newOrder(['choice.test'], { profile: 'default' }), 'default')
    const { order } = await without.obtain(['certified.test'], responder)
    assert.equal(order.json.profile, 'long')
  })

  test('accounts without such a credential choose freely, and the directory is the same for all', async () => {
    const restricted = await aClient('short')
    for (const client of [await aClient(), await registeredClient(service.directoryUrl)]) {
      assert.equal((await client.newOrder(['free.test'], { profile: 'long' })).status, 201)
      assert.deepEqual(client.directory['meta'], restricted.directory['meta'])
    }
  })

  test('inspect account and eab show show them', async () => {
    const client = await aClient('long', 'short')
    const id = client.kid.split('/').at(-1) as string
    const account = JSON.parse(await operate(service, 'inspect', 'account', id, '--json'))
    assert.deepEqual([account.eab_kid, account.allowed_profiles], [`restricted-${kids}`, ['long', 'short']])
    const shown = JSON.parse(await operate(service, 'eab', 'show', `restricted-${kids}`, '--json'))
    assert.deepEqual(shown.profiles, ['long', 'short'])
  })
})
