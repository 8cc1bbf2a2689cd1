/** `chancery ca`, `crl`, `certificates` and `renewals`: signatures, lists and certificates that exist. */

import { ADMINISTRATORS_REASONS } from '../../domain/revocation.ts'
import { isGiven, option, optional, several } from '../../shared/command-line/options.ts'
import { configured, JSON_OPTION, plain } from '../command.ts'
import { hex, instant, text, uuid } from '../values.ts'

const SELECTION = {
  serial: several('Serial number in hexadecimal; may be given several times', hex),
  issuer: optional('SHA-256 fingerprint of the issuer certificate', hex),
  'issued-before': optional('Date or RFC 3339 time', instant),
  all: isGiven('Every certificate that has not expired'),
  ...JSON_OPTION,
}

function reason(value: string): number {
  if (/^\d$/.test(value) && ADMINISTRATORS_REASONS.includes(Number(value))) return Number(value)
  throw new Error(`is one of ${ADMINISTRATORS_REASONS.join(', ')}`)
}

export const CERTIFICATE = [
  plain({
    usage: 'ca test-sign',
    about: 'Make one test signature with every issuer and verify it',
    options: JSON_OPTION,
    examples: ['-c config.yaml ca test-sign'],
    run: async (options) => (await import('../commands/ca.ts')).testSign(options),
  }),
  configured({
    usage: 'renewals advise',
    about: 'Tell clients to renew certificates now (RFC 9773)',
    options: {
      ...SELECTION,
      'window-end': optional('Date or RFC 3339 time until which the renewals spread; without it, at once', instant),
      explanation: optional('URL of a page that says why', text),
    },
    examples: [
      '-c config.yaml renewals advise --serial 0a1b2c --explanation https://ca.example/incident',
      '-c config.yaml renewals advise --issued-before 2026-01-31 --window-end 2026-02-03',
    ],
    further: '--serial',
    run: async (config, options) => (await import('../commands/renewal.ts')).adviseRenewal(config, options),
  }),
  configured({
    usage: 'renewals clear',
    about: 'Take such advice back',
    options: SELECTION,
    examples: ['-c config.yaml renewals clear --all'],
    further: '--serial',
    run: async (config, options) => (await import('../commands/renewal.ts')).clearAdvice(config, options),
  }),
  configured({
    usage: 'certificates revoke',
    about: [
      'Revoke certificates by serial number, or all that a CRL of ours lists',
      'With --issuer or --from-crl also those that a restored database has forgotten.',
    ],
    options: {
      reason: option('CRLReason: 0, 1, 2, 3, 4, 5 or 9; 1, keyCompromise, also blocks the key', reason, 0),
      issuer: optional('SHA-256 fingerprint of the issuer certificate', hex),
      'from-crl': optional('File of a CRL that one of our issuers has signed (DER or PEM)', text),
      ...JSON_OPTION,
    },
    examples: [
      '-c config.yaml certificates revoke 0a1b2c --reason 4',
      '-c config.yaml certificates revoke --from-crl last.crl',
    ],
    further: true,
    run: async (config, options, serials) =>
      (await import('../commands/revoke.ts')).revokeCertificates(config, options, serials),
  }),
  configured({
    usage: 'certificates import <file>',
    about: 'Record certificates (PEM) that a restored database has forgotten; several may follow',
    options: { account: optional('Account id: whose they are', uuid), ...JSON_OPTION },
    examples: ['-c config.yaml certificates import www.pem mail.pem --account 01938c4e-…'],
    further: true,
    run: async (config, options, files) =>
      (await import('../commands/certificate.ts')).importCertificates(config, files, options),
  }),
  configured({
    usage: 'crl rebuild',
    about: 'Have a new CRL built and wait until it is published (needs crl.enabled)',
    options: { json: isGiven('Print JSON, one line for each list') },
    examples: ['-c config.yaml crl rebuild'],
    run: async (config, { json }) => (await import('../commands/crl.ts')).rebuildCrls(config, { json }),
  }),
]
