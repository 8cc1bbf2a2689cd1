/**
 * `chancery doctor` on a whole installation: it finds nothing wrong with a healthy one, and each planted fault, alone and
 * beside another, with a mend that names a key, a file or a command.
 */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { haproxy } from '../support/hosts/proxies.ts'
import { canMount } from '../support/hosts/small-disk.ts'
import { requireAll, requireCommand } from '../support/requirements.ts'
import { until } from '../support/until.ts'
import { FAULTS } from './faults/all.ts'
import type { Fault } from './faults/fault.ts'
import { type Changes, type Finding, type Report, type Stand, startStand } from './stand.ts'

/** Users, owners of files, and a small disk are root's to make. */
const root = { skip: process.getuid?.() === 0 && canMount ? (false as const) : 'needs root, to be several users' }
const required = requireAll(
  root,
  requireCommand('nginx'),
  requireCommand('haproxy'),
  requireCommand('openssl'),
  requireCommand('pgbouncer'),
  requireCommand('faketime'),
)

/** All pairs take two minutes. */
const EACH_PAIR = process.env['CHANCERY_NIGHTLY'] === '1' ? 1 : 3

/** What only the operator, or a host elsewhere, can tell. */
const LEFT_OPEN = ['proxy.operators', 'challenges.http-port']

describe('chancery doctor', required, () => {
  let stand: Stand
  before(async () => {
    stand = await startStand()
  })
  after(() => stand?.stop())

  test('finds nothing wrong with a healthy installation', async () => {
    requireHealthy(await stand.doctor({ args: ['--strict'] }))
  })

  test('lets every issuer sign when it is asked to', async () => {
    const { findings } = await stand.doctor({ args: ['--only', 'signer', '--test-sign'] })
    assert.deepEqual(resultsOf(findings, 'signer.test-sign'), ['ok'])
  })

  test('finds nothing wrong behind HAProxy', async () => {
    await stand.proxy(undefined, haproxy)
    try {
      requireHealthy(await stand.doctor())
    } finally {
      await stand.proxy()
    }
  })

  test('finds nothing wrong without a proxy', async () => {
    const { ports, folder } = stand
    const undo = stand.replaceConfig({
      'server.external_url': `https://localhost:${ports.service}`,
      'server.tls': {
        cert_path: `${folder}/state/tls/cert.pem`,
        key_path: `${folder}/state/tls/key.pem`,
        self_issued_names: ['localhost'],
      },
      'proxy.enabled': false,
      'proxy.trusted_proxies': undefined,
      'ca.crl_url': undefined,
      'crl.http_port': ports.lists,
    })
    await stand.stopService()
    try {
      await stand.startService()
      requireHealthy(await stand.doctor())
    } finally {
      undo()
      await stand.stopService()
      await stand.startService()
    }
  })

  test('as the user of the service says what it cannot see, and calls nothing right that it has not seen', async () => {
    const { findings } = await stand.doctor({ uid: 64_101 })
    assert.deepEqual(findings.filter(isBad).map(told), [])
    assert.ok(idsOf(findings, 'ok').length > 40)
  })

  for (const fault of FAULTS)
    test(`finds: ${fault.name}`, async () => {
      requireFound(await planted([fault]), fault)
    })

  const apart = FAULTS.filter(({ blinds }) => !blinds)
  const half = Math.ceil(apart.length / 2)
  for (const [at, one] of apart.slice(0, half).entries()) {
    const other = apart[at + half]
    if (other && mayMeet(one, other) && at % EACH_PAIR === 0)
      test(`finds both: ${one.name}; ${other.name}`, async () => {
        const report = await planted([one, other])
        for (const fault of [one, other]) requireFound(report, fault)
      })
  }

  test('finds a signer that is away, and goes on', async () => {
    await stand.stopSigner()
    try {
      const { code, findings } = await stand.doctor()
      assert.equal(code, 1)
      for (const id of ['signer.reachable', 'service.health', 'files.socket'])
        requireBad(findings, id, /chancery-signer|signer/)
      assert.deepEqual(resultsOf(findings, 'signer.issuers'), ['unknown'])
      assert.deepEqual(resultsOf(findings, 'database.schema'), ['ok'])
    } finally {
      await stand.startSigner()
    }
  })

  test('finds a service that is away, and one that runs as root', async () => {
    await stand.stopService()
    try {
      const { findings } = await stand.doctor()
      for (const id of ['service.alive', 'service.instances', 'proxy.reachable'])
        requireBad(findings, id, /systemctl|where the proxy/)
      assert.deepEqual(resultsOf(findings, 'signer.issuers'), ['ok'])
      await stand.startService(0)
      requireBad((await stand.doctor({ args: ['--only', 'service'] })).findings, 'service.user', /User=chancery/)
    } finally {
      await stand.stopService()
      await stand.startService()
    }
  })

  test('finds a database that is away, goes on, and finds one that risks its data', async () => {
    await stand.postgres.stop()
    await until('the service notices', async () =>
      (await fetch(`http://127.0.0.1:${stand.ports.service}/readyz`)).status === 503 ? true : undefined,
    )
    const { code, findings } = await stand.doctor()
    assert.equal(code, 1)
    requireBad(findings, 'database.reachable', /database\.host/)
    requireBad(findings, 'service.ready', /db status/)
    assert.deepEqual(resultsOf(findings, 'database.schema'), ['unknown'])
    assert.deepEqual(resultsOf(findings, 'signer.issuers'), ['ok'])
    assert.deepEqual(resultsOf(findings, 'crl.plain-http'), ['unknown'])

    const stop = await stand.restartPostgres({ fsync: 'off' })
    requireBad((await stand.doctor({ args: ['--only', 'database'] })).findings, 'database.durable', /fsync = on/)
    await stop()
  })

  /** What the doctor finds in the areas of the faults. */
  async function planted(faults: readonly Fault[]): Promise<Report> {
    const undos: (() => unknown)[] = []
    try {
      for (const fault of faults) if (fault.plant) undos.push(await fault.plant(stand))
      for (const { sql } of faults) {
        if (!sql) continue
        undos.push(() => stand.asSuperuser(...sql.undo))
        await stand.asSuperuser(...sql.plant)
      }
      for (const { dns } of faults) if (dns) stand.answer(dns)
      const proxies = faults.flatMap(({ proxy }) => proxy ?? [])
      if (proxies.length > 0) {
        undos.push(() => stand.proxy())
        await stand.proxy(async (text) => {
          let changed = text
          for (const proxy of proxies) changed = await proxy(changed, stand)
          return changed
        })
      }
      const config = await changed(faults, 'config')
      const signer = await changed(faults, 'signer')
      return await stand.doctor({
        ...(config !== undefined && { config }),
        args: [
          ...faults.flatMap(({ id }) => ['--only', id.split('.')[0] as string]),
          ...faults.flatMap((fault) => fault.args ?? []),
          ...(signer === undefined ? [] : ['--signer-config', signer]),
        ],
        prefix: faults.flatMap((fault) => fault.prefix ?? []),
      })
    } finally {
      stand.answer(undefined)
      for (const undo of undos.reverse()) await undo()
      await stand.undoLater()
    }
  }

  async function changed(faults: readonly Fault[], which: 'config' | 'signer'): Promise<string | undefined> {
    const all: Changes = {}
    for (const { [which]: changes } of faults)
      Object.assign(all, typeof changes === 'function' ? await changes(stand) : changes)
    return Object.keys(all).length > 0 ? stand.changed(which, all) : undefined
  }
})

/** Two that change one thing are one fault. */
function mayMeet(one: Fault, other: Fault): boolean {
  if (one.dns && other.dns) return false
  if (one.proxy && other.proxy) return one.id !== other.id && !one.id.startsWith('crl') && !one.id.startsWith('tls')
  // The process is found by the name of its configuration.
  const byProcess = ['configuration.running', 'service.descriptors', 'configuration.intended', 'files.configuration']
  return !(byProcess.includes(one.id) && other.config) && !(byProcess.includes(other.id) && one.config)
}

const isBad = ({ result }: Finding) => result === 'failure' || result === 'warning'
const told = ({ id, says }: Finding) => `${id}: ${says}`
const idsOf = (findings: readonly Finding[], wanted: Finding['result']) =>
  findings.filter(({ result }) => result === wanted).map(({ id }) => id)
const resultsOf = (findings: readonly Finding[], wanted: string) =>
  findings.filter(({ id }) => id === wanted).map(({ result }) => result)

function requireHealthy({ code, findings }: Report): void {
  assert.deepEqual(findings.filter(isBad).map(told), [])
  assert.deepEqual(idsOf(findings, 'unknown'), LEFT_OPEN)
  assert.equal(code, 0)
}

function requireFound({ findings }: Report, { id, mend }: Fault): void {
  requireBad(findings, id, mend)
}

function requireBad(findings: readonly Finding[], id: string, mend: RegExp): void {
  const found = findings.filter((finding) => finding.id === id && isBad(finding))
  const said = findings
    .filter((finding) => finding.id === id || isBad(finding))
    .map(({ id, result, says }) => `${result} ${id}: ${says}`)
  assert.ok(found.length > 0, `${id} has found nothing:\n${said.join('\n')}`)
  assert.ok(
    found.some((finding) => mend.test(finding.mend ?? '')),
    `no mend of ${id} has ${mend}: ${found.map((one) => one.mend)}`,
  )
}
