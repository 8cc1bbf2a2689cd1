/** `chancery eab create`: a credential of external account binding (RFC 8555 §7.3.4) with what it grants. */

import { optional, several, UsageError, type Values } from '../../shared/command-line.ts'
import { isKid } from '../../shared/protocol/external-account-binding.ts'
import { CommandError, instant, Refusal, text, whole } from '../values.ts'
import type { AdminCaller } from './admin-caller.ts'
import { adminCommand } from './admin-command.ts'
import { identifiersOf } from './identifier-commands.ts'

const OPTIONS = {
  kid: optional('Key id, by which the client names the credential; or the first word', String),
  label: optional('A note for the operator', text),
  tag: several('Tag that its accounts get; repeat for several', text),
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
}

export const EAB_CREATE = adminCommand({
  usage: 'eab create',
  approval: true,
  about: 'Make a credential of external account binding and print its HMAC key, once',
  options: OPTIONS,
  examples: ["eab create team-a --allow '*.a.example.com' 10.1.0.0/16"],
  further: true,
  run: create,
})

type Wanted = Values<typeof OPTIONS>

async function create(
  caller: AdminCaller,
  { json, ...wanted }: Wanted & { json: boolean },
  words: readonly string[],
): Promise<number> {
  const { kid, allow } = placed(wanted, words)
  if (!isKid(kid)) throw new UsageError('--kid takes a key id of 1 to 255 characters')
  const {
    label,
    profile: profiles,
    preapprove,
    expires,
    'max-uses': max_uses,
    from,
    tag,
    'csr-profile': profile,
  } = wanted
  const identifiers = identifiersOf(allow).map(({ value }) => value)
  if (preapprove.length > 0 && identifiers.length === 0)
    throw new UsageError('--preapprove needs --allow: only identifiers allowed to the credential are pre-approved')
  const some = <T>(values: T[]) => (values.length > 0 ? values : undefined)
  const made = caller.call('createEabCredential', {
    body: {
      kid,
      label,
      tags: some(tag),
      max_uses,
      expires_at: expires?.toISOString(),
      profiles: some(profiles),
      preapproved_networks: some(preapprove),
      allowed_networks: some(from),
      allowed_identifiers: some(identifiers),
      csr_profile_id: profile === undefined ? undefined : await caller.idOf('profile_id', profile),
    },
  })
  const body = await made.catch(inOptions)
  if (json) console.log(JSON.stringify(body, null, 2))
  else console.log(`kid       ${kid}\nhmac_key  ${body.hmac_key}`)
  process.stderr.write('The HMAC key is not shown again.\n')
  return 0
}

const OPTION_OF: Readonly<Record<string, string>> = {
  tags: '--tag',
  profiles: '--profile',
  preapproved_networks: '--preapprove',
  allowed_networks: '--from',
  expires_at: '--expires',
  max_uses: '--max-uses',
  allowed_identifiers: '--allow',
}

/** Names options in place of members. */
function inOptions(error: unknown): never {
  const fields = error instanceof Refusal ? error.fields : []
  if (fields.length === 0) throw error
  throw new CommandError(
    fields.map(({ field, message }) => `${OPTION_OF[field] ?? `--${field}`}: ${message}`).join('\n'),
  )
}

/** Words are the key id where no option has it, then further identifiers behind `--allow`. */
function placed({ kid: named, allow, profile, preapprove, from, tag }: Wanted, words: readonly string[]) {
  const [kid = '', ...further] = named === undefined ? words : [named, ...words]
  const [extra] = further
  if (extra !== undefined && allow.length === 0) throw new UsageError(`one word too many: ${extra}`)
  // Beside another option with several values it would be unclear whose the words are.
  if (extra !== undefined && profile.length + preapprove.length + from.length + tag.length > 0)
    throw new UsageError(
      `${extra} has no option: beside --profile, --preapprove, --from and --tag, give --allow once for each identifier`,
    )
  return { kid: kid.trim(), allow: [...allow, ...further] }
}
