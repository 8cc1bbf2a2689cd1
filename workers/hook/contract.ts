/**
 * The contract of hook modules (`hooks.registered`; docs/hooks.md). A module exports a class:
 *
 * - `static validate(config)`, which throws when the settings are wrong; may be absent
 * - a constructor that takes the settings
 * - one method an event: `onCertificateIssuance(context, { eventId, signal })`; may be async
 */

export type HookSettings = Readonly<Record<string, unknown>>
export type HookMethod = (context: object, call: { eventId: string; signal: AbortSignal }) => unknown
export type Hook = Readonly<Record<string, HookMethod | undefined>>

/** `certificate.issuance` → `onCertificateIssuance`. */
export function methodOf(event: string): string {
  return `on${event.replace(/(?:^|[._])([a-z])/g, (_match, letter: string) => letter.toUpperCase())}`
}

interface HookClass {
  new (settings: HookSettings): Hook
  validate?(settings: HookSettings): unknown
}

/** @throws Error, the end of a sentence that starts with the reference of the module, or the module's own */
export function createHook(exported: unknown, settings: HookSettings): Hook {
  if (typeof exported !== 'function' || typeof exported.prototype !== 'object') throw new Error('is no class')
  const HookClass = exported as unknown as HookClass
  if (HookClass.validate !== undefined && typeof HookClass.validate !== 'function')
    throw new Error('has a static validate that is no function')
  HookClass.validate?.(settings)
  return new HookClass(settings)
}

/** Events that the hook has a method for. */
export function handledEvents(hook: Hook, events: readonly string[]): string[] {
  return events.filter((event) => typeof hook[methodOf(event)] === 'function')
}
