/**
 * By hand: how long 100,000 revocations take (the goal is a minute), and how long orders of one client wait meanwhile.
 * `node compiled/test/load/bulk-revocation.js [certificates]`
 */

import { closeConnections, registeredClient } from '../support/acme-client.ts'
import { adminConfig, administrator } from '../support/admin.ts'
import { rowsIn } from '../support/database.ts'
import { startTestService } from '../support/service.ts'
import { loadAverage, quantile } from './figures.ts'

const COUNT = Number(process.argv[2] ?? 100_000)
const QUIET_ORDERS = 200

const service = await startTestService({ config: { ...adminConfig(), crl: { enabled: true } } })
try {
  const admin = await administrator(service, 'alice')
  const client = await registeredClient(service.directoryUrl)
  await rowsIn(
    service.database,
    `INSERT INTO certificates (id, account_id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
     SELECT (lpad(to_hex(floor(extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '7' || substr(md5(i::text), 1, 3)
             || '8' || substr(md5(i::text), 4, 15))::uuid,
            NULL, decode('10' || lpad(to_hex(i), 14, '0'), 'hex'),
            (SELECT fingerprint FROM issuers LIMIT 1), ARRAY['bulk.test'], now(), now() + interval '90 days', sha256(i::text::bytea)
       FROM generate_series(1, $1::integer) AS i`,
    [COUNT],
  )
  let refused = 0
  const order = async () => {
    const startedAt = performance.now()
    // Busy machines have the pool guard refuse some.
    while ((await client.newOrder(['a.test'])).status !== 201) refused++
    return performance.now() - startedAt
  }
  const quiet: number[] = []
  for (let i = 0; i < QUIET_ORDERS; i++) quiet.push(await order())

  const refusedBefore = refused
  const startedAt = performance.now()
  const reply = await admin.send('POST', '/certificates/bulk-revoke', {
    filter: { domain: 'bulk.test' },
    dry_run: true,
  })
  console.log(`dry run: ${Math.round(performance.now() - startedAt)} ms`, reply.json.matching_certificates)
  const began = performance.now()
  let isOver = false
  const done = admin.send('POST', '/certificates/bulk-revoke', { filter: { domain: 'bulk.test' } })
  const busy: number[] = []
  const ordering = (async () => {
    while (!isOver) busy.push(await order())
  })()
  let job = (await done).json
  while (job.status !== undefined && job.status !== 'done') {
    await new Promise((resolve) => setTimeout(resolve, 200))
    job = (await admin.get(`/bulk-revocations/${job.id}`)).json
  }
  isOver = true
  console.log(`refused before and meanwhile: ${refusedBefore}, ${refused - refusedBefore}`)
  const seconds = (performance.now() - began) / 1000
  console.log(`${job.revoked} revoked in ${seconds.toFixed(1)} s; the reply was ${(await done).status}`)
  console.log(`${Math.round((job.revoked / seconds) * 60)} a minute; the goal is 100000; ${loadAverage()}`)
  await ordering
  for (const [name, times] of [
    ['quiet', quiet],
    ['meanwhile', busy],
  ] as const) {
    const at = (share: number) => quantile(times, share).toFixed(1)
    console.log(`new-order ${name}: ${times.length}, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`)
  }
} finally {
  closeConnections()
  await service.dispose()
}
