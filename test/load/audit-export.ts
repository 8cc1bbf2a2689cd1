/**
 * Does an export of a million audit entries take memory?
 *
 * `node compiled/test/load/audit-export.js [ENTRIES]` fills the audit log, exports it to a reader that reads as fast as it can and to one
 * that pauses, and shows time, bytes and how much the service grew. It ends with 1 when that is above its goal.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { adminConfig, administrator } from '../support/admin.ts'
import { rowsIn } from '../support/database.ts'
import { startTestService } from '../support/service.ts'
import { loadAverage, residentMib } from './figures.ts'

const ENTRIES = Number(process.argv[2] ?? 1_000_000)
const GOAL_MIB = 64
const LOOK_MS = 200
/** Of the slow reader, after each piece, and for so long. */
const PAUSE_MS = 20
const SLOW_MS = 20_000

const service = await startTestService({ config: adminConfig() })
try {
  const admin = await administrator(service, 'alice')
  await rowsIn(
    service.database,
    `INSERT INTO admin_audit_log (sequence, id, action, details, ip_address, created_at, mac)
     SELECT 1000 + n, gen_random_uuid(), 'certificate.revoke',
            jsonb_build_object('serial_number', md5(n::text), 'reason', 'superseded'), '192.0.2.1', now(), sha256(n::text::bytea)
       FROM generate_series(1, $1::bigint) n`,
    [ENTRIES],
  )
  await rowsIn(service.database, 'UPDATE admin_audit_head SET sequence = 1000 + $1', [ENTRIES])
  // The first one loads what every one needs.
  await read(admin.token, 0, 1_000)
  for (const [who, pauseMs, mostMs] of [
    ['fast reader', 0, Number.POSITIVE_INFINITY],
    ['slow reader', PAUSE_MS, SLOW_MS],
  ] as const) {
    const resident = () => residentMib(service.process.pid)
    const before = resident()
    const seen: number[] = []
    const looking = setInterval(() => seen.push(resident()), LOOK_MS)
    const { bytes, lines, seconds } = await read(admin.token, pauseMs, mostMs).finally(() => clearInterval(looking))
    const fifth = Math.ceil(seen.length / 5)
    const most = [0, 1, 2, 3, 4].map((index) => Math.max(...seen.slice(index * fifth, (index + 1) * fifth)))
    // V8 fills its young generation first; what grows with the length of the export shows after that.
    const grown = Math.max(...most) - Math.max(most[0] as number, before)
    console.log(
      `${who}: ${lines} entries, ${(bytes / 2 ** 20).toFixed(0)} MiB in ${seconds.toFixed(1)} s; the service had ${before.toFixed(0)} MiB, then at most ${most.map((one) => one.toFixed(0))} in each fifth; goal: ${GOAL_MIB} over the first`,
    )
    if (grown > GOAL_MIB) process.exitCode = 1
  }
  console.log(loadAverage())
} finally {
  await service.dispose()
}

async function read(token: string, pauseMs: number, mostMs: number) {
  const startedAt = performance.now()
  const ending = new AbortController()
  const reply = await fetch(`${service.baseUrl}/api/audit-log/export`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    signal: ending.signal,
  })
  let [bytes, lines] = [0, 0]
  for await (const piece of reply.body as unknown as AsyncIterable<Uint8Array>) {
    bytes += piece.length
    lines += piece.reduce((count, octet) => count + (octet === 0x0a ? 1 : 0), 0)
    if (performance.now() - startedAt > mostMs) break
    if (pauseMs > 0) await sleep(pauseMs)
  }
  ending.abort()
  return { bytes, lines, seconds: (performance.now() - startedAt) / 1000 }
}
