/**
 * `chancery certificates import`: records certificates that the database has lost.
 *
 * A restored database lacks the certificates issued after its backup, which are still valid. The
 * signer's audit chain has only their serial numbers and names. Our issuer's signature proves that
 * they were issued here. After the import they have a CRL entry and renewal information. The key
 * holder and the given account can revoke them.
 */

import { readFileSync } from 'node:fs'
import type { Config } from '../../config/schema.ts'
import { findIssuer } from '../../domain/crl-scope.ts'
import { withoutSignOctet } from '../../domain/revocation.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { type Certificate, parseCertificate, verifyCertificateSignature } from '../../shared/pki/certificate.ts'
import { decodePem } from '../../shared/pki/pem.ts'
import { hashSpki } from '../../shared/pki/spki.ts'
import { serialNumberHex } from '../../shared/pki/tbs-certificate.ts'
import { type CertificateImport, createCertificateImport } from '../../store/certificate-import.ts'
import { createCertificateStore } from '../../store/certificate-store.ts'
import { createIssuanceStore, type IssuanceStore } from '../../store/issuance-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import { readConfigFile } from '../config-file.ts'
import { type Administration, withAdministration, withDatabase } from '../operator-database.ts'
import { tell } from '../printing.ts'
import { CommandError, type Printing } from '../values.ts'

/**
 * @param account the owner; without one, only the certificate's key or control of its names can
 *   revoke it
 */
export async function importCertificates(
  { config: name, account: accountId, json }: Printing & { account: string | undefined },
  files: readonly string[],
): Promise<number> {
  const certificates = files.map(readCertificate)
  return withStores(await readConfigFile(name), async (stores) => {
    const { store } = stores
    if (accountId !== undefined && !(await store.hasAccount(accountId)))
      throw new CommandError(`there is no account ${accountId}`)
    const issuers = await store.issuers()
    const issuedBy = certificates.map(({ file, certificate }) => {
      const issuer = findIssuer(
        issuers,
        ({ subjectDer, spki }) =>
          subjectDer.equals(certificate.tbs.issuerDer) && verifyCertificateSignature(certificate, spki.der),
      )
      if (!issuer)
        throw new CommandError(
          `${file}: no issuer in this database has signed it; one that is new since the backup is in it after its first certificate or CRL`,
        )
      return { file, certificate, issuerFingerprints: issuer.fingerprints }
    })
    for (const { file, certificate, issuerFingerprints } of issuedBy) {
      const outcome = await importOne(stores, certificate, issuerFingerprints, accountId)
      const serialNumber = serialNumberHex(certificate.tbs.serialNumber)
      tell(json, { file, serial_number: serialNumber, outcome }, `${outcome}  ${serialNumber}  ${file}`)
    }
    return 0
  })
}

/** For the audit log. */
const MOST_NAMED = 10

interface Stores {
  administration: Administration
  store: CertificateImport
  issuance: Pick<IssuanceStore, 'complete'>
  certificates: Pick<ReturnType<typeof createCertificateStore>, 'findBySerial'>
}

function withStores(config: Config, work: (stores: Stores) => Promise<number>): Promise<number> {
  return withAdministration(config, (administration) =>
    withDatabase(config, (db) => {
      const stores = { store: createCertificateImport(db), certificates: createCertificateStore(db) }
      return work({ administration, ...stores, issuance: createIssuanceStore(db) })
    }),
  )
}

/**
 * @returns the outcome in a word
 * @throws CommandError when another certificate has its serial number
 */
async function importOne(
  { administration: { audit, actor }, store, issuance, certificates }: Stores,
  { der, tbs, tbsDer }: Certificate,
  issuerFingerprints: readonly Buffer[],
  accountId: string | undefined,
): Promise<string> {
  const { notBefore, notAfter } = tbs
  const serialNumber = withoutSignOctet(tbs.serialNumber)
  const names = [...tbs.dnsNames, ...tbs.ipAddresses]
  const intent = (await store.findIntents([serialNumber])).get(serialNumber.toString('hex'))
  const facts = {
    serial_number: serialNumber.toString('hex'),
    account_id: accountId,
    names: names.slice(0, MOST_NAMED),
  }
  // The backup has the pending order, which would be signed again with other bytes.
  if (intent?.tbs.equals(tbsDer)) {
    const { certificateId } = intent
    if (await issuance.complete({ certificateId, der, names, notBefore, notAfter })) {
      await audit.record(actor, 'certificate.import', { ...facts, outcome: 'completed' })
      return 'completed'
    }
  }
  const spkiSha256 = hashSpki(tbs.spki)
  const row = { id: uuidv7(Date.now()), accountId, serialNumber, names, notBefore, notAfter, der, spkiSha256 }
  const isRecorded = await audit.transaction(actor, async (tx, note) => {
    const imports = createCertificateImport(queriesOf(tx))
    const isNew = (await imports.record(issuerFingerprints, [row], 'that of its issuer')).length > 0
    if (isNew) note('certificate.import', { ...facts, outcome: 'recorded' })
    return isNew
  })
  if (isRecorded) return 'recorded'
  if (!(await certificates.findBySerial(serialNumber, der)))
    throw new CommandError(
      `the serial number ${serialNumber.toString('hex')} is that of another certificate: certificates show shows it`,
    )
  return 'known'
}

/** The first certificate of a file that is not a CA's; it may come at any place of the chain. */
function readCertificate(file: string): { file: string; certificate: Certificate } {
  try {
    const blocks = decodePem(readFileSync(file, 'utf8')).filter(({ label }) => label === 'CERTIFICATE')
    if (blocks.length === 0) throw new Error('holds no certificate in PEM')
    const certificate = blocks.map(({ der }) => parseCertificate(der)).find(({ tbs }) => !tbs.isCa)
    if (!certificate) throw new Error('holds CA certificates only')
    return { file, certificate }
  } catch (error) {
    throw new CommandError(`${file}: ${(error as Error).message}`)
  }
}
