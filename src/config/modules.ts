/**
 * Keys that name a module or something built in, and the settings that each of these takes: challenge handlers
 * (`ca.acme_proxy.challenge_handler`), CA modules (`ext:` backends), and hooks (`hooks.registered`). Pure.
 */

import * as z from 'zod/v4'
import { type ModuleReference, parseModuleReference, pythonClassAdvice } from '../shared/lib/module-reference.ts'
import { isModule, MODULE_PREFIX } from './backends.ts'
import { isHttpUrl } from './field.ts'
import type { Config } from './schema.ts'
import { Accepted } from './sections/ca.ts'

type Settings = Readonly<Record<string, unknown>>

/** @returns a sentence for the first fault */
function faultOf({ issues: [issue] }: z.ZodError): string {
  return `is wrong: ${[...(issue?.path ?? []), issue?.message ?? ''].join(' ')}`
}

const seconds = (value: number) => z.int().min(0).max(3600).default(value)
const variables = z.array(z.string().regex(/^[A-Za-z_]\w*$/, 'must be names of environment variables')).default([])

/** Shared by scripts and modules. The default is one call at a time, because many scripts edit a file. */
const Common = {
  script_timeout: z.int().min(1).max(3600).default(60),
  concurrency: z.int().min(1).max(64).default(1),
}

const CallbackDns = z.strictObject({
  create_script: z.string().min(1),
  delete_script: z.string().min(1),
  propagation_delay: seconds(10),
  pass_environment: variables,
  ...Common,
})

const FileHttp = z.strictObject({ webroot: z.string().min(1) })

const CallbackHttp = z.strictObject({
  deploy_script: z.string().min(1),
  cleanup_script: z.string().min(1),
  pass_environment: variables,
  ...Common,
})

/** Everything else is for the module itself to judge. */
const Module = z.looseObject({ propagation_delay: seconds(0), ...Common })

export type ChallengeHandlerConfig =
  | ({ kind: 'callback_dns' } & z.output<typeof CallbackDns>)
  | ({ kind: 'file_http' } & z.output<typeof FileHttp>)
  | ({ kind: 'callback_http' } & z.output<typeof CallbackHttp>)
  | {
      kind: 'module'
      reference: ModuleReference
      limits: z.output<typeof Module>
      settings: Settings
    }

/** The method that a built-in handler answers. */
export const HANDLER_METHODS: Readonly<Record<string, 'dns-01' | 'http-01'>> = {
  callback_dns: 'dns-01',
  file_http: 'http-01',
  callback_http: 'http-01',
}

const PYTHON_HANDLER = {
  things: 'challenge handlers',
  folder: 'handlers',
  further: 'and port it, or one of callback_dns, callback_http, file_http (docs/operations/acme-proxy.md)',
}

/** @returns a sentence that follows `ca.acme_proxy.challenge_handler`, for what is no module; undefined for a built-in */
export function handlerReferenceOf(handler: string): ModuleReference | string | undefined {
  if (Object.hasOwn(HANDLER_METHODS, handler)) return undefined
  const text = handler.replace(/^ext:/, '')
  return (
    pythonClassAdvice(text, PYTHON_HANDLER) ??
    parseModuleReference(text) ??
    `${handler} is no module such as ext:./handlers/zone.js#Zone`
  )
}

/** @returns a sentence that follows `ca.acme_proxy.challenge_handler_config`, for what is wrong */
export function readChallengeHandler(handler: string, config: Settings): ChallengeHandlerConfig | string {
  switch (handler) {
    case 'callback_dns':
      return read(CallbackDns, config, (data) => ({ kind: 'callback_dns', ...data }))
    case 'file_http':
      return read(FileHttp, config, (data) => ({ kind: 'file_http', ...data }))
    case 'callback_http':
      return read(CallbackHttp, config, (data) => ({ kind: 'callback_http', ...data }))
    default: {
      const reference = handlerReferenceOf(handler)
      if (typeof reference !== 'object') return 'belongs to a handler that is no module'
      return read(Module, config, (limits) => ({ kind: 'module', reference, limits, settings: config }))
    }
  }
}

function read<T extends z.ZodType>(
  schema: T,
  config: Settings,
  finish: (data: z.output<T>) => ChallengeHandlerConfig,
): ChallengeHandlerConfig | string {
  const result = schema.safeParse(config)
  if (result.success) return finish(result.data)
  return faultOf(result.error)
}

/** The members that the service itself reads; the module checks the others. */
const CaLimits = z.looseObject({
  timeout_seconds: z.int().min(1).max(600).default(30),
  concurrency: z.int().min(1).max(64).default(4),
  trust_anchors: z.array(z.string().min(1)).default([]),
  accepted: Accepted,
})

export interface CaModuleConfig {
  reference: ModuleReference
  limits: z.output<typeof CaLimits>
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
  const read = CaLimits.safeParse(settings)
  if (read.success) return { reference, limits: read.data, settings }
  return faultOf(read.error)
}

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
export function readWebhookConfig(config: Settings): WebhookConfig | string {
  const read = WebhookConfig.safeParse(config)
  if (!read.success) return `of a webhook ${faultOf(read.error)}`
  const { url, webhook_url: other, ...rest } = read.data
  const target = url ?? other
  return target === undefined ? 'of a webhook needs url' : { ...rest, url: target }
}
