/** `chancery certificates revoke|bulk-revoke|tell-owners` and `renewals advise|clear`: acts on several certificates. */

import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Input, Output } from '../../admin/client.ts'
import { AT_RISK_FILTERS, REVOCATION_FILTERS } from '../../admin/resources/certificates.ts'
import { pick } from '../../admin/resources/filter.ts'
import { SUMMARIES } from '../../admin/summaries.ts'
import { ADMINISTRATORS_REASONS, parseSerialNumber } from '../../domain/revocation.ts'
import { isGiven, option, optional, several, UsageError, type Values } from '../../shared/command-line.ts'
import { printReply, tell } from '../printing.ts'
import { CommandError, flag, hex, instant, Refusal, text, whole } from '../values.ts'
import type { AdminCaller } from './admin-caller.ts'
import { adminCommand, BODY } from './admin-command.ts'
import { byOptionName, givenOf, optionsOf } from './filter-options.ts'

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
  about: SUMMARIES.adviseRenewal,
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
  about: SUMMARIES.clearRenewals,
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

const whole32 = whole(0, 2 ** 31 - 1, 'takes a whole number')

/** Begins a job that revokes what filters match, and waits for its end. */
const BULK_REVOKE = adminCommand({
  usage: 'certificates bulk-revoke',
  approval: true,
  about: 'Revoke all unexpired certificates that filters match, and show the progress',
  options: {
    ...byOptionName(optionsOf(REVOCATION_FILTERS)),
    reason: optional('CRLReason: 0, 1, 2, 3, 4, 5 or 9; 1, keyCompromise, also blocks the keys', whole32),
    'dry-run': isGiven('Count the certificates and change nothing'),
    'confirm-count': optional(
      'Revoke no more certificates than this; needed above admin_api.bulk_revoke_confirm_above',
      whole32,
    ),
    wait: optional('false: do not wait until the job has ended', flag),
    ...BODY,
  },
  async run(caller, { reason, 'dry-run': isDryRun, 'confirm-count': confirm_count, wait, body, json, ...given }) {
    const whole = (body ?? {}) as Partial<NonNullable<Input<'bulkRevoke'>['body']>>
    const sent = {
      ...whole,
      ...present({ reason, dry_run: isDryRun || undefined, confirm_count, wait }),
      filter: { ...whole.filter, ...givenOf(REVOCATION_FILTERS, given) },
    }
    const first = await caller.call('bulkRevoke', { body: sent })
    const isAwaited = sent.wait !== false
    const last = isAwaited && 'id' in first ? await theEndOf(caller, first) : first
    if (json) console.log(JSON.stringify(last, null, 2))
    else printReply(last)
    return isAwaited && 'status' in last && last.status !== 'done' ? 1 : 0
  },
})

/** The members that were given; an absent one leaves the member of `--body`. */
const present = <T extends object>(members: T) =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Partial<T>

const LOOK_MS = 1_000

/** The job outlives this command. */
async function theEndOf(caller: AdminCaller, first: Output<'getBulkRevocation'>): Promise<Output<'getBulkRevocation'>> {
  let job = first
  while (job.finished_at === null) {
    const progress = `${job.revoked} of ${job.total_matched}`
    process.stderr.write(`${job.status}: ${progress}; the job continues when this command ends\n`)
    await sleep(LOOK_MS)
    job = await caller.call('getBulkRevocation', { params: { job_id: job.id } })
  }
  return job
}

/** One request of `POST /at-risk/notify` takes no more. */
const MOST = 200
const CHOICE = pick(AT_RISK_FILTERS, ['account_id', 'expiring_before'])

/** Asks owners of certificates at risk by mail to renew; without `--send` it prints the mails. */
const TELL_OWNERS = adminCommand({
  usage: 'certificates tell-owners',
  about: [
    'Show the mails that ask owners of certificates at risk to renew; send them with --send',
    'Serial numbers may follow; else it is about those that `certificates at-risk` lists, which are at most 200.',
  ],
  options: {
    ...byOptionName(optionsOf(CHOICE)),
    all: isGiven('All certificates at risk'),
    send: isGiven('Send the mails'),
  },
  examples: ['certificates tell-owners --expiring-before 2027-02-01', 'certificates tell-owners 0a1b2c --send'],
  further: true,
  async run(caller, { all, send, json, ...given }, serials) {
    const filter = givenOf(CHOICE, given)
    const isFiltered = Object.keys(filter).length > 0
    if ([serials.length > 0, isFiltered, all].filter(Boolean).length !== 1)
      throw new UsageError('say which certificates: serial numbers, --account-id and --expiring-before, or --all')
    const chosen = serials.length > 0 ? [...serials] : await atRisk(caller, filter)
    if (chosen.length === 0) throw new CommandError('no certificate is at risk')
    const told = await caller.call('notifyAtRisk', { body: { serial_numbers: chosen, dry_run: !send } })
    tell(json, told, ...(send ? [] : told.owners.map(mailText)), summaryOf(told, send === true))
    return told.mails > 0 ? 0 : 1
  },
})

/** @throws CommandError for more than one request takes: an owner would get several mails */
async function atRisk(caller: AdminCaller, query: Input<'listAtRisk'>['query']) {
  const serials: string[] = []
  for await (const { serial_number } of caller.rows('listAtRisk', { query: { ...query, limit: String(MOST) } })) {
    if (serials.length === MOST)
      throw new CommandError(`more than ${MOST} certificates are at risk: choose by --account-id or --expiring-before`)
    serials.push(serial_number)
  }
  return serials
}

type Told = Output<'notifyAtRisk'>

const mailText = ({ account_id, account_name, recipients, passed_over, subject, text }: Told['owners'][number]) => {
  const owner = account_name ?? account_id
  if (recipients.length > 0) return `${owner}\nTo: ${recipients.join(', ')}\nSubject: ${subject}\n\n${text}`
  return `${owner} ${passed_over.length > 0 ? 'has had enough of these mails today' : 'has no contact'}\n`
}

function summaryOf({ enabled, mails, certificates, not_at_risk, without_contact }: Told, isSent: boolean): string {
  return [
    `${mails} mail(s) about ${certificates} certificate(s) ${isSent ? 'will be sent' : 'would be sent with --send'}`,
    ...(not_at_risk > 0 ? [`${not_at_risk} of those named are not at risk, and were passed over`] : []),
    ...(without_contact > 0 ? [`${without_contact} account(s) have no contact`] : []),
    ...(enabled ? [] : ['smtp.enabled or notifications.enabled is false: none can be sent']),
  ].join('; ')
}

export const CERTIFICATE_COMMANDS = [REVOKE, ADVISE, CLEAR, TELL_OWNERS, BULK_REVOKE]
