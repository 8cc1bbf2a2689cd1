/**
 * The books of a service after a run: orders, certificates and intents in its database against the signer's audit chain
 * and against what the clients hold. A fault may leave work undone, but never these three at odds.
 */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { HeldCertificate } from '../../bench/client/persistent-client.ts'
import { verifyAuditChain } from '../../signer/audit/audit-commands.ts'
import { parseAuditLine } from '../../signer/audit/line.ts'
import { WAIT_MS } from './patience.ts'
import type { DatabaseConnection } from './postgres.ts'

export interface Books {
  /** Stored status → number; `open` is pending, ready, or invalid by its authorization or its expiry. */
  orders: Record<string, number>
  certificates: number
  /** Signatures over certificates, repeated ones included. */
  signatures: number
}

export interface BooksOptions {
  connection: DatabaseConnection
  /** The folder of the service, with the audit chain. */
  folder: string
  held: readonly HeldCertificate[]
  /** Open challenges and issuances must be finished by themselves within this. */
  boundMs?: number
}

interface Unfinished {
  processing: number
  intents: number
  /** Challenges that were triggered and have no verdict. */
  validating: number
}

const UNFINISHED = `
  SELECT (SELECT count(*)::integer FROM orders WHERE status = 'processing') AS processing,
         (SELECT count(*)::integer FROM issuance_intents) + (SELECT count(*)::integer FROM csr_issuances) AS intents,
         (SELECT count(*)::integer FROM authorizations
           WHERE status = 'pending' AND (validating_by IS NOT NULL
                 OR jsonb_path_exists(attempts, '$.* ? (@.status == "processing")'))) AS validating`

/** @throws AssertionError naming what is at odds */
export async function checkBooks({ connection, folder, held, boundMs = 2 * WAIT_MS }: BooksOptions): Promise<Books> {
  const client = new pg.Client(connection)
  await client.connect()
  try {
    await untilFinished(client, boundMs)
    const books = await checkRecords(client, held)
    return { ...books, signatures: await checkAudit(client, folder) }
  } finally {
    await client.end()
  }
}

async function untilFinished(client: pg.Client, boundMs: number): Promise<void> {
  const startedAt = performance.now()
  for (;;) {
    const { rows } = await client.query<Unfinished>(UNFINISHED)
    const unfinished = rows[0]
    assert.ok(unfinished)
    if (Object.values(unfinished).every((count) => count === 0)) return
    const elapsed = performance.now() - startedAt
    assert.ok(elapsed < boundMs, `unfinished after ${Math.round(elapsed)} ms: ${JSON.stringify(unfinished)}`)
    await sleep(100)
  }
}

async function checkRecords(client: pg.Client, held: readonly HeldCertificate[]): Promise<Omit<Books, 'signatures'>> {
  const { rows: statuses } = await client.query<{ status: string; count: number }>(
    'SELECT status, count(*)::integer FROM orders GROUP BY status',
  )
  // A row on one side without its partner on the other, an order with two certificates, a serial number used twice.
  const { rows: odd } = await client.query(`
    SELECT o.id AS order_id, o.status, o.certificate_id, c.id FROM orders o FULL JOIN certificates c ON c.order_id = o.id
     WHERE (c.order_id IS NOT NULL OR c.id IS NULL)
       AND (o.status IS DISTINCT FROM 'valid' OR o.certificate_id IS DISTINCT FROM c.id)
       AND (c.id IS NOT NULL OR o.status = 'valid')`)
  assert.deepEqual(odd, [], 'each valid order has its certificate, and each certificate its valid order')

  const { rows: issued } = await client.query<{ order_id: string; serial: string; der: Buffer; names: string[] }>(
    "SELECT order_id, encode(serial_number, 'hex') AS serial, der, names FROM certificates WHERE order_id IS NOT NULL",
  )
  const byOrder = new Map(issued.map((row) => [row.order_id, row]))
  assert.equal(byOrder.size, issued.length, 'one certificate for one order')
  assert.equal(new Set(issued.map(({ serial }) => serial)).size, issued.length, 'no serial number twice')
  for (const { name, orderId, leaf } of held) {
    const row = byOrder.get(orderId)
    assert.ok(row, `the certificate that the client of ${name} holds is in the database`)
    assert.ok(row.der.equals(leaf.raw), `the certificate of ${name} is the one in the database`)
    assert.deepEqual(row.names, [name])
  }
  return {
    orders: Object.fromEntries(statuses.map(({ status, count }) => [status, count])),
    certificates: issued.length,
  }
}

/** What was signed is known, what is known and of no other CA was signed, and a repeated signature is over the same bytes. */
async function checkAudit(client: pg.Client, folder: string): Promise<number> {
  const file = path.join(folder, 'signer-audit.jsonl')
  const verdict = await verifyAuditChain(file)
  assert.ok(verdict.ok, `the audit chain verifies: ${JSON.stringify(verdict)}`)

  const lines = readFileSync(file, 'utf8').trim().split('\n').map(parseAuditLine)
  const signed = lines.filter((line) => line?.method === 'signCertificate')
  const digests = new Map<string, string>()
  for (const line of signed) {
    assert.ok(line)
    const known = digests.get(line.serial) ?? line.sha256
    assert.equal(line.sha256, known, `serial number ${line.serial} stands for one certificate only`)
    digests.set(line.serial, known)
  }
  const { rows } = await client.query<{ serial: string }>(
    "SELECT encode(serial_number, 'hex') AS serial FROM certificates WHERE backend IS NULL",
  )
  assert.deepEqual([...digests.keys()].sort(), rows.map(({ serial }) => serial).sort(), 'signed and recorded agree')
  return signed.length
}
