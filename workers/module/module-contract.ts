/**
 * The contract of modules in threads of their own: hooks, challenge handlers, CA backends.
 *
 * See docs/hooks.md and docs/ca-modules.md. A module exports a class:
 *
 * - `static validate(settings)`, which throws when the settings are wrong; may be absent
 * - a constructor that takes the settings
 * - methods: `name(argument, { signal, … })`; may be async
 */

import type { ModuleReference } from '../../src/shared/lib/module-reference.ts'

type ModuleSettings = Readonly<Record<string, unknown>>

/** Plain data. */
export interface LoadableModule extends ModuleReference {
  /** Argument of `import`. */
  url: string
  settings: ModuleSettings
  /** Methods that it may have. */
  methods: readonly string[]
}

type Method = (argument: unknown, context: { signal: AbortSignal }) => unknown
export type ModuleInstance = Readonly<Record<string, Method | undefined>>

interface ModuleClass {
  new (settings: ModuleSettings): ModuleInstance
  validate?(settings: ModuleSettings): unknown
}

/** `cause` is what the module has thrown. */
export class RefusedSettings extends Error {}

/** @throws RefusedSettings; Error, the end of a sentence that starts with the reference of the module */
export function createInstance(exported: unknown, settings: ModuleSettings): ModuleInstance {
  if (typeof exported !== 'function' || typeof exported.prototype !== 'object') throw new Error('is no class')
  const Exported = exported as unknown as ModuleClass
  if (Exported.validate !== undefined && typeof Exported.validate !== 'function')
    throw new Error('has a static validate that is no function')
  try {
    Exported.validate?.(settings)
    return new Exported(settings)
  } catch (cause) {
    throw new RefusedSettings('settings refused', { cause })
  }
}

/** Methods of a hook are named like its events: `certificate.issuance` → `onCertificateIssuance`. */
export function methodOf(event: string): string {
  return `on${event.replace(/(?:^|[._])([a-z])/g, (_match, letter: string) => letter.toUpperCase())}`
}
