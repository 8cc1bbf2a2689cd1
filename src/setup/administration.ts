/** The first administrator and the first credential, made by the commands of the service as its user. */

import { decodeBase64url } from '../shared/lib/encoding.ts'
import { mustRun, run } from './command.ts'
import { type Facts, PLACES, SERVICE } from './facts.ts'
import type { Command } from './step.ts'

/** The user of the service is who PostgreSQL's socket admits. */
export const serviceCommand = ({ programs }: Facts, ...words: string[]): Command => ({
  words: [...programs.service, '-c', PLACES.config, ...words],
  as: SERVICE,
})

/** @returns the password; undefined where there is a user already */
export async function makeAdministrator(facts: Facts, email: string): Promise<string | undefined> {
  const users = JSON.parse(await mustRun(serviceCommand(facts, 'users', 'list', '--json'))) as unknown[]
  if (users.length > 0) return undefined
  const words = ['users', 'create', 'admin', '--email', email, '--role', 'admin', '--json']
  return (JSON.parse(await mustRun(serviceCommand(facts, ...words))) as { password: string }).password
}

export interface Credential {
  kid: string
  hmacKey: Buffer
}

export const hasCredential = async (facts: Facts, kid: string): Promise<boolean> =>
  (await run(serviceCommand(facts, 'eab', 'show', kid))).code === 0

export async function makeCredential(facts: Facts, kid: string, options: readonly string[]): Promise<Credential> {
  const text = await mustRun(serviceCommand(facts, 'eab', 'create', '--kid', kid, ...options, '--json'))
  const { hmac_key } = JSON.parse(text) as { hmac_key: string }
  return { kid, hmacKey: decodeBase64url(hmac_key) ?? Buffer.alloc(0) }
}
