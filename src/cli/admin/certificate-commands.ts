/** `chancery certificates revoke`: by serial number, or all that a CRL of ours lists; and `renewals advise|clear`. */

import { readFile } from 'node:fs/promises'
import { ADMINISTRATORS_REASONS, parseSerialNumber } from '../../domain/revocation.ts'
import { isGiven, option, optional, several, UsageError, type Values } from '../../shared/command-line.ts'
import { tell } from '../printing.ts'
import { CommandError, hex, instant, Refusal, text } from '../values.ts'
import type { AdminCaller } from './admin-caller.ts'
import { adminCommand } from './admin-command.ts'

function reason(value: string): number {
  if (/^\d$/.test(value) && ADMINISTRATORS_REASONS.includes(Number(value))) return Number(value)
  throw new Error(`is one of ${ADMINISTRATORS_REASONS.join(', ')}`)
}

const ISSUER = optional('SHA-256 fingerprint of the issuer certificate', hex)

const REVOKE = adminCommand({
  usage: 'certificates revoke',
  about: [
    'Revoke certificates by serial number; several may follow',
    'With --issuer it also revokes those that a restored database lacks; with --from-crl all that a CRL of ours lists.',
  ],
  options: {
    reason: option('CRLReason: 0, 1, 2, 3, 4, 5 or 9; 1, keyCompromise, also blocks the key', reason, 0),
    issuer: ISSUER,
    'not-after': optional('With --issuer: the end of a certificate that the database lacks', instant),
    'from-crl': optional('File of a CRL that one of our issuers has signed (DER or PEM), with its reasons', text),
  },
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
      const result = await caller.call('revokeCertificate', { params: { serial }, body }).then(
        () => 'revoked',
        (error: unknown) => revokedBefore(serial, error),
      )
      if (result !== 'revoked') code = 1
      console.log(json ? JSON.stringify({ serial_number: serial, result }) : `${serial}  ${result}`)
    }
    return code
  },
})

function serialNumberOf(text: string): string {
  const serial = parseSerialNumber(text)
  if (serial === undefined) throw new UsageError(`${text} is no serial number in hexadecimal`)
  return serial
}

/** A certificate that was revoked before does not end the command. @throws for any other error */
function revokedBefore(serial: string, error: unknown): string {
  if (!(error instanceof Refusal)) throw error
  if (error.status === 409) return error.message
  throw new CommandError(`${serial}: ${error.message}`)
}

/** The body is longer than `admin_api.max_body_bytes`. */
const TOO_LARGE = 413

async function revokeFromCrl(caller: AdminCaller, file: string, json: boolean): Promise<number> {
  const crl = (await crlIn(file)).toString('base64')
  const body = await caller.call('revokeFromCrl', { body: { crl } }).catch((error: unknown) => {
    if (!(error instanceof Refusal)) throw error
    const advice = error.status === TOO_LARGE ? '; on the host, -c FILE takes a longer one' : ''
    // The file is wrong, not the usage.
    throw new CommandError(error.message + advice)
  })
  const { entries, revoked, recorded, known } = body
  const outcome = `${revoked} revoked now, ${recorded} unknown until now, ${known} revoked before`
  tell(json, body, `${entries} in the CRL: ${outcome}`)
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

const SELECTION = {
  serial: several('Serial number in hexadecimal; may be given several times', hex),
  issuer: ISSUER,
  'issued-before': optional('Date or RFC 3339 time', instant),
  all: isGiven('Every certificate that has not expired'),
}

const ADVISE = adminCommand({
  usage: 'renewals advise',
  about: 'Tell clients to renew certificates now (RFC 9773)',
  options: {
    ...SELECTION,
    'window-end': optional('Date or RFC 3339 time until which the renewals spread; at once when absent', instant),
    explanation: optional('URL of a page that explains why', text),
  },
  examples: [
    'renewals advise --serial 0a1b2c --explanation https://ca.example/incident',
    'renewals advise --issued-before 2026-01-31 --window-end 2026-02-03',
  ],
  further: '--serial',
  async run(caller, { 'window-end': windowEnd, explanation, json, ...selection }) {
    if (windowEnd && windowEnd <= new Date())
      throw new UsageError('--window-end must lie in the future; leave it out to renew at once')
    const filter = filterOf(selection)
    const advised = await caller.call('adviseRenewal', {
      body: { filter, window_end: windowEnd?.toISOString(), explanation_url: explanation },
    })
    const { certificates, window_start: from, window_end: to } = advised
    tell(json, advised, `${certificates} certificate(s): window ${from} to ${to}, or to the end of a shorter lifetime`)
    return exitCodeOf(certificates)
  },
})

const CLEAR = adminCommand({
  usage: 'renewals clear',
  about: 'Take such advice back',
  options: SELECTION,
  examples: ['renewals clear --all'],
  further: '--serial',
  async run(caller, { json, ...selection }) {
    const { certificates } = await caller.call('clearRenewals', { body: { filter: filterOf(selection) } })
    tell(json, { certificates }, `${certificates} certificate(s) have their usual renewal window again`)
    return exitCodeOf(certificates)
  },
})

/** No match is probably a mistake in the selection. */
const exitCodeOf = (certificates: number) => (certificates > 0 ? 0 : 1)

function filterOf({ serial, issuer, 'issued-before': issuedBefore, all }: Values<typeof SELECTION>) {
  const isSelected = serial.length > 0 || issuer !== undefined || issuedBefore !== undefined
  if (isSelected === (all === true))
    throw new UsageError('say which certificates: --serial, --issuer, --issued-before, or --all')
  return {
    ...(serial.length > 0 && { serial_numbers: serial.map((one) => one.toString('hex')) }),
    ...(issuer && { issuer: issuer.toString('hex') }),
    ...(issuedBefore && { issued_before: issuedBefore.toISOString() }),
    ...(all && { all: true as const }),
  }
}

export const CERTIFICATE_COMMANDS = [REVOKE, ADVISE, CLEAR]
