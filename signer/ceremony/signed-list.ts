/** A signed CRL (RFC 5280 §5.1), read whole and verified with its issuer: the lists of a root are short. */

import { readAlgorithmIdentifier } from '../../src/shared/pki/algorithms.ts'
import type { Certificate } from '../../src/shared/pki/certificate.ts'
import { DerError, readSingle, TAG } from '../../src/shared/pki/der.ts'
import { verifySignature } from '../../src/shared/pki/signature.ts'
import type { CrlEntry } from '../../src/shared/pki/tbs-cert-list.ts'
import {
  type CrlExtensions,
  type CrlHeader,
  type ReadCrlEntry,
  TbsCertListReader,
} from '../../src/shared/pki/tbs-cert-list-reader.ts'
import { serialNumberHex } from '../../src/shared/pki/tbs-certificate.ts'

export interface SignedList {
  header: CrlHeader
  extensions: CrlExtensions
  number: bigint
  found: readonly ReadCrlEntry[]
  entries: readonly CrlEntry[]
}

/** @throws DerError for what is no CRL of this issuer, or has entries that a list of ours cannot repeat */
export function readList(der: Buffer, { tbs: issuer }: Certificate): SignedList {
  const outer = readSingle(der, TAG.sequence, 'CertificateList')
  const tbs = outer.any()
  const { algorithm } = readAlgorithmIdentifier(outer)
  const signature = outer.bitStringOctets()
  outer.finish('CertificateList')

  let header: CrlHeader | undefined
  const found: ReadCrlEntry[] = []
  const reader = new TbsCertListReader({
    header: (read) => {
      header = read
    },
    entry: (entry) => found.push({ ...entry, serialNumber: Buffer.from(entry.serialNumber) }),
  })
  reader.push(tbs)
  const extensions = reader.finish()
  if (!header?.issuerDer.equals(issuer.subjectDer)) throw new DerError('it is of another issuer', 0)
  if (!verifySignature(algorithm, tbs, issuer.spki, signature)) throw new DerError('its signature does not verify', 0)
  if (!extensions.number) throw new DerError('it has no number', 0)
  return {
    header,
    extensions,
    number: BigInt(`0x${extensions.number.toString('hex')}`),
    found,
    entries: found.map(entryOf),
  }
}

function entryOf({ serialNumber, revokedAt, reason, otherExtensions }: ReadCrlEntry): CrlEntry {
  const hex = serialNumberHex(serialNumber)
  if (otherExtensions.length > 0) throw new DerError(`the entry of ${hex} has an extension ${otherExtensions[0]}`, 0)
  return { serialNumber: Buffer.from(hex, 'hex'), revokedAt: revokedAt.at, reason: reason ?? 0 }
}
