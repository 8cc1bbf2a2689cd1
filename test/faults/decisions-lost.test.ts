/**
 * Acts of all kinds that were answered, and then lost by a fail-over to a standby that was behind: what restricts is in force
 * before anybody works with the database, and what permits is listed (docs/decisions/decisions-outlive-the-database.md).
 * `CHANCERY_NIGHTLY=1` does more of each, with a standby that is 1 s, 25 s and 10 minutes behind.
 */

import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Decided, readDecided, undoneIn, untoldIn } from '../../bench/faults/acts/decided.ts'
import { PERMITTING } from '../../bench/faults/acts/permitting.ts'
import { RESTRICTING } from '../../bench/faults/acts/restricting.ts'
import type { World } from '../../bench/faults/acts/world.ts'
import { makeAuthority } from '../signer/authority.ts'
import { TestSigner } from '../signer/daemon.ts'
import { closeConnections, send } from '../support/acme-client.ts'
import { type ActingWorld, startActingWorld } from '../support/admin/acting-world.ts'
import { adminConfig } from '../support/admin.ts'
import { rowsIn } from '../support/database.ts'
import { type DatabasePair, startDatabasePair } from '../support/databases/database-pair.ts'
import { canMount, type SmallDisk, startDisk } from '../support/hosts/small-disk.ts'
import { chancery, operate } from '../support/operator.ts'
import { WAIT_MS } from '../support/patience.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const IS_NIGHTLY = process.env['CHANCERY_NIGHTLY'] === '1'
const OF_EACH = IS_NIGHTLY ? 6 : 2
const CONSOLE = 'https://console.corp.example'

interface Scene {
  mode: 'automatic' | 'manual'
  /** Between the last commit that the standby has and its promotion. */
  lagMs: number
}

const SCENES: Scene[] = IS_NIGHTLY
  ? (['automatic', 'manual'] as const).flatMap((mode) => [1_000, 25_000, 600_000].map((lagMs) => ({ mode, lagMs })))
  : [
      { mode: 'automatic', lagMs: 0 },
      { mode: 'manual', lagMs: 0 },
    ]

for (const scene of SCENES)
  describe(
    `acts that a fail-over has lost, ${scene.lagMs / 1000} s behind, reconciled ${scene.mode === 'manual' ? 'by hand' : 'by the service'}`,
    {
      skip: !canMount && 'needs to mount a tmpfs',
    },
    () => survive(scene),
  )

function survive({ mode, lagMs }: Scene): void {
  const signer = new TestSigner({ default: makeAuthority('P-256') }, { policyYaml: '{ max_crl_validity_days: 2 }' })
  let pair: DatabasePair
  let disk: SmallDisk
  let service: TestService
  let acting: ActingWorld
  let world: World

  before(async () => {
    signer.write()
    mkdirSync(signer.at('disk'))
    disk = await startDisk(signer.at('disk'), 8 * 2 ** 20)
    const yaml = readFileSync(signer.files.config, 'utf8')
    writeFileSync(signer.files.config, yaml.replace('file: audit.jsonl', `file: ${disk.folder}/audit.jsonl`))
    await signer.launch()
    pair = await startDatabasePair()
    service = await startTestService({
      fronts: 1,
      database: { connection: pair.primary.connection, drop: async () => undefined },
      config: {
        ...adminConfig({ approvals: { bulk_revocation_above: 0 }, console_url: `${CONSOLE}/api/console/` }),
        ca: { signer: signer.section },
        crl: { enabled: true },
        nonce: { store: 'database' },
        database: {
          auto_setup: true,
          host: pair.hosts,
          reconcile: mode,
          decisions_file: signer.at('decisions.jsonl'),
        },
      },
    })
    acting = await startActingWorld(service, CONSOLE)
    world = acting.world
  })
  after(async () => {
    closeConnections()
    await acting?.close()
    await service?.dispose()
    await pair?.stop()
    await signer.end()
    disk?.stop()
  })

  const standby = () => ({ connection: pair.standby.connection, drop: async () => undefined })
  const decidedIn = (database: Parameters<typeof rowsIn>[0]) => readDecided((text) => rowsIn(database, text))

  async function prepared() {
    const acts: (() => Promise<unknown>)[] = []
    for (const prepare of [...Object.values(RESTRICTING), ...Object.values(PERMITTING)])
      for (let n = 0; n < OF_EACH; n++) acts.push(await prepare(world, acts.length))
    // Each kind is at the beginning, in the middle and at the end.
    return acts.map((act, at) => ({ act, at: (at * 7_919) % acts.length })).sort((a, b) => a.at - b.at)
  }

  test('none that restricts is undone, and none that permits is left unmentioned', async () => {
    const acts = await prepared()
    await pair.freeze()
    const frozenAt = Date.now()
    const ballast = path.join(disk.folder, 'ballast')
    for (const [at, { act }] of acts.entries()) {
      if (at === Math.floor(acts.length / 3)) fill(ballast)
      if (at === Math.floor((2 * acts.length) / 3)) rmSync(ballast)
      await act()
    }
    await sleep(Math.max(0, frozenAt + lagMs - Date.now()))
    await operate(service, 'maintenance', 'on')
    await operate(service, 'signing', 'stop', '--reason', 'the key may have leaked')
    await pair.killPrimary()
    await pair.promote()

    if (mode === 'manual') {
      await service.untilLogged('the wait', ({ event }) => event === 'decisions_not_compared')
      assert.equal((await send({ method: 'GET', url: `${service.baseUrl}/readyz` })).status, 503)
      const refused = await chancery(service, 'users', 'list')
      assert.match(refused.stderr, /was not compared with what was decided/)
      assert.equal((await chancery(service, 'reconcile', '--dry-run')).code, 1)
      await operate(service, 'reconcile')
    }
    await until('it is compared', async () => {
      const [row] = await rowsIn<{ compared: string }>(standby(), 'SELECT compared FROM database_identity')
      return row?.compared.includes('/00000002/')
    })
    const former = await pair.openFormer()
    const was = await decidedIn({ connection: former.connection, drop: async () => undefined })
    let now: Decided = was
    // Revocations come back from the signer, and a bulk revocation goes on.
    const isWhole = async () => {
      now = await decidedIn(standby())
      return undoneIn(now, was).length === 0
    }
    await until('nothing is undone', isWhole, WAIT_MS).catch(() => undefined)
    assert.deepEqual(undoneIn(now, was), [], 'restrictions undone')
    assert.deepEqual(untoldIn(now, was), [], 'entries and accounts that nobody is told of')
  })

  test('clients of lost accounts are told to register again', async () => {
    for (const { client, url } of world.registered) {
      // A nonce of before may be refused once, and a client repeats its request (RFC 8555 §6.5).
      const asked = client.requests.persist('the account', () => client.requests.post(url, ''))
      await assert.rejects(asked, /400 .*:accountDoesNotExist/)
      await client.register()
    }
  })

  test('is one alarm, and the audit log is whole', async () => {
    const isOfDatabase = ({ event, code }: Record<string, unknown>) => event === 'alarm' && code === 'database_behind'
    const wanted = mode === 'manual' ? 2 : 1
    await until('the story', () => service.log.filter(isOfDatabase).length === wanted, 3 * WAIT_MS)
    const [reason] = service.log
      .filter(isOfDatabase)
      .map((line) => String(line.reason))
      .slice(-1)
    assert.match(
      String(reason),
      /acts since .* were missing: \d+ are lost, wholly or in part; repeat what you still want/,
    )
    assert.match(await operate(service, 'audit', 'verify'), /written back/)
    const others = service.log.filter((line) => line.event === 'alarm' && !isOfDatabase(line))
    assert.deepEqual(
      others.map(({ msg, reason }) => [msg, reason]),
      [],
    )
  })
}

function fill(file: string): void {
  assert.throws(() => writeFileSync(file, Buffer.alloc(8 * 2 ** 20)), /ENOSPC/)
}
