/** The parts of a drill around the database under Patroni: balancer, instances, and what was lost in the end. */

import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { HeldCertificate } from '../../bench/client/persistent-client.ts'
import type { DatabaseSettings } from '../../src/store/database.ts'
import type { SignerFiles } from '../signer/authority.ts'
import type { Crowd } from '../support/clients/crowd.ts'
import { type PatroniCluster, POSTGRES_PORT, REST_PORT } from '../support/databases/patroni.ts'
import type { DatabaseConnection } from '../support/postgres.ts'
import { withQuery } from '../support/revoked.ts'
import { startTestService, type TestService } from '../support/service.ts'

/** Of the comparison with the signer, on a busy machine. */
const RESTORED_S = 60

export async function prepareDatabases(host: string): Promise<void> {
  const superuser = { host, port: POSTGRES_PORT, user: 'postgres', database: 'postgres' }
  await withQuery(superuser, async (query) => {
    await query('CREATE ROLE chancery LOGIN')
    await query('CREATE DATABASE chancery OWNER chancery')
    await query('CREATE TABLE written (at timestamptz DEFAULT clock_timestamp())')
  })
}

interface Place {
  hosts: readonly string[]
  port: number
}

export async function startInstances(host: string, place: Place, files: SignerFiles): Promise<TestService[]> {
  const config = {
    database: { auto_setup: true, host: place.hosts, port: place.port },
    ca: { signer: { socket: files.socket, secret_file: path.join(files.folder, 'secret'), timeout_seconds: 5 } },
    nonce: { store: 'database' },
    crl: { enabled: true },
    challenges: { background_worker: { stale_seconds: 5 } },
  }
  const connection = { host, port: POSTGRES_PORT, user: 'chancery', database: 'chancery' }
  const first = await startTestService({ fronts: 1, config, database: { connection, drop: async () => undefined } })
  const { http01Port } = first
  const second = { ...config, challenges: { ...config.challenges, http01: { port: http01Port } } }
  return [first, await startTestService({ fronts: 1, config: second, beside: first })]
}

export const settingsOf = ({ hosts, port }: Place): DatabaseSettings => ({
  hosts,
  port,
  database: 'chancery',
  user: 'chancery',
  password: '',
  sslmode: 'disable',
  maxConnections: 1,
  connectionTimeoutMs: 10_000,
  idleTimeoutMs: 10_000,
  statementTimeoutMs: 30_000,
})

/** As Patroni's manual has it: the check of the primary, and connections end with it. */
export async function startBalancer({ network, hosts }: PatroniCluster, folder: string): Promise<Place> {
  const port = 5000
  const file = path.join(folder, 'haproxy.cfg')
  writeFileSync(
    file,
    `defaults
  mode tcp
  timeout connect 1s
  timeout client 30m
  timeout server 30m
  timeout check 1s
listen primary
  bind ${network.address}:${port}
  option httpchk OPTIONS /primary
  http-check expect status 200
  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
${hosts.map((host, index) => `  server node${index + 1} ${host}:${POSTGRES_PORT} check port ${REST_PORT}`).join('\n')}
`,
  )
  spawn('haproxy', ['-db', '-q', '-f', file], { stdio: 'inherit' }).unref()
  return { hosts: [network.address], port }
}

export interface Lost {
  certificates: number
  revocations: number
}

/** What clients hold, or had confirmed, and the database does not know. */
export async function lostOf(connection: DatabaseConnection, { held, revoked }: Crowd): Promise<Lost> {
  const serials = (certificates: readonly HeldCertificate[]) => certificates.map(({ leaf }) => leaf.serialNumber)
  const known = await withQuery(connection, (query) =>
    query('SELECT encode(serial_number, $1) AS serial, revoked_at FROM certificates', ['hex']),
  )
  const bySerial = new Map(known.map((row) => [BigInt(`0x${row['serial']}`), row]))
  const find = (serial: string) => bySerial.get(BigInt(`0x${serial}`))
  return {
    certificates: serials(held).filter((serial) => find(serial) === undefined).length,
    revocations: serials(revoked).filter((serial) => !find(serial)?.['revoked_at']).length,
  }
}

/** What comes back from the signer comes within a round of lists. @returns what is still lost after that */
export async function lostInTheEnd(look: () => Promise<Lost>): Promise<Lost> {
  for (let tries = 0; ; tries++) {
    const lost = await look()
    if ((lost.certificates === 0 && lost.revocations === 0) || tries === RESTORED_S) return lost
    await sleep(1_000)
  }
}

/** As the instances have logged it. */
export function restoredBy(services: readonly TestService[]): { restored: Lost; alarms: number } {
  const count = (isWanted: (line: TestService['log'][number]) => boolean) =>
    services.reduce((sum, { log }) => sum + log.filter(isWanted).length, 0)
  return {
    restored: {
      certificates: count(({ event }) => event === 'certificate_restored'),
      revocations: count(({ event }) => event === 'revocation_restored'),
    },
    alarms: count(({ event, code }) => event === 'alarm' && code === 'database_behind'),
  }
}
