/** The handler that publishes the responses to an upstream's challenges (`ca.acme_proxy.challenge_handler`). */

import * as z from 'zod/v4'
import { type ModuleReference, parseModuleReference, pythonClassAdvice } from '../shared/lib/module-reference.ts'

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
      settings: Readonly<Record<string, unknown>>
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
export function readChallengeHandler(
  handler: string,
  config: Readonly<Record<string, unknown>>,
): ChallengeHandlerConfig | string {
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
  config: Readonly<Record<string, unknown>>,
  finish: (data: z.output<T>) => ChallengeHandlerConfig,
): ChallengeHandlerConfig | string {
  const result = schema.safeParse(config)
  if (result.success) return finish(result.data)
  const [issue] = result.error.issues
  return `is wrong: ${[...(issue?.path ?? []), issue?.message ?? ''].join(' ')}`
}
