/** step-ca's database as a server to import from. */

import { parseCertificate } from '../../shared/pki/certificate.ts'
import { DerError } from '../../shared/pki/der.ts'
import { PemError } from '../../shared/pki/pem.ts'
import { CERTIFICATE_KEYS, parseAccountKey } from '../../shared/protocol/jwk.ts'
import { Problem } from '../../shared/protocol/problem.ts'
import type { ImportedAccount, ImportedCertificate, ImportedCredential, ImportSource, Unreadable } from '../model.ts'
import { inPages } from '../model.ts'
import {
  Garbled,
  type Revocation,
  readAccount,
  readAcmeCertificate,
  readExternalAccountKey,
  readRevocation,
} from './records.ts'

export interface StepCaRow {
  key: Buffer
  value: Buffer
}

export interface StepCaTables {
  /** The rows of one table; none where the database does not have the table. */
  rows(table: string): AsyncIterable<StepCaRow>
}

/**
 * @param provisioners names of ACME provisioners, for accounts that do not say theirs
 * @throws UnusableSource when one is needed and missing: no account may be written before
 */
export async function stepCaSource(tables: StepCaTables, provisioners: readonly string[]): Promise<ImportSource> {
  for await (const { value } of tables.rows('acme_accounts')) attempt('', () => readAccount(value, provisioners))
  /** step-ca's id of an account → its thumbprint. */
  const thumbprints = new Map<string, string>()

  async function* credentials(): AsyncGenerator<ImportedCredential | Unreadable> {
    for await (const { key, value } of tables.rows('acme_external_account_keys'))
      yield attempt(`EAB key ${nameOf(key)}`, () => readExternalAccountKey(value))
  }

  async function* accounts(): AsyncGenerator<ImportedAccount | Unreadable> {
    for await (const { key, value } of tables.rows('acme_accounts'))
      yield attempt(`account ${nameOf(key)}`, () => {
        const { id, ...account } = readAccount(value, provisioners)
        thumbprints.set(id, parseAccountKey(account.jwk, CERTIFICATE_KEYS).thumbprint)
        return account
      })
  }

  async function* certificates(): AsyncGenerator<ImportedCertificate | Unreadable> {
    const revocations = new Map<string, Revocation>()
    for await (const { key, value } of tables.rows('revoked_x509_certs'))
      revocations.set(nameOf(key), readRevocation(value))
    // A certificate of an account is in both tables.
    const given = new Set<string>()
    for await (const { key, value } of tables.rows('acme_certs'))
      yield attempt(`certificate ${nameOf(key)}`, () => {
        const { der, accountId } = readAcmeCertificate(value)
        const serialNumber = decimal(parseCertificate(der).tbs.serialNumber)
        given.add(serialNumber)
        return { der, accountThumbprint: thumbprints.get(accountId), ...revocations.get(serialNumber) }
      })
    for await (const { key, value: der } of tables.rows('x509_certs')) {
      const serialNumber = nameOf(key)
      if (!given.has(serialNumber)) yield { der, ...revocations.get(serialNumber) }
      given.add(serialNumber)
    }
    for (const serialNumber of revocations.keys())
      if (!given.has(serialNumber))
        yield { name: `revocation of ${serialNumber}`, unreadable: 'its certificate is not in the database' }
  }

  return {
    name: 'step-ca',
    credentials: () => inPages(credentials()),
    accounts: () => inPages(accounts()),
    certificates: () => inPages(certificates()),
  }
}

/** Ids and serial numbers are ASCII. */
const nameOf = (key: Buffer): string => key.toString('latin1')

/** The key of a certificate's row. */
const decimal = (serialNumber: Buffer): string => BigInt(`0x${serialNumber.toString('hex')}`).toString()

function attempt<T extends object>(name: string, read: () => T): T | Unreadable {
  try {
    return read()
  } catch (error) {
    const isOfRecord = [Garbled, DerError, PemError, Problem].some((kind) => error instanceof kind)
    if (isOfRecord) return { name, unreadable: (error as Error).message }
    throw error
  }
}
