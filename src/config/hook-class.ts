/** `class` of a registered hook: a built-in, a module, or a class of another program. */

import * as z from 'zod/v4'
import { type ModuleReference, parseModuleReference, pythonClassAdvice } from '../shared/lib/module-reference.ts'
import { isHttpUrl } from './field.ts'

type HookClass =
  /** @property isPlain `{event, data}` instead of a CloudEvent, for the reference's three events by default */
  | { kind: 'webhook'; isPlain?: true }
  | { kind: 'module'; reference: ModuleReference }
  | { kind: 'unusable'; why: string }

const WITH_CT = 'certificate transparency is set up in ct_logging; take this entry out'

/** The reference's names beside ours. */
const BUILT_IN: Readonly<Record<string, HookClass>> = {
  webhook: { kind: 'webhook' },
  'audit-export': { kind: 'webhook', isPlain: true },
  'acmeeh.hooks.audit_export_hook.AuditWebhookHook': { kind: 'webhook', isPlain: true },
  'ct-submission': { kind: 'unusable', why: WITH_CT },
  'acmeeh.hooks.ct_hook.CTSubmissionHook': { kind: 'unusable', why: WITH_CT },
}

const PYTHON_HOOK = { things: 'hooks', folder: 'hooks', further: 'or webhook with config.url (docs/hooks.md)' }

export function hookClassOf(text: string): HookClass {
  const builtIn = BUILT_IN[text]
  if (builtIn) return builtIn
  const advice = pythonClassAdvice(text.replace(/^ext:/, ''), PYTHON_HOOK)
  if (advice !== undefined) return { kind: 'unusable', why: advice }
  const reference = parseModuleReference(text.replace(/^ext:/, ''))
  if (!reference) return { kind: 'unusable', why: 'is no module such as ext:./hooks/notify.js#Notify' }
  return { kind: 'module', reference }
}

const WebhookConfig = z.strictObject({
  url: z.string().refine(isHttpUrl, 'must be an http or https URL').optional(),
  /** The reference's name of `url`. */
  webhook_url: z.string().refine(isHttpUrl, 'must be an http or https URL').optional(),
  secret: z.string().min(16, 'must have at least 16 characters').optional(),
  ca_file: z.string().min(1).optional(),
  allow_private: z.boolean().default(false),
  batch: z.int().min(1).max(500).default(1),
  max_retries: z.int().min(0).max(100).default(10),
  timeout_seconds: z.int().min(1).max(300).optional(),
})

type WebhookConfig = Omit<z.output<typeof WebhookConfig>, 'url' | 'webhook_url'> & { url: string }

/** @returns a sentence for what is wrong with the settings of a built-in webhook */
export function readWebhookConfig(config: Readonly<Record<string, unknown>>): WebhookConfig | string {
  const read = WebhookConfig.safeParse(config)
  if (!read.success) {
    const [issue] = read.error.issues
    return `of a webhook is wrong: ${[...(issue?.path ?? []), issue?.message ?? ''].join(' ')}`
  }
  const { url, webhook_url: other, ...rest } = read.data
  const target = url ?? other
  return target === undefined ? 'of a webhook needs url' : { ...rest, url: target }
}
