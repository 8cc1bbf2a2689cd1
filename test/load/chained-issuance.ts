/**
 * 200 certificates at the same time through two services chained (backend acme_proxy), checked in both books. Run by hand:
 *
 *   node compiled/test/load/chained-issuance.js [certificates]
 */

import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { createPersistentClient } from '../../bench/client/persistent-client.ts'
import { startChainedServices } from '../support/chained-service.ts'
import { startHttp01Responder } from '../support/http01-responder.ts'
import { withQuery } from '../support/revoked.ts'
import type { TestService } from '../support/service.ts'

const certificates = Number(process.argv[2] ?? 200)
const countOf = (of: TestService, text: string) =>
  withQuery(of.database.connection, async (query) => {
    const [row] = await query(`SELECT count(*)::integer AS n FROM ${text}`)
    return Number(row?.['n'])
  })

const chained = await startChainedServices()
const { upstream, service, challenges } = chained
const responder = await startHttp01Responder(service.http01Port)

/** Why orders failed, and how often. */
function reasons(): string {
  const counted = new Map<string, number>()
  for (const { event, reason, message } of service.log)
    if (event === 'backend_refused' || event === 'backend_failed' || event === 'upstream_order')
      counted.set(`${message}: ${reason}`, (counted.get(`${message}: ${reason}`) ?? 0) + 1)
  return [...counted].map(([text, times]) => `${times} × ${text}`).join('\n')
}

async function run(): Promise<void> {
  const client = createPersistentClient({ directoryUrl: service.directoryUrl, timeoutMs: 600_000 })
  await client.register()

  const startedAt = performance.now()
  const names = Array.from({ length: certificates }, (_, number) => `load-${number}.test`)
  const durations = await Promise.all(
    names.map(async (name) => {
      responder.serve(name, client.thumbprint)
      const from = performance.now()
      await client.obtain(name)
      return performance.now() - from
    }),
  )
  const seconds = (performance.now() - startedAt) / 1000
  durations.sort((a, b) => a - b)
  const at = (share: number) => ((durations[Math.floor(share * (durations.length - 1))] ?? 0) / 1000).toFixed(1)

  assert.equal(await countOf(service, 'certificates'), certificates)
  assert.equal(await countOf(upstream, 'certificates'), certificates)
  assert.equal(await countOf(upstream, "orders WHERE status = 'valid'"), certificates)
  assert.equal(await countOf(service, 'csr_issuances'), 0)
  assert.deepEqual(readdirSync(challenges), [])
  assert.deepEqual([client.invalidOrders.length, client.complaints], [0, []], reasons())
  console.log(
    `${certificates} certificates in ${seconds.toFixed(1)} s; each in ${at(0.5)} s (median), ${at(1)} s (slowest); the books agree`,
  )
}

try {
  await run()
} finally {
  await responder.close()
  await chained.dispose()
}
