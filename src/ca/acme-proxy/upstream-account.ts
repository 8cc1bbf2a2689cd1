/**
 * The upstream account: one for a directory and a contact, shared by all instances.
 *
 * 1 key     from the database; else taken over from the reference's files, else made
 * 2 save    sealed, before anybody uses it: the first instance wins
 * 3 account registered with that key; a crash before the next step finds it again by its key
 * 4 save    the account's URL
 */

import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { StoredUpstreamAccount, UpstreamAccountName } from '../../domain/records.ts'
import { describeFileError } from '../../shared/lib/errors.ts'
import type { SecretBox } from '../../shared/lib/secret-box.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import {
  type AcmeClient,
  type Answer,
  type ExternalCredential,
  externalBinding,
  type UpstreamKey,
  upstreamKey,
} from './upstream-client.ts'
import { UpstreamNonsense, UpstreamProblem } from './upstream-problem.ts'

export interface UpstreamAccountStore {
  find(name: UpstreamAccountName): Promise<StoredUpstreamAccount | undefined>
  /** Keeps an account that is there already. @returns the one that is there now */
  add(name: UpstreamAccountName, id: string, sealedKey: Buffer): Promise<StoredUpstreamAccount>
  /** @param url undefined forgets it: the upstream does not know it any more */
  saveUrl(id: string, url: string | undefined): Promise<void>
}

interface UpstreamAccount {
  key: UpstreamKey
  /** The `kid` of its requests. */
  kid: string
}

interface UpstreamAccountOptions {
  name: UpstreamAccountName
  store: UpstreamAccountStore
  box: SecretBox
  client: AcmeClient
  binding: ExternalCredential | undefined
  /** Key of an account that another program has left; undefined without one. */
  readFormerKey(): KeyObject | undefined
}

export interface UpstreamAccounts {
  /** @throws Unreachable, UpstreamProblem, UpstreamNonsense; Error for a key that does not open */
  current(signal?: AbortSignal): Promise<UpstreamAccount>
  /** The upstream does not know the account: the next `current` registers its key again. */
  forget(): Promise<void>
}

export function createUpstreamAccounts(options: UpstreamAccountOptions): UpstreamAccounts {
  const { store } = options
  let known: UpstreamAccount | undefined
  let storedId: string | undefined
  let running: Promise<UpstreamAccount> | undefined

  async function load(signal?: AbortSignal): Promise<UpstreamAccount> {
    const stored = (await store.find(options.name)) ?? (await makeAccount(options))
    const key = openKey(options.box, stored)
    storedId = stored.id
    const kid = stored.url ?? (await register(options, key, signal))
    if (stored.url === undefined) await store.saveUrl(stored.id, kid)
    known = { key, kid }
    return known
  }

  return {
    async current(signal) {
      if (known) return known
      running ??= load(signal).finally(() => {
        running = undefined
      })
      return running
    },
    async forget() {
      known = undefined
      if (storedId !== undefined) await store.saveUrl(storedId, undefined)
    },
  }
}

async function makeAccount({ name, store, box, readFormerKey }: UpstreamAccountOptions) {
  const id = uuidv7(Date.now())
  const privateKey = readFormerKey() ?? generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  return store.add(name, id, box.seal(privateKey.export({ type: 'pkcs8', format: 'der' }), id))
}

function openKey(box: SecretBox, { id, sealedKey }: StoredUpstreamAccount): UpstreamKey {
  const der = box.open(sealedKey, id)
  if (!der)
    throw new Error('the key of the upstream account was sealed under another secret; chancery eab reseal moves it')
  return upstreamKey(createPrivateKey({ key: der, format: 'der', type: 'pkcs8' }))
}

/** RFC 8555 §7.3. A key that has an account gets that one. */
async function register(
  { name: { email }, client, binding }: UpstreamAccountOptions,
  key: UpstreamKey,
  signal?: AbortSignal,
): Promise<string> {
  const { newAccount } = await client.directory(signal)
  const found = await existing(client, newAccount, key, signal)
  if (found) return found
  const payload = {
    termsOfServiceAgreed: true,
    contact: [`mailto:${email}`],
    ...(binding && { externalAccountBinding: externalBinding(binding, key, newAccount) }),
  }
  return requireLocation(await client.post(newAccount, { key }, payload, signal))
}

/** Asked first: a binding credential that was used may not be sent a second time. */
async function existing(client: AcmeClient, newAccount: string, key: UpstreamKey, signal?: AbortSignal) {
  try {
    return requireLocation(await client.post(newAccount, { key }, { onlyReturnExisting: true }, signal))
  } catch (error) {
    if (error instanceof UpstreamProblem && error.type === 'accountDoesNotExist') return undefined
    throw error
  }
}

function requireLocation({ location }: Answer): string {
  if (location === undefined) throw new UpstreamNonsense('an account has no URL')
  return location
}

/**
 * The key that ACMEEH has left in `ca.acme_proxy.storage_path`. Once it is in the database, the folder may be deleted.
 * @returns undefined when there is none
 * @throws Error in one sentence when there is one that cannot be read
 */
export function readReferenceKey(storagePath: string, directoryUrl: string, email: string): KeyObject | undefined {
  const { host, hostname } = new URL(directoryUrl)
  const accounts = [host, hostname, host.replace(':', '_')].map((name) => path.join('accounts', name, email))
  const folders = [...new Set(accounts), '.'].map((folder) => path.resolve(storagePath, folder))
  for (const folder of folders) {
    const file = path.join(folder, 'keys', `${email}.key`)
    const pem = readOptional(file)
    if (pem !== undefined) return keyOf(pem, file)
  }
  return undefined
}

function readOptional(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw new Error(`ca.acme_proxy.storage_path: ${file} cannot be read: ${describeFileError(error)}`)
  }
}

function keyOf(pem: string, file: string): KeyObject {
  try {
    return createPrivateKey(pem)
  } catch {
    // The parser's message may quote the file.
    throw new Error(`ca.acme_proxy.storage_path: ${file} is no private key in PEM without a passphrase`)
  }
}
