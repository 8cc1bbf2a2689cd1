/**
 * Decides what the daemon signs as a CRL. A TBSCertList arrives in pieces; the end is a refusal or
 * its facts.
 *
 * A compromised front can leave revocations out; only the database could tell. It cannot sign for
 * another issuer, for the future or for too long. Nor can it use up later numbers or bring back an
 * older list: the caller compares `number` with the newest one signed (crl-numbers.ts).
 */

import { CLOCKS_DIFFER_MS } from '../src/shared/lib/clocks.ts'
import { isWeaker, SIGNATURE_ALGORITHMS } from '../src/shared/pki/algorithms.ts'
import { lintCrlEntry, lintCrlExtensions, lintCrlHeader } from '../src/shared/pki/crl-lint.ts'
import { DerError } from '../src/shared/pki/der.ts'
import { type CrlHeader, type ReadCrlEntry, TbsCertListReader } from '../src/shared/pki/tbs-cert-list-reader.ts'
import { checkCrlForms } from './extension-forms.ts'
import { isCrlUrlAllowed, type SigningPolicy } from './policy.ts'
import { SignerRefusal } from './protocol/signer-errors.ts'
import type { RevocationEntry } from './records/record.ts'
import type { IsRecorded } from './records/recorded-revocations.ts'
import { SerialSet } from './serial-set.ts'

/** Building a list of millions of entries takes minutes between its thisUpdate and this check. */
const MAX_AGE_MS = 3_600_000

export interface CrlFacts {
  number: bigint
  entries: number
  /** For a list that covers only one distribution point. */
  urls: readonly string[]
  /** Entries that no record holds yet, without those that were taken. */
  added: readonly RevocationEntry[]
}

/** Every method throws SignerRefusal; do not use the object after that. */
export class CrlExamination {
  readonly #policy: SigningPolicy
  readonly #now: Date
  readonly #reader: TbsCertListReader
  #header: CrlHeader | undefined
  readonly #serials = new SerialSet()
  readonly #isRecorded: IsRecorded
  readonly #added: RevocationEntry[] = []
  #entries = 0

  /** @param bytes length of the whole TBSCertList, as announced */
  constructor(policy: SigningPolicy, now: Date, bytes: number, isRecorded: IsRecorded) {
    this.#policy = policy
    this.#isRecorded = isRecorded
    this.#now = now
    this.#reader = new TbsCertListReader({
      header: (header) => {
        refuseIf(header.length !== bytes && `the TBSCertList has ${header.length} bytes, not the ${bytes} announced`)
        refuseIf(checkHeader(header, policy, this.#now))
        this.#header = header
      },
      entry: (entry) => this.#examine(entry),
    })
  }

  /** Undefined until the header has arrived. */
  get signatureAlgorithm(): CrlHeader['signatureAlgorithm']['algorithm'] {
    return this.#header?.signatureAlgorithm.algorithm
  }

  push(piece: Buffer): void {
    readingDer(() => this.#reader.push(piece))
  }

  /** @returns `count` entries that no record holds yet, once there are as many; otherwise none */
  takeAdded(count: number): RevocationEntry[] {
    return this.#added.length < count ? [] : this.#added.splice(0, count)
  }

  finish(): CrlFacts {
    const found = readingDer(() => this.#reader.finish())
    const finding = lintCrlExtensions(found)
    refuseIf(finding && `lint: ${finding}`)
    const { issuer } = this.#policy
    refuseIf(
      !found.authorityKeyIdentifier?.equals(issuer.keyIdentifier) &&
        'authorityKeyIdentifier is not the key identifier of the issuer',
    )
    refuseIf(checkCrlForms(found))
    const urls = found.issuingDistributionPoint?.urls ?? []
    const other = urls.find((url) => !isCrlUrlAllowed(url, this.#policy))
    refuseIf(other && `the distribution point ${other} is not allowed`)
    const number = BigInt(`0x${found.number!.toString('hex')}`)
    return { number, entries: this.#entries, urls, added: this.#added }
  }

  #examine(entry: ReadCrlEntry): void {
    this.#entries += 1
    const finding = lintCrlEntry(entry, this.#header!.thisUpdate.at)
    if (finding !== undefined) throw new SignerRefusal(`lint: entry ${this.#entries}: ${finding}`)
    if (!this.#serials.add(entry.serialNumber))
      throw new SignerRefusal(
        `entry ${this.#entries}: serial number ${entry.serialNumber.toString('hex')} stands twice`,
      )
    const { revokedAt, reason = 0 } = entry
    const serial = withoutSign(entry.serialNumber)
    if (!this.#isRecorded(serial, reason))
      this.#added.push([serial.toString('hex'), Math.floor(revokedAt.at.getTime() / 1000), reason])
  }
}

function checkHeader(header: CrlHeader, policy: SigningPolicy, now: Date): string | undefined {
  const { issuer } = policy
  if (!issuer.maySignCrls) return 'the key usage of the issuer does not allow signing CRLs'
  if (!header.issuerDer.equals(issuer.nameDer)) return 'issuer name is not, byte for byte, the subject of the issuer'
  const { algorithm } = header.signatureAlgorithm
  const { keyKind } = SIGNATURE_ALGORITHMS[issuer.signatureAlgorithm]
  if (algorithm === undefined || SIGNATURE_ALGORITHMS[algorithm].keyKind !== keyKind)
    return `signature algorithm ${algorithm ?? header.signatureAlgorithm.oid} is none of the issuer's key`
  if (isWeaker(algorithm, issuer.signatureAlgorithm))
    return `signature algorithm ${algorithm} is weaker than ${issuer.signatureAlgorithm}, that of the issuer`
  const finding = lintCrlHeader(header)
  if (finding !== undefined) return `lint: ${finding}`
  return checkTimes(header.thisUpdate.at, header.nextUpdate!.at, policy, now)
}

/** Compares with our own clock, so that an intruder cannot get lists for a later time. */
function checkTimes(thisUpdate: Date, nextUpdate: Date, policy: SigningPolicy, now: Date): string | undefined {
  const ageMs = now.getTime() - thisUpdate.getTime()
  const seconds = Math.round(Math.abs(ageMs) / 1000)
  if (ageMs > MAX_AGE_MS) return `thisUpdate is ${seconds} s behind the clock of the signer`
  if (ageMs < -CLOCKS_DIFFER_MS) return `thisUpdate is ${seconds} s ahead of the clock of the signer`
  if (thisUpdate < policy.issuer.notBefore || thisUpdate > policy.issuer.notAfter)
    return 'thisUpdate is outside the validity of the issuer'
  const validityMs = nextUpdate.getTime() - thisUpdate.getTime()
  if (validityMs > policy.maxCrlValidityMs)
    return `nextUpdate is ${validityMs / 1000} s after thisUpdate; ${policy.maxCrlValidityMs / 1000} s are allowed`
  return undefined
}

/** The serial number as it is written elsewhere: without the octet of zeros that keeps an INTEGER positive. */
const withoutSign = (octets: Buffer): Buffer => (octets.length > 1 && octets[0] === 0 ? octets.subarray(1) : octets)

function refuseIf(refusal: string | false | undefined): void {
  if (refusal) throw new SignerRefusal(refusal)
}

function readingDer<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof DerError) throw new SignerRefusal(`not a TBSCertList: ${error.message}`)
    throw error
  }
}
