/** Rules for registered hooks. */

import { hookClassOf, readWebhookConfig } from '../hook-class.ts'
import type { Config } from '../schema.ts'
import type { Misplaced, Rule } from './rule.ts'

type Hook = Config['hooks']['registered'][number]

export const HOOKS: readonly Rule[] = [
  {
    path: 'hooks.registered',
    check: ({ hooks }) =>
      hooks.registered.flatMap((hook, place) => (hook.enabled ? (wrongWith(hook, place) ?? []) : []))[0],
  },
]

function wrongWith(hook: Hook, place: number): Misplaced | undefined {
  const named = hookClassOf(hook.class)
  if (named.kind === 'unusable') return { path: `hooks.registered[${place}].class`, message: named.why }
  if (named.kind !== 'webhook') return undefined
  const read = readWebhookConfig(hook.config)
  return typeof read === 'string' ? { path: `hooks.registered[${place}].config`, message: read } : undefined
}
