/** What an `ext:` backend names: its module, and its part of `ca.extension_settings`. Pure. */

import * as z from 'zod/v4'
import { type ModuleReference, parseModuleReference, pythonClassAdvice } from '../shared/lib/module-reference.ts'
import { isModule, MODULE_PREFIX } from './backends.ts'
import type { Config } from './schema.ts'
import { Accepted } from './sections/ca.ts'

type Settings = Readonly<Record<string, unknown>>

/** The members that the service itself reads; the module checks the others. */
const Limits = z.looseObject({
  timeout_seconds: z.int().min(1).max(600).default(30),
  concurrency: z.int().min(1).max(64).default(4),
  trust_anchors: z.array(z.string().min(1)).default([]),
  accepted: Accepted,
})

export interface CaModuleConfig {
  reference: ModuleReference
  limits: z.output<typeof Limits>
  settings: Settings
}

const PYTHON_CA = { things: 'CA backends', folder: 'ca', further: 'and port it (docs/ca-modules.md)' }

/** @returns a sentence that follows the key with the reference, for what is no module */
export function moduleReferenceOf(backend: string): ModuleReference | string {
  const text = backend.slice(MODULE_PREFIX.length)
  return (
    pythonClassAdvice(text, PYTHON_CA) ??
    parseModuleReference(text) ??
    `${backend} is no module such as ext:./ca/module.js#Ca`
  )
}

/** @returns a sentence that follows `ca.extension_settings`, for what is wrong */
export function caModuleConfig({ extension_settings: all }: Config['ca'], backend: string): CaModuleConfig | string {
  const reference = moduleReferenceOf(backend)
  if (typeof reference === 'string') return reference
  const common = Object.entries(all).filter(([key]) => !isModule(key))
  const own = all[backend] ?? {}
  if (typeof own !== 'object' || own === null) return `has no section below ${backend}`
  const settings = { ...Object.fromEntries(common), ...own }
  const read = Limits.safeParse(settings)
  if (read.success) return { reference, limits: read.data, settings }
  const [issue] = read.error.issues
  return `is wrong: ${[...(issue?.path ?? []), issue?.message ?? ''].join(' ')}`
}
