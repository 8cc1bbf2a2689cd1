/**
 * The crypto floor: what the signatures of one operation alone cost with Node's own crypto on this machine, now.
 *
 * A server cannot do less than verify what it is sent and sign what it issues. Clocks, neighbours and machines change
 * absolute figures; the ratio to a floor measured in the same minute stays comparable.
 */

import { generateKeyPairSync, sign, verify } from 'node:crypto'

/** How often an operation needs each primitive. */
export interface FloorParts {
  /** ES256 verifications of requests (cached key; the signature in DER, because a key among options costs more in Node.js 24). */
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

const PRIMITIVES = ['jwsVerification', 'csrVerification', 'signature'] as const

/** Executes each primitive in turn, and adds up what that took. */
export class FloorMeter {
  readonly #run: Record<keyof CryptoCosts, () => unknown>
  readonly #micros: CryptoCosts = { jwsVerification: 0, csrVerification: 0, signature: 0 }
  #executions = 0

  constructor() {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    // Sizes as on the wire: a JWS signing input, a CertificationRequestInfo, a TBSCertificate.
    const [jws, csr, tbs] = [Buffer.alloc(420, 'a'), Buffer.alloc(150, 'b'), Buffer.alloc(450, 'c')]
    const jwsSignature = sign('sha256', jws, privateKey)
    const csrSignature = sign('sha256', csr, privateKey)
    this.#run = {
      jwsVerification: () => verify('sha256', jws, publicKey, jwsSignature),
      csrVerification: () => verify('sha256', csr, publicKey, csrSignature),
      signature: () => sign('sha256', tbs, privateKey),
    }
    for (const primitive of PRIMITIVES) for (let i = 0; i < 200; i++) this.#run[primitive]()
  }

  /** CPU time, not wall time: a busy machine must not raise the floor by what it keeps this process waiting. */
  run(executions: number): void {
    for (const primitive of PRIMITIVES) {
      const before = process.cpuUsage()
      for (let i = 0; i < executions; i++) this.#run[primitive]()
      const { user, system } = process.cpuUsage(before)
      this.#micros[primitive] += user + system
    }
    this.#executions += executions
  }

  /** Undefined before the first run. */
  costs(): CryptoCosts | undefined {
    if (this.#executions === 0) return undefined
    const each = (primitive: keyof CryptoCosts) => this.#micros[primitive] / this.#executions
    return {
      jwsVerification: each('jwsVerification'),
      csrVerification: each('csrVerification'),
      signature: each('signature'),
    }
  }
}

/** Blocks this thread for about `milliseconds`. */
export function measureCryptoCosts(milliseconds: number): CryptoCosts {
  const meter = new FloorMeter()
  const end = performance.now() + milliseconds
  do meter.run(20)
  while (performance.now() < end)
  return meter.costs() as CryptoCosts
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
