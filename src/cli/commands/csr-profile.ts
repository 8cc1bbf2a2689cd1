/** `chancery csr-profile create`, `list` and `assign`. */

import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Config } from '../../config/schema.ts'
import { asksForHistory, type CsrProfile, CsrProfileError, parseCsrProfile } from '../../domain/csr-profile.ts'
import { readDocument } from '../../shared/config-file/document.ts'
import { isUuid, uuidv7 } from '../../shared/lib/uuid.ts'
import { type CsrProfileRecord, type CsrProfileStore, createCsrProfileStore } from '../../store/csr-profile-store.ts'
import { createEabStore } from '../../store/eab-store.ts'
import { CommandError, UsageError } from './errors.ts'
import { withDatabase } from './operator-database.ts'

interface ProfileFile {
  name: string
  description: string | undefined
  data: object
  profile: CsrProfile
}

/** @param file YAML or JSON: an object with `name`, `profile_data` and an optional `description` */
export async function createProfile(config: Config, file: string): Promise<number> {
  const { name, description, data, profile } = await readProfileFile(file)
  return withDatabase(config, async (db) => {
    const store = createCsrProfileStore(db)
    if (asksForHistory(profile)) await store.prepareHistory()
    const id = uuidv7(Date.now())
    if (!(await store.create({ id, name, description, data, createdBy: undefined })))
      throw new CommandError(`there is a CSR profile ${JSON.stringify(name)} already`)
    console.log(`CSR profile ${name} made`)
    return 0
  })
}

export async function listProfiles(config: Config): Promise<number> {
  return withDatabase(config, async (db) => {
    const profiles = await createCsrProfileStore(db).list()
    for (const { name, accounts, credentials, data } of profiles)
      console.log(`${name}  accounts ${accounts}  credentials ${credentials}  ${data}`)
    if (profiles.length === 0) console.log('there are no CSR profiles')
    return 0
  })
}

export interface AssignmentTarget {
  account: string | undefined
  eab: string | undefined
}

/** Assigns to an account by id, or to a binding credential by kid. */
export async function assignProfile(config: Config, name: string, { account, eab }: AssignmentTarget): Promise<number> {
  if ((account === undefined) === (eab === undefined)) throw new UsageError('give either --account ID or --eab KID')
  if (account !== undefined && !isUuid(account)) throw new UsageError('--account takes the last part of an account URL')
  return withDatabase(config, async (db) => {
    const store = createCsrProfileStore(db)
    const { id } = await requireProfile(store, name)
    if (account !== undefined) {
      if (!(await store.assignToAccount(id, account))) throw new CommandError(`there is no account ${account}`)
      console.log(`account ${account} has CSR profile ${name}`)
      return 0
    }
    const credential = await createEabStore(db).findByKid(eab as string)
    if (!credential || !(await store.assignToCredential(id, credential.id)))
      throw new CommandError(`there is no credential with the kid ${JSON.stringify(eab)}`)
    console.log(`credential ${eab} and its accounts have CSR profile ${name}`)
    return 0
  })
}

/** @throws CommandError */
export async function requireProfile(store: CsrProfileStore, name: string): Promise<CsrProfileRecord> {
  const found = await store.findByName(name)
  if (!found) throw new CommandError(`there is no CSR profile ${JSON.stringify(name)}`)
  return found
}

async function readProfileFile(file: string): Promise<ProfileFile> {
  const { value, problems } = readDocument(
    await readFile(file, 'utf8'),
    path.extname(file).toLowerCase() === '.json' ? 'json' : 'yaml',
  )
  const [problem] = problems
  if (problem) throw new CommandError(`${file}, line ${problem.position.line}: ${problem.message}`)
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  const { name, description, profile_data: data } = (isObject ? value : {}) as Record<string, unknown>
  if (typeof name !== 'string' || name.trim() === '' || name.length > 255)
    throw new CommandError(`${file}: name must be a text of 1 to 255 characters`)
  if (description !== undefined && typeof description !== 'string')
    throw new CommandError(`${file}: description must be a text`)
  return { name: name.trim(), description, data: data as object, profile: profileOf(file, data) }
}

function profileOf(file: string, data: unknown): CsrProfile {
  try {
    return parseCsrProfile(data)
  } catch (error) {
    if (!(error instanceof CsrProfileError)) throw error
    throw new CommandError(error.faults.map((fault) => `${file}: ${fault}`).join('\n'))
  }
}
