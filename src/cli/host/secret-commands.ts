/** Commands with secrets that stay on the host: `eab reseal`, `users reset-second-factor`, `users import`. */

import { readFileSync } from 'node:fs'
import { resealCredentials } from '../../admin/eab/eab-reseal.ts'
import { isUsableHash } from '../../admin/users/password-hash.ts'
import { type ImportedUser, importUsers, resetSecondFactor, type WantedUser } from '../../admin/users/users.ts'
import { isUsername, type Role, USERNAME_RULE } from '../../domain/administrator.ts'
import { UNSCOPED_ROLES } from '../../domain/permissions.ts'
import { eabSecretBox, formerEabBoxes } from '../../settings/account-settings.ts'
import { isMailAddress, MAIL_ADDRESS } from '../../shared/lib/bounded.ts'
import { describeFileError } from '../../shared/lib/errors.ts'
import { readConfigFile } from '../config-file.ts'
import { withAdministration } from '../operator-database.ts'
import { CommandError, type Printing } from '../values.ts'

/** HMAC keys move from a former secret to the configured one. */
export async function resealKeys({ config: file, json }: Printing, oldSecretFile: string): Promise<number> {
  const config = await readConfigFile(file)
  const former = formerEabBoxes(oldSecretFile)
  const current = eabSecretBox(config)
  if (!current) throw new CommandError('there is no new secret; set acme.eab_key_file or admin_api.token_secret')
  const { resealed, kept } = await withAdministration(config, ({ audit, actor }) =>
    resealCredentials(audit, actor, former, current),
  )
  if (json) console.log(JSON.stringify({ resealed, kept }))
  else console.log(`${resealed} resealed, ${kept} were under the new secret already`)
  return 0
}

/** The way back for a user who has lost every passkey. */
export async function resetFactorOf({ config: name, json }: Printing, username: string): Promise<number> {
  const config = await readConfigFile(name)
  const done = await withAdministration(config, ({ audit, actor }) => resetSecondFactor(audit, actor, username))
  if (json) console.log(JSON.stringify(done))
  else
    console.log(
      `${done.username} has no passkey any more (${done.passkeys} removed); all sessions and API tokens have ended`,
    )
  return 0
}

/** Users of another service come as a JSON array or as one JSON object a line, with hashes of their passwords. */
export async function importUserFile({ config: name, json }: Printing, file: string): Promise<number> {
  const config = await readConfigFile(name)
  const wanted = readUserFile(file)
  const taken = await withAdministration(config, ({ audit, actor }) => importUsers(audit, actor, wanted))
  const imported = wanted.length - taken.length
  if (json) console.log(JSON.stringify({ imported, taken }))
  else {
    console.log(`${imported} ${imported === 1 ? 'user is' : 'users are'} imported`)
    for (const username of taken) console.error(`${username} is there already, and stays as it is`)
  }
  return 0
}

type UserRecord = WantedUser & { enabled?: boolean; password_hash: string }

/** Member → its check, and what would be right. */
const MEMBERS: Record<string, { isRight(value: unknown): boolean; rule: string }> = {
  username: { isRight: (value) => typeof value === 'string' && isUsername(value), rule: USERNAME_RULE },
  email: { isRight: (value) => typeof value === 'string' && isMailAddress(value), rule: `must be ${MAIL_ADDRESS}` },
  role: { isRight: (value) => UNSCOPED_ROLES.includes(value as Role), rule: `must be ${UNSCOPED_ROLES.join(' or ')}` },
  enabled: {
    isRight: (value) => value === undefined || typeof value === 'boolean',
    rule: 'must be true or false, or absent',
  },
  password_hash: {
    isRight: (value) => typeof value === 'string' && isUsableHash(value),
    rule: "must be a hash of argon2 (PHC format) or of werkzeug's scrypt",
  },
}

const MOST_NAMED = 20

/** @throws CommandError with a line for each thing that is wrong */
function readUserFile(file: string): ImportedUser[] {
  const records = recordsOf(file)
  const faults = records.flatMap((record, index) =>
    faultsOf(record).map((fault) => `${file}: user ${index + 1}: ${fault}`),
  )
  if (faults.length > 0) throw new CommandError(faults.slice(0, MOST_NAMED).join('\n'))
  return (records as UserRecord[]).map(({ enabled = true, password_hash: passwordHash, ...user }) => ({
    ...user,
    enabled,
    passwordHash,
  }))
}

function recordsOf(file: string): unknown[] {
  let text: string
  try {
    text = readFileSync(file, 'utf8').trim()
  } catch (cause) {
    throw new CommandError(`${file}: cannot be read: ${describeFileError(cause)}`, { cause })
  }
  try {
    if (text.startsWith('[')) return JSON.parse(text) as unknown[]
    return text.split('\n').flatMap((line) => (line.trim() === '' ? [] : [JSON.parse(line) as unknown]))
  } catch (cause) {
    // The parser's message quotes the file, which has hashes.
    throw new CommandError(`${file} is neither a JSON array nor one JSON object a line`, { cause })
  }
}

function faultsOf(record: unknown): string[] {
  if (typeof record !== 'object' || record === null || Array.isArray(record)) return ['is not a JSON object']
  const members = record as Record<string, unknown>
  return [
    ...Object.keys(members).flatMap((name) => (Object.hasOwn(MEMBERS, name) ? [] : [`'${name}' is unknown`])),
    ...Object.entries(MEMBERS).flatMap(([name, { isRight, rule }]) =>
      isRight(members[name]) ? [] : [`'${name}' ${rule}`],
    ),
  ]
}
