/** A new key for an account (RFC 8555 §7.3.5): signed by the new one inside, by the old one outside. */

import type { Account } from '../client/account.ts'
import type { AcmeClient } from '../client/acme.ts'
import { parseObject } from '../client/acme.ts'
import { Failure } from '../client/failure.ts'
import { innerJws, thumbprint } from '../client/jws.ts'
import { thumbprintName } from './names.ts'
import { type Context, Unsupported } from './scenario.ts'

/** @throws Failure; the account keeps its old key then, as far as we know */
export async function changeKey(client: AcmeClient, context: Context, account: Account): Promise<void> {
  const { keyChange } = context.directory
  if (keyChange === undefined) throw new Unsupported('the directory has no keyChange')
  const key = context.newKey()
  const payload = JSON.stringify({ account: account.url, oldKey: account.key.jwk })
  const response = await client.post('key-change', account, keyChange, innerJws(key, keyChange, payload))
  const { status } = parseObject(response)
  if (status !== 'valid') throw new Failure('check-key-change', `the account is ${String(status)} after a key change`)
  account.key = key
  account.thumbprint = thumbprint(key.jwk)
  // The prefix of its requests names the account and stays.
  await context.publish({ name: thumbprintName(account.index), text: account.thumbprint })
}
