/** The manual's table of settings and the JSON Schema for editors, rendered from the schema. Pure. */

import { expectation, type SchemaNode, withoutNull } from '../shared/config-file/schema-node.ts'
import { ABSENT_FEATURES } from './availability.ts'
import { absence } from './judge.ts'
import { REFERENCE } from './reference.ts'

interface Row {
  key: string
  /** Undefined for a group of keys, which has a sentence only. */
  node: SchemaNode
  isGroup: boolean
  isRequired: boolean
  default: unknown
}

const INTRODUCTION = `# Configuration

This file is generated from the schema in \`src/config\` by \`npm run docs\`; do not edit it.

One file, YAML (\`.yaml\`, \`.yml\`) or JSON (\`.json\`), named by \`-c\` or by the environment variable \`SERVICE_CONFIG\`.
\`chancery -c FILE --validate-only\` checks it and prints every error with its line. For completion in an editor, point it
at [configuration.schema.json](configuration.schema.json).

- Required are \`server.external_url\`, \`database.database\`, \`database.user\`, and the two paths of \`ca.internal\`, a token in
  \`ca.hsm\` (with \`ca.backend: hsm\`) or \`ca.signer.socket\`. Everything else has a default.
- An unknown key is an error, so a spelling mistake is never silently ignored. \`_comment\` (a text or a list of texts) may
  stand at the top, under \`ca\` and in each entry of \`hooks.registered\`. A key that is written twice is an error.
- \`\${VAR}\` and \`\${VAR:-default}\` are replaced by environment variables before anything is checked, where they are the
  whole value. The result is always a text, so numbers, true and false cannot come from a variable. A variable that is
  unset and has no default is an error; a variable that is set but empty counts as set.
- An optional text that is empty counts as left out.
- *Reload* says how a change takes effect: \`live\` on SIGHUP, \`restart\` after a restart.
- The values are YAML 1.2: switches are \`true\` and \`false\`; \`yes\` and \`on\` are texts.
`

export function renderManual(): string {
  const sections = Object.entries(REFERENCE.properties ?? {}).filter(([name]) => name !== '_comment')
  return [INTRODUCTION, ...sections.map(([name, node]) => renderSection(name, node)), renderAbsent()].join('\n')
}

function renderSection(name: string, node: SchemaNode): string {
  const rows = Object.entries(node.properties ?? {}).flatMap(([key, child]) =>
    rowsOf(`${name}.${key}`, child, node.required?.includes(key) ?? false, undefined),
  )
  const table = [
    '| Key | Type | Default | Unit | Reload | Meaning |',
    '|---|---|---|---|---|---|',
    ...rows.map(renderRow),
  ]
  return `## ${name}\n\n${node.description ?? ''}\n\n${table.join('\n')}\n`
}

function rowsOf(key: string, raw: SchemaNode, isRequired: boolean, given: unknown): Row[] {
  const node = withoutNull(raw)
  const value = node.default ?? given
  const row: Row = {
    key,
    node,
    isRequired,
    default: value === undefined ? raw.default : value,
    isGroup: node.properties !== undefined,
  }
  const entry = node.items === undefined ? undefined : withoutNull(node.items)
  const named = node.additionalProperties || undefined
  return [
    row,
    ...childRows(key, node, value),
    ...(entry?.properties === undefined ? [] : childRows(`${key}[]`, entry, undefined)),
    ...(named?.properties === undefined ? [] : childRows(`${key}.<name>`, named, undefined)),
  ]
}

/** A group with a default of its own (a rate limit) passes it on to its keys. */
function childRows(key: string, node: SchemaNode, values: unknown): Row[] {
  return Object.entries(node.properties ?? {})
    .filter(([name]) => name !== '_comment')
    .flatMap(([name, child]) => {
      const given = typeof values === 'object' && values !== null ? Reflect.get(values, name) : undefined
      const isRequired = given === undefined && (node.required?.includes(name) ?? false)
      return rowsOf(`${key}.${name}`, child, isRequired, given)
    })
}

function renderRow({ key, node, isGroup, isRequired, default: value }: Row): string {
  const sentence = cell(node.description ?? '')
  if (isGroup) return `| \`${key}\` | section | | | | ${sentence} |`
  const shown = isRequired ? 'required' : (node.defaultText ?? renderDefault(value))
  return `| \`${key}\` | ${cell(expectation(node))} | ${shown} | ${node.unit ?? ''} | ${node.reload ?? 'restart'} | ${sentence} |`
}

function renderDefault(value: unknown): string {
  if (value === undefined || value === null) return 'none'
  if (value === '') return 'empty'
  return `\`${Array.isArray(value) ? JSON.stringify(value).replaceAll(',', ', ') : typeof value === 'object' ? JSON.stringify(value) : String(value)}\``
}

const cell = (text: string) => text.replaceAll('|', '\\|')

function renderAbsent(): string {
  const rows = ABSENT_FEATURES.map((entry) => `| \`${entry.path}\` | ${absence(entry)} |`)
  return `## Not in this version

Every key above is accepted. To ask for one of the following features is an error; where the default asks for it, one
warning at start names it.

| Key | Error |
|---|---|
${rows.join('\n')}
`
}

/** JSON Schema (draft 2020-12) of the file before `${VAR}` is replaced. */
export function renderEditorSchema(): string {
  const schema = { ...forEditors(REFERENCE), title: 'Chancery configuration' }
  return `${JSON.stringify(schema, null, 2)}\n`
}

function forEditors(node: SchemaNode): SchemaNode {
  const { unit, reload, secret: _, expects, defaultText, default: value, enum: values, ...rest } = node
  const notes = [
    node.description,
    expects && `Must be ${expects}.`,
    unit && `In ${unit}.`,
    defaultText && `Default: ${defaultText}.`,
    reload === 'live' && 'Applied on SIGHUP.',
  ]
  const description = notes.filter(Boolean).join(' ')
  const isEmptySection = node.properties !== undefined && Object.keys((value as object) ?? {}).length === 0
  const showsDefault = value !== undefined && defaultText === undefined && !isEmptySection
  const mapped: SchemaNode = {
    ...rest,
    ...(description !== '' && { description }),
    ...(showsDefault && { default: value }),
    ...(values !== undefined && orVariable(values)),
    ...(node.properties && { properties: mapValues(node.properties, forEditors) }),
    ...(node.additionalProperties && { additionalProperties: forEditors(node.additionalProperties) }),
    ...(node.items && { items: forEditors(node.items) }),
    ...(node.anyOf && { anyOf: node.anyOf.map(forEditors) }),
  }
  if (mapped.maximum === Number.MAX_SAFE_INTEGER) delete mapped.maximum
  if (mapped.minimum === Number.MIN_SAFE_INTEGER) delete mapped.minimum
  return mapped
}

/** An enumerated text may also come from a variable, which the editor cannot see into. */
const orVariable = (values: unknown[]): SchemaNode => ({ anyOf: [{ enum: values }, { pattern: '^\\$\\{.+\\}$' }] })

const mapValues = (record: Record<string, SchemaNode>, map: (node: SchemaNode) => SchemaNode) =>
  Object.fromEntries(Object.entries(record).map(([key, node]) => [key, map(node)]))
