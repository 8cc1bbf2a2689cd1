/** The backend `acme_proxy` from the configuration: settings, handler, and what seals its account. */

import { randomBytes } from 'node:crypto'
import {
  accessSync,
  constants,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import type { AcmeProxySettings } from '../ca/acme-proxy/acme-proxy-backend.ts'
import {
  type ChallengeHandler,
  callbackDns,
  callbackHttp,
  fileHttp,
  MODULE_METHODS,
  type ModuleSettings,
  moduleHandler,
  requireHandlerModule,
  type ScriptSettings,
} from '../ca/acme-proxy/challenge-handler.ts'
import { type ChallengeHandlerConfig, readChallengeHandler } from '../config/modules.ts'
import type { Config } from '../config/schema.ts'
import { describeFileError } from '../shared/lib/errors.ts'
import { urlOfModule } from '../shared/lib/module-reference.ts'
import type { SecretBox } from '../shared/lib/secret-box.ts'
import { boxOf, eabSecretBox } from './account-settings.ts'

type AcmeProxyConfig = Config['ca']['acme_proxy']

/** @throws Error in a sentence when a file cannot be read */
export function acmeProxySettings(ca: Config['ca']): AcmeProxySettings {
  const proxy = ca.acme_proxy
  const { directory_url, email, eab_kid, eab_hmac_key } = ca.acme_proxy
  return {
    account: { directoryUrl: directory_url ?? '', email: email ?? '' },
    binding:
      eab_kid === null || eab_hmac_key === null
        ? undefined
        : { kid: eab_kid, hmacKey: Buffer.from(eab_hmac_key, 'base64url') },
    http: {
      verify: proxy.verify_ssl,
      extraRoots: proxy.ca_cert_path === null ? undefined : readText(proxy.ca_cert_path, 'ca_cert_path'),
      proxyUrl: proxy.proxy_url ?? undefined,
    },
    challengeType: proxy.challenge_type,
    orderTimeoutMs: proxy.timeout_seconds * 1000,
    readyTimeoutMs: proxy.order_ready_timeout * 1000,
    maxRetries: proxy.max_retries,
    maxOrders: proxy.max_concurrent_orders,
  }
}

/**
 * @param onOutput what a module prints, cut
 * @throws Error in a sentence when a script or folder is not there
 */
export function challengeHandler(proxy: AcmeProxyConfig, onOutput: (text: string) => void): ChallengeHandler {
  const config = handlerConfig(proxy)
  switch (config.kind) {
    case 'callback_dns': {
      const propagationMs = config.propagation_delay * 1000
      return callbackDns({ ...scriptSettings(config, 'create_script', 'delete_script'), propagationMs })
    }
    case 'callback_http':
      return callbackHttp(scriptSettings(config, 'deploy_script', 'cleanup_script'))
    case 'file_http':
      return fileHttp({ webroot: requireFolder(config.webroot) })
    case 'module':
      return moduleHandler(moduleSettings(config), onOutput)
  }
}

/** Loads the module of the handler, or looks for its scripts or folder. @throws Error in a plain sentence */
export async function requireChallengeHandler(proxy: AcmeProxyConfig): Promise<void> {
  const config = handlerConfig(proxy)
  if (config.kind === 'module') await requireHandlerModule(moduleSettings(config).module)
  else await challengeHandler(proxy, () => undefined).close()
}

function handlerConfig({ challenge_handler, challenge_handler_config }: AcmeProxyConfig): ChallengeHandlerConfig {
  const read = readChallengeHandler(challenge_handler ?? '', challenge_handler_config)
  if (typeof read === 'string') throw new Error(`ca.acme_proxy.challenge_handler_config ${read}`)
  return read
}

interface Scripts {
  script_timeout: number
  concurrency: number
  pass_environment: readonly string[]
}

function scriptSettings<K extends string>(config: Scripts & Record<K, string>, place: K, remove: K): ScriptSettings {
  return {
    placeScript: requireProgram(config[place], place),
    removeScript: requireProgram(config[remove], remove),
    timeoutMs: config.script_timeout * 1000,
    concurrency: config.concurrency,
    passedVariables: config.pass_environment,
  }
}

function moduleSettings({
  reference,
  limits,
  settings,
}: Extract<ChallengeHandlerConfig, { kind: 'module' }>): ModuleSettings {
  return {
    module: { ...reference, url: urlOfModule(reference), settings, methods: MODULE_METHODS },
    propagationMs: limits.propagation_delay * 1000,
    timeoutMs: limits.script_timeout * 1000,
    concurrency: limits.concurrency,
  }
}

function requireProgram(file: string, key: string): string {
  const resolved = path.resolve(file)
  try {
    accessSync(resolved, constants.X_OK)
    return resolved
  } catch (error) {
    throw new Error(
      `ca.acme_proxy.challenge_handler_config.${key}: ${resolved} cannot be run: ${describeFileError(error)}`,
    )
  }
}

function requireFolder(webroot: string): string {
  const resolved = path.resolve(webroot)
  if (statSync(resolved, { throwIfNoEntry: false })?.isDirectory()) return resolved
  throw new Error(`ca.acme_proxy.challenge_handler_config.webroot: ${resolved} is no folder`)
}

function readText(file: string, key: string): string {
  try {
    return readFileSync(path.resolve(file), 'utf8')
  } catch (error) {
    throw new Error(`ca.acme_proxy.${key}: ${path.resolve(file)} cannot be read: ${describeFileError(error)}`)
  }
}

const SEAL_BYTES = 32

/**
 * Seals the key of the upstream account: the box of binding credentials, or one over a secret that
 * is made here. Several instances need a configured secret, since they share the sealed key.
 *
 * @throws Error in a sentence when the file cannot be made or read
 */
export function upstreamAccountBox(config: Config): SecretBox {
  const configured = eabSecretBox(config)
  if (configured) return configured
  const folder = path.resolve(config.ca.acme_proxy.storage_path)
  const file = path.join(folder, 'seal.key')
  let secret: Buffer
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    if (!existsSync(file)) makeSeal(file)
    secret = readFileSync(file)
  } catch (error) {
    throw new Error(unusable(file, describeFileError(error)))
  }
  // Anybody could make the box of an empty secret.
  if (secret.length < SEAL_BYTES) throw new Error(unusable(file, `it has fewer than ${SEAL_BYTES} bytes`))
  return boxOf(secret)
}

/** Appears whole or not at all: a full disk or a second start leaves no part of it. */
function makeSeal(file: string): void {
  const draft = `${file}.${randomBytes(8).toString('hex')}`
  try {
    writeFileSync(draft, randomBytes(SEAL_BYTES), { flag: 'wx', mode: 0o600, flush: true })
    linkSync(draft, file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    rmSync(draft, { force: true })
  }
}

const unusable = (file: string, reason: string) =>
  `ca.acme_proxy.storage_path: ${file} seals the upstream account and is not usable: ${reason}; admin_api.token_secret or acme.eab_key_file serves in its place`
