/** The report of a backend's test, and its certificate: recorded without an account, and revoked at once. */

import { revokeBySerial } from '../../admin/revocations/certificate-revocations.ts'
import { messageOf } from '../../shared/lib/errors.ts'
import { serialNumberHex } from '../../shared/pki/certificate.ts'
import type { Database } from '../../store/database.ts'
import { createServerSettings } from '../../store/switch-store.ts'
import type { Administration } from '../operator-database.ts'

export interface TestTarget {
  backend: string
  /** The first profile that it serves. */
  profile: string
}

export class TestReport {
  readonly #target: TestTarget
  readonly #isJson: boolean
  readonly #checks: string[] = []
  readonly #facts: Record<string, unknown> = {}
  #failure: string | undefined

  constructor(target: TestTarget, isJson: boolean) {
    this.#target = target
    this.#isJson = isJson
  }

  /** A check that has passed. */
  passed(check: string): void {
    this.#checks.push(check)
    if (!this.#isJson) console.log(`${this.#target.backend}: ${check}`)
  }

  /** The report for programs. */
  fact(name: string, value: unknown): void {
    this.#facts[name] = value
  }

  /** Progress for the operator who waits. */
  notice(text: string): void {
    process.stderr.write(`${this.#target.backend}: ${text}\n`)
  }

  failed(error: unknown): void {
    this.#failure = messageOf(error)
  }

  get failure(): string | undefined {
    return this.#failure
  }

  toJSON(): object {
    const result = this.#failure === undefined ? 'passed' : 'failed'
    return { ...this.#target, result, checks: this.#checks, failure: this.#failure, ...this.#facts }
  }
}

/** cessationOfOperation (RFC 5280 §5.3.1); superseded would promise a successor. */
export const TEST_REASON = 5

export const SIGNER_TEST_NAME = 'test-sign.invalid'

/** The audit log has the entry; the service counts its metrics. */
const NO_EVENTS = { revoked: () => undefined }

/** @throws Error while the operator has stopped signing */
export async function requireRunning(db: Database): Promise<void> {
  const { stopSigning } = await createServerSettings(db).switches()
  if (stopSigning.on)
    throw new Error('signing is stopped, so no certificate was asked for; chancery signing resume ends that')
}

/** Revokes the certificate with an entry in the audit log. @returns its serial number in hexadecimal */
export async function revokeTestCertificate(
  { audit, actor }: Administration,
  certificate: { serialNumber: Buffer; issuerFingerprint: string },
): Promise<string> {
  const serialNumber = serialNumberHex(certificate.serialNumber)
  const { issuerFingerprint } = certificate
  const wanted = { reason: TEST_REASON, issuerFingerprint }
  await revokeBySerial({ audit, note: async () => {}, events: NO_EVENTS }, actor, serialNumber, wanted)
  return serialNumber
}
