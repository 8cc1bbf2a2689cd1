/** `chancery profiles …`: CSR profiles, whom they are assigned to, and dry runs. */

import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Config } from '../../config/schema.ts'
import { AdminError } from '../../domain/admin-error.ts'
import { CsrProfiles } from '../../services/admin/csr-profiles.ts'
import { HistoryIndexes } from '../../services/admin/history-indexes.ts'
import { readDocument } from '../../shared/config-file/document.ts'
import { CsrError, parseCsr } from '../../shared/pki/csr.ts'
import { decodePem, PemError } from '../../shared/pki/pem.ts'
import type { WantedProfile } from '../../store/admin/profile-store.ts'
import { tell } from '../table.ts'
import { CommandError } from '../values.ts'
import { type Administration, withAdministration } from './administration.ts'
import { type GrantTarget, ofAccount, requireCredential, requireOneTarget, requireProfile } from './grant-targets.ts'

type Work = (profiles: CsrProfiles, administration: Administration) => Promise<number>

function withProfiles(config: Config, work: Work): Promise<number> {
  return withAdministration(config, (administration) => {
    const { db, audit } = administration
    // A command waits for its indexes.
    return work(new CsrProfiles({ db, audit, indexes: new HistoryIndexes(db, undefined) }), administration)
  })
}

/** @param file YAML or JSON: an object with `name`, `profile_data` and an optional `description` */
export async function createProfile(config: Config, file: string, json: boolean): Promise<number> {
  const wanted = await readProfileFile(file)
  return withProfiles(config, async (profiles, { actor }) => {
    await ofFile(file, profiles.create(actor, wanted))
    tell(json, { name: wanted.name, outcome: 'made' }, `CSR profile ${wanted.name} made`)
    return 0
  })
}

/** The profile of the name in the file gets what the file says. */
export async function replaceProfile(config: Config, file: string, json: boolean): Promise<number> {
  const wanted = await readProfileFile(file)
  return withProfiles(config, async (profiles, { db, actor }) => {
    const { id } = await requireProfile(db, wanted.name)
    await ofFile(file, profiles.replace(actor, id, wanted))
    tell(json, { name: wanted.name, outcome: 'replaced' }, `CSR profile ${wanted.name} replaced`)
    return 0
  })
}

export function deleteProfile(config: Config, name: string, json: boolean): Promise<number> {
  return withProfiles(config, async (profiles, { db, actor }) => {
    await profiles.delete(actor, (await requireProfile(db, name)).id)
    tell(json, { name, outcome: 'deleted' }, `CSR profile ${name} deleted`)
    return 0
  })
}

export function listProfiles(config: Config, json: boolean): Promise<number> {
  return withProfiles(config, async (profiles) => {
    const rows = await profiles.list()
    if (json) console.log(JSON.stringify({ profiles: rows }, null, 2))
    else if (rows.length === 0) console.log('there are no CSR profiles')
    else
      for (const { name, accounts, credentials, profile_data } of rows)
        console.log(`${name}  accounts ${accounts}  credentials ${credentials}  ${JSON.stringify(profile_data)}`)
    return 0
  })
}

/** Assigns to an account by id, or to a binding credential by kid. */
export function assignProfile(
  config: Config,
  name: string,
  { account, eab }: GrantTarget,
  json: boolean,
): Promise<number> {
  requireOneTarget({ account, eab })
  return withProfiles(config, async (profiles, { db, actor }) => {
    const { id } = await requireProfile(db, name)
    if (account !== undefined) {
      await ofAccount(account, profiles.assignToAccount(actor, id, account))
      tell(json, { name, account }, `account ${account} has CSR profile ${name}`)
    } else {
      await profiles.assignToCredential(actor, id, (await requireCredential(db, eab as string)).id)
      tell(json, { name, eab }, `credential ${eab} and its accounts have CSR profile ${name}`)
    }
    return 0
  })
}

export function unassignProfile(
  config: Config,
  name: string,
  { account, eab }: GrantTarget,
  json: boolean,
): Promise<number> {
  requireOneTarget({ account, eab })
  return withProfiles(config, async (profiles, { db, actor }) => {
    const { id } = await requireProfile(db, name)
    if (account !== undefined) await ofAccount(account, profiles.unassignFromAccount(actor, id, account))
    else await profiles.unassignFromCredential(actor, id, (await requireCredential(db, eab as string)).id)
    const whose = account === undefined ? `credential ${eab}` : `account ${account}`
    tell(json, { name, account, eab }, `${whose} no longer has CSR profile ${name}`)
    return 0
  })
}

/** @param file of the request, DER or PEM. @returns 1 when it violates the profile */
export async function validateCsr(config: Config, name: string, file: string, json: boolean): Promise<number> {
  const csr = csrOf(file, await readFile(file))
  return withProfiles(config, async (profiles, { db }) => {
    const verdict = await profiles.dryRun((await requireProfile(db, name)).id, csr, new Date())
    if (json) console.log(JSON.stringify({ valid: verdict.valid, violations: verdict.violations }))
    else if (verdict.valid) console.log(`${file} satisfies CSR profile ${name}`)
    else for (const violation of verdict.violations) console.log(violation)
    return verdict.valid ? 0 : 1
  })
}

function csrOf(file: string, bytes: Buffer) {
  try {
    const isPem = bytes.subarray(0, 5).equals(Buffer.from('-----'))
    return parseCsr(isPem ? (decodePem(bytes.toString('latin1'))[0]?.der ?? bytes) : bytes)
  } catch (error) {
    if (error instanceof CsrError || error instanceof PemError) throw new CommandError(`${file}: ${error.message}`)
    throw error
  }
}

async function readProfileFile(file: string): Promise<WantedProfile> {
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
  return { name: name.trim(), description, data: data as object }
}

/** Names the file before each wrong field. */
function ofFile<T>(file: string, work: Promise<T>): Promise<T> {
  return work.catch((error: unknown) => {
    const fields = error instanceof AdminError ? error.options.fields : undefined
    if (!fields) throw error
    throw new CommandError(fields.map(({ field, message }) => `${file}: ${field} ${message}`).join('\n'))
  })
}
