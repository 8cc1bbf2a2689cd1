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
import type { CommonOptions } from '../values.ts'
import { signerConfig } from './checked-config.ts'

/** A running signer answers within milliseconds, or within a second with keys in a slow HSM. */
const TIMEOUT_MS = 5_000
const STOP_TIMEOUT_MS = 15_000

/**
 * @returns 0: every issuer has signed
 * @throws Error in a plain sentence when the signer does not start or sign
 */
export async function testSign(options: CommonOptions): Promise<number> {
  const config = await signerConfig(options)
  const { log } = createLogger({ ...config.logging, level: 'CRITICAL' }, 'main', false)
  const { socket, secret_file } = config.ca.signer
  if (socket !== null && secret_file !== null) {
    await signOnce({ socketPath: socket, secretFile: path.resolve(secret_file) }, log)
    console.log(`signer: ${socket}`)
    return 0
  }
  // A scratch folder, so that this signer does not write to the audit chain of a running one.
  const scratch = mkdtempSync(path.join(tmpdir(), 'chancery-test-sign-'))
  try {
    const signer = { ...config.ca.signer, audit_file: path.join(scratch, 'audit.jsonl') }
    const child = await startSignerProcess(signerProgram({ ...config, ca: { ...config.ca, signer } }), log)
    await signOnce(child, log).finally(() => child.stop(STOP_TIMEOUT_MS))
    console.log(`signer: started for this test from ca.${config.ca.backend}`)
    return 0
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

async function signOnce(place: SignerPlace, log: Logger): Promise<void> {
  const ca = connectSigner(place, log)
  try {
    const signatures = await requireTestSignatures(ca, place.socketPath, TIMEOUT_MS)
    for (const { issuer, durationMs } of signatures) {
      const facts = ca.issuers().find(({ id }) => id === issuer)
      console.log(
        `issuer ${issuer}: ${facts?.signatureAlgorithm} signature made and verified in ${durationMs.toFixed(1)} ms`,
      )
      console.log(`  valid until ${facts?.notAfter.toISOString()}, ${facts?.chain.length} certificate(s) in its chain`)
    }
  } finally {
    await ca.close()
  }
}
