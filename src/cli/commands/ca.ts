/** `chancery ca test-sign`: one real signature by every issuer, through the signer. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Logger } from 'pino'
import { requireTestSignatures } from '../../ca/signer-check.ts'
import { type SignerPlace, startSignerProcess } from '../../ca/signer-process.ts'
import { connectSigner } from '../../main/ca.ts'
import { createLogger } from '../../main/logging.ts'
import { signerProgram } from '../../settings/signer.ts'
import { tell } from '../table.ts'
import type { CommonOptions } from '../values.ts'
import { signerConfig } from './checked-config.ts'

/** A running signer answers within milliseconds, or within a second with keys in a slow HSM. */
const TIMEOUT_MS = 5_000
const STOP_TIMEOUT_MS = 15_000

/**
 * @returns 0: every issuer has signed
 * @throws Error in a plain sentence when the signer does not start or sign
 */
export async function testSign(options: CommonOptions & { json: boolean }): Promise<number> {
  const config = await signerConfig(options)
  const { log } = createLogger({ ...config.logging, level: 'CRITICAL' }, 'main', false)
  const { socket, secret_file } = config.ca.signer
  if (socket !== null && secret_file !== null) {
    const signed = await signOnce({ socketPath: socket, secretFile: path.resolve(secret_file) }, log)
    return told(options.json, signed, socket)
  }
  // A scratch folder, so that this signer does not write to the audit chain of a running one.
  const scratch = mkdtempSync(path.join(tmpdir(), 'chancery-test-sign-'))
  try {
    const signer = { ...config.ca.signer, audit_file: path.join(scratch, 'audit.jsonl') }
    const child = await startSignerProcess(signerProgram({ ...config, ca: { ...config.ca, signer } }), log)
    const signed = await signOnce(child, log).finally(() => child.stop(STOP_TIMEOUT_MS))
    return told(options.json, signed, `started for this test from ca.${config.ca.backend}`)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

interface Signed {
  issuer: string
  algorithm: string | undefined
  duration_ms: number
  not_after: string | undefined
  /** In its chain. */
  certificates: number | undefined
}

async function signOnce(place: SignerPlace, log: Logger): Promise<Signed[]> {
  const ca = connectSigner(place, log)
  try {
    const signatures = await requireTestSignatures(ca, place.socketPath, TIMEOUT_MS)
    return signatures.map(({ issuer, durationMs }) => {
      const facts = ca.issuers().find(({ id }) => id === issuer)
      const [not_after, certificates] = [facts?.notAfter.toISOString(), facts?.chain.length]
      return { issuer, algorithm: facts?.signatureAlgorithm, duration_ms: durationMs, not_after, certificates }
    })
  } finally {
    await ca.close()
  }
}

function told(json: boolean, issuers: readonly Signed[], signer: string): number {
  const lines = issuers.flatMap(({ issuer, algorithm, duration_ms, not_after, certificates }) => [
    `issuer ${issuer}: ${algorithm} signature made and verified in ${duration_ms.toFixed(1)} ms`,
    `  valid until ${not_after}, ${certificates} certificate(s) in its chain`,
  ])
  tell(json, { signer, issuers }, ...lines, `signer: ${signer}`)
  return 0
}
