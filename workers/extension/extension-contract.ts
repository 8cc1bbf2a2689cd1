/**
 * Checks the contract of validator modules (`ext:` in `challenges.enabled`;
 * docs/decisions/module-references.md). A module that breaks it is refused at start; a wrong answer
 * is no success.
 *
 * A module exports a class (docs/validators.md):
 *
 * - `static type`: the method's name on the wire
 * - `static wildcard` and `static ip`: true if it can validate wildcard names and addresses
 * - a constructor that takes the settings, and throws when they are wrong
 * - `validate(challenge, { signal })`, which answers `{ ok: true }` or `{ ok: false, detail }`
 */

import type { ModuleReference } from '../../src/shared/lib/module-reference.ts'
import type { ProblemType } from '../../src/shared/protocol/problem.ts'
import type { EvidenceStep, ExtensionJob, ValidationVerdict } from '../job.ts'

/** Plain data. */
export interface ValidatorModule extends ModuleReference {
  /** Argument of `import`: the URL of a file, or the name of a package beside the program. */
  url: string
}

/** By the method's name (`challenges.extensions.<type>.settings`). */
export type ValidatorSettings = Readonly<Record<string, Readonly<Record<string, unknown>>>>

export interface LoadedValidator {
  description: Pick<ValidatorClass, 'type' | 'wildcard' | 'ip'>
  validator: Validator
}

/** @throws Error, the end of a sentence that starts with the reference of the module; or the module's own error */
export async function loadValidator(module: ValidatorModule, settings: ValidatorSettings): Promise<LoadedValidator> {
  const exports = (await import(module.url)) as Record<string, unknown>
  if (!Object.hasOwn(exports, module.exportName)) throw new Error(`exports no ${module.exportName}`)
  const { create, ...description } = requireValidatorClass(exports[module.exportName])
  return { description, validator: create(settings[description.type] ?? {}) }
}

/** One line of limited length, because a module may throw anything. */
export function describeThrown(thrown: unknown): string {
  try {
    const text = !(thrown instanceof Error)
      ? String(thrown)
      : thrown.name === 'Error'
        ? thrown.message
        : `${thrown.name}: ${thrown.message}`
    return text.slice(0, 1024).replace(/\p{C}/gu, ' ')
  } catch {
    return 'something that has no text'
  }
}

export interface Validator {
  /** @param context its signal aborts after `timeoutMs` */
  validate(challenge: ExtensionJob['challenge'], context: { signal: AbortSignal }): unknown
}

interface ValidatorClass {
  readonly type: string
  readonly wildcard: boolean
  readonly ip: boolean
  /** @throws the constructor's error for wrong settings */
  create(settings: Readonly<Record<string, unknown>>): Validator
}

/** One label of a name in the registry of validation methods. */
const TYPE = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/

/** @throws Error, the end of a sentence that starts with the reference of the module */
function requireValidatorClass(exported: unknown): ValidatorClass {
  if (typeof exported !== 'function' || typeof exported.prototype?.validate !== 'function')
    throw new Error('is no class with a method validate')
  const { type, wildcard = false, ip = false } = exported as { type?: unknown; wildcard?: unknown; ip?: unknown }
  if (typeof type !== 'string' || !TYPE.test(type))
    throw new Error('needs a static type: the name of its method, of lower-case letters, digits and inner hyphens')
  if (typeof wildcard !== 'boolean' || typeof ip !== 'boolean')
    throw new Error('has a static wildcard or ip that is neither true nor false')
  const Validator = exported as unknown as new (settings: unknown) => Validator
  return { type, wildcard, ip, create: (settings) => new Validator(settings) }
}

/** Problem types for a failed validation (RFC 8555 §6.7). A module may not report a server error. */
const VERDICT_PROBLEMS: readonly ProblemType[] = [
  'connection',
  'dns',
  'tls',
  'unauthorized',
  'incorrectResponse',
  'caa',
]
const MAX_DETAIL_LENGTH = 512
const MAX_EVIDENCE_LENGTH = 8192

/** @throws Error, the end of a sentence that starts with "the answer" */
export function requireVerdict(answer: unknown): ValidationVerdict {
  if (typeof answer !== 'object' || answer === null) throw new Error('is no object')
  // Read once, because a getter could return another value later.
  const { ok, problem, detail, retryable, evidence, validForSeconds } = answer as Record<string, unknown>
  const steps = requireEvidence(evidence)
  if (ok === true) {
    if (validForSeconds === undefined) return { ok, evidence: steps }
    if (!Number.isSafeInteger(validForSeconds) || (validForSeconds as number) < 1)
      throw new Error('has a validForSeconds that is no whole number from 1')
    return { ok, evidence: steps, validForSeconds: validForSeconds as number }
  }
  if (ok !== false) throw new Error('has an ok that is neither true nor false')
  if (typeof detail !== 'string' || detail === '') throw new Error('refuses without a detail')
  if (retryable !== undefined && typeof retryable !== 'boolean') throw new Error('has a retryable that is no boolean')
  return {
    ok,
    problem: requireProblem(problem),
    detail: printable(detail),
    retryable: retryable ?? false,
    evidence: steps,
  }
}

function requireProblem(problem: unknown): ProblemType {
  const known = problem === undefined ? 'unauthorized' : VERDICT_PROBLEMS.find((one) => one === problem)
  if (known === undefined) throw new Error(`has a problem that is none of ${VERDICT_PROBLEMS.join(', ')}`)
  return known
}

/** Passes evidence through JSON, so that it can cross threads and be stored. */
function requireEvidence(evidence: unknown): EvidenceStep[] {
  if (evidence === undefined) return []
  if (!Array.isArray(evidence)) throw new Error('has evidence that is no list')
  const text = JSON.stringify(evidence)
  if (text.length > MAX_EVIDENCE_LENGTH) throw new Error(`has more than ${MAX_EVIDENCE_LENGTH} characters of evidence`)
  const steps = JSON.parse(text) as unknown[]
  if (
    !steps.every((step) => typeof step === 'object' && step !== null && typeof (step as EvidenceStep).step === 'string')
  )
    throw new Error('has evidence that is no list of objects with a step')
  return steps as EvidenceStep[]
}

function printable(text: string): string {
  return text.slice(0, MAX_DETAIL_LENGTH).replace(/\p{C}/gu, '?')
}
