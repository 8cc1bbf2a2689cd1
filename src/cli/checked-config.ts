/**
 * Loads and checks a configuration and its files, for commands that run until a signal. Also
 * `--validate-only`, which stops after the check.
 */

import { requireUsableIssuers } from '../ca/signer-check.ts'
import { PART_THEM, SHARED } from '../ca/signer-records.ts'
import { signerBackend, usesBackend } from '../config/backends.ts'
import type { Config } from '../config/schema.ts'
import { openDatabaseFor } from '../doctor/facts/database.ts'
import { othersAtSigner } from '../doctor/facts/signer.ts'
import { loadHooks } from '../events/hooks/load-hooks.ts'
import { requireCaModules } from '../main/ca/csr-backends.ts'
import { PERSPECTIVE_SECTIONS } from '../mpic/perspective-service.ts'
import { requireChallengeHandler } from '../settings/acme-proxy-settings.ts'
import { databaseSettings } from '../settings/server-settings.ts'
import { issuerDuties, ownIssuer } from '../settings/signer-settings.ts'
import { readCertificates } from '../shared/lib/files.ts'
import { VERSION } from '../shared/lib/program-files.ts'
import { within } from '../shared/lib/time-limit.ts'
import { typeOf } from '../shared/protocol/challenge.ts'
import { placesOf } from '../store/session.ts'
import { loadChallengeMethods } from '../validation/extensions.ts'
import { readConfigFile, readConfigSections, requireFiles } from './config-file.ts'
import { inspectBackendFiles, inspectPerspectiveFiles, inspectServiceFiles } from './configured-files.ts'
import { CommandError, type CommonOptions } from './values.ts'

/** Time limit of database and signer together. */
const SIGNER_MS = 8_000

/** Prints all warnings. @throws CommandError */
export async function serviceConfig(options: CommonOptions & { dev?: boolean }): Promise<Config> {
  const config = await readConfigFile(options.config, 'said', options.dev)
  requireFiles(options.config, inspectServiceFiles(config))
  requireOwnIssuer(config)
  return config
}

/** The issuers of a signer that runs elsewhere are seen at the start. */
function requireOwnIssuer(config: Config): void {
  const own = ownIssuer(config)
  const further = config.ca.internal.chain_path ?? config.ca.hsm.chain_path
  if (!own) return
  const files = [own.certificateFile, ...(further === null ? [] : [further])]
  try {
    requireUsableIssuers(
      [{ id: own.id, chain: files.flatMap((file) => readCertificates(file).map(({ raw }) => raw)) }],
      issuerDuties(config),
    )
  } catch (error) {
    throw new CommandError((error as Error).message)
  }
}

/** @throws CommandError */
export async function perspectiveConfig(options: CommonOptions): Promise<Config> {
  const config = await readConfigSections(options.config, PERSPECTIVE_SECTIONS)
  requireFiles(options.config, inspectPerspectiveFiles(config))
  return config
}

/** The configuration for a command that asks the CA backends. @throws CommandError */
export async function backendsConfig(options: CommonOptions): Promise<Config> {
  const config = await readConfigFile(options.config)
  requireFiles(options.config, inspectBackendFiles(config))
  return config
}

/**
 * Prints a summary of the configuration.
 * @param usage of the command that would read it
 * @returns the exit code
 * @throws CommandError with every error
 */
export async function validateOnly(options: CommonOptions, usage: string): Promise<number> {
  if (usage === 'perspective') {
    await perspectiveConfig(options)
    console.log(`the configuration is valid as far as ${PERSPECTIVE_SECTIONS.join(', ')} go`)
    return 0
  }
  const config = await serviceConfig(options)
  const { server, ca, database } = config
  const { enabled } = await loadChallengeMethods(config)
  const hooks = await loadHooks(config)
  const modules = await requireCaModules(config)
  if (usesBackend(config, 'acme_proxy')) await requireChallengeHandler(ca.acme_proxy)
  console.log(`chancery ${VERSION}`)
  console.log(
    `listens on ${server.bind}:${server.port} (${server.tls.cert_path === null ? 'HTTP' : 'HTTPS'}) as ${server.external_url}`,
  )
  const signer = signerBackend(ca) === undefined ? 'none' : (ca.signer.socket ?? 'started by the service')
  console.log(`CA backend ${ca.backend}, signer ${signer}`)
  for (const { module, exportName, methods } of modules)
    console.log(`CA module ${module}#${exportName} with ${methods.join(', ')}`)
  console.log(`challenges ${enabled.map(typeOf).join(', ')}`)
  for (const { name, kinds } of hooks) console.log(`${name} for ${kinds.join(', ')}`)
  console.log(`database ${database.database} at ${placesOf(databaseSettings(config))}`)
  const others = await within(othersThere(config), SIGNER_MS, undefined)
  if (others) console.log(`warning: ${SHARED}: ${others}; ${PART_THEM}`)
  console.log('the configuration is valid')
  return 0
}

/** Before a first start this is not looked at: database and signer are not there yet. */
async function othersThere(config: Config): Promise<string | undefined> {
  try {
    const database = await openDatabaseFor(config)
    return await othersAtSigner(config, database).finally(() => database.close())
  } catch {
    return undefined
  }
}
