/** `chancery renewals advise|clear`: "renew now" for a set of certificates (RFC 9773 §4.2). */

import { isGiven, optional, several, UsageError, type Values } from '../../shared/command-line.ts'
import { type SharedCommand, shared } from '../operations/shared-command.ts'
import { tell } from '../table.ts'
import { hex, instant, text } from '../values.ts'

const SELECTION = {
  serial: several('Serial number in hexadecimal; may be given several times', hex),
  issuer: optional('SHA-256 fingerprint of the issuer certificate', hex),
  'issued-before': optional('Date or RFC 3339 time', instant),
  all: isGiven('Every certificate that has not expired'),
}

export const RENEWALS: readonly SharedCommand[] = [
  shared({
    usage: 'renewals advise',
    about: 'Tell clients to renew certificates now (RFC 9773)',
    options: {
      ...SELECTION,
      'window-end': optional('Date or RFC 3339 time until which the renewals spread; without it, at once', instant),
      explanation: optional('URL of a page that says why', text),
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
      const sent = { filter, window_end: windowEnd?.toISOString(), explanation_url: explanation }
      const { body } = await caller.page('adviseRenewal', { body: sent })
      const advised = body as { certificates: number; window_start: string; window_end: string }
      const { certificates, window_start: from, window_end: to } = advised
      tell(
        json,
        advised,
        `${certificates} certificate(s): window ${from} to ${to}, or to the end of a shorter lifetime`,
      )
      return exitCodeOf(certificates)
    },
  }),
  shared({
    usage: 'renewals clear',
    about: 'Take such advice back',
    options: SELECTION,
    examples: ['renewals clear --all'],
    further: '--serial',
    async run(caller, { json, ...selection }) {
      const { body } = await caller.page('clearRenewals', { body: { filter: filterOf(selection) } })
      const { certificates } = body as { certificates: number }
      tell(json, { certificates }, `${certificates} certificate(s) have their usual renewal window again`)
      return exitCodeOf(certificates)
    },
  }),
]

/** That no certificate matches is probably a mistake. */
const exitCodeOf = (certificates: number) => (certificates > 0 ? 0 : 1)

function filterOf({ serial, issuer, 'issued-before': issuedBefore, all }: Values<typeof SELECTION>): object {
  const isSelected = serial.length > 0 || issuer !== undefined || issuedBefore !== undefined
  if (isSelected === (all === true))
    throw new UsageError('say which certificates: --serial, --issuer, --issued-before, or --all')
  return {
    ...(serial.length > 0 && { serial_numbers: serial.map((one) => one.toString('hex')) }),
    ...(issuer && { issuer: issuer.toString('hex') }),
    ...(issuedBefore && { issued_before: issuedBefore.toISOString() }),
    ...(all && { all: true }),
  }
}
