/**
 * Revocation (RFC 8555 §7.6; docs/decisions/revocation.md, compromised-keys.md), and its way to a CA that issued from the CSR: asked for until
 * the CA has confirmed or an administrator gives up. Each backend has rounds of its own, so one that hangs delays no other.
 */

import type { GuardedCsrBackend } from '../ca/guarded-backend.ts'
import { identifiersOf } from '../domain/certificate-names.ts'
import type { Certificate } from '../domain/records.ts'
import { checkRevocationReason, KEY_COMPROMISE } from '../domain/revocation.ts'
import { messageOf } from '../shared/lib/errors.ts'
import { hashSpki } from '../shared/pki/algorithms.ts'
import { parseCertificate } from '../shared/pki/certificate.ts'
import { DerError } from '../shared/pki/der.ts'
import type { AccountKey } from '../shared/protocol/jwk.ts'
import { Problem } from '../shared/protocol/problem.ts'
import type { Requester } from '../store/account-store.ts'
import type { BackendRevocation, BackendRevocationStore } from '../store/backend-revocation-store.ts'
import type { CertificateStore } from '../store/certificate-store.ts'
import { unlessStale } from './account-cache.ts'
import type { NoteAcmeAct } from './decisions/acme-decisions.ts'
import type { ReportRevocations } from './reconcile/revocation-notes.ts'

/** An account, or the holder of the certificate's own key. */
type Revoker = { requester: Requester } | { certificateKey: AccountKey }

export interface RevocationEvents {
  revoked(certificate: Pick<Certificate, 'id' | 'accountId' | 'serialNumber'>, reason: number): void
}

export interface RevocationService {
  /** @throws Problem malformed (404 if unknown), unauthorized, alreadyRevoked, badRevocationReason */
  revoke(der: Buffer, reason: number | undefined, revoker: Revoker): Promise<void>
}

const UNKNOWN = 'this certificate was not issued here'
/** An archived certificate is in no database (docs/decisions/archive.md). */
const EXPIRED = 'this certificate has expired, and is not here any more or was not issued here; it needs no revocation'

export function createRevocation(
  store: CertificateStore,
  note: ReportRevocations,
  noteAct: NoteAcmeAct,
  events: RevocationEvents,
): RevocationService {
  async function isAuthority(
    certificate: Certificate,
    spki: Buffer,
    names: readonly string[],
    revoker: Revoker,
  ): Promise<boolean> {
    if ('certificateKey' in revoker) return revoker.certificateKey.spki().equals(spki)
    const { accountId } = revoker.requester
    return certificate.accountId === accountId || (await store.isAuthorizedForAll(accountId, names))
  }

  return {
    async revoke(der, reasonCode, revoker) {
      const reason = checkRevocationReason(reasonCode)
      const { tbs } = read(der)
      const certificate = await store.findBySerial(tbs.serialNumber, der)
      if (!certificate) throw new Problem('malformed', tbs.notAfter < new Date() ? EXPIRED : UNKNOWN, { status: 404 })
      // Checked first, so that only authorized clients learn whether it is revoked already.
      if (!(await isAuthority(certificate, tbs.spki.der, identifiersOf(tbs), revoker)))
        throw new Problem(
          'unauthorized',
          'neither the account nor the key that signed this request has authority over the certificate',
        )

      const requester = 'requester' in revoker ? revoker.requester : undefined
      const isProved = requester === undefined
      // A holder of authority over the names knows nothing of the key.
      const knowsKey = isProved || requester.accountId === certificate.accountId
      const blockedKey = reason === KEY_COMPROMISE && knowsKey ? hashSpki(tbs.spki) : undefined
      const revocation = { certificateId: certificate.id, reason, blockedKey, isProved, requester }
      if (!unlessStale(await store.revoke(revocation)))
        throw new Problem('alreadyRevoked', 'this certificate is revoked already')
      const isAtSigner = await note([certificate.id])
      events.revoked(certificate, reason)
      // A list has it soon, and a fail-over may come first.
      if (!isAtSigner) await noteAct('acme.revoke', requester?.accountId, factsOf(certificate, reason))
      if (isProved && blockedKey)
        await noteAct('acme.prove_compromise', undefined, { spki_sha256: blockedKey.toString('hex') })
    },
  }
}

const factsOf = ({ id, serialNumber, issuerFingerprint, notAfter }: Certificate, reason: number) => ({
  certificate_id: id,
  serial_number: serialNumber,
  issuer_fingerprint: issuerFingerprint,
  not_after: notAfter.toISOString(),
  reason,
})

function read(der: Buffer) {
  try {
    return parseCertificate(der)
  } catch (cause) {
    if (cause instanceof DerError)
      throw new Problem('malformed', 'the certificate member is not a DER certificate', { cause })
    throw cause
  }
}

export interface BackendRevocationsOptions {
  backends: ReadonlyMap<string, Pick<GuardedCsrBackend, 'revoke'>>
  store: BackendRevocationStore
  /** Aborts when the service ends: what is under way is asked again after its lease. */
  signal: AbortSignal
  events: BackendRevocationEvents
}

interface BackendRevocationEvents {
  confirmed(revocation: BackendRevocation): void
  /** It is tried again. */
  failed(error: unknown, revocation: BackendRevocation): void
}

/** Above the time limit of a revocation. */
const LEASE_SECONDS = 180
const BATCH = 16
const MAX_ERROR_CHARACTERS = 500

/**
 * One round of a backend. The round of the first one also fails revocations whose backend is not configured.
 * @returns how many were tried
 */
export async function revokeAtBackend(
  name: string,
  { backends, store, signal, events }: BackendRevocationsOptions,
): Promise<number> {
  const names = [...backends.keys()]
  const unlessOf = name === names[0] ? names : undefined
  const due = await store.claim({ backend: name, unlessOf, leaseSeconds: LEASE_SECONDS, limit: BATCH })
  await Promise.all(
    due.map(async (revocation) => {
      const { certificateId, certificate, reason, failures } = revocation
      try {
        const backend = backends.get(revocation.backend)
        if (!backend) throw new Error(`the configuration has no backend ${revocation.backend}`)
        await backend.revoke({ certificate, reason }, signal)
      } catch (error) {
        if (signal.aborted) return
        events.failed(error, revocation)
        const message = messageOf(error).slice(0, MAX_ERROR_CHARACTERS)
        await store.postpone(certificateId, message, revocationRestSeconds(failures + 1))
        return
      }
      await store.confirm(certificateId, reason)
      events.confirmed(revocation)
    }),
  )
  return due.length
}

const LONGEST_REVOCATION_REST_SECONDS = 3_600
const FIRST_REVOCATION_REST_SECONDS = 2

/** @param failures attempts that have failed, this one included */
function revocationRestSeconds(failures: number): number {
  return Math.min(LONGEST_REVOCATION_REST_SECONDS, FIRST_REVOCATION_REST_SECONDS * 2 ** Math.min(failures - 1, 20))
}
