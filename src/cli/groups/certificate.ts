/** `chancery ca test-sign`, and `certificates import`. */

import { isGiven, optional } from '../../shared/command-line.ts'
import { onHost } from '../on-host.ts'
import { PRINTING, text, uuid } from '../values.ts'

export const CERTIFICATE = [
  onHost('it speaks to the signer and to other CAs with the secrets of that host', {
    usage: 'ca test-sign',
    about: [
      'Test every CA backend: an ephemeral key, its CSR, profile, build, lint and signature',
      'The signer signs a certificate for test-sign.invalid, of one hour, which is recorded and revoked.',
      'Others are asked for one with --issue only; it is recorded and revoked as well.',
    ],
    options: {
      issue: isGiven('Ask the backends that are not the signer for a real certificate, and have it revoked'),
      name: optional('With --issue: its DNS name; test-sign.invalid when absent', text),
      profile: optional('Profile of the certificate; the first that a backend serves when absent', text),
      backend: optional('Only this one, as ca.backend or ca.failover.backends names it', text),
      ...PRINTING,
    },
    examples: ['-c config.yaml ca test-sign', '-c config.yaml ca test-sign --issue --backend external'],
    run: async (options) => (await import('../commands/ca.ts')).testSign(options),
  }),
  onHost('it is a step of restoring a database, before the service starts', {
    usage: 'certificates import <file>',
    about: 'Record certificates (PEM) that a restored database has forgotten; several may follow',
    options: { account: optional('Account id: whose they are', uuid), ...PRINTING },
    examples: ['-c config.yaml certificates import www.pem mail.pem --account 01938c4e-…'],
    further: true,
    run: async (options, files) => (await import('../commands/certificate.ts')).importCertificates(options, files),
  }),
]
