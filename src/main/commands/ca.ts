/** `chancery ca test-sign`: one real signature by every issuer, through the signer. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Config } from '../../config/schema.ts'
import { createLogger } from '../logging.ts'
import { startSignerProcess } from '../signer-process.ts'
import { connectSigner } from '../wiring.ts'

const TIMEOUT_MS = 15_000

export async function testSign(config: Config): Promise<number> {
  const { log } = createLogger({ ...config.logging, level: 'CRITICAL' }, 'main', false)
  const { socket, secret_file } = config.ca.signer
  // A signer of its own must not write to the audit chain of one that may be running with the same files.
  const scratch = mkdtempSync(path.join(tmpdir(), 'chancery-test-sign-'))
  const auditFile = path.join(scratch, 'audit.jsonl')
  const child =
    socket === null || secret_file === null
      ? await startSignerProcess(
          { ...config, ca: { ...config.ca, signer: { ...config.ca.signer, audit_file: auditFile } } },
          log,
        )
      : undefined
  const ca = connectSigner(
    child ?? { socketPath: socket as string, secretFile: path.resolve(secret_file as string) },
    log,
  )
  try {
    const signatures = await ca.testSign({ timeoutMs: TIMEOUT_MS })
    for (const { issuer, durationMs } of signatures) {
      const facts = ca.issuers().find(({ id }) => id === issuer)
      console.log(
        `issuer ${issuer}: ${facts?.signatureAlgorithm} signature made and verified in ${durationMs.toFixed(1)} ms`,
      )
      console.log(`  valid until ${facts?.notAfter.toISOString()}, ${facts?.chain.length} certificate(s) in its chain`)
    }
    console.log(socket === null ? 'signer: started for this test from ca.internal' : `signer: ${socket}`)
    return signatures.length > 0 ? 0 : 1
  } finally {
    await ca.close()
    await child?.stop(TIMEOUT_MS)
    rmSync(scratch, { recursive: true, force: true })
  }
}
