/**
 * Loads and checks validator modules before the service starts (`ext:` in `challenges.enabled`;
 * docs/decisions/module-references.md).
 */

import type { ValidatorModule } from '../../workers/extension/extension-contract.ts'
import { BrokenValidator, probeValidators } from '../../workers/extension/extension-probe.ts'
import type { ExtensionThreadData } from '../../workers/extension/extension-task.ts'
import type { Config } from '../config/schema.ts'
import { parseModuleReference, urlOfModule } from '../shared/lib/module-reference.ts'
import { type EnabledMethod, type ExtensionType, isChallengeType, typeOf } from '../shared/protocol/challenge.ts'

/** The methods in configuration order, and the modules behind some of them. Plain data. */
export interface ChallengeMethods {
  enabled: readonly EnabledMethod[]
  extensions: ExtensionThreadData
}

const PREFIX = 'ext:'
/** Loading should only read and compile files, so that no start depends on the network. */
const LOAD_TIMEOUT_MS = 10_000

/**
 * Loads the modules once, in a thread that lives only for this.
 *
 * @throws Error in a plain sentence that names the module
 */
export async function loadChallengeMethods({ challenges }: Config): Promise<ChallengeMethods> {
  const references = challenges.enabled.filter((entry) => entry.startsWith(PREFIX))
  const modules = references.map(moduleOf)
  const settings = Object.fromEntries(
    Object.entries(challenges.extensions).map(([type, extension]) => [type, extension.settings]),
  )
  const described = modules.length === 0 ? [] : await probe({ modules, settings })
  const enabled = challenges.enabled.map((entry): EnabledMethod => {
    if (isChallengeType(entry)) return entry
    const { type, wildcard, ip } = described[references.indexOf(entry)] as (typeof described)[number]
    // A module may replace a built-in method; the method's table entry then says where it applies.
    return isChallengeType(type) ? type : { type: type as ExtensionType, forWildcard: wildcard, forIp: ip }
  })
  requireDistinct(enabled)
  requireKnownSettings(Object.keys(challenges.extensions), described)
  return {
    enabled,
    extensions: {
      settings,
      modules: modules.map((module, i) => ({ ...module, type: (described[i] as { type: string }).type })),
    },
  }
}

async function probe(data: Parameters<typeof probeValidators>[0]) {
  try {
    return await probeValidators(data, LOAD_TIMEOUT_MS)
  } catch (error) {
    if (!(error instanceof BrokenValidator)) throw error
    const { module, exportName } = data.modules[error.index] as ValidatorModule
    throw new Error(`challenges.enabled: ${PREFIX}${module}#${exportName} is not usable: ${error.message}`, {
      cause: error,
    })
  }
}

function moduleOf(entry: string): ValidatorModule {
  const reference = parseModuleReference(entry.slice(PREFIX.length))
  if (!reference) throw new Error(`${entry} has passed the check of the configuration and is no reference`)
  return { ...reference, url: urlOfModule(reference) }
}

function requireDistinct(enabled: readonly EnabledMethod[]): void {
  const types = enabled.map(typeOf)
  const twice = types.find((type, i) => types.indexOf(type) !== i)
  if (twice !== undefined)
    throw new Error(`challenges.enabled: ${twice} is offered twice; one validator decides a method`)
}

function requireKnownSettings(types: readonly string[], described: readonly { type: string }[]): void {
  const unknown = types.find((type) => !described.some((one) => one.type === type))
  if (unknown === undefined) return
  const known = described.map(({ type }) => type).join(', ') || 'there is none'
  throw new Error(`challenges.extensions.${unknown}: no module in challenges.enabled has this type (${known})`)
}
