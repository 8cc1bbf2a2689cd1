/** Compares what the service recorded about certificates and accounts with what the clients hold in files. */

import assert from 'node:assert/strict'
import type { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { checkChain } from './chain.ts'

/** RFC 5280 §5.3.1. */
export const SUPERSEDED = 4

export type Query = (sql: string, values: readonly unknown[]) => Promise<Record<string, unknown>[]>

export interface AccountFacts {
  status: string
  contacts: string[]
  /** 1, and one more for every key change. */
  keyVersion: number
}

export interface IssuedChecks {
  /** The chain in this file verifies and is new; @returns its leaf. */
  checkFile(file: string, names: readonly string[], former?: X509Certificate): X509Certificate
  assertRevoked(leaf: X509Certificate, reason: number | null): Promise<void>
  assertNotRevoked(leaf: X509Certificate): Promise<void>
  /** The challenge types that validated this name, each once. */
  methodsFor(name: string): Promise<string[]>
  /** The account that this certificate was issued to. */
  accountOf(leaf: X509Certificate): Promise<AccountFacts>
}

export function issuedChecks(rootFile: string, query: Query): IssuedChecks {
  return {
    checkFile(file, names, former) {
      const leaf = checkChain({ chainPem: readFileSync(file, 'utf8'), rootFile, names })
      assert.notEqual(leaf.serialNumber, former?.serialNumber, 'a renewed certificate is another one')
      return leaf
    },
    async assertRevoked(leaf, reason) {
      const rows = await query(
        'SELECT revoked_at IS NOT NULL AS revoked, revocation_reason AS reason FROM certificates WHERE der = $1',
        [leaf.raw],
      )
      assert.deepEqual(rows, [{ revoked: true, reason }])
    },
    async assertNotRevoked(leaf) {
      const rows = await query('SELECT revoked_at FROM certificates WHERE der = $1', [leaf.raw])
      assert.deepEqual(rows, [{ revoked_at: null }])
    },
    async methodsFor(name) {
      const rows = await query(
        `SELECT DISTINCT c.key AS method
           FROM authorizations AS a, jsonb_each(a.attempts) AS c
          WHERE a.identifier_value = $1 AND c.value ->> 'status' = 'valid'`,
        [name],
      )
      return rows.map(({ method }) => String(method))
    },
    async accountOf(leaf) {
      const rows = await query(
        `SELECT a.status, a.contacts, a.key_version AS "keyVersion"
           FROM accounts AS a JOIN certificates AS c ON c.account_id = a.id
          WHERE c.der = $1`,
        [leaf.raw],
      )
      assert.equal(rows.length, 1, 'a certificate has one account')
      return rows[0] as unknown as AccountFacts
    },
  }
}
