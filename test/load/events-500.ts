/**
 * Is anything lost while everything is killed during 500 issuances?
 *
 * `node compiled/test/load/events-500.js [CERTIFICATES] [KILLS]` kills the service, PostgreSQL, the mail server and two
 * receivers, each so many times, and prints what arrived. It fails when an event was lost or a mail has two names.
 */

import { killEverything } from '../events/kill-everything.ts'

const [certificates = 500, kills = 4] = process.argv.slice(2).map(Number)
const startedAt = performance.now()
const result = await killEverything({ certificates, kills, boundMs: 300_000 })
console.log(`${Math.round((performance.now() - startedAt) / 1000)} s: ${JSON.stringify(result)}`)
