/** `chancery certificates revoke`: by serial number, or all that a CRL of ours lists. */

import { readFile } from 'node:fs/promises'
import { ADMINISTRATORS_REASONS, parseSerialNumber } from '../../domain/revocation.ts'
import { option, optional, UsageError } from '../../shared/command-line.ts'
import type { OperationCaller } from '../operations/caller.ts'
import { Refusal } from '../operations/refusal.ts'
import { shared } from '../operations/shared-command.ts'
import { tell } from '../table.ts'
import { CommandError, hex, instant, text } from '../values.ts'

function reason(value: string): number {
  if (/^\d$/.test(value) && ADMINISTRATORS_REASONS.includes(Number(value))) return Number(value)
  throw new Error(`is one of ${ADMINISTRATORS_REASONS.join(', ')}`)
}

const OPTIONS = {
  reason: option('CRLReason: 0, 1, 2, 3, 4, 5 or 9; 1, keyCompromise, also blocks the key', reason, 0),
  issuer: optional('SHA-256 fingerprint of the issuer certificate', hex),
  'not-after': optional('Beside --issuer: the end of a certificate that the database has forgotten', instant),
  'from-crl': optional('File of a CRL that one of our issuers has signed (DER or PEM); it has its own reasons', text),
}

export const REVOKE = shared({
  usage: 'certificates revoke',
  about: [
    'Revoke certificates by serial number; several may follow',
    'With --issuer also those that a restored database has forgotten. With --from-crl all that a CRL of ours lists.',
  ],
  options: OPTIONS,
  examples: ['certificates revoke 0a1b2c --reason 4', 'certificates revoke --from-crl last.crl'],
  further: true,
  async run(caller, { reason, issuer, 'not-after': notAfter, 'from-crl': file, json }, typed) {
    if ((file === undefined) === (typed.length === 0))
      throw new UsageError('name serial numbers, or a file: --from-crl')
    if (file !== undefined) return revokeFromCrl(caller, file, json)
    const serials = typed.map(serialNumberOf)
    const body = { reason, issuer: issuer?.toString('hex'), not_after: notAfter?.toISOString() }
    let code = 0
    for (const serial of serials) {
      const result = await revoke(caller, serial, body)
      if (result !== 'revoked') code = 1
      console.log(json ? JSON.stringify({ serial_number: serial, result }) : `${serial}  ${result}`)
    }
    return code
  },
})

/** @returns what became of it: that it was revoked before does not keep the others from it */
async function revoke(caller: OperationCaller, serial: string, body: object): Promise<string> {
  try {
    await caller.page('revokeCertificate', { params: { serial }, body })
    return 'revoked'
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    if (error.status === 409) return error.message
    throw new CommandError(`${serial}: ${error.message}`)
  }
}

interface CrlOutcome {
  entries: number
  revoked: number
  recorded: number
  known: number
}

/** A longer body than `admin_api.max_body_bytes`. */
const TOO_LARGE = 413

async function revokeFromCrl(caller: OperationCaller, file: string, json: boolean): Promise<number> {
  const crl = (await crlIn(file)).toString('base64')
  const { body } = await caller.page('revokeFromCrl', { body: { crl } }).catch((error: unknown) => {
    if (!(error instanceof Refusal)) throw error
    const advice = error.status === TOO_LARGE ? '; on the host, -c FILE takes a longer one' : ''
    // The file is wrong, not the usage.
    throw new CommandError(error.message + advice)
  })
  const { entries, revoked, recorded, known } = body as CrlOutcome
  const now = `${revoked} revoked now, ${recorded} unknown until now, ${known} revoked before`
  tell(json, body, `${entries} in the CRL: ${now}`)
  return 0
}

async function crlIn(file: string): Promise<Buffer> {
  const { decodePem, isPem } = await import('../../shared/pki/pem.ts')
  try {
    const bytes = await readFile(file)
    const der = isPem(bytes) ? decodePem(bytes.toString('utf8')).find(({ label }) => label === 'X509 CRL')?.der : bytes
    if (!der) throw new Error('holds no CRL in PEM')
    return der
  } catch (error) {
    throw new CommandError(`${file}: ${(error as Error).message}`)
  }
}

function serialNumberOf(text: string): string {
  const serial = parseSerialNumber(text)
  if (serial === undefined) throw new UsageError(`${text} is no serial number in hexadecimal`)
  return serial
}
