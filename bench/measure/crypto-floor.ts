/**
 * The crypto floor: what the signatures of one operation alone cost with Node's own crypto on this machine, now.
 *
 * A server cannot do less than verify what it is sent and sign what it issues. Clocks, neighbours and machines change
 * absolute figures; the ratio to a floor measured in the same minute stays comparable.
 */

import { generateKeyPairSync, sign, verify } from 'node:crypto'

/** How often an operation needs each primitive. */
export interface FloorParts {
  /** ES256 verifications of requests (raw r ‖ s signatures, cached key). */
  jwsVerifications: number
  /** Verification of the P-256 signature of a CSR (DER signatures, cached key). */
  csrVerifications: number
  /** P-256 signatures of a certificate. */
  signatures: number
}

/** Microseconds of CPU of one execution. */
export interface CryptoCosts {
  jwsVerification: number
  csrVerification: number
  signature: number
}

/** Blocks this thread for about `3 * milliseconds`. */
export function measureCryptoCosts(milliseconds: number): CryptoCosts {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  // Sizes as on the wire: a JWS signing input, a CertificationRequestInfo, a TBSCertificate.
  const [jws, csr, tbs] = [Buffer.alloc(420, 'a'), Buffer.alloc(150, 'b'), Buffer.alloc(450, 'c')]
  const rawKey = { key: publicKey, dsaEncoding: 'ieee-p1363' } as const
  const jwsSignature = sign('sha256', jws, { key: privateKey, dsaEncoding: 'ieee-p1363' })
  const csrSignature = sign('sha256', csr, privateKey)

  return {
    jwsVerification: costOf(milliseconds, () => verify('sha256', jws, rawKey, jwsSignature)),
    csrVerification: costOf(milliseconds, () => verify('sha256', csr, publicKey, csrSignature)),
    signature: costOf(milliseconds, () => sign('sha256', tbs, privateKey)),
  }
}

export function floorMicros(parts: FloorParts, costs: CryptoCosts): number {
  return (
    parts.jwsVerifications * costs.jwsVerification +
    parts.csrVerifications * costs.csrVerification +
    parts.signatures * costs.signature
  )
}

export function averageCosts(a: CryptoCosts, b: CryptoCosts): CryptoCosts {
  return {
    jwsVerification: (a.jwsVerification + b.jwsVerification) / 2,
    csrVerification: (a.csrVerification + b.csrVerification) / 2,
    signature: (a.signature + b.signature) / 2,
  }
}

/** CPU time, not wall time: a busy machine must not raise the floor. */
function costOf(milliseconds: number, run: () => unknown): number {
  for (let i = 0; i < 200; i++) run()
  const before = process.cpuUsage()
  const end = performance.now() + milliseconds
  let count = 0
  while (performance.now() < end) {
    for (let i = 0; i < 20; i++) run()
    count += 20
  }
  const { user, system } = process.cpuUsage(before)
  return (user + system) / count
}
