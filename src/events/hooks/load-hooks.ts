/** The registered hooks, plain data: loaded and checked before the service starts; a broken one refuses the start. */

import { readFileSync } from 'node:fs'
import { type LoadableModule, methodOf } from '../../../workers/module/module-contract.ts'
import { probeModule } from '../../../workers/module/module-thread.ts'
import { hookClassOf, readWebhookConfig } from '../../config/modules.ts'
import type { Config } from '../../config/schema.ts'
import { type EventKind, HOOK_KINDS } from '../../domain/event.ts'
import { type ModuleReference, urlOfModule } from '../../shared/lib/module-reference.ts'

interface Registered {
  /** It names the consumer, and is the same in every instance with this hook. */
  name: string
  kinds: readonly EventKind[]
  timeoutMs: number
  maxRetries: number
}

interface ModuleHook extends Registered {
  module: LoadableModule
}

export interface WebhookHook extends Registered {
  url: string
  secret: string | undefined
  /** PEM of the authorities that are trusted, instead of the system's. */
  ca: string | undefined
  allowPrivate: boolean
  /** The `source` of its CloudEvents. */
  source: string
  /** Whether it sends `{event, data}` instead of CloudEvents. */
  isPlain: boolean
  /** Most events of one request; more than one go as an array. */
  batch: number
}

export type RegisteredHook = ModuleHook | WebhookHook

type HookEntry = Config['hooks']['registered'][number]
type Common = Omit<ModuleHook, 'module'>

/** The reference's class sends these kinds. */
const PLAIN_EVENTS: readonly EventKind[] = ['certificate.issuance', 'certificate.revocation', 'account.registration']

/** @throws Error in a plain sentence that names the key */
export async function loadHooks(config: Config): Promise<RegisteredHook[]> {
  const { hooks, server } = config
  const names = new Set<string>()
  const loaded: RegisteredHook[] = []
  for (const [place, entry] of hooks.registered.entries()) {
    if (!entry.enabled) continue
    const named = hookClassOf(entry.class)
    const isPlain = named.kind === 'webhook' && named.isPlain === true
    const common: Common = {
      name: distinctName(entry.class, names),
      kinds: entry.events.length > 0 ? entry.events : isPlain ? PLAIN_EVENTS : HOOK_KINDS,
      timeoutMs: (entry.timeout_seconds ?? hooks.timeout_seconds) * 1000,
      maxRetries: hooks.max_retries,
    }
    const key = `hooks.registered[${place}]`
    if (named.kind === 'unusable') throw new Error(`${key}.class: ${named.why}`)
    loaded.push(
      named.kind === 'webhook'
        ? { ...webhookOf(entry, common, key, server.external_url), isPlain }
        : await moduleOf(entry, common, key, named.reference),
    )
  }
  return loaded
}

/** The second hook of a class has a number, so that both keep their own deliveries. */
function distinctName(hookClass: string, names: Set<string>): string {
  const base = `hook ${hookClass.replace(/^ext:/, '')}`
  let name = base
  for (let number = 2; names.has(name); number++) name = `${base} ${number}`
  names.add(name)
  return name
}

function webhookOf(entry: HookEntry, common: Common, key: string, source: string): Omit<WebhookHook, 'isPlain'> {
  const read = readWebhookConfig(entry.config)
  if (typeof read === 'string') throw new Error(`${key}.config ${read}`)
  const { url, secret, ca_file, allow_private, max_retries, timeout_seconds, batch } = read
  return {
    ...common,
    maxRetries: max_retries,
    timeoutMs: timeout_seconds === undefined ? common.timeoutMs : timeout_seconds * 1000,
    url,
    secret,
    source,
    batch,
    allowPrivate: allow_private,
    ca: ca_file === undefined ? undefined : readCa(ca_file, key),
  }
}

function readCa(file: string, key: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new Error(`${key}.config.ca_file: ${(error as Error).message}`, { cause: error })
  }
}

async function moduleOf(entry: HookEntry, common: Common, key: string, reference: ModuleReference) {
  const { module, exportName } = reference
  const methods = common.kinds.map(methodOf)
  const hook = { ...reference, url: urlOfModule(reference), settings: entry.config, methods }
  let handled: readonly string[]
  try {
    handled = await probeModule(hook)
  } catch (error) {
    throw new Error(`${key}.class: ${module}#${exportName} is not usable: ${(error as Error).message}`, {
      cause: error,
    })
  }
  if (handled.length === 0)
    throw new Error(`${key}.class: ${module}#${exportName} has no method for any of ${common.kinds.join(', ')}`)
  const kinds = common.kinds.filter((kind) => handled.includes(methodOf(kind)))
  return { ...common, kinds, module: { ...hook, methods: handled } }
}
