/** TLS of the listening port, with the operator's files or a certificate the service issues to itself. */

import path from 'node:path'
import type { Logger } from 'pino'
import type { Config } from '../config/schema.ts'
import { type Loop, startLoop } from '../runtime/loop.ts'
import type { Issuance } from '../services/issuance.ts'
import { admittedNames, ensureServerCertificate, type ServerCertificateFiles } from '../services/server-certificate.ts'
import { createFailureLog } from './background-tasks.ts'

const CERTIFICATE_CHECK_INTERVAL_MS = 3_600_000

/** @returns undefined when the port speaks plain HTTP */
export function tlsFiles({ server }: Config): ServerCertificateFiles | undefined {
  const { cert_path, key_path } = server.tls
  if (cert_path === null || key_path === null) return undefined
  return { certPath: path.resolve(cert_path), keyPath: path.resolve(key_path) }
}

/**
 * Renews a self-issued certificate; does nothing when the operator keeps the files.
 *
 * @returns whether it was renewed
 */
export async function refreshServerCertificate(config: Config, issuance: Issuance): Promise<boolean> {
  const files = tlsFiles(config)
  const { self_issued_names: names } = config.server.tls
  if (files === undefined || names.length === 0) return false
  return ensureServerCertificate(files, names, issuance, new Date())
}

/** Names for which the issuer's name constraints admit no certificate. */
export function warnOfOwnNames(config: Config, issuance: Pick<Issuance, 'issuerForSelf'>, log: Logger): void {
  const issuer = issuance.issuerForSelf('ec', new Date())
  const { outside } = admittedNames(config.server.tls.self_issued_names, issuer)
  if (outside.length > 0)
    log.warn(
      { names: outside },
      'server.tls.self_issued_names has names outside the name constraints of the CA; they are left out of the certificate',
    )
}

/** A front reads its certificate only at its start, so a renewal must replace the threads. */
export function renewServerCertificate(
  refresh: () => Promise<boolean>,
  onRenewed: () => Promise<void>,
  log: Logger,
): Loop {
  const failures = createFailureLog(log)
  return startLoop({
    name: 'server certificate',
    intervalMs: CERTIFICATE_CHECK_INTERVAL_MS,
    async round() {
      if (!(await refresh())) return
      log.info('server certificate renewed')
      await onRenewed()
    },
    onError: failures.failed,
    onRecovered: failures.recovered,
  })
}
