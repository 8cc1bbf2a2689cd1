/** `chancery certificates revoke`: revocation by the operator, through the Admin API's use case. */

import { readFileSync } from 'node:fs'
import type { Config } from '../../config/schema.ts'
import { AdminError } from '../../domain/admin-error.ts'
import { parseSerialNumber } from '../../domain/serial-number.ts'
import { Certificates } from '../../services/admin/certificates.ts'
import { renewalPolicy } from '../../settings/issuance.ts'
import { UsageError } from '../../shared/command-line/options.ts'
import { decodePem } from '../../shared/pki/pem.ts'
import { CommandError } from '../values.ts'
import { withAdministration } from './administration.ts'

export interface RevokeFlags {
  reason: number
  issuer: Buffer | undefined
  'from-crl': string | undefined
  json: boolean
}

/** Metrics are the service's; here the audit log has the entry. */
const NO_EVENTS = { revoked: () => undefined }

/** @returns 1 when some certificate was revoked already */
export async function revokeCertificates(
  config: Config,
  flags: RevokeFlags,
  serials: readonly string[],
): Promise<number> {
  const { reason, issuer, json } = flags
  const file = flags['from-crl']
  if ((file === undefined) === (serials.length === 0))
    throw new UsageError('name serial numbers, or a file: --from-crl')
  const numbers = serials.map(serialNumberOf)
  const crl = file === undefined ? undefined : readCrlFile(file)
  return withAdministration(config, async ({ db, audit, actor }) => {
    const certificates = new Certificates({ db, audit, events: NO_EVENTS, renewal: renewalPolicy(config) })
    if (crl) {
      const outcome = await certificates.revokeFromCrl(actor, crl)
      const { entries, revoked, recorded, known } = outcome
      const sentence = `${entries} in the CRL: ${revoked} revoked now, ${recorded} unknown until now, ${known} revoked before`
      console.log(json ? JSON.stringify(outcome) : sentence)
      return 0
    }
    let code = 0
    for (const serial of numbers) {
      const wanted = { reason, issuerFingerprint: issuer?.toString('hex') }
      const done = await certificates.revoke(actor, serial, wanted).then(
        () => 'revoked',
        (error: unknown) => {
          if (error instanceof AdminError && error.code === 'conflict') return error.message
          throw error instanceof AdminError ? new CommandError(`${serial}: ${error.message}`) : error
        },
      )
      if (done !== 'revoked') code = 1
      console.log(json ? JSON.stringify({ serial_number: serial, result: done }) : `${serial}  ${done}`)
    }
    return code
  })
}

function serialNumberOf(text: string): string {
  const serial = parseSerialNumber(text)
  if (serial === undefined) throw new UsageError(`${text} is no serial number in hexadecimal`)
  return serial
}

function readCrlFile(file: string): Buffer {
  try {
    const bytes = readFileSync(file)
    const isPem = bytes.subarray(0, 11).toString('latin1') === '-----BEGIN '
    const der = isPem ? decodePem(bytes.toString('latin1')).find(({ label }) => label === 'X509 CRL')?.der : bytes
    if (!der) throw new Error('holds no CRL in PEM')
    return der
  } catch (error) {
    throw new CommandError(`${file}: ${(error as Error).message}`)
  }
}
