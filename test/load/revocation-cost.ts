/**
 * What does one revocation cost among many entries?
 *
 * `node compiled/test/load/revocation-cost.js [ENTRIES] [PARTS]` starts a service of its own (PostgreSQL without fsync, two
 * front threads, the development CA) with that many revoked certificates, in one complete list (1) or in parts without
 * one. It prints the CPU of service, signer and PostgreSQL for the first lists, for a second without work, and for a
 * revocation until its list is served, less what that time costs without work.
 */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ByRole, cpuBetween, cpuByRole, familyOf, ROLES, roleOfCommand } from '../../bench/measure/server-cpu.ts'
import { fingerprintSha256 } from '../../src/shared/pki/certificate.ts'
import { decodePem } from '../../src/shared/pki/pem.ts'
import { insertRevoked, withQuery } from '../support/revoked.ts'
import { startTestService } from '../support/service.ts'

const ENTRIES = Number(process.argv[2] ?? 1_000_000)
const PARTS = Number(process.argv[3] ?? 128)
const REVOCATIONS = PARTS === 1 ? 3 : 20
const IDLE_MS = 20_000
/** Followers read a list within a second. */
const FOLLOW_MS = 2_000
const BUILD_TIMEOUT_MS = 600_000
const LOOK_MS = 200

const service = await startTestService({ config: { crl: { enabled: true, shards: PARTS, complete: PARTS === 1 } } })
try {
  await withQuery(service.database.connection, measure)
} finally {
  await service.dispose()
}

type Query = Parameters<Parameters<typeof withQuery>[1]>[0]

async function measure(query: Query): Promise<void> {
  const fingerprint = fingerprintSha256(decodePem(readFileSync(service.ca.intermediate, 'utf8'))[0]!.der)
  await insertRevoked(service.database.connection, fingerprint, ENTRIES)
  await untilEntries(query, ENTRIES)
  print('the first lists after the rows are there, at most', cpu())
  await query('VACUUM ANALYZE certificates')
  await sleep(FOLLOW_MS)

  const idleFrom = cpu()
  await sleep(IDLE_MS)
  const idle = scaled(cpuBetween(idleFrom, cpu()), 1000 / IDLE_MS)
  print('a second without work', idle)

  const [startedAt, before] = [performance.now(), cpu()]
  for (let revoked = 1; revoked <= REVOCATIONS; revoked++) {
    await revokeOne(query, fingerprint)
    await untilEntries(query, ENTRIES + revoked)
    await sleep(FOLLOW_MS)
  }
  const seconds = (performance.now() - startedAt) / 1000
  const spent = cpuBetween(before, cpu())
  const own = Object.fromEntries(ROLES.map((role) => [role, (spent[role] ?? 0) - (idle[role] ?? 0) * seconds]))
  print('a revocation', scaled(own, 1 / REVOCATIONS))
  console.log(
    `a revocation until its list is served, and ${FOLLOW_MS / 1000} s: ${(seconds / REVOCATIONS).toFixed(1)} s`,
  )
}

async function revokeOne(query: Query, fingerprint: string): Promise<void> {
  const [row] = await query(
    `INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
     SELECT gen_random_uuid(), decode('41' || left(replace(gen_random_uuid()::text, '-', ''), 30), 'hex'),
            decode($1, 'hex'), '{host.example}', now(), now() + interval '30 days', '\\x3000' RETURNING id`,
    [fingerprint],
  )
  await query('UPDATE certificates SET revoked_at = now() WHERE id = $1', [row?.['id']])
}

async function untilEntries(query: Query, entries: number): Promise<void> {
  const deadline = performance.now() + BUILD_TIMEOUT_MS
  for (let found: unknown; found !== entries; ) {
    assert.ok(performance.now() < deadline, 'the lists hold every entry in time')
    await sleep(LOOK_MS)
    found = (await query('SELECT sum(entries)::integer AS n FROM crls'))[0]?.['n']
  }
}

function cpu(): ByRole {
  const postgres = familyOf(process.pid).find(({ commandLine }) => roleOfCommand(commandLine) === 'postgres')
  return cpuByRole([...familyOf(service.process.pid as number), ...(postgres ? familyOf(postgres.pid) : [])])
}

function scaled(cpuOf: ByRole, factor: number): ByRole {
  return Object.fromEntries(ROLES.map((role) => [role, (cpuOf[role] ?? 0) * factor]))
}

function print(what: string, cpuOf: ByRole): void {
  const each = ROLES.map((role) => `${role} ${((cpuOf[role] ?? 0) / 1000).toFixed(1)} ms`)
  const sum = ROLES.reduce((total, role) => total + (cpuOf[role] ?? 0), 0)
  console.log(`CPU of ${what}: ${(sum / 1000).toFixed(1)} ms (${each.join(', ')})`)
}
