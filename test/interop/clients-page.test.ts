/** docs/clients.md: its blocks run as they stand, each by the client that it is for, against a service with TLS, bindings and a zone. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Certificate, ClusterIssuer } from '@kubernetes-models/cert-manager/cert-manager.io/v1'
import { Ingress } from 'kubernetes-models/networking.k8s.io/v1'
import { parseAllDocuments } from 'yaml'
import { testDatabase } from '../support/database.ts'
import { requireNamespaces, runAlone } from '../support/hosts/own-network.ts'
import { blocksOf } from '../support/page-blocks.ts'
import { requireAll, requireCommand } from '../support/requirements.ts'
import type { Outcomes } from './clients-page-drill.ts'
import { COMMON, STORIES } from './clients-page-stories.ts'

const DRILL = fileURLToPath(new URL('clients-page-drill.js', import.meta.url))
const blocks = blocksOf('docs/clients.md')
const MODELS = { Certificate, ClusterIssuer, Ingress }
const told = new Set([
  'roots',
  'trust',
  ...COMMON,
  'persist',
  ...STORIES.flatMap(({ steps }) => steps.map(({ block }) => block)),
])

describe('the page of clients', () => {
  test('has each block once, run here or with words beside it that say why not', () => {
    const names = blocks.map(({ name }) => name)
    assert.equal(new Set(names).size, names.length, 'a name twice')
    assert.deepEqual(
      blocks.filter(({ name, said }) => !told.has(name) && !/not run|tried by hand/.test(said)).map(({ name }) => name),
      [],
      'neither run nor excused',
    )
    assert.deepEqual(
      [...told].filter((name) => !names.includes(name)),
      [],
      'not on the page',
    )
  })

  test('has YAML that can be read, and names one directory', () => {
    for (const { language, name, text } of blocks) {
      if (language === 'yaml')
        assert.deepEqual(
          parseAllDocuments(text).flatMap((one) => [...('errors' in one ? one.errors : [])]),
          [],
          name,
        )
      for (const [url] of text.matchAll(/https:\/\/\S+?\/directory/g))
        assert.equal(url, 'https://acme.corp.example/directory', name)
    }
  })

  test('has resources that fit the schemas of their kinds', () => {
    for (const { name, text } of blocks.filter(({ language }) => language === 'yaml'))
      for (const resource of parseAllDocuments(text).map((one) => one.toJS() as { kind?: keyof typeof MODELS })) {
        const Model = resource.kind && MODELS[resource.kind]
        if (Model) assert.doesNotThrow(() => new Model(resource as never).validate(), name)
      }
  })
})

const needed = requireAll(requireNamespaces(), ...(['knotd', 'nsupdate', 'nft'] as const).map(requireCommand))

describe('the blocks of the page', needed, () => {
  let outcomes: Outcomes
  const able = STORIES.filter(({ needs }) => requireAll(...needs.map(requireCommand)).skip === false)
  before(async () => {
    const database = await testDatabase()
    const clients = able.map(({ client }) => client)
    outcomes = (await runAlone(DRILL, [JSON.stringify(database.connection), ...clients])) as Outcomes
    await database.drop()
  })

  test('every root that it has people install is one that it has them compare', () =>
    assert.equal(outcomes['roots'], null))

  test('a record of dns-persist-01 serves an order for a wildcard', () => assert.equal(outcomes['persist'], null))

  for (const { client, steps, needs } of STORIES)
    describe(client, requireAll(...needs.map(requireCommand)), () => {
      for (const block of new Set(steps.map((step) => step.block)))
        test(block, () => assert.equal(outcomes[block], null))
    })
})
