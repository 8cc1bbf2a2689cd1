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
  type Path,
  splitPath,
  type Violation,
} from '../shared/config-file/notice.ts'
import { findNode, isSecret, typeOf } from '../shared/config-file/schema-node.ts'
import { describeFileError } from '../shared/lib/file-error.ts'
import { isLocalHost } from '../shared/lib/host.ts'
import { withoutLineEnds } from '../shared/lib/secret-box.ts'
import { judge, type Reading } from './judge.ts'
import { openSecrets } from './open-secrets.ts'
import { type Config, ConfigSchema, REFERENCE } from './schema.ts'
import { arrange, withoutFaults, withStandIns } from './shape.ts'
import { type Sources, sourcesOf } from './shown.ts'

/**
 * `${VAR}` and `${VAR:-default}` in the parsed file, before validation.
 *
 * Only a text that is one whole reference is replaced: by a number or a switch where the key wants
 * one, else by a text. An empty variable counts as set, but leaves out a number or a switch.
 * Replaced texts are not substituted again.
 */
export type Environment = Readonly<Record<string, string | undefined>>

interface Substitution {
  value: unknown
  /** Places whose variable is unset and has no default. */
  unset: { path: Path; variable: string }[]
  /** Places with a reference inside a longer text, which is not replaced. */
  partial: Path[]
  /**
   * Variable behind a value, by formatted path. Messages name the variable instead of its value.
   */
  variables: Map<string, string>
}

const WHOLE = /^\$\{(?<name>[^:}]+)(?::-(?<fallback>.*))?\}$/s

export function substituteVariables(root: unknown, environment: Environment): Substitution {
  const result: Substitution = { value: undefined, unset: [], partial: [], variables: new Map() }

  const replace = (text: string, path: Path): unknown => {
    const reference = WHOLE.exec(text)?.groups
    if (reference === undefined) {
      if (text.includes('${')) result.partial.push(path)
      return text
    }
    const name = reference['name'] ?? ''
    const given = environment[name]
    // `$(cat file)` in a script, and a file that a container mounts, end with a line end.
    const value = given === undefined ? reference['fallback'] : withoutLineEnds(given)
    result.variables.set(formatPath(path), name)
    if (value === undefined) result.unset.push({ path, variable: name })
    return value === undefined ? text : converted(value, path)
  }

  const visit = (value: unknown, path: Path): unknown => {
    if (typeof value === 'string') return replace(value, path)
    if (Array.isArray(value)) return value.map((entry, index) => visit(entry, [...path, index]))
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value).map(([key, entry]) => [key, key === '_comment' ? entry : visit(entry, [...path, key])]),
    )
  }

  result.value = visit(root, [])
  return result
}

const IS_NUMBER = /^-?\d+(?:\.\d+)?$/
const SWITCHES: Readonly<Record<string, boolean>> = { true: true, false: false }

/** A text that is no number, or no switch, stays for the schema to refuse. */
function converted(value: string, path: Path): unknown {
  const type = typeOf(findNode(REFERENCE, path))
  if (!['integer', 'number', 'boolean'].includes(type)) return value
  if (value === '') return undefined
  if (type === 'boolean') return SWITCHES[value.toLowerCase()] ?? value
  return IS_NUMBER.test(value) ? Number(value) : value
}

/** Whether `${` may be meant: in a secret that is no URL, and in the settings of modules. */
function mayHoldReference(path: Path): boolean {
  const node = findNode(REFERENCE, path)
  return node === undefined || (isSecret(REFERENCE, path) && node.expects === undefined)
}

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
