/** The `ext:` backends: which module each names, and its part of `ca.extension_settings`. Pure. */

import { z } from 'zod/v4'
import { type ModuleReference, parseModuleReference } from '../shared/lib/module-reference.ts'
import { usedBackends } from './backends.ts'
import type { Config } from './schema.ts'
import { Accepted } from './sections/ca.ts'

/** Dotted, and the last part in capitals; no package on npm is named so. */
const PYTHON = /^\w+(?:\.\w+)*\.([A-Z]\w*)$/

interface Place {
  /** The things that the key names. */
  things: string
  folder: string
  /** Ends the advice. */
  further: string
}

/** @returns a sentence that follows the key and says what to write; undefined for anything else */
export function pythonClassAdvice(text: string, { things, folder, further }: Place): string | undefined {
  const className = PYTHON.exec(text)?.[1]
  if (className === undefined) return undefined
  const reference = `ext:./${folder}/${className.toLowerCase()}.js#${className}`
  return `names a Python class; ${things} are JavaScript modules here, .js or .mjs: write ${reference}, ${further}`
}

type Settings = Readonly<Record<string, unknown>>

const PREFIX = 'ext:'

export const isModule = (backend: string): boolean => backend.startsWith(PREFIX)

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

export const usedModules = (ca: Config['ca']): string[] => usedBackends(ca).filter(isModule)

const PYTHON_CA = { things: 'CA backends', folder: 'ca', further: 'and port it (docs/ca-modules.md)' }

/** @returns a sentence that follows the key with the reference, for what is no module */
export function moduleReferenceOf(backend: string): ModuleReference | string {
  const text = backend.slice(PREFIX.length)
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

/** Public names in `/healthz`: a module without its folder. The second of two equal names gets a number. */
export function publicNames(backends: readonly string[]): string[] {
  const bare = backends.map((name) => name.replace(/^ext:.*\//, PREFIX))
  return bare.map((name, i) => {
    const before = bare.slice(0, i).filter((other) => other === name).length
    return before === 0 ? name : `${name} ${before + 1}`
  })
}

/** The key that names the backend. */
export function keyOfBackend(ca: Config['ca'], backend: string): string {
  if (ca.backend === backend) return 'ca.backend'
  const profile = Object.entries(ca.profiles).find(([, one]) => one.backend === backend)
  return profile ? `ca.profiles.${profile[0]}.backend` : 'ca.failover.backends'
}
