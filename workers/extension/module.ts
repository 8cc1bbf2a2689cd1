/** Describes validator modules as plain data for the threads, and loads them. */

import type { ModuleReference } from '../../src/shared/lib/module-reference.ts'
import { requireValidatorClass, type Validator, type ValidatorClass } from './contract.ts'

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

/**
 * @throws Error, the end of a sentence that starts with the reference of the module; or the
 * module's own error
 */
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
