/**
 * Text to configuration: parse, `${VAR}`, schema, rules between keys, warnings.
 *
 * Every stage runs whatever the earlier ones found, so that one start shows all errors. Faulty keys
 * get their defaults, and rules that read such a key are skipped.
 */

import { readFile, stat } from 'node:fs/promises'
import path from 'node:path'
import {
  type Format,
  inFileOrder,
  isSection,
  type Located,
  locate,
  locatedProblems,
  readDocument,
  type Section,
} from '../shared/config-file/document.ts'
import { describeIssue, valueAt } from '../shared/config-file/messages.ts'
import {
  type ConfigError,
  type ConfigWarning,
  formatPath,
  splitPath,
  type Violation,
} from '../shared/config-file/notice.ts'
import { describeFileError } from '../shared/lib/errors.ts'
import { isLocalHost } from '../shared/lib/host.ts'
import { ACME_PROXY, CA } from './rules/ca-rules.ts'
import { CRL, HOOKS, OPERATIONS, ROOTS } from './rules/operations-rules.ts'
import type { IsSet, Rule } from './rules/rule.ts'
import { ACME, CHALLENGES, SERVER, URLS } from './rules/server-rules.ts'
import { type Config, ConfigSchema, REFERENCE } from './schema.ts'
import {
  arrange,
  type Environment,
  mayHoldReference,
  openSecrets,
  type Substitution,
  substituteVariables,
  withoutFaults,
  withStandIns,
} from './shape.ts'
import { type Sources, sourcesOf } from './shown.ts'
import { WARNINGS } from './warnings.ts'

export type { ConfigError, ConfigWarning } from '../shared/config-file/notice.ts'
export { formatErrors } from '../shared/config-file/notice.ts'

export type ParsedConfig =
  | { ok: true; config: Config; warnings: ConfigWarning[]; sources: Sources }
  | { ok: false; errors: ConfigError[] }

export type LoadedConfig =
  | { ok: true; config: Config; warnings: ConfigWarning[]; sources: Sources; path: string }
  | { ok: false; errors: ConfigError[] }

const FORMATS: Record<string, Format> = { '.yaml': 'yaml', '.yml': 'yaml', '.json': 'json' }

/** Reads, substitutes and checks a file, whose extension selects the format. Does not throw. */
export async function loadConfig(file: string, env: Environment, reading: Reading = {}): Promise<LoadedConfig> {
  const format = FORMATS[path.extname(file).toLowerCase()]
  if (format === undefined) return refuse('its name ends in neither .yaml, .yml nor .json, which chooses the format')
  let text: string
  let mode: number
  try {
    // Editors on Windows write a byte order mark, which JSON does not allow.
    text = (await readFile(file, 'utf8')).replace(/^\uFEFF/, '')
    mode = (await stat(file)).mode
  } catch (error) {
    return refuse(`cannot be read: ${describeFileError(error)}`)
  }
  const parsed = parseConfigText(text, { format, env, mode, ...reading })
  return parsed.ok ? { ...parsed, path: file } : parsed
}

const refuse = (message: string): LoadedConfig => ({ ok: false, errors: [{ path: '', message }] })

/**
 * Parses a text. Errors and warnings come in the order of the file.
 * @param options `mode` of the file, if there is one
 */
export function parseConfigText(
  text: string,
  options: Reading & { format: Format; env: Environment; mode?: number },
): ParsedConfig {
  const source = readDocument(text, options.format)
  const syntax = locatedProblems(source)
  if (source.value === undefined) return { ok: false, errors: inFileOrder(syntax) }
  if (!isSection(source.value)) return refuseWhole('holds no sections; must be keys with values, such as "server:"')

  const substitution = substituteVariables(source.value, options.env)
  const { config, violations, raw } = validate(substitution, options.sections !== undefined)
  const isSet = (key: string) => ![undefined, null, ''].includes(valueAt(raw, splitPath(key)) as undefined)
  const judged = judge(config, isSet, violations, options)

  const errors = [...syntax, ...judged.errors.map((violation) => locate(source, violation))]
  if (errors.length > 0) return { ok: false, errors: inFileOrder(errors) }
  const warnings = [
    ...substitution.partial.filter(mayHoldReference).map((place) => ({
      path: place,
      message: 'holds a variable reference inside a longer text, which stays as it is; only whole values are replaced',
    })),
    ...openSecrets(raw, substitution.variables, options.mode ?? 0),
    ...judged.warnings,
  ]
  const isInFile = ({ path: place }: Violation) => place.length > 0 && isSet(formatPath(place))
  const located = warnings.map((warning) => (isInFile(warning) ? locate(source, warning) : placeless(warning)))
  const sources = sourcesOf(isSet, substitution.variables)
  return { ok: true, config, warnings: inFileOrder(located), sources }
}

const refuseWhole = (message: string): ParsedConfig => ({ ok: false, errors: [{ path: '', line: 1, message }] })

/** Without it zod compiles a parser for each section, which takes 33 ms instead of 7. */
const READ_ONCE = { jitless: true }

/** The values that are right, and all violations. */
function validate(
  substitution: Substitution,
  isPartial: boolean,
): { config: Config; violations: Violation[]; raw: Section } {
  const unset = substitution.unset.map(({ path: place, variable }) => ({
    path: place,
    message: `the variable ${variable} is not set; set it or give a default: \${${variable}:-default}`,
  }))
  const partial = substitution.partial
    .filter((place) => !mayHoldReference(place))
    .map((place) => ({
      path: place,
      message: `holds a variable reference inside a longer text; only a whole value is replaced, such as \${VAR}`,
    }))
  const arranged = arrange(substitution.value as Section)
  const raw = isPartial ? withStandIns(arranged) : arranged
  const broken = new Set([...unset, ...partial].map(({ path: place }) => formatPath(place)))
  const result = ConfigSchema.safeParse(raw, READ_ONCE)
  const issues = result.error?.issues ?? []
  const found = issues
    .flatMap((issue) => describeIssue(issue, raw, REFERENCE, substitution.variables))
    .filter(({ path: place }) => !broken.has(formatPath(place)))
  const violations = [...unset, ...partial, ...found]
  const parsed = result.success ? result.data : ConfigSchema.parse(withoutFaults(raw), READ_ONCE)
  return { config: finish(parsed, raw), violations, raw }
}

/** Derives keys from other keys. */
function finish({ ca, database, ...rest }: Config, raw: Section): Config {
  const given = (section: string, key: string) => valueAt(raw, [section, key]) !== undefined
  const older = ca.backend === 'hsm' ? ca.hsm.serial_source : ca.internal.serial_source
  const serial_source = given('ca', 'serial_source') || older === null ? ca.serial_source : older
  const isPrivate = database.host.every(isLocalHost) && database.sslrootcert === null
  const sslmode = given('database', 'sslmode') || isPrivate ? database.sslmode : 'verify-full'
  return { ...rest, ca: { ...ca, serial_source }, database: { ...database, sslmode } }
}

/** A warning about a default has no line. */
const placeless = ({ path: place, message }: Violation): Located => ({ path: formatPath(place), message, offset: -1 })

/** Errors come in this order when no file gives one. */
export const RULES: readonly Rule[] = [
  ...SERVER,
  ...ACME,
  ...CHALLENGES,
  ...CA,
  ...ACME_PROXY,
  ...CRL,
  ...ROOTS,
  ...OPERATIONS,
  ...HOOKS,
  ...URLS,
]

/** The purpose for which a file is read. */
interface Reading {
  /** `--dev` */
  development?: boolean
  /** Only these sections are judged. Rules about others are skipped, and their required keys may be missing. */
  sections?: readonly string[]
}

interface Verdict {
  errors: Violation[]
  warnings: Violation[]
}

/**
 * @param config finished values; keys in `violations` have their defaults
 * @param violations of the schema; rules that read one of these keys are skipped
 */
function judge(config: Config, isSet: IsSet, violations: readonly Violation[], reading: Reading): Verdict {
  const broken = violations.map(({ path }) => formatPath(path))
  const isSound = (key: string) => !broken.some((other) => isWithin(key, other) || isWithin(other, key))
  return {
    errors: [...violations, ...judgeRules(config, isSet, isSound, reading)],
    warnings: WARNINGS.filter(({ path }) => matters(path, reading.sections)).flatMap((rule) =>
      [rule.check(config, isSet) ?? []].flat().map((message) => ({ path: splitPath(rule.path), message })),
    ),
  }
}

function judgeRules(
  config: Config,
  isSet: IsSet,
  isSound: (key: string) => boolean,
  { development = false, sections }: Reading,
): Violation[] {
  const rules = RULES.filter((rule) => !(development && rule.inDevelopment) && matters(rule.path, sections))
  return rules
    .filter((rule) => [rule.path, ...(rule.reads ?? [])].every(isSound))
    .flatMap((rule) => {
      const found = rule.check(config, isSet)
      if (found === undefined) return []
      const { path, message } = typeof found === 'string' ? { path: rule.path, message: found } : found
      return [{ path: splitPath(path), message }]
    })
}

const matters = (key: string, sections?: readonly string[]) => sections?.includes(key.split('.')[0] ?? '') ?? true

const isWithin = (inner: string, outer: string) =>
  inner === outer || inner.startsWith(`${outer}.`) || inner.startsWith(`${outer}[`)
