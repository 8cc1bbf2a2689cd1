/** What a command made from an operation of the Admin API adds to its description. The list is word-list.ts. */

import type { Config } from '../../config/schema.ts'

/** A path parameter that a name stands for: where the names are listed, and as what. */
interface Named {
  shown: string
  /** As a sentence names it. */
  what: string
  list: string
  /** Of the list's query; without one, the list is read until the name comes. */
  filter?: string
  /** Of a row. */
  member: string
}

export const NAMED: Readonly<Record<string, Named>> = {
  user_id: { shown: 'username', what: 'user', list: 'listUsers', filter: 'username', member: 'username' },
  token_id: { shown: 'token', what: 'API token', list: 'listTokens', member: 'name' },
  cred_id: { shown: 'eab', what: 'credential with the kid', list: 'listEabCredentials', filter: 'kid', member: 'kid' },
  identifier_id: {
    shown: 'identifier',
    what: 'allowed identifier',
    list: 'listAllowedIdentifiers',
    filter: 'value',
    member: 'identifier_value',
  },
  profile_id: { shown: 'profile', what: 'CSR profile', list: 'listCsrProfiles', filter: 'name', member: 'name' },
}

export const shownName = (parameter: string): string =>
  NAMED[parameter]?.shown ?? parameter.replace(/_id$/, '').replaceAll('_', '-')

/** As the help shows it. */
export const usageOf = ({ usage }: Pick<Words, 'usage'>): string =>
  usage.replaceAll(/<(\w+)>/g, (_, name: string) => `<${shownName(name)}>`)

/** About the user of a session, which a command on the database does not have. */
export const NEEDS_USER: readonly string[] = ['login', 'logout', 'getMe', 'resetMyPassword', 'createToken']

// biome-ignore lint/suspicious/noExplicitAny: its description has its shape
export type ReplyBody = any

export interface Words {
  /** Its words, then path parameters and body members by their names in the description. */
  usage: string
  /** That whose path parameters are given; the others become options. */
  operations: readonly [string, ...string[]]
  about: string
  /** Members of the body that the words stand for. */
  fixed?: Readonly<Record<string, unknown>>
  /** Options that are not given. @param config undefined with `--server` */
  fallback?(config: Config | undefined): Readonly<Record<string, unknown>>
  /** About options, in place of the description's. */
  sentences?: Readonly<Record<string, string>>
  /** A member of the body that the command asks for. As an option, others could read it in the list of processes. */
  secret?: string
  /** The member of the body whose members become options of their own. */
  within?: string
  /** Shows a job that the operation has begun. */
  job?: string
  /** Of the table that a list is shown as. */
  columns?: readonly string[]
  /** Its reply for a reader, where that is not one line for each member. */
  text?(reply: ReplyBody): string
  /** Beside a reply that cannot be had again. */
  remark?: string
  /** The option that an extra word may be meant for. */
  further?: `--${string}`
  /** Works between two releases, too. */
  anySchema?: true
}
