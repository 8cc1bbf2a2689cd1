/** `chancery profiles create|replace|validate`: CSR profiles from files, and requests against them. */

import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Input } from '../../admin/client.ts'
import { SUMMARIES } from '../../admin/summaries.ts'
import { tell } from '../printing.ts'
import { CommandError, Refusal } from '../values.ts'
import type { AdminCaller } from './admin-caller.ts'
import { type AdminCommand, adminCommand } from './admin-command.ts'

export const PROFILE_COMMANDS: readonly AdminCommand[] = [
  adminCommand({
    usage: 'profiles create <file>',
    about: 'Store a CSR profile: YAML or JSON with name, description and profile_data',
    examples: ['profiles create servers.yaml'],
    run: (caller, { json }, [file = '']) => create(caller, file, json),
  }),
  adminCommand({
    usage: 'profiles replace <file>',
    about: [SUMMARIES.replaceCsrProfile, 'It is the profile of the name in the file.'],
    examples: ['profiles replace servers.yaml'],
    run: (caller, { json }, [file = '']) => replace(caller, file, json),
  }),
  adminCommand({
    usage: 'profiles validate <name> <csr>',
    about: 'Say what a request (PEM or DER) would violate; 1 when it does',
    examples: ['profiles validate servers www.csr'],
    run: (caller, { json }, [name = '', file = '']) => validate(caller, name, file, json),
  }),
]

async function create(caller: AdminCaller, file: string, json: boolean): Promise<number> {
  const profile = await readProfileFile(file)
  const body = await ofFile(file, caller.call('createCsrProfile', { body: profile }))
  tell(json, body, `CSR profile ${profile.name} made`)
  return 0
}

/** The profile of the name in the file gets what the file says. */
async function replace(caller: AdminCaller, file: string, json: boolean): Promise<number> {
  const profile = await readProfileFile(file)
  const profile_id = await caller.idOf('profile_id', profile.name)
  const body = await ofFile(file, caller.call('replaceCsrProfile', { params: { profile_id }, body: profile }))
  tell(json, body, `CSR profile ${profile.name} replaced`)
  return 0
}

/** @param file of the request, DER or PEM. @returns 1 when it violates the profile */
async function validate(caller: AdminCaller, name: string, file: string, json: boolean): Promise<number> {
  const csr = (await requestIn(file)).toString('base64')
  const params = { profile_id: await caller.idOf('profile_id', name) }
  const verdict = await ofFile(file, caller.call('validateCsr', { params, body: { csr } }))
  const { valid, violations, unchecked = [] } = verdict
  const unknown = unchecked.map((field) => `${field} was not checked: no stored profile has it`)
  tell(json, verdict, ...(valid ? [`${file} satisfies CSR profile ${name}`] : violations), ...unknown)
  return valid ? 0 : 1
}

async function requestIn(file: string): Promise<Buffer> {
  const bytes = await readFile(file)
  const { decodePem, isPem, PemError } = await import('../../shared/pki/pem.ts')
  try {
    if (!isPem(bytes)) return bytes
    return decodePem(bytes.toString('utf8')).find(({ label }) => label === 'CERTIFICATE REQUEST')?.der ?? bytes
  } catch (error) {
    throw error instanceof PemError ? new CommandError(`${file}: ${error.message}`) : error
  }
}

/** The service checks the fields of `profile_data`. */
type ProfileFile = NonNullable<Input<'createCsrProfile'>['body']>

async function readProfileFile(file: string): Promise<ProfileFile> {
  const { readDocument } = await import('../../shared/config-file/document.ts')
  const isJson = path.extname(file).toLowerCase() === '.json'
  const { value, problems } = readDocument(await readFile(file, 'utf8'), isJson ? 'json' : 'yaml')
  const [problem] = problems
  if (problem) throw new CommandError(`${file}, line ${problem.position.line}: ${problem.message}`)
  const { name, description, profile_data: data } = (isObject(value) ? value : {}) as Record<string, unknown>
  if (typeof name !== 'string' || name.trim() === '' || name.length > 255)
    throw new CommandError(`${file}: name must be a text of 1 to 255 characters`)
  if (description !== undefined && typeof description !== 'string')
    throw new CommandError(`${file}: description must be a text`)
  if (!isObject(data)) throw new CommandError(`${file}: profile_data must be an object`)
  return { name: name.trim(), description, profile_data: withoutNulls(data) }
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A field that is null asks nothing, as one that is absent. */
const withoutNulls = (data: object) => Object.fromEntries(Object.entries(data).filter(([, value]) => value !== null))

/** Names the file before each wrong field. */
function ofFile<T>(file: string, work: Promise<T>): Promise<T> {
  return work.catch((error: unknown) => {
    const fields = error instanceof Refusal ? error.fields : []
    if (fields.length === 0) throw error
    throw new CommandError(fields.map(({ field, message }) => `${file}: ${field} ${message}`).join('\n'))
  })
}
