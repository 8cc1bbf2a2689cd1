/** Of `chancery users …` and `eab …`: what needs the secrets of the host. */

import { optional, UsageError } from '../../shared/command-line.ts'
import { onHost } from '../on-host.ts'
import { PRINTING, text } from '../values.ts'

export const ADMINISTRATION = [
  onHost('hashes of passwords do not go over the network', {
    usage: 'users import <file>',
    about: 'Take users over with their password hashes: a JSON array, or one JSON object a line',
    options: PRINTING,
    examples: ['-c config.yaml users import users.json'],
    run: async (options, [file = '']) => (await import('../commands/users.ts')).importUsers(options, file),
  }),
  onHost('both secrets stay on that host', {
    usage: 'eab reseal',
    about: 'Seal the stored HMAC keys under the secret of the configuration, after that has changed',
    options: {
      'old-secret-file': optional('File with the former admin_api.token_secret or acme.eab_key_file', text),
      ...PRINTING,
    },
    examples: ['-c config.yaml eab reseal --old-secret-file former-secret'],
    async run({ 'old-secret-file': file, ...options }) {
      if (file === undefined) throw new UsageError('eab reseal needs --old-secret-file')
      return (await import('../commands/eab-reseal.ts')).resealKeys(options, file)
    },
  }),
]
