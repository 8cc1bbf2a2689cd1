/** Builders shared by the tests of the configuration. */

import assert from 'node:assert/strict'
import { formatErrors, type ParsedConfig, parseConfigText } from '../../../src/config/load.ts'
import { type Config, ConfigSchema } from '../../../src/config/schema.ts'
import type { Environment } from '../../../src/config/shape.ts'

export type Tree = Record<string, unknown>

/** The least that is accepted. */
export const MINIMAL = {
  server: { external_url: 'https://acme.example.com', workers: 4 },
  database: { database: 'chancery', user: 'chancery' },
  ca: { internal: { root_cert_path: 'ca.pem', root_key_path: 'ca.key' } },
} as const satisfies Tree

const isTree = (value: unknown): value is Tree => typeof value === 'object' && value !== null && !Array.isArray(value)

export function merged(base: Tree, patch: Tree): Tree {
  const entries = Object.entries(patch).map(([key, value]) => {
    const below = base[key]
    return [key, isTree(value) && isTree(below) ? merged(below, value) : value]
  })
  return { ...base, ...Object.fromEntries(entries) }
}

/** A tree of what dots in its keys separate: `{ 'server.port': 1 }`. */
export const nested = (flat: Tree): Tree =>
  Object.entries(flat).reduce((tree, [path, value]) => {
    const branch = path.split('.').reduceRight<unknown>((below, key) => ({ [key]: below }), value)
    return merged(tree, branch as Tree)
  }, {} as Tree)

/** Whether a patch gives a key a value, as rules ask it of the file. */
export function isSetBy(patch: Tree): (path: string) => boolean {
  return (path) => path.split('.').reduce<unknown>((at, key) => (isTree(at) ? at[key] : undefined), patch) !== undefined
}

/** Finished values without the rules between keys, for the tests of those rules. */
export const aConfig = (patch: Tree = {}): Config => ConfigSchema.parse(merged(MINIMAL, patch))

export const parseYaml = (text: string, env: Environment = {}): ParsedConfig =>
  parseConfigText(text, { format: 'yaml', env })

export const parseTree = (patch: Tree, env: Environment = {}): ParsedConfig =>
  parseConfigText(JSON.stringify(merged(MINIMAL, patch)), { format: 'json', env })

/** The printed errors, one per entry; fails when there are none. */
export function errorLines(parsed: ParsedConfig): string[] {
  assert.equal(parsed.ok, false, 'the configuration was accepted')
  return formatErrors(parsed.errors).split('\n')
}

export function acceptedConfig(parsed: ParsedConfig): Config {
  assert.ok(parsed.ok, parsed.ok ? '' : formatErrors(parsed.errors))
  return parsed.config
}
