/** Operations of the Admin API as commands on the database: the same words here and from another machine. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import type { AnyEndpoint } from '../../src/admin/admin-endpoint.ts'
import { ENDPOINTS } from '../../src/admin/endpoints.ts'
import { OPERATION_ROWS } from '../../src/cli/admin/operation-table.ts'
import { localProgram } from '../../src/cli/program.ts'
import type { Command } from '../../src/shared/command-line.ts'
import { registeredClient, startResponder } from '../support/acme-client.ts'
import { administrator } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { boundClient, type MadeCredential, made } from '../support/bound.ts'
import { each } from '../support/each.ts'
import { metricOf } from '../support/metrics.ts'
import { chancery, operate } from '../support/operator.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

const nameOf = ({ usage }: { usage: string }) => usage.replaceAll(/ <[^>]+>/g, '')

describe('the commands', () => {
  let commands: readonly Command[]
  before(async () => {
    commands = (await localProgram([])).commands
  })

  test('each argument and option of a row is a path parameter or member of all its operations', () => {
    const wrong = OPERATION_ROWS.flatMap(({ usage, operation, ofEab, ofAll, query = {}, body = {}, fixed = {} }) =>
      [operation, ofEab, ofAll].flatMap((id) => {
        const found = ENDPOINTS.find((one) => one.id === id)
        if (!found) return id === undefined ? [] : [`${usage}: there is no ${id}`]
        const inPath = [...found.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
        const positional = [...usage.matchAll(/<(\w+)>/g)].map(([, name]) => name ?? '')
        const inBody = [...positional.filter((name) => !inPath.includes(name)), ...Object.keys({ ...body, ...fixed })]
        const unknown = (names: readonly string[], schema: AnyEndpoint['body']) =>
          names.filter((name) => !(schema && 'shape' in schema && name in (schema.shape as object)))
        return [...unknown(Object.keys(query), found.query), ...unknown(inBody, found.body)].map(
          (name) => `${usage}: ${id} has no ${name}`,
        )
      }),
    )
    assert.deepEqual(wrong, [])
  })

  test('every list can be read page by page', () => {
    const lists = OPERATION_ROWS.filter(({ columns }) => columns !== undefined)
    assert.deepEqual(
      each(
        lists.filter(({ query = {} }) => !('limit' in query)),
        'usage',
      ),
      [],
    )
  })

  test('every operation from another machine is a local command, except those about the user of a session', () => {
    const here = new Set(commands.map(nameOf))
    for (const row of OPERATION_ROWS) assert.equal(here.has(nameOf(row)), !row.needsSession, row.usage)
  })

  test('--emergency is there exactly where another person may have to approve', async () => {
    const endpoints = new Map(ENDPOINTS.map(({ id, approval }) => [id as string, approval !== undefined]))
    const taking = new Set(commands.filter(({ options }) => options?.['emergency'] !== undefined).map(nameOf))
    for (const { usage, operation, ofEab = operation } of OPERATION_ROWS) {
      // To stop signing, nobody is asked.
      const may = [operation, ofEab].some((id) => endpoints.get(id)) && usage !== 'signing stop'
      assert.equal(taking.has(nameOf({ usage })), may, usage)
    }
    assert.deepEqual([...taking].filter((name) => OPERATION_ROWS.every((row) => nameOf(row) !== name)).toSorted(), [
      'accounts allow',
      'certificates bulk-revoke',
      'eab create',
      'identifiers allow',
    ])
    const every = (await localProgram(['api'])).commands.filter(({ usage }) => usage.startsWith('api '))
    for (const { usage, options } of every) {
      const id = usage.split(' ')[1] ?? ''
      if (options?.['json']) assert.equal(options['emergency'] !== undefined, endpoints.get(id), usage)
    }
  })

  test('each has one name, and those of a group stand together', () => {
    const names = commands.map(nameOf)
    assert.deepEqual(
      names.filter((name, at) => names.indexOf(name) !== at),
      [],
    )
    const groups = names.map((name) => name.split(' ')[0])
    assert.deepEqual(
      groups.filter((group, at) => groups.indexOf(group) !== at && groups[at - 1] !== group),
      [],
    )
  })

  test('whatever prints takes --json', () => {
    const without = commands.filter(({ options }) => options?.['json'] === undefined).map(nameOf)
    assert.deepEqual(without, ['setup', 'serve', 'perspective'])
  })

  test('an option is a switch in every command or in none, as the command line is read once for all', () => {
    const kinds = new Map<string, boolean>()
    for (const { options } of commands)
      for (const [name, { kind }] of Object.entries(options ?? {})) {
        assert.equal(kinds.get(name) ?? kind === 'switch', kind === 'switch', name)
        kinds.set(name, kind === 'switch')
      }
  })

  test('the help shows the plural names, and inspect', async () => {
    const firstWords = async (...typed: string[]) =>
      new Set((await localProgram(typed)).commands.map(({ usage }) => usage.split(' ')[0]))
    const shown = await firstWords('--help')
    for (const former of ['account', 'certificate', 'renewal', 'csr-profile']) assert.ok(!shown.has(former), former)
    assert.ok(shown.has('inspect'))
  })
})

describe('operations on the database', () => {
  const { service, sql } = administered(() => sharedService('small pages'))

  // biome-ignore lint/suspicious/noExplicitAny: replies of any shape
  const json = async (...words: string[]): Promise<any> => JSON.parse(await operate(service, ...words, '--json'))

  test('orders and certificates are listed and shown', async () => {
    const client = await registeredClient(service.directoryUrl)
    const responder = await startResponder(service.http01Port)
    await client.obtain(['a.test'], responder).finally(() => responder.close())
    const [listed] = await json('orders', 'list')
    assert.match(await operate(service, 'orders', 'show', listed.id), /^authorizations\n {2}- id /m)
    const [certificate] = await json('certificates', 'list', '--domain', 'a.test')
    assert.equal(certificate.order_id, listed.id)
    assert.match(await operate(service, 'certificates', 'chain', certificate.serial_number), /^-----BEGIN CERTIFICATE/)
  })

  test('failures, lists, overview and settings are asked for on the host; what an instance alone knows is said so', async () => {
    const client = await registeredClient(service.directoryUrl)
    await client.newOrder([], { identifiers: [{ type: 'email', value: 'Nobody@failed.test' }] })
    await until('it is kept', async () => (await operate(service, 'failures', 'list')).includes('failed.test'))
    assert.match(await operate(service, 'crl', 'status'), /^enabled /m)
    const overview = await operate(service, 'overview')
    assert.match(overview, /the instance that answers does not say how it is/)
    const settings = await chancery(service, 'settings')
    assert.equal(settings.code, 1)
    assert.match(settings.stderr, /^chancery: only the service itself can tell; ask with --server$/m)
  })

  test('lists name accounts and users, and show identifiers as names', async () => {
    const orders = await operate(service, 'orders', 'list')
    assert.match(orders, /\bvalid\b.* {2}a\.test {2}/)
    assert.doesNotMatch(orders, /"value"/)
    assert.match(await operate(service, 'certificates', 'list'), /^serial_number .* account_name /)
    await operate(service, 'keys', 'block', 'ab'.repeat(32))
    const [entry] = await json('audit', 'list', '--limit', '1')
    assert.equal(entry.username, entry.details.operator)
    assert.match(await operate(service, 'audit', 'list', '--object', 'ab'.repeat(32)), /key\.block/)
  })

  test('bulk-revoke counts first, ends when all are revoked, and names the operator in the audit log', async () => {
    await sql(
      `INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der, issued_at)
       SELECT gen_random_uuid(), decode('20' || lpad(to_hex(n), 6, '0'), 'hex'), '\\x01', '{bulk.test}', now(), now() + interval '1 day', '',
              now() - interval '1 second'
         FROM generate_series(1, 700) n`,
    )
    const wanted = ['certificates', 'bulk-revoke', '--domain', 'bulk.test']
    assert.equal((await json(...wanted, '--dry-run')).matching_certificates, 700)
    assert.equal((await json(...wanted, '--reason', '4')).revoked, 700)
    const admin = await administrator(service, 'reader')
    const [entry] = (await admin.get('/audit-log?action=certificate.bulk_revoke&limit=1')).json
    assert.equal(typeof entry.details.operator, 'string')
  })

  test('what commands have revoked counts in the metrics of the service', async () => {
    const admin = await administrator(service, 'counter')
    const counted = (what: string) => metricOf(service, `${what}_revoked_total`)
    // Those of the test before.
    await until('bulk revocations are counted', async () => (await counted('certificates')) >= 700)
    const [before, accounts] = [await counted('certificates'), await counted('accounts')]
    const [{ serial_number: serial }] = await json('certificates', 'list', '--domain', 'a.test')
    assert.equal((await chancery(service, 'certificates', 'revoke', serial)).code, 0)
    assert.equal((await chancery(service, 'certificates', 'revoke', serial)).code, 1)
    await boundClient(service, await made<MadeCredential>(admin, '/eab', { kid: 'counted' }))
    assert.equal((await json('eab', 'revoke', 'counted')).revoked_accounts, 1)
    await until('they are counted once', async () => (await counted('accounts')) === accounts + 1)
    assert.equal(await counted('certificates'), before + 1)
  })

  test('issuers list has the id of the issuer that signs, which profiles name', async () => {
    const stdout = await operate(service, 'issuers', 'list', '--json')
    const ids = JSON.parse(stdout).map(({ id }: { id: string | null }) => id)
    assert.ok(ids.length > 0)
    assert.ok(!ids.includes(null), stdout)
  })

  test('what the service would refuse is refused here with its sentence', async () => {
    for (const [words, code, sentence] of [
      [['accounts', 'show', '01938c4e-0000-7000-8000-000000000001'], 1, /^chancery: .*account/m],
      [['certificates', 'bulk-revoke', '--issued-before', 'soon'], 2, /'filter.issued_before' must be/],
    ] as const) {
      const { stderr, ...got } = await chancery(service, ...words)
      assert.equal(got.code, code, stderr)
      assert.match(stderr, sentence)
    }
  })
})
