/**
 * What do twenty administrators cost the ACME clients, and how long do their lists take?
 *
 * `node dist/test/load/administration.js [CERTIFICATES]` starts a service with that many certificates (default 1,000,000) and
 * loads it with signed reads and certificates, without and with administrators who list, export the audit log and sign in. It
 * prints the ratios, and the median and slowest time of each list.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import pg from 'pg'
import {
  type AdminClient,
  adminConfig,
  administrator,
  adminRequest,
  createAdministrator,
  signIn,
} from '../support/admin.ts'
import { resultsIn, runBench } from '../support/bench.ts'
import { startTestService } from '../support/service.ts'

const ADMINISTRATORS = 20
/** A person and a dashboard: one request every half a second each. */
const PAUSE_MS = 500
const ROUNDS = 3
const SECONDS = 10
const TIMES = 11

const certificates = Number(process.argv[2] ?? 1_000_000)
const folder = mkdtempSync(path.join(tmpdir(), 'chancery-administration-'))
const service = await startTestService({
  config: {
    ...adminConfig(),
    security: { rate_limits: { enabled: false } },
    server: { workers: 1 },
  },
})
try {
  await fill()
  const password = await createAdministrator(service.database, 'load')
  const admin = await administrator(service, 'reader')
  await lists(admin)
  for (const scenario of ['signed-read', 'full-flow']) {
    const ratios: { p99: number; rate: number }[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const alone = await load(scenario)
      const stop = administrate(admin, password)
      const beside = await load(scenario)
      const requests = await stop()
      ratios.push({ p99: beside.p99 / alone.p99, rate: beside.rate / alone.rate })
      console.log(
        `${scenario}, round ${round + 1}: ${alone.rate.toFixed(0)}/s, p99 ${alone.p99.toFixed(1)} ms alone; ` +
          `${beside.rate.toFixed(0)}/s, p99 ${beside.p99.toFixed(1)} ms beside ${requests} administrative requests`,
      )
    }
    const median = (of: 'p99' | 'rate') => ratios.map((ratio) => ratio[of]).sort((a, b) => a - b)[ROUNDS >> 1] as number
    console.log(`${scenario}: p99 × ${median('p99').toFixed(2)}, rate × ${median('rate').toFixed(2)} (medians)`)
  }
} finally {
  await service.dispose()
  rmSync(folder, { recursive: true, force: true })
}

/** Certificates of a thousand accounts, as issuance would have left them. */
async function fill(): Promise<void> {
  const client = new pg.Client(service.database.connection)
  await client.connect()
  const began = performance.now()
  await client.query(`
    INSERT INTO issuers (fingerprint, certificate, chain) VALUES ('\\x00', '\\x00', '{}') ON CONFLICT DO NOTHING;
    INSERT INTO accounts (id, thumbprint, jwk, contacts)
      SELECT gen_random_uuid(), 'load ' || n, '{}', ARRAY['mailto:' || n || '@load.example'] FROM generate_series(1, 1000) n`)
  const chunk = 100_000
  for (let from = 0; from < certificates; from += chunk)
    await client.query(`
      INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, not_before, not_after, der, revoked_at)
      SELECT gen_random_uuid(), (SELECT id FROM accounts WHERE thumbprint = 'load ' || (1 + n % 1000)), gen_random_uuid(),
             decode(md5(n::text), 'hex'), '\\x00', ARRAY['host' || n || '.load.example'], now(),
             now() + (n % 180 - 90) * interval '1 day', decode(md5(n::text) || repeat('00', 434), 'hex'), CASE WHEN n % 100 = 0 THEN now() END
        FROM generate_series(${from} + 1, ${Math.min(from + chunk, certificates)}) n`)
  await client.query('ANALYZE')
  await client.end()
  console.log(`${certificates} certificates in ${((performance.now() - began) / 1000).toFixed(0)} s`)
}

async function lists(admin: AdminClient): Promise<void> {
  const [newest] = (await admin.get('/certificates?limit=1')).json
  const paths = [
    '/certificates',
    `/certificates/${newest.serial_number}`,
    `/certificates/by-fingerprint/${newest.fingerprint}`,
    `/certificates?domain=${newest.san_values[0]}`,
    `/certificates?account_id=${newest.account_id}`,
    '/certificates?status=revoked',
    '/certificates?status=expired',
    '/certificates?offset=1000',
    '/accounts',
    '/audit-log',
  ]
  for (const of of paths) {
    const times: number[] = []
    for (let n = 0; n < TIMES; n++) {
      const began = performance.now()
      const { status, text } = await admin.get(of)
      if (status !== 200) throw new Error(`${of}: ${status} ${text}`)
      times.push(performance.now() - began)
    }
    const sorted = times.toSorted((a, b) => a - b)
    console.log(
      `${of.split('=')[0]}: median ${sorted[TIMES >> 1]?.toFixed(1)} ms, slowest ${sorted.at(-1)?.toFixed(1)} ms`,
    )
  }
}

/** @returns what ends it and counts the requests */
function administrate(admin: AdminClient, password: string): () => Promise<number> {
  let isOver = false
  let requests = 0
  const work = [
    () => admin.get('/certificates?status=active'),
    () => admin.get('/accounts'),
    () => admin.send('POST', '/audit-log/export', {}),
    () => signIn(service.baseUrl, 'load', password),
    () => adminRequest(service.baseUrl, 'GET', '/me', { token: admin.token }),
  ]
  const all = Array.from({ length: ADMINISTRATORS }, async (_, index) => {
    for (let n = index; !isOver; n++) {
      await work[n % work.length]?.()
      requests++
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
    }
  })
  return async () => {
    isOver = true
    await Promise.all(all)
    return requests
  }
}

async function load(scenario: string): Promise<{ rate: number; p99: number }> {
  const file = path.join(folder, `${Date.now()}.json`)
  const { code, output } = await runBench(
    folder,
    ...['--directory', service.directoryUrl, '--scenario', scenario, '--clients', '8', '--duration', String(SECONDS)],
    ...[
      '--server-pid',
      '0',
      '--http01-port',
      String(service.http01Port),
      '--dns-port',
      '0',
      '--tlsalpn01-port',
      '0',
      '--json',
      file,
    ],
  )
  if (code !== 0) throw new Error(output)
  const [result] = resultsIn(file)
  if (!result) throw new Error(`${scenario} measured nothing: ${output}`)
  return { rate: result.perSecond, p99: result.latency.p99 }
}
