/** Reads a file of answers, and the secrets that it names. */

import { readFileSync, statSync } from 'node:fs'
import { readDocument } from '../shared/config-file/document.ts'
import { nearest } from '../shared/config-file/suggest.ts'
import { withoutLineEnds } from '../shared/lib/secret-box.ts'
import { ANSWERS, type Key } from './answers.ts'
import { QUESTIONS } from './questions.ts'
import type { Given } from './resolve.ts'

const SECRETS = QUESTIONS.filter((one) => one.isSecret).map(({ key }) => key)

/** @throws Error with a sentence for each thing that is wrong */
export function readAnswersFile(file: string): Given {
  const { value, problems } = readDocument(textOf(file), 'yaml')
  const errors = problems.map(({ position, message }) => `line ${position.line}: ${message}`)
  const isMapping = typeof value === 'object' && value !== null && !Array.isArray(value)
  if (errors.length === 0 && !isMapping) errors.push('it holds no keys; write them as key: value')
  const given: Partial<Record<Key, unknown>> = {}
  for (const [name, answer] of Object.entries(isMapping ? value : {})) {
    const secret = SECRETS.find((key) => name === `${key}_file`)
    try {
      if (secret) given[secret] = readSecretFile(String(answer))
      else if (Object.hasOwn(ANSWERS.shape, name)) given[name as Key] = answer
      else errors.push(unknownKey(name))
    } catch (error) {
      errors.push(`${name}: ${(error as Error).message}`)
    }
  }
  if (errors.length > 0) throw new Error(`${file} is not usable:\n${errors.join('\n')}`)
  return given
}

function unknownKey(name: string): string {
  const near = nearest(name, Object.keys(ANSWERS.shape))
  return `${name}: is no key of a file of answers${near === undefined ? '' : `; did you mean ${near}?`}`
}

function readSecretFile(file: string): string {
  const { mode } = statSync(file, { throwIfNoEntry: false }) ?? { mode: 0 }
  if ((mode & 0o077) !== 0) throw new Error(`${file} lets others read it; chmod 600`)
  return withoutLineEnds(textOf(file))
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw new Error(`${file} cannot be read (${(cause as NodeJS.ErrnoException).code})`, { cause })
  }
}
