/** `chancery eab …`: credentials of external account binding (RFC 8555 §7.3.4). */

import { isGiven, optional, several, UsageError } from '../../shared/command-line/options.ts'
import { configured } from '../command.ts'
import { instant, text, whole } from '../values.ts'
import { PAGE } from './inspect.ts'

export const EAB = [
  configured({
    usage: 'eab create',
    about: 'Make a credential of external account binding and print its HMAC key, once',
    options: {
      kid: optional('Key id, by which the client names the credential', String),
      label: optional('A note for the operator', text),
      allow: several(
        'Identifiers its accounts may ask for: a name, *.name, an address, a network; several may follow',
        text,
      ),
      'csr-profile': optional('Name of the CSR profile its accounts get', text),
      profile: several(
        'CA profile its accounts may order, the one for orders without a choice first; repeat for several',
        text,
      ),
      preapprove: several('Network from which allowed identifiers need no challenge; repeat for several', text),
      expires: optional('Date or RFC 3339 time from which no account registers with it', instant),
      'max-uses': optional('Accounts that may register with it, whatever acme.eab_reusable says', whole(1, 1_000_000)),
      from: several('Network from which accounts may register with it; repeat for several', text),
      json: isGiven('Print JSON'),
    },
    examples: ["-c config.yaml eab create --kid team-a --allow '*.a.example.com' 10.1.0.0/16"],
    further: true,
    async run(config, options, words) {
      const { kid, label, allow, profile: profiles, preapprove, 'csr-profile': csrProfile } = options
      const { expires, 'max-uses': maxUses, from, json } = options
      // Beside another option with several values it would be unclear whose the words are.
      if (words.length > 0 && profiles.length + preapprove.length + from.length > 0)
        throw new UsageError(
          `${words[0]} has no option: beside --profile, --preapprove and --from, give --allow once for each identifier`,
        )
      const wanted = { kid, label, allow: [...allow, ...words], csrProfile, profiles, preapprove }
      return (await import('../commands/eab.ts')).createCredential(config, { ...wanted, expires, maxUses, from, json })
    },
  }),
  configured({
    usage: 'eab list',
    about: 'List the credentials of external account binding, newest first, a page at a time',
    options: PAGE,
    examples: ['-c config.yaml eab list'],
    run: async (config, options) => (await import('../commands/eab-list.ts')).listCredentials(config, options),
  }),
  configured({
    usage: 'eab revoke <kid>',
    about: 'Revoke a credential, the accounts registered with it and their authorizations',
    options: { json: isGiven('Print JSON') },
    examples: ['-c config.yaml eab revoke team-a'],
    run: async (config, { json }, [kid = '']) =>
      (await import('../commands/eab.ts')).revokeCredential(config, kid, json),
  }),
  configured({
    usage: 'eab reseal',
    about: 'Seal the stored HMAC keys under the secret of the configuration, after that has changed',
    options: {
      'old-secret-file': optional('File with the former admin_api.token_secret or acme.eab_key_file', text),
      json: isGiven('Print JSON'),
    },
    examples: ['-c config.yaml eab reseal --old-secret-file former-secret'],
    async run(config, { 'old-secret-file': file, json }) {
      if (file === undefined) throw new UsageError('eab reseal needs --old-secret-file')
      return (await import('../commands/eab-reseal.ts')).resealKeys(config, file, json)
    },
  }),
]
